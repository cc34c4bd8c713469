"""Edit on blocks, and on the file itself: moved or deleted, through the real file system."""

from __future__ import annotations

import os
import stat
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import trio

from agents.errors import ErrorCode
from agents.permit import Permit
from agents.requests import Answer, Decision
from agents.results import EditResult
from agents.rules.edits import digest_of, tag_of
from agents.rules.effects import EffectIntent
from agents.spec import PermissionMode
from agents.tools.base import PathUse, Target, ToolOutput
from agents.tools.edit import EditInput, EditTool
from agents.tools.search.files import find_files
from agents.tools.search.globs import parse_path_glob
from agents.tools.search.worker import Clock
from tests.agents.gate_world import World
from tests.agents.tools.edit_context import Hand, KeptLog, Place, fails, make_place

TEN = b"".join(b"line %d\n" % number for number in range(1, 11))
CODE = b"def a():\n    return 1\n\n\ndef b():\n    return 2\n"
GONE = {"op": "deleteFile"}


def move(to: str) -> dict[str, Any]:
    return {"op": "moveFile", "to": to}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path)


@pytest.fixture
def hand(place: Place) -> Hand:
    return Hand(place)


def result(output: ToolOutput) -> EditResult:
    assert isinstance(output.result, EditResult)
    return output.result


# blocks


async def test_a_block_edit_lands_and_its_span_is_in_the_result(place: Place, hand: Hand) -> None:
    path = place.write("f.py", CODE)
    op = {"op": "replaceBlock", "line": 1, "text": "def a():\n    return 9"}
    output = await hand.edit("f.py", hand.read("f.py"), op)
    assert path.read_bytes() == CODE.replace(b"return 1", b"return 9")
    assert result(output).spans == ("replaceBlock 1-2",)


async def test_a_block_that_does_not_resolve_writes_nothing(place: Place, hand: Hand) -> None:
    path = place.write("f.txt", TEN)
    with fails(ErrorCode.EDIT_BLOCK_UNRESOLVED) as errors:
        await hand.edit("f.txt", hand.read("f.txt"), {"op": "deleteBlock", "line": 1})
    assert "no grammar for the language of f.txt" in errors[0].message
    assert path.read_bytes() == TEN
    assert place.log.intents == []


async def test_the_language_of_a_linked_file_is_that_of_the_file_itself(place: Place, hand: Hand) -> None:
    path = place.write("real.py", CODE)
    (place.root / "link.txt").symlink_to("real.py")
    await hand.edit("link.txt", hand.read("real.py"), {"op": "deleteBlock", "line": 5})
    assert path.read_bytes() == b"def a():\n    return 1\n\n\n"


async def test_a_unseen_block_is_revealed_and_the_same_call_then_succeeds(place: Place, hand: Hand) -> None:
    place.write("f.py", CODE)
    tag = hand.read("f.py", seen=[1])
    op = {"op": "deleteBlock", "line": 1}
    with fails(ErrorCode.EDIT_LINES_UNSEEN):
        await hand.edit("f.py", tag, op)
    assert result(await hand.edit("f.py", tag, op)).deletions == 2


# moving


async def test_a_moved_file_has_its_bytes_its_mode_and_its_tag_at_the_new_path(
    place: Place, hand: Hand
) -> None:
    old = place.write("f.sh", TEN)
    old.chmod(0o750)
    output = await hand.edit("f.sh", hand.read("f.sh"), move("new/folder/g.sh"))
    new = place.root / "new/folder/g.sh"
    assert new.read_bytes() == TEN
    assert stat.S_IMODE(new.stat().st_mode) == 0o750
    assert not old.exists()
    assert result(output) == EditResult(
        path="new/folder/g.sh",
        root="workspace",
        tag=tag_of(TEN),
        warnings=(),
        additions=0,
        deletions=0,
        hunks=(),
        moved_from="f.sh",
    )
    assert [(c.path, c.change, c.before, c.after) for c in output.files_changed] == [
        ("new/folder/g.sh", "created", None, digest_of(TEN)),
        ("f.sh", "deleted", digest_of(TEN), None),
    ]
    assert output.mutated == str(old)
    assert place.leftovers() == []


