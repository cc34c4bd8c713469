from __future__ import annotations

import codecs
import os
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from agents.errors import ErrorCode
from agents.results import WriteResult
from agents.rules.edits import tag_of
from agents.tools.base import CallGroup, PathUse, Target, ToolOutput
from agents.tools.write import WriteInput, WriteTool
from tests.agents.tools.edit_context import Hand, Place, fails, make_place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path)


@pytest.fixture
def hand(place: Place) -> Hand:
    return Hand(place)


def result(output: ToolOutput) -> WriteResult:
    assert isinstance(output.result, WriteResult)
    return output.result


async def test_a_new_file_holds_exactly_the_content_and_its_parents_are_created(
    place: Place, hand: Hand
) -> None:
    output = await hand.write("a/b/x.txt", "x")
    assert (place.root / "a/b/x.txt").read_bytes() == b"x"
    assert result(output) == WriteResult(
        path="a/b/x.txt", root="workspace", tag=tag_of(b"x"), created=True, bytes=1, additions=1, deletions=0
    )
    assert output.mutated == str(place.root / "a/b/x.txt")
    assert [change.change for change in output.files_changed] == ["created"]
    assert dict(output.attributes) == {"orchestrator.tool.bytes": 1, "orchestrator.tool.root": "workspace"}


async def test_an_existing_file_that_the_agent_never_saw_is_stale(place: Place, hand: Hand) -> None:
    path = place.write("f.txt", b"theirs\n")
    with fails(ErrorCode.WRITE_STALE) as errors:
        await hand.write("f.txt", "mine\n")
    assert errors[0].details["tag"] == tag_of(b"theirs\n")
    assert "Read it" in errors[0].message
    assert path.read_bytes() == b"theirs\n"
    assert place.log.intents == []


async def test_a_file_that_changed_after_it_was_seen_is_stale_until_it_is_read_again(
    place: Place, hand: Hand
) -> None:
    path = place.write("f.txt", b"one\n")
    hand.read("f.txt")
    path.write_bytes(b"two\n")
    with fails(ErrorCode.WRITE_STALE) as errors:
        await hand.write("f.txt", "mine\n")
    assert tag_of(b"one\n") in errors[0].message
    assert tag_of(b"two\n") in errors[0].message
    hand.read("f.txt")
    output = await hand.write("f.txt", "mine\n")
    assert path.read_bytes() == b"mine\n"
    assert (result(output).created, result(output).additions, result(output).deletions) == (False, 1, 1)
    assert [change.change for change in output.files_changed] == ["modified"]


async def test_what_another_agent_saw_counts_for_nothing(place: Place, hand: Hand) -> None:
    place.write("f.txt", b"one\n")
    Hand(place, "run-2").read("f.txt")
    with fails(ErrorCode.WRITE_STALE):
        await hand.write("f.txt", "mine\n")


async def test_a_file_put_back_to_an_older_version_by_somebody_else_is_stale(
    place: Place, hand: Hand
) -> None:
    path = place.write("f.txt", b"one\n")
    hand.read("f.txt")
    await hand.write("f.txt", "two\n")
    path.write_bytes(b"one\n")
    with fails(ErrorCode.WRITE_STALE):
        await hand.write("f.txt", "three\n")


async def test_a_file_too_large_to_keep_is_told_by_its_digest(place: Place, hand: Hand) -> None:
    path = place.write("big.txt", b"row\n" * 600_000)
    hand.read("big.txt", seen=[1])
    path.write_bytes(b"ROW\n" * 600_000)
    with fails(ErrorCode.WRITE_STALE):
        await hand.write("big.txt", "x")
    hand.read("big.txt", seen=[1])
    await hand.write("big.txt", "x")


async def test_what_the_agent_wrote_it_may_write_again_and_edit_everywhere(place: Place, hand: Hand) -> None:
    await hand.write("f.txt", "a\nb\n")
    tag = result(await hand.write("f.txt", "a\nb\nc\n")).tag
    await hand.edit("f.txt", tag, {"op": "replace", "start": 3, "text": "C"})
    assert (place.root / "f.txt").read_bytes() == b"a\nb\nC\n"


async def test_shorter_content_leaves_no_tail(place: Place, hand: Hand) -> None:
    path = place.write("f.txt", b"x" * 100_000)
    hand.read("f.txt")
    await hand.write("f.txt", "short")
    assert path.read_bytes() == b"short"


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (codecs.BOM_UTF8 + b"a\n", "b\n", codecs.BOM_UTF8 + b"b\n"),
        (codecs.BOM_UTF8 + b"a\n", "\ufeffb\n", codecs.BOM_UTF8 + b"b\n"),
        (b"a\r\nb\r\n", "c\nd", b"c\r\nd"),
        (b"a\r\nb\r\n", "c\r\nd\n", b"c\r\nd\r\n"),
        (b"a\r\nb\n", "c\nd\n", b"c\nd\n"),
        (b"a\nb\n", "c\r\nd\n", b"c\r\nd\n"),
        (b"caf\xe9\n", "cafe\n", b"cafe\n"),
        (
            codecs.BOM_UTF16_BE + "a\r\n".encode("utf-16-be"),
            "é\n",
            codecs.BOM_UTF16_BE + "é\r\n".encode("utf-16-be"),
        ),
    ],
)
async def test_a_replaced_file_keeps_its_encoding_its_mark_and_uniform_crlf(
    place: Place, hand: Hand, before: bytes, content: str, after: bytes
) -> None:
    path = place.write("f.txt", before)
    hand.read("f.txt")
    await hand.write("f.txt", content)
    assert path.read_bytes() == after


