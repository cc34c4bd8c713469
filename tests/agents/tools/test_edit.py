from __future__ import annotations

import codecs
import os
import resource
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import trio

from agents.errors import ErrorCode
from agents.results import EditResult, Hunk
from agents.rules.edits import tag_of
from agents.rules.effects import EffectIntent
from agents.tools.base import CallGroup, PathUse, Target, ToolOutput
from agents.tools.edit import EditInput, EditTool
from agents.tools.schema import argument_schema, decode_arguments
from tests.agents.tools.edit_context import Hand, KeptLog, Place, fails, make_place

TEN = b"".join(b"line %d\n" % number for number in range(1, 11))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path)


@pytest.fixture
def hand(place: Place) -> Hand:
    return Hand(place)


def replace(start: int, text: str, end: int | None = None) -> dict[str, Any]:
    return {"op": "replace", "start": start, "end": end or start, "text": text}


def result(output: ToolOutput) -> EditResult:
    assert isinstance(output.result, EditResult)
    return output.result


async def test_an_edit_lands_and_its_tag_is_that_of_the_bytes_that_landed(place: Place, hand: Hand) -> None:
    path = place.write("f.txt", TEN)
    output = await hand.edit("f.txt", hand.read("f.txt"), replace(2, "two\nmore"))
    landed = TEN.replace(b"line 2", b"two\nmore")
    assert path.read_bytes() == landed
    assert result(output) == EditResult(
        path="f.txt",
        root="workspace",
        tag=tag_of(landed),
        warnings=(),
        additions=2,
        deletions=1,
        hunks=(Hunk(old_start=2, old_lines=1, new_start=2, new_lines=2),),
    )
    assert output.mutated == str(path)
    assert [(change.path, change.change) for change in output.files_changed] == [("f.txt", "modified")]
    assert dict(output.attributes) == {
        "orchestrator.tool.bytes": len(landed),
        "orchestrator.tool.root": "workspace",
    }
    assert place.leftovers() == []


async def test_the_returned_tag_carries_on_for_what_was_seen_or_written(place: Place, hand: Hand) -> None:
    place.write("f.txt", TEN)
    output = await hand.edit("f.txt", hand.read("f.txt", seen=[2, 5]), replace(2, "two\nmore"))
    tag = result(output).tag
    output = await hand.edit("f.txt", tag, replace(3, "MORE"), replace(6, "five"))
    with fails(ErrorCode.EDIT_LINES_UNSEEN):
        await hand.edit("f.txt", result(output).tag, replace(9, "x"))


async def test_a_missing_or_malformed_tag_is_tag_required_not_an_invalid_argument(hand: Hand) -> None:
    for arguments in (
        {"path": "f"},
        {"path": "f", "tag": None, "ops": []},
        {"path": "f", "tag": 7, "ops": "x"},
    ):
        decoded = decode_arguments(EditTool(), arguments)
        assert isinstance(decoded, EditInput)
        with fails(ErrorCode.EDIT_TAG_REQUIRED):
            await hand.edit("f", decoded.tag, decoded.ops)


async def test_malformed_operations_are_parse_failed_and_no_other_one_is_applied(
    place: Place, hand: Hand
) -> None:
    path = place.write("f.txt", b"abc")
    tag = hand.read("f.txt")
    with fails(ErrorCode.EDIT_PARSE_FAILED):
        await hand.edit("f.txt", tag, replace(1, "X"), {"op": "append", "text": ""})
    assert path.read_bytes() == b"abc"


@pytest.mark.parametrize("name", ["gone.txt", "no/such/dir.txt"])
async def test_edit_never_creates_a_file_and_names_write(place: Place, hand: Hand, name: str) -> None:
    place.write("gone.text", b"")
    with fails(ErrorCode.NOT_FOUND) as errors:
        await hand.edit(name, "ABCD", {"op": "append", "text": "X"})
    assert "use Write" in errors[0].message
    assert not (place.root / name).exists()
    assert place.log.intents == []