async def test_the_other_operations_land_in_the_moved_file(place: Place, hand: Hand) -> None:
    place.write("f.txt", TEN)
    op = {"op": "replace", "start": 2, "text": "two"}
    output = await hand.edit("f.txt", hand.read("f.txt"), move("g.txt"), op)
    landed = TEN.replace(b"line 2", b"two")
    assert (place.root / "g.txt").read_bytes() == landed
    assert (result(output).tag, result(output).additions) == (tag_of(landed), 1)
    assert not (place.root / "f.txt").exists()


async def test_what_was_seen_is_known_at_the_new_path(place: Place, hand: Hand) -> None:
    place.write("f.txt", TEN)
    output = await hand.edit("f.txt", hand.read("f.txt", seen=[3]), move("g.txt"))
    tag = result(output).tag
    with fails(ErrorCode.EDIT_LINES_UNSEEN):
        await hand.edit("g.txt", tag, {"op": "delete", "start": 4})
    await hand.edit("g.txt", tag, {"op": "delete", "start": 3})
    assert (place.root / "g.txt").read_bytes() == TEN.replace(b"line 3\n", b"")


@pytest.mark.parametrize(
    ("to", "words"),
    [("g.txt", "moveFile never overwrites"), ("folder", "Give the whole new path"), (".", "whole new path")],
)
async def test_a_move_refuses_to_overwrite(place: Place, hand: Hand, to: str, words: str) -> None:
    place.write("f.txt", TEN)
    place.write("g.txt", b"mine\n")
    (place.root / "folder").mkdir()
    with fails(ErrorCode.CONFLICT) as errors:
        await hand.edit("f.txt", hand.read("f.txt"), move(to))
    assert words in errors[0].message
    assert (place.root / "f.txt").read_bytes() == TEN
    assert (place.root / "g.txt").read_bytes() == b"mine\n"
    assert place.log.intents == []


async def test_a_file_that_comes_to_the_target_meanwhile_is_not_overwritten(place: Place, hand: Hand) -> None:
    class Racing(KeptLog):
        async def intend(self, intent: EffectIntent) -> None:
            await super().intend(intent)
            place.write("g.txt", b"theirs\n")

    place.log = Racing()
    place.write("f.txt", TEN)
    with fails(ErrorCode.CONFLICT):
        await hand.edit("f.txt", hand.read("f.txt"), move("g.txt"))
    assert (place.root / "f.txt").read_bytes() == TEN
    assert (place.root / "g.txt").read_bytes() == b"theirs\n"
    assert [entry.ok for entry in place.log.results] == [False]


async def test_a_move_to_where_the_file_is_changes_nothing(place: Place, hand: Hand) -> None:
    place.write("f.txt", TEN)
    with fails(ErrorCode.EDIT_NO_CHANGE):
        await hand.edit("f.txt", hand.read("f.txt"), move("./f.txt"))


async def test_a_file_that_changed_is_not_moved(place: Place, hand: Hand) -> None:
    path = place.write("f.txt", TEN)
    tag = hand.read("f.txt")
    path.write_bytes(TEN + b"more\n")
    with fails(ErrorCode.EDIT_TAG_MISMATCH) as errors:
        await hand.edit("f.txt", tag, move("g.txt"))
    assert "11:more" in errors[0].details["content"]
    assert not (place.root / "g.txt").exists()
    await hand.edit("f.txt", errors[0].details["tag"], move("g.txt"))
    assert (place.root / "g.txt").read_bytes() == TEN + b"more\n"


async def test_other_names_of_a_moved_file_keep_its_content_and_the_result_says_so(
    place: Place, hand: Hand
) -> None:
    path = place.write("f.txt", TEN)
    os.link(path, place.root / "other.txt")
    output = await hand.edit("f.txt", hand.read("f.txt"), move("g.txt"))
    assert "hard links" in result(output).warnings[0]
    assert (place.root / "other.txt").read_bytes() == TEN


