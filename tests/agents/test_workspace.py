"""The file-system shell: nothing is read or written anywhere but where it was classified."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from agents import descriptors
from agents.errors import ErrorCode, Failure
from agents.rules.paths import PathKind, Root
from agents.tools.search.walk import _barred_below
from agents.workspace import Workspace
from tests.agents.tools.context import make_workspace

TEMPORARY = ".half-written"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = make_workspace(tmp_path)
    (made.root / "src").mkdir()
    (made.root / "src" / "a.py").write_text("one\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "s.txt").write_text("SENTINEL\n")
    return made


def refused(workspace: Workspace, path: str, code: ErrorCode) -> Failure:
    with pytest.raises(Failure) as caught:
        workspace.read(workspace.resolve(path))
    assert caught.value.error.code is code
    return caught.value


def everything_below(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


# resolving


def test_a_workspace_reached_through_a_link_is_the_same_place(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "a.txt").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "repo")
    workspace = make_workspace(tmp_path, root=tmp_path / "link")
    for spelling in ("a.txt", str(tmp_path / "link" / "a.txt"), str(tmp_path / "repo" / "a.txt")):
        path = workspace.resolve(spelling)
        assert (path.root, path.display) == (Root.WORKSPACE, "a.txt")


def test_the_process_directories_are_judged_by_where_they_lead(workspace: Workspace, tmp_path: Path) -> None:
    through_root = workspace.resolve(f"/proc/self/root{tmp_path}/outside/s.txt")
    assert through_root.canonical == str(tmp_path / "outside" / "s.txt")
    assert workspace.resolve("/proc/self/cwd/README.md").canonical == os.path.realpath("README.md")
    assert workspace.resolve("/proc/self/environ").denied is not None


def test_a_descriptor_and_a_device_are_refused_as_not_a_regular_file(workspace: Workspace) -> None:
    reading, writing = os.pipe()
    try:
        path = workspace.resolve(f"/proc/self/fd/{reading}")
        assert path.kind is PathKind.OTHER
        refused(workspace, f"/proc/self/fd/{reading}", ErrorCode.CONFLICT)
        refused(workspace, "/dev/null", ErrorCode.TOOL_DENIED)
    finally:
        os.close(reading)
        os.close(writing)


def test_the_git_directory_that_a_pointer_file_names_is_protected(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path)
    (workspace.root / ".git").write_text("gitdir: meta\n")
    (workspace.root / "meta").mkdir()
    (workspace.root / "meta" / "commondir").write_text("../common\n")
    again = make_workspace(tmp_path)
    for path in (".git", "meta/config", "common/hooks/pre-commit"):
        assert again.resolve(path).protected is not None, path
    assert again.resolve("src/a.py").protected is None


def test_this_volume_tells_capitals_apart_and_locks_them_apart(workspace: Workspace) -> None:
    assert workspace.case_insensitive is False
    assert workspace.lock_key(workspace.resolve("A.py")) != workspace.lock_key(workspace.resolve("a.py"))


def test_on_a_case_blind_volume_both_capitalisations_have_one_lock(workspace: Workspace) -> None:
    workspace.case_insensitive = True
    assert workspace.lock_key(workspace.resolve("A.py")) == workspace.lock_key(workspace.resolve("a.py"))


# reading


def test_reading_gives_the_bytes_and_their_facts(workspace: Workspace) -> None:
    found = workspace.read(workspace.resolve("src/a.py"))
    assert found.data == b"one\n"
    assert found.stat.st_size == 4
    assert workspace.read(workspace.resolve("src/a.py"), limit=2).data == b"on"


def test_a_folder_swapped_for_a_link_is_found_out_not_followed(workspace: Workspace, tmp_path: Path) -> None:
    (workspace.root / "src" / "s.txt").write_text("inside")
    path = workspace.resolve("src/s.txt")
    (workspace.root / "src").rename(workspace.root / "old")
    (workspace.root / "src").symlink_to(tmp_path / "outside")
    with pytest.raises(Failure) as caught:
        workspace.read(path)
    assert caught.value.error.code is ErrorCode.CONFLICT
    with pytest.raises(Failure) as caught:
        workspace.write(
            attrs.evolve(path, canonical=path.canonical + ".new"), b"x", temporary=TEMPORARY, like=None
        )
    assert caught.value.error.code is ErrorCode.CONFLICT
    assert everything_below(tmp_path / "outside") == ["s.txt"]


def test_a_file_swapped_for_a_link_is_found_out_not_followed(workspace: Workspace, tmp_path: Path) -> None:
    path = workspace.resolve("src/a.py")
    like = workspace.read(path).stat
    (workspace.root / "src" / "a.py").unlink()
    (workspace.root / "src" / "a.py").symlink_to(tmp_path / "outside" / "s.txt")
    with pytest.raises(Failure) as caught:
        workspace.read(path)
    assert caught.value.error.code is ErrorCode.CONFLICT
    with pytest.raises(Failure) as caught:
        workspace.write(path, b"x", temporary=TEMPORARY, like=like)
    assert caught.value.error.code is ErrorCode.CONFLICT
    assert (tmp_path / "outside" / "s.txt").read_text() == "SENTINEL\n"


@pytest.fixture
def specials(workspace: Workspace) -> Iterator[None]:
    os.mkfifo(workspace.root / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.getcwd()
        os.chdir(workspace.root)  # the name of a socket is short
        try:
            listener.bind("socket")
        finally:
            os.chdir(here)
        yield


@pytest.mark.usefixtures("specials")
@pytest.mark.parametrize(
    ("name", "kind"), [("fifo", "FIFO"), ("socket", "socket"), ("src", "directory"), (".", "directory")]
)
def test_what_is_not_a_regular_file_is_refused_at_once(workspace: Workspace, name: str, kind: str) -> None:
    assert refused(workspace, name, ErrorCode.INVALID_ARGUMENT).error.details["kind"] == kind


def test_a_missing_file_names_the_nearest_directory_and_look_alikes(workspace: Workspace) -> None:
    for name in ("utils.py", "util.py", "utilx.py", "utily.py", "other.md", "utlis.pem"):
        (workspace.root / "src" / name).write_text("")
    error = refused(workspace, "src/utlis.py", ErrorCode.NOT_FOUND).error
    assert error.details["nearest"] == "src"
    assert "src/utils.py" in error.details["similar"]
    assert len(error.details["similar"]) == 3
    assert "src/utlis.pem" not in error.details["similar"]


def test_a_missing_folder_names_the_folder_that_is_there(workspace: Workspace) -> None:
    error = refused(workspace, "scr/deep/a.py", ErrorCode.NOT_FOUND).error
    assert error.details == {"nearest": ".", "similar": ["src"]}


def test_a_path_below_a_plain_file_is_an_invalid_argument(workspace: Workspace) -> None:
    refused(workspace, "src/a.py/x", ErrorCode.INVALID_ARGUMENT)


def test_a_denied_file_is_refused_before_anything_is_opened(workspace: Workspace) -> None:
    error = refused(workspace, ".env", ErrorCode.TOOL_DENIED).error
    assert error.details["reason"] == "deny-list"


@pytest.mark.parametrize("name", ["[id]", "a b.txt", "-n", "x{1,2}.md", "two\nlines", "*"])
def test_a_name_of_pattern_signs_is_a_name(workspace: Workspace, name: str) -> None:
    path = workspace.resolve(f"app/{name}")
    workspace.write(path, b"x", temporary=TEMPORARY, like=None)
    assert workspace.read(workspace.resolve(f"app/{name}")).data == b"x"
    assert os.listdir(workspace.root / "app") == [name]


# writing


def test_a_new_file_gets_its_parents_and_the_umasks_mode(workspace: Workspace) -> None:
    before = os.umask(0o027)
    try:
        landed = workspace.write(workspace.resolve("x/y/new.txt"), b"new\n", temporary=TEMPORARY, like=None)
    finally:
        os.umask(before)
    made = workspace.root / "x" / "y" / "new.txt"
    assert made.read_bytes() == b"new\n"
    assert stat.S_IMODE(made.stat().st_mode) == 0o640
    assert stat.S_IMODE(made.parent.stat().st_mode) == 0o750
    assert not landed.broke_hard_link
    assert os.listdir(made.parent) == ["new.txt"]


def test_creating_never_overwrites(workspace: Workspace) -> None:
    path = workspace.resolve("late.txt")
    (workspace.root / "late.txt").write_text("theirs")
    with pytest.raises(Failure) as caught:
        workspace.write(path, b"ours", temporary=TEMPORARY, like=None)
    assert caught.value.error.code is ErrorCode.CONFLICT
    assert (workspace.root / "late.txt").read_text() == "theirs"
    assert not (workspace.root / TEMPORARY).exists()


def test_replacing_keeps_permission_bits(workspace: Workspace) -> None:
    script = workspace.root / "run.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o751)
    path = workspace.resolve("run.sh")
    workspace.write(path, b"#!/bin/sh\ntrue\n", temporary=TEMPORARY, like=workspace.read(path).stat)
    assert stat.S_IMODE(script.stat().st_mode) == 0o751
    assert script.read_bytes() == b"#!/bin/sh\ntrue\n"


def test_a_link_stays_and_its_target_is_written(workspace: Workspace) -> None:
    (workspace.root / "alias.py").symlink_to("src/a.py")
    path = workspace.resolve("alias.py")
    workspace.write(path, b"two\n", temporary=TEMPORARY, like=workspace.read(path).stat)
    assert (workspace.root / "alias.py").is_symlink()
    assert (workspace.root / "src" / "a.py").read_bytes() == b"two\n"


def test_a_hard_linked_file_gets_a_fresh_inode_and_says_so(workspace: Workspace) -> None:
    other = workspace.root / "other.py"
    os.link(workspace.root / "src" / "a.py", other)
    path = workspace.resolve("src/a.py")
    landed = workspace.write(path, b"two\n", temporary=TEMPORARY, like=workspace.read(path).stat)
    assert landed.broke_hard_link
    assert other.read_bytes() == b"one\n"


def test_a_read_only_file_is_left_alone_with_a_clear_error(workspace: Workspace) -> None:
    (workspace.root / "src" / "a.py").chmod(0o444)
    path = workspace.resolve("src/a.py")
    with pytest.raises(Failure, match="read-only") as caught:
        workspace.write(path, b"two\n", temporary=TEMPORARY, like=workspace.read(path).stat)
    assert caught.value.error.code is ErrorCode.TOOL_FAILED
    assert os.listdir(workspace.root / "src") == ["a.py"]


def test_a_file_that_somebody_else_changed_meanwhile_is_not_overwritten(workspace: Workspace) -> None:
    path = workspace.resolve("src/a.py")
    like = workspace.read(path).stat
    (workspace.root / "src" / "a.py").write_text("theirs and longer\n")
    with pytest.raises(Failure) as caught:
        workspace.write(path, b"ours\n", temporary=TEMPORARY, like=like)
    assert caught.value.error.code is ErrorCode.CONFLICT


@pytest.mark.parametrize("raised", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_write_that_breaks_off_leaves_nothing_behind(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, raised: BaseException
) -> None:
    def fail(*_: object) -> None:
        raise raised

    monkeypatch.setattr(descriptors.os, "fsync", fail)
    with pytest.raises((Failure, KeyboardInterrupt)):
        workspace.write(workspace.resolve("p/q/new.txt"), b"x", temporary=TEMPORARY, like=None)
    path = workspace.resolve("src/a.py")
    with pytest.raises((Failure, KeyboardInterrupt)):
        workspace.write(path, b"x", temporary=TEMPORARY, like=workspace.read(path).stat)
    assert everything_below(workspace.root) == ["src", "src/a.py"]
    assert (workspace.root / "src" / "a.py").read_bytes() == b"one\n"


def test_writing_through_a_dangling_link_lands_where_it_was_classified(
    workspace: Workspace, tmp_path: Path
) -> None:
    (workspace.root / "notes.txt").symlink_to(tmp_path / "outside" / "notyet.txt")
    path = workspace.resolve("notes.txt")
    assert path.outside
    assert path.canonical == str(tmp_path / "outside" / "notyet.txt")
    workspace.write(path, b"x", temporary=TEMPORARY, like=None)
    assert (workspace.root / "notes.txt").is_symlink()
    assert (tmp_path / "outside" / "notyet.txt").read_bytes() == b"x"


def test_moving_never_overwrites_and_makes_the_parents(workspace: Workspace) -> None:
    path = workspace.resolve("src/a.py")
    like = workspace.read(path).stat
    (workspace.root / "there.py").write_text("")
    with pytest.raises(Failure) as caught:
        workspace.move(path, workspace.resolve("there.py"), like=like)
    assert caught.value.error.code is ErrorCode.CONFLICT
    workspace.move(path, workspace.resolve("new/b.py"), like=like)
    assert (workspace.root / "new" / "b.py").read_bytes() == b"one\n"
    assert not (workspace.root / "src" / "a.py").exists()


def test_deleting_takes_the_file_that_was_read_and_no_other(workspace: Workspace) -> None:
    path = workspace.resolve("src/a.py")
    like = workspace.read(path).stat
    (workspace.root / "src" / "a.py").write_text("changed since\n")
    with pytest.raises(Failure):
        workspace.delete(path, like=like)
    workspace.delete(path, like=workspace.read(path).stat)
    assert os.listdir(workspace.root / "src") == []


# scratch


def test_scratch_is_made_on_first_use_and_removed_with_everything_in_it(
    workspace: Workspace, tmp_path: Path
) -> None:
    assert not workspace.scratch.exists()
    path = workspace.resolve(str(workspace.scratch / "notes" / "n.txt"))
    assert path.root is Root.SCRATCH
    workspace.write(path, b"x", temporary=TEMPORARY, like=None)
    assert stat.S_IMODE(workspace.scratch.stat().st_mode) == 0o700
    (workspace.scratch / "link").symlink_to(tmp_path / "outside")
    workspace.remove_scratch()
    workspace.remove_scratch()
    assert not workspace.scratch.exists()
    assert (tmp_path / "outside" / "s.txt").exists()


def test_the_owner_of_a_replaced_file_stays(workspace: Workspace) -> None:
    file = workspace.root / "src" / "a.py"
    owner = (1234, 1235) if os.geteuid() == 0 else (os.getuid(), os.getgid())  # only root gives files away
    os.chown(file, *owner)
    path = workspace.resolve("src/a.py")
    workspace.write(path, b"x", temporary=TEMPORARY, like=workspace.read(path).stat)
    assert (file.stat().st_uid, file.stat().st_gid) == owner


def test_a_worktree_is_outside_of_nothing_but_its_own_folder(tmp_path: Path) -> None:
    main = tmp_path / "main"
    subprocess.run(["git", "init", "-q", main], check=True)
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.invalid"]
    subprocess.run(["git", *identity, "commit", "-q", "--allow-empty", "-m", "x"], cwd=main, check=True)
    subprocess.run(["git", "worktree", "add", "-q", "wt"], cwd=main, check=True, capture_output=True)
    workspace = make_workspace(tmp_path, root=main / "wt")
    assert workspace.resolve(str(main / "src" / "x.py")).outside
    head = workspace.resolve(str(main / ".git" / "worktrees" / "wt" / "HEAD"))
    assert head.outside
    assert head.protected is not None
    assert workspace.resolve(".git").protected is not None


def test_a_file_of_the_same_size_that_changed_meanwhile_is_not_replaced(workspace: Workspace) -> None:
    path = workspace.resolve("src/a.py")
    before = workspace.read(path)
    own = workspace.root / "src" / "a.py"
    own.write_bytes(bytes(reversed(before.data)))
    os.utime(own, ns=(0, before.stat.st_mtime_ns + 1))
    with pytest.raises(Failure) as failed:
        workspace.write(path, b"mine", temporary=".t", like=before.stat)
    assert failed.value.error.code is ErrorCode.CONFLICT
    assert own.read_bytes() == bytes(reversed(before.data))


def test_what_was_written_is_durable_before_it_is_said_to_be(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    for name in ("fsync", "rename", "link"):
        plain = getattr(os, name)
        monkeypatch.setattr(
            os,
            name,
            lambda *given, _name=name, _plain=plain, **more: (done.append(_name), _plain(*given, **more))[1],
        )
    path = workspace.resolve("src/a.py")
    workspace.write(path, b"new", temporary=".t", like=workspace.read(path).stat)
    assert done == ["fsync", "rename", "fsync"]
    done.clear()
    workspace.write(workspace.resolve("src/new.py"), b"new", temporary=".t", like=None)
    assert done == ["fsync", "link", "fsync"]


def test_without_its_owner_a_file_keeps_its_group_and_no_right_to_act_as_the_owner(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = workspace.root / "src" / "a.py"
    own.chmod(0o6750)
    before = workspace.read(workspace.resolve("src/a.py")).stat
    given: list[tuple[int, int]] = []

    def chown(descriptor: int, user: int, group: int) -> None:
        given.append((user, group))
        if user != -1:
            raise PermissionError

    monkeypatch.setattr(os, "fchown", chown)
    facts = list(before)
    facts[4], facts[5] = 4242, 4343
    foreign = os.stat_result(facts)
    with contextlib.suppress(FileExistsError), descriptors.directory(str(own.parent)) as parent:
        descriptors.write_temporary(parent, "fresh", b"x", foreign)
    assert given == [(4242, 4343), (-1, 4343)]
    assert stat.S_IMODE((own.parent / "fresh").stat().st_mode) == 0o750


def test_a_walk_from_the_top_never_enters_what_the_kernel_shows(workspace: Workspace) -> None:
    barred = _barred_below(workspace.places, "/")
    assert {"proc", "sys", "dev", str(workspace.data_dir).lstrip("/")} <= barred
    assert _barred_below(workspace.places, str(workspace.root)) == frozenset()


def test_the_data_directory_is_denied_in_other_capitals_too(workspace: Workspace) -> None:
    data = str(workspace.data_dir)
    for spelling in (data, data.upper(), data.title()):
        assert workspace.resolve(f"{spelling}/store.sqlite3").denied is not None, spelling


def test_a_spill_of_an_earlier_process_is_not_looked_for_where_no_tool_opens(workspace: Workspace) -> None:
    with pytest.raises(Failure, match="run the command that made it again") as failed:
        workspace.read(workspace.resolve(str(workspace.scratch / "bash-call-1-stdout.txt")))
    assert failed.value.error.code is ErrorCode.NOT_FOUND
