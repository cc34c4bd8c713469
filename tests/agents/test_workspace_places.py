"""What the workspace does for moved, deleted and restored files."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from agents.errors import ErrorCode
from tests.agents.tools.edit_context import Place, fails, make_place

TEMPORARY = ".half-written"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path)


def test_a_new_file_takes_mode_and_owner_after_another(place: Place) -> None:
    like = place.write("a.sh", b"")
    like.chmod(0o750)
    path = place.workspace.resolve("b.sh")
    place.workspace.write(path, b"x", temporary=TEMPORARY, like=None, take_after=like.stat())
    assert stat.S_IMODE((place.root / "b.sh").stat().st_mode) == 0o750


def test_permission_bits_given_as_a_number_are_set_without_the_right_to_act_as_somebody(place: Place) -> None:
    path = place.workspace.resolve("b.sh")
    place.workspace.write(path, b"x", temporary=TEMPORARY, like=None, take_after=0o6754)
    assert stat.S_IMODE((place.root / "b.sh").stat().st_mode) == 0o754
    facts = place.workspace.read(path).stat
    place.workspace.write(path, b"y", temporary=TEMPORARY, like=facts, take_after=0o600)
    assert stat.S_IMODE((place.root / "b.sh").stat().st_mode) == 0o600


def test_only_an_empty_directory_is_removed(place: Place) -> None:
    place.write("full/f.txt", b"")
    (place.root / "empty").mkdir()
    remove = place.workspace.remove_directory
    assert remove(place.workspace.resolve("empty"))
    assert not (place.root / "empty").exists()
    assert not remove(place.workspace.resolve("full"))
    assert not remove(place.workspace.resolve("full/f.txt"))
    assert not remove(place.workspace.resolve("gone"))
    assert not remove(place.workspace.resolve("gone/deeper"))
    assert (place.root / "full/f.txt").exists()


def test_a_spelling_that_ends_in_a_link_is_told_from_one_that_goes_through_one(place: Place) -> None:
    place.write("real/f.txt", b"")
    os.symlink("real/f.txt", place.root / "link.txt")
    os.symlink("real", place.root / "folder")
    names = {
        name: place.workspace.names_link(place.workspace.resolve(name))
        for name in ("link.txt", "./link.txt", "folder", "folder/", "folder/f.txt", "real/f.txt", "gone")
    }
    assert [name for name, is_link in names.items() if is_link] == [
        "link.txt",
        "./link.txt",
        "folder",
        "folder/",
    ]


def test_what_replacing_a_file_would_end_in_can_be_told_beforehand(place: Place) -> None:
    path = place.write("f.txt", b"")
    resolved = place.workspace.resolve("f.txt")
    like = place.workspace.read(resolved).stat
    place.workspace.check_replaceable(resolved, like=like)
    path.chmod(0o444)
    with fails(ErrorCode.TOOL_FAILED):
        place.workspace.check_replaceable(resolved, like=like)
    path.chmod(0o644)
    path.write_bytes(b"more")
    with fails(ErrorCode.CONFLICT):
        place.workspace.check_replaceable(resolved, like=like)