async def test_a_link_is_neither_moved_nor_is_its_file_taken_from_under_it(place: Place, hand: Hand) -> None:
    place.write("real.txt", TEN)
    (place.root / "link.txt").symlink_to("real.txt")
    tag = hand.read("real.txt")
    for op in (move("g.txt"), GONE):
        with fails(ErrorCode.INVALID_ARGUMENT) as errors:
            await hand.edit("link.txt", tag, op)
        assert "Name the file itself, real.txt" in errors[0].message
    assert (place.root / "link.txt").read_bytes() == TEN


async def test_a_read_only_file_is_neither_moved_nor_deleted(place: Place, hand: Hand) -> None:
    path = place.write("f.txt", TEN)
    path.chmod(0o444)
    for op in (move("g.txt"), GONE):
        with fails(ErrorCode.TOOL_FAILED):
            await hand.edit("f.txt", hand.read("f.txt"), op)
    assert path.read_bytes() == TEN
    assert not (place.root / "g.txt").exists()
    assert place.log.intents == []


async def test_two_opposite_moves_and_a_patch_beside_them_do_not_deadlock(place: Place) -> None:
    for name in ("x.txt", "y.txt"):
        place.write(name, name.encode())
    first, second = Hand(place, "run-1"), Hand(place, "run-2")
    tags = first.read("x.txt"), second.read("y.txt")
    codes: list[str] = []

    async def attempt(hand: Hand, path: str, tag: str, to: str) -> None:
        try:
            await hand.edit(path, tag, move(to))
        except Exception as failed:
            codes.append(str(failed).split(":")[0])

    async def patch() -> None:
        async with place.locks.exclusive(place.waiting):
            await trio.lowlevel.checkpoint()

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(attempt, first, "x.txt", tags[0], "y.txt")
            nursery.start_soon(patch)
            nursery.start_soon(attempt, second, "y.txt", tags[1], "x.txt")
    assert codes == ["CONFLICT", "CONFLICT"]
    assert (place.root / "x.txt").read_bytes() == b"x.txt"
    assert place.locks.held == 0


async def test_a_chain_of_parallel_moves_loses_no_file(place: Place) -> None:
    for number in range(5):
        place.write(f"{number}.txt", b"%d" % number)
    hands = [Hand(place, f"run-{number}") for number in range(5)]
    async with trio.open_nursery() as nursery:
        for number, hand in enumerate(hands):
            tag = hand.read(f"{number}.txt")
            nursery.start_soon(hand.edit, f"{number}.txt", tag, move(f"moved/{number + 1}.txt"))
    assert sorted(p.read_bytes() for p in place.root.rglob("*.txt")) == [b"%d" % n for n in range(5)]
    assert place.locks.held == 0


async def test_the_preview_of_a_move_shows_both_names(place: Place, hand: Hand) -> None:
    place.write("f.txt", b"a\n")
    tag = hand.read("f.txt")
    diff = await hand.preview(EditTool(), EditInput(path="f.txt", tag=tag, ops=[move("g.txt")]))
    assert diff == "rename from f.txt\nrename to g.txt\n--- a/f.txt\n+++ b/g.txt\n"
    ops = [move("g.txt"), {"op": "replace", "start": 1, "text": "b"}]
    diff = await hand.preview(EditTool(), EditInput(path="f.txt", tag=tag, ops=ops))
    assert diff.endswith("--- a/f.txt\n+++ b/g.txt\n@@ -1,1 +1,1 @@\n-a\n+b\n")
    assert (place.root / "f.txt").exists()
    assert place.log.intents == []


# deleting


async def test_a_deleted_file_is_gone_and_the_result_says_what_went(place: Place, hand: Hand) -> None:
    path = place.write("f.txt", TEN)
    output = await hand.edit("f.txt", hand.read("f.txt"), GONE)
    assert not path.exists()
    assert (result(output).deleted, result(output).tag, result(output).deletions) == (True, None, 10)
    assert [(c.path, c.change, c.before, c.after) for c in output.files_changed] == [
        ("f.txt", "deleted", digest_of(TEN), None)
    ]
    (intent,), (entry,) = place.log.intents, place.log.results
    assert (intent.planned_hash, intent.before_image, intent.temporary) == (None, TEN, None)
    assert (entry.ok, entry.after_hash) == (True, None)