async def test_an_unknown_tag_hands_back_what_the_corrected_call_needs(place: Place, hand: Hand) -> None:
    path = place.write("f.txt", TEN)
    with fails(ErrorCode.EDIT_TAG_UNKNOWN) as errors:
        await hand.edit("f.txt", "0000", replace(5, "five"))
    assert "5:line 5" in errors[0].details["content"]
    await hand.edit("f.txt", errors[0].details["tag"], replace(5, "five"))
    assert path.read_bytes() == TEN.replace(b"line 5", b"five")


async def test_a_delegates_tag_is_unknown_to_every_other_agent(place: Place, hand: Hand) -> None:
    place.write("f.txt", TEN)
    tag = Hand(place, "run-2").read("f.txt")
    with fails(ErrorCode.EDIT_TAG_UNKNOWN):
        await hand.edit("f.txt", tag, replace(5, "five"))


async def test_a_mismatch_hands_back_what_the_corrected_call_needs(place: Place, hand: Hand) -> None:
    path = place.write("f.txt", TEN)
    tag = hand.read("f.txt")
    live = TEN.replace(b"line 5", b"other")
    path.write_bytes(live)
    with fails(ErrorCode.EDIT_TAG_MISMATCH) as errors:
        await hand.edit("f.txt", tag, replace(5, "five"))
    assert path.read_bytes() == live
    assert errors[0].details["tag"] == tag_of(live)
    await hand.edit("f.txt", errors[0].details["tag"], replace(5, "five"))
    assert path.read_bytes() == TEN.replace(b"line 5", b"five")


async def test_the_same_call_repeated_succeeds_after_a_complete_reveal(place: Place, hand: Hand) -> None:
    path = place.write("f.txt", TEN)
    tag = hand.read("f.txt", seen=[1])
    with fails(ErrorCode.EDIT_LINES_UNSEEN) as errors:
        await hand.edit("f.txt", tag, replace(4, "x", end=5))
    assert "4:line 4\n5:line 5" in errors[0].details["content"]
    await hand.edit("f.txt", tag, replace(4, "x", end=5))
    assert b"line 3\nx\nline 6" in path.read_bytes()


async def test_a_truncated_reveal_leaves_the_repeated_call_failing(place: Place, hand: Hand) -> None:
    place.write("f.txt", b"row\n" * 100)
    tag = hand.read("f.txt", seen=[1])
    for _ in range(2):
        with fails(ErrorCode.EDIT_LINES_UNSEEN) as errors:
            await hand.edit("f.txt", tag, replace(2, "x", end=99))
        assert "offset 2 and limit 98" in errors[0].message


async def test_an_edit_that_changes_nothing_says_so_and_writes_nothing(place: Place, hand: Hand) -> None:
    path = place.write("f.txt", TEN)
    before = path.stat()
    with fails(ErrorCode.EDIT_NO_CHANGE) as errors:
        await hand.edit("f.txt", hand.read("f.txt"), replace(3, "line 3"))
    assert "already has exactly this content at line 3" in errors[0].message
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert place.log.intents == []


async def test_external_drift_elsewhere_is_recovered_with_a_warning(place: Place, hand: Hand) -> None:
    path = place.write("f.txt", TEN)
    tag = hand.read("f.txt")
    path.write_bytes(b"new\n" + TEN)
    output = await hand.edit("f.txt", tag, replace(5, "five"))
    assert path.read_bytes() == b"new\n" + TEN.replace(b"line 5", b"five")
    assert "moved by +1" in result(output).warnings[0]


async def test_the_agents_own_stale_tag_is_recovered_with_another_warning(place: Place, hand: Hand) -> None:
    path = place.write("f.txt", TEN)
    tag = hand.read("f.txt")
    await hand.edit("f.txt", tag, replace(2, "two"))
    output = await hand.edit("f.txt", tag, replace(9, "nine"))
    assert path.read_bytes() == TEN.replace(b"line 2", b"two").replace(b"line 9", b"nine")
    assert "not the newest you know" in result(output).warnings[0]