async def test_kept_crlf_endings_are_told(place: Place, hand: Hand) -> None:
    place.write("f.txt", b"a\r\n")
    hand.read("f.txt")
    assert "\\r\\n" in result(await hand.write("f.txt", "b\n")).warnings[0]


@pytest.mark.parametrize(
    ("before", "content"), [(b"caf\xe9\n", "café\n"), (b"a\n", "a\ud800\n"), (None, "\udcff")]
)
async def test_content_that_cannot_be_encoded_is_refused_before_anything_is_opened_for_writing(
    place: Place, hand: Hand, before: bytes | None, content: str
) -> None:
    if before is not None:
        place.write("f.txt", before)
        hand.read("f.txt")
    with fails(ErrorCode.INVALID_ARGUMENT) as errors:
        await hand.write("f.txt", content)
    assert errors[0].details["reason"] == "encoding"
    assert place.log.intents == []
    assert (place.root / "f.txt").exists() is (before is not None)


@pytest.mark.parametrize("mode", [0o755, 0o600, 0o664])
@pytest.mark.parametrize("mask", [0o022, 0o077])
async def test_permission_bits_of_a_replaced_file_stay(
    place: Place, hand: Hand, mode: int, mask: int
) -> None:
    path = place.write("f.sh", b"#!/bin/sh\n")
    path.chmod(mode)
    hand.read("f.sh")
    old = os.umask(mask)
    try:
        await hand.write("f.sh", "#!/bin/sh\necho\n")
        await hand.write("new.txt", "x")
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert stat.S_IMODE((place.root / "new.txt").stat().st_mode) == 0o666 & ~mask


async def test_a_link_stays_and_its_target_is_written(place: Place, hand: Hand) -> None:
    target = place.write("real/f.txt", b"old\n")
    (place.root / "link.txt").symlink_to("real/f.txt")
    hand.read("link.txt")
    output = await hand.write("link.txt", "new\n")
    assert target.read_bytes() == b"new\n"
    assert (place.root / "link.txt").is_symlink()
    assert result(output).path == "real/f.txt"


async def test_other_names_of_a_file_keep_the_old_content_and_the_result_says_so(
    place: Place, hand: Hand
) -> None:
    path = place.write("f.txt", b"old\n")
    os.link(path, place.root / "g.txt")
    hand.read("f.txt")
    output = await hand.write("f.txt", "new\n")
    assert (place.root / "g.txt").read_bytes() == b"old\n"
    assert "hard links" in result(output).warnings[0]


async def test_a_directory_and_a_fifo_are_refused_at_once(place: Place, hand: Hand) -> None:
    (place.root / "d").mkdir()
    os.mkfifo(place.root / "pipe")
    for name in ("d", "pipe"):
        with trio.fail_after(5), fails(ErrorCode.INVALID_ARGUMENT):
            await hand.write(name, "x")


async def test_a_binary_file_that_was_not_seen_is_no_dead_end(place: Place, hand: Hand) -> None:
    place.write("f.bin", b"\0\1\2")
    with fails(ErrorCode.WRITE_STALE) as errors:
        await hand.write("f.bin", "x")
    assert "another path" in errors[0].message


async def test_outside_the_workspace_nothing_counts_as_a_changed_file(place: Place, hand: Hand) -> None:
    output = await hand.write(str(place.outside / "f.txt"), "x")
    assert output.files_changed == ()
    assert output.mutated == str(place.outside / "f.txt")
    assert (result(output).path, result(output).root) == (str(place.outside / "f.txt"), "external")
    assert place.log.intents[0].before_image is None


async def test_the_check_decides_the_same_without_writing_and_shows_the_diff(
    place: Place, hand: Hand
) -> None:
    path = place.write("f.txt", b"a\nb\n")
    arguments = WriteInput(path="f.txt", content="a\nB\n")
    with fails(ErrorCode.WRITE_STALE):
        await hand.preview(WriteTool(), arguments)
    hand.read("f.txt")
    diff = await hand.preview(WriteTool(), arguments)
    assert diff == "--- a/f.txt\n+++ b/f.txt\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n"
    assert "+++ b/new.txt" in await hand.preview(WriteTool(), WriteInput(path="new.txt", content="x\n"))
    assert path.read_bytes() == b"a\nb\n"
    assert not (place.root / "new.txt").exists()
    assert place.log.intents == []


@pytest.mark.parametrize(
    "arguments", [{"path": "f"}, {"path": "f", "content": 3}, {"path": "f", "content": "", "x": 1}]
)
def test_arguments_are_strict(arguments: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(arguments, WriteInput)


def test_it_is_a_high_risk_mutation_of_its_one_path() -> None:
    tool = WriteTool()
    assert (tool.name, tool.risk, tool.group) == ("Write", "high", CallGroup.MUTATION)
    assert tool.targets(WriteInput(path="f", content="")) == (Target("f", PathUse.WRITE),)