async def test_a_file_that_changed_is_not_deleted(place: Place, hand: Hand) -> None:
    path = place.write("f.txt", TEN)
    tag = hand.read("f.txt")
    path.write_bytes(TEN.replace(b"line 5", b"other"))
    with fails(ErrorCode.EDIT_TAG_MISMATCH) as errors:
        await hand.edit("f.txt", tag, GONE)
    assert "5:other" in errors[0].details["content"]
    assert path.exists()


async def test_a_deleted_file_is_not_there_for_the_next_edit(place: Place, hand: Hand) -> None:
    place.write("f.txt", TEN)
    tag = hand.read("f.txt")
    await hand.edit("f.txt", tag, GONE)
    with fails(ErrorCode.NOT_FOUND):
        await hand.edit("f.txt", tag, GONE)
    await hand.write("f.txt", "new\n")
    assert (place.root / "f.txt").read_bytes() == b"new\n"


async def test_the_preview_of_a_deletion_shows_what_goes(place: Place, hand: Hand) -> None:
    place.write("f.txt", b"a\n")
    arguments = EditInput(path="f.txt", tag=hand.read("f.txt"), ops=[GONE])
    assert await hand.preview(EditTool(), arguments) == "--- a/f.txt\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-a\n"
    assert (place.root / "f.txt").exists()


@pytest.mark.parametrize("op", [GONE, {"op": "append", "text": "x"}])
async def test_a_directory_and_a_fifo_are_refused_at_once(
    place: Place, hand: Hand, op: dict[str, Any]
) -> None:
    (place.root / "folder").mkdir()
    os.mkfifo(place.root / "fifo")
    for name in ("folder", "fifo"):
        with trio.fail_after(5), fails(ErrorCode.INVALID_ARGUMENT):
            await hand.edit(name, "ABCD", op)


# the gate


def test_a_move_names_both_ends_as_written() -> None:
    arguments = EditInput(path="f", tag="ABCD", ops=[move("g")])
    assert EditTool().targets(arguments) == (Target("f", PathUse.WRITE), Target("g", PathUse.WRITE))
    assert len(EditTool().targets(EditInput(path="f", tag=None, ops=[move("g")]))) == 1


def world(tmp_path: Path, **fields: Any) -> tuple[World, str]:
    made = World(base=tmp_path, **fields)
    path = made.base / "repo" / "f.txt"
    path.write_bytes(TEN)
    return made, made.context.snapshots.record_read(str(path), TEN, seen=range(1, 11))


async def test_a_move_out_of_the_workspace_asks_for_the_outside_path(tmp_path: Path) -> None:
    made, tag = world(tmp_path, mode=PermissionMode.ACCEPT_EDITS)
    to = made.base / "outside" / "g.txt"
    error = await made.admit(EditTool(), path="f.txt", tag=tag, ops=[move(str(to))])
    assert error.code is ErrorCode.TOOL_DENIED  # type: ignore[union-attr]
    (request,) = made.sink.requests
    assert request.external_path == str(to)


async def test_an_allowed_move_is_permitted_for_both_ends(tmp_path: Path) -> None:
    made, tag = world(tmp_path, answers=[Answer(decision=Decision.ALLOW_ONCE, source="test")])
    to = made.base / "outside" / "g.txt"
    permit = await made.admit(EditTool(), path="f.txt", tag=tag, ops=[move(str(to))])
    assert isinstance(permit, Permit)
    assert [path.canonical for path in permit.paths] == [str(made.base / "repo" / "f.txt"), str(to)]