async def test_one_line_of_a_mixed_file_is_one_line_of_the_diff(place: Place, hand: Hand) -> None:
    path = place.write("f.txt", b"a\r\nb\nc\r\n")

    def git(*arguments: str) -> str:
        command = [
            "git",
            "-c",
            "core.autocrlf=false",
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@t",
            *arguments,
        ]
        return subprocess.run(command, cwd=place.root, check=True, capture_output=True, text=True).stdout

    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        git(*arguments)
    await hand.edit("f.txt", hand.read("f.txt"), replace(2, "B"))
    assert path.read_bytes() == b"a\r\nB\nc\r\n"
    assert git("diff", "--numstat").split() == ["1", "1", "f.txt"]


async def test_the_diff_shown_before_is_the_one_that_lands(place: Place, hand: Hand) -> None:
    path = place.write("f.txt", b"x\r\ny\r\nz\r\n")
    tag = hand.read("f.txt")
    ops = [replace(2, "Y\nw")]
    diff = await hand.preview(EditTool(), EditInput(path="f.txt", tag=tag, ops=ops))
    assert diff == "--- a/f.txt\n+++ b/f.txt\n@@ -1,3 +1,4 @@\n x\n-y\n+Y\n+w\n z\n"
    assert path.read_bytes() == b"x\r\ny\r\nz\r\n"
    assert place.log.intents == []
    output = await hand.edit("f.txt", tag, *ops)
    assert path.read_bytes() == b"x\r\nY\r\nw\r\nz\r\n"
    assert result(output).warnings == ()


@pytest.mark.parametrize("foreign", [b"# caf\xe9\n", b"\xd6\xd0\xce\xc4\n"])
async def test_foreign_bytes_elsewhere_in_the_file_survive(place: Place, hand: Hand, foreign: bytes) -> None:
    path = place.write("f.py", b"x = 1\n" + foreign)
    tag = hand.read("f.py")
    await hand.edit("f.py", tag, replace(1, "x = 2"))
    assert path.read_bytes() == b"x = 2\n" + foreign
    with fails(ErrorCode.INVALID_ARGUMENT):
        await hand.edit("f.py", tag_of(path.read_bytes()), replace(1, "x = 'é'"))
    assert path.read_bytes() == b"x = 2\n" + foreign


async def test_the_byte_order_mark_stays_single(place: Place, hand: Hand) -> None:
    path = place.write("f.txt", codecs.BOM_UTF8 + b"hello\nworld\n")
    tag = hand.read("f.txt")
    await hand.edit("f.txt", tag, replace(1, "hi"), replace(2, "all"))
    assert path.read_bytes() == codecs.BOM_UTF8 + b"hi\nall\n"


async def test_an_edited_makefile_keeps_its_tabs(place: Place, hand: Hand) -> None:
    path = place.write("Makefile", b"all:\n\tgcc a.c\n")
    await hand.edit("Makefile", hand.read("Makefile"), replace(2, "\tgcc -O2 a.c"))
    assert path.read_bytes() == b"all:\n\tgcc -O2 a.c\n"


async def test_of_two_equal_lines_the_named_one_is_edited(place: Place, hand: Hand) -> None:
    path = place.write("f.txt", b"a=1\nb\na=1\n")
    await hand.edit("f.txt", hand.read("f.txt"), replace(3, "a=2"))
    assert path.read_bytes() == b"a=1\nb\na=2\n"


async def test_equal_lines_that_cannot_be_told_apart_after_a_change_are_a_mismatch(
    place: Place, hand: Hand
) -> None:
    path = place.write("f.txt", b"a=1\nb\na=1\n")
    tag = hand.read("f.txt")
    path.write_bytes(b"a=1\na=1\nb\na=1\n")
    with fails(ErrorCode.EDIT_TAG_MISMATCH) as errors:
        await hand.edit("f.txt", tag, replace(1, "a=2"))
    assert "1:a=1\n2:a=1\n3:b\n4:a=1" in errors[0].details["content"]