async def test_a_move_into_a_protected_place_asks_in_every_mode(tmp_path: Path) -> None:
    made, tag = world(tmp_path, mode=PermissionMode.AUTO)
    error = await made.admit(EditTool(), path="f.txt", tag=tag, ops=[move(".git/hooks/pre-commit")])
    assert error.code is ErrorCode.TOOL_DENIED  # type: ignore[union-attr]
    assert "protected" in made.sink.requests[0].reason


async def test_a_move_onto_a_denied_place_is_denied_without_asking(tmp_path: Path) -> None:
    made, tag = world(tmp_path, mode=PermissionMode.AUTO)
    error = await made.admit(EditTool(), path="f.txt", tag=tag, ops=[move(str(made.base / "data" / "x"))])
    assert error.code is ErrorCode.TOOL_DENIED  # type: ignore[union-attr]
    assert made.sink.requests == []


async def test_nobody_is_asked_about_a_move_that_cannot_work(tmp_path: Path) -> None:
    made, tag = world(tmp_path)
    (made.base / "repo" / "g.txt").write_bytes(b"")
    error = await made.admit(EditTool(), path="f.txt", tag=tag, ops=[move("g.txt")])
    assert error.code is ErrorCode.CONFLICT  # type: ignore[union-attr]
    assert made.sink.requests == []


async def test_a_move_across_the_border_counts_only_what_lies_inside(place: Place, hand: Hand) -> None:
    place.write("f.txt", TEN)
    output = await hand.edit("f.txt", hand.read("f.txt"), move(str(place.outside / "g.txt")))
    assert [(c.path, c.change) for c in output.files_changed] == [("f.txt", "deleted")]
    assert (place.outside / "g.txt").read_bytes() == TEN
    assert result(output).root == "external"
    back = await hand.edit(str(place.outside / "g.txt"), result(output).tag, move("h.txt"))
    assert [(c.path, c.change) for c in back.files_changed] == [("h.txt", "created")]


# what cannot be edited


async def test_a_line_that_no_read_shows_whole_is_left_to_bash_or_write(place: Place, hand: Hand) -> None:
    place.write("a.js", b"a\n" + b"y" * 2600 + b"\nc\n")
    tag = hand.read("a.js", seen=[1, 3])
    with fails(ErrorCode.EDIT_LINES_UNSEEN) as errors:
        await hand.edit("a.js", tag, {"op": "replace", "start": 2, "text": "z"})
    assert "Line 2 has 2600 characters" in errors[0].message
    assert "Bash" in errors[0].message
    assert "Read a.js with" not in errors[0].message


async def test_a_file_that_is_too_large_for_edit_is_refused_before_it_is_read(
    place: Place, hand: Hand
) -> None:
    path = place.write("large.log", b"line 1\nline 2\n")
    tag = hand.read("large.log")
    os.truncate(path, (32 << 20) + 1)
    with fails(ErrorCode.INVALID_ARGUMENT) as errors:
        await hand.edit("large.log", tag, {"op": "replace", "start": 1, "text": "x"})
    assert "`large.log` is larger than the 32 MiB that Edit takes" in errors[0].message
    assert "Bash" in errors[0].message


async def test_write_to_a_directory_s_spelling_makes_no_file_of_that_name(place: Place, hand: Hand) -> None:
    for spelling in ("newdir/", "newdir/."):
        with fails(ErrorCode.INVALID_ARGUMENT):
            await hand.write(spelling, "x")
    assert not (place.root / "newdir").exists()


async def test_a_folder_that_is_called_like_the_home_is_named_so_that_it_is_found_again(
    place: Place, hand: Hand
) -> None:
    place.write("~/notes.txt", b"x\n")
    found = find_files(
        place.workspace,
        place.workspace.resolve("."),
        parse_path_glob("**/*.txt"),
        limit=9,
        clock=Clock(time.monotonic() + 9, threading.Event()),
    )
    assert found.paths == ("./~/notes.txt",)
    hand.read(found.paths[0])
    await hand.write(found.paths[0], "y\n")
    assert (place.root / "~" / "notes.txt").read_bytes() == b"y\n"
    assert place.workspace.resolve("./~/notes.txt").display == "./~/notes.txt"