@pytest.mark.parametrize("mode", [0o755, 0o600, 0o2644])
async def test_permission_bits_stay(place: Place, hand: Hand, mode: int) -> None:
    path = place.write("f.sh", TEN)
    path.chmod(mode)
    await hand.edit("f.sh", hand.read("f.sh"), replace(1, "x"))
    assert stat.S_IMODE(path.stat().st_mode) == mode


async def test_a_read_only_file_is_refused_and_stays(place: Place, hand: Hand) -> None:
    path = place.write("f.txt", TEN)
    path.chmod(0o444)
    with fails(ErrorCode.TOOL_FAILED) as errors:
        await hand.edit("f.txt", hand.read("f.txt"), replace(1, "x"))
    assert "0444" in errors[0].message
    assert path.read_bytes() == TEN
    assert place.leftovers() == []


async def test_a_link_stays_and_its_target_is_edited(place: Place, hand: Hand) -> None:
    target = place.write("real.txt", TEN)
    (place.root / "link.txt").symlink_to("real.txt")
    tag = hand.read("real.txt")
    await hand.edit("link.txt", tag, replace(1, "x"))
    assert target.read_bytes().startswith(b"x\n")
    assert (place.root / "link.txt").is_symlink()


async def test_other_names_of_a_file_keep_the_old_content_and_the_result_says_so(
    place: Place, hand: Hand
) -> None:
    path = place.write("f.txt", TEN)
    os.link(path, place.root / "g.txt")
    output = await hand.edit("f.txt", hand.read("f.txt"), replace(1, "x"))
    assert (place.root / "g.txt").read_bytes() == TEN
    assert "hard links" in result(output).warnings[0]


async def test_outside_the_workspace_nothing_counts_as_a_changed_file(place: Place, hand: Hand) -> None:
    path = place.outside / "f.txt"
    path.write_bytes(TEN)
    output = await hand.edit(str(path), hand.read(str(path)), replace(1, "x"))
    assert output.files_changed == ()
    assert output.mutated == str(path)
    assert (result(output).path, result(output).root) == (str(path), "external")
    assert place.log.intents[0].before_image is None


async def test_a_binary_file_has_no_lines_to_edit(place: Place, hand: Hand) -> None:
    place.write("f.bin", b"\0\1\n")
    with fails(ErrorCode.TOOL_BINARY_CONTENT):
        await hand.edit("f.bin", "ABCD", replace(1, "x"))


async def test_a_file_too_large_to_keep_is_edited_by_its_digest(place: Place, hand: Hand) -> None:
    path = place.write("big.txt", b"row\n" * 700_000)
    tag = hand.read("big.txt", seen=range(1, 501))
    output = await hand.edit("big.txt", tag, replace(3, "third"))
    assert path.read_bytes() == b"row\nrow\nthird\n" + b"row\n" * 699_997
    assert (result(output).additions, result(output).deletions) == (1, 1)


# side by side


class SlowLog(KeptLog):
    """Gives every other task a turn between reading and writing."""

    async def intend(self, intent: EffectIntent) -> None:
        for _ in range(3):
            await trio.lowlevel.checkpoint()
        await super().intend(intent)


@pytest.mark.parametrize("agents", [1, 2])
async def test_two_parallel_edits_of_one_file_never_lose_one(place: Place, agents: int) -> None:
    place.log = SlowLog()
    original = b"".join(b"row %d\n" % number for number in range(100))
    for number in range(50):
        path = place.write("f.txt", original)
        hands = [Hand(place, f"run-{agent}") for agent in range(agents)]
        tags = [hand.read("f.txt") for hand in hands]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hands[0].edit, "f.txt", tags[0], replace(6, f"five {number}"))
            nursery.start_soon(hands[-1].edit, "./f.txt", tags[-1], replace(91, f"ninety {number}"))
        expected = original.replace(b"row 5\n", b"five %d\n" % number).replace(
            b"row 90\n", b"ninety %d\n" % number
        )
        assert path.read_bytes() == expected
    assert place.locks.held == 0


async def test_two_parallel_edits_of_one_line_end_in_one_mismatch(place: Place) -> None:
    path = place.write("f.txt", TEN)
    first, second = Hand(place, "run-1"), Hand(place, "run-2")
    tags = first.read("f.txt"), second.read("f.txt")
    codes: list[str] = []

    async def attempt(hand: Hand, tag: str, text: str) -> None:
        try:
            await hand.edit("f.txt", tag, replace(5, text))
        except Exception as failed:
            codes.append(str(failed).split(":")[0])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(attempt, first, tags[0], "one")
        nursery.start_soon(attempt, second, tags[1], "two")
    assert codes == ["EDIT_TAG_MISMATCH"]
    assert path.read_bytes() in (TEN.replace(b"line 5", b"one"), TEN.replace(b"line 5", b"two"))


async def test_crossing_edits_of_two_files_do_not_block_each_other(place: Place) -> None:
    first, second = Hand(place, "run-1"), Hand(place, "run-2")
    tags = {}
    for name in ("x.txt", "y.txt"):
        place.write(name, TEN)
        for hand in (first, second):
            tags[hand.owner, name] = hand.read(name)

    async def both(hand: Hand, names: list[str], line: int) -> None:
        for name in names:
            await hand.edit(name, tags[hand.owner, name], replace(line, hand.owner))

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(both, first, ["x.txt", "y.txt"], 2)
            nursery.start_soon(both, second, ["y.txt", "x.txt"], 8)
    for name in ("x.txt", "y.txt"):
        expected = TEN.replace(b"line 2", b"run-1").replace(b"line 8", b"run-2")
        assert (place.root / name).read_bytes() == expected


async def test_an_edit_cancelled_at_the_write_is_whole_and_is_known_to_its_agent(
    place: Place, hand: Hand
) -> None:
    path = place.write("big.txt", b"row\n" * 300_000)
    tag = hand.read("big.txt", seen=[1])
    scope = trio.CancelScope()

    class Cancelling(KeptLog):
        async def intend(self, intent: EffectIntent) -> None:
            await super().intend(intent)
            scope.cancel()

    place.log = Cancelling()
    with scope:
        output = await hand.edit("big.txt", tag, replace(1, "first"))
        tag = result(output).tag
    assert path.read_bytes() == b"first\n" + b"row\n" * 299_999
    assert [entry.ok for entry in place.log.results] == [True]
    assert tag == tag_of(path.read_bytes())
    assert place.leftovers() == []
    assert place.locks.held == 0


def test_the_schema_offers_the_nine_operations_and_no_others() -> None:
    schema = argument_schema(EditTool())
    names = {shape["properties"]["op"]["const"] for shape in schema["properties"]["ops"]["items"]["oneOf"]}
    lines = {"replace", "insert", "append", "delete"}
    assert names == lines | {"replaceBlock", "deleteBlock", "insertAfterBlock", "moveFile", "deleteFile"}
    assert schema["required"] == ["path", "tag", "ops"]


def test_it_is_a_high_risk_mutation_of_its_one_path() -> None:
    tool = EditTool()
    assert (tool.name, tool.risk, tool.group) == ("Edit", "high", CallGroup.MUTATION)
    assert tool.targets(EditInput(path="f")) == (Target("f", PathUse.WRITE),)


async def test_a_write_that_runs_out_of_space_leaves_the_old_file_and_nothing_else(
    place: Place, hand: Hand
) -> None:
    old = b"row\n" * 700_000
    path = place.write("big.txt", old)
    tag = hand.read("big.txt", seen=[1])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(
        resource.RLIMIT_FSIZE, (2_000_000, hard)
    )  # stands for a full disk: writing fails midway
    try:
        with fails(ErrorCode.TOOL_FAILED):
            await hand.edit("big.txt", tag, replace(1, "first"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == old
    assert place.leftovers() == []
    assert [entry.ok for entry in place.log.results] == [False]
