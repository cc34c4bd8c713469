"""Read: windows, tags, honest words about what is not shown."""

from __future__ import annotations

import hashlib
import os
import random
from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.errors import ErrorCode
from agents.large_files import LargeFiles, WindowLine, read_window
from agents.rules.text import decode
from agents.rules.tool_search import ToolCard
from agents.tools.active import ActiveTools
from agents.tools.base import ToolContext
from agents.tools.read import MAX_CONTENT_BYTES, MAX_LINES, ReadTool
from tests.agents.tools.context import error, make_context, result

READ = ReadTool()


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    return make_context(tmp_path)


def put(context: ToolContext, name: str, data: bytes | str) -> Path:
    path = context.workspace.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


# windows


async def test_the_content_is_a_header_with_the_tag_and_numbered_rows(context: ToolContext) -> None:
    put(context, "src/a.py", "one\ntwo\n")
    read = await result(READ, context, path="src/a.py")
    tag = hashlib.sha256(b"one\ntwo\n").hexdigest()[-4:].upper()
    assert len(tag) == 4
    assert read.content == f"[src/a.py#{read.tag}]\n1:one\n2:two"
    assert (read.total_lines, read.line_count, read.file_bytes, read.truncated) == (2, 2, 8, False)
    assert (read.root, read.encoding, read.newline, read.notice) == ("workspace", "utf-8", "\n", None)


async def test_a_window_carries_the_tag_of_the_whole_file_and_absolute_numbers(context: ToolContext) -> None:
    put(context, "a", "".join(f"l{n}\n" for n in range(1, 601)))
    whole = await result(READ, context, path="a")
    window = await result(READ, context, path="a", offset=590, limit=5)
    assert (whole.line_count, whole.total_lines, whole.truncated) == (500, 600, True)
    assert "offset 501" in whole.notice
    assert window.tag == whole.tag
    assert window.content.splitlines()[1] == "590:l590"
    assert "offset 595" in window.notice


async def test_paging_with_the_named_offset_shows_every_line_once(context: ToolContext) -> None:
    put(context, "a", "".join(f"{n} {'x' * (n % 97)}\n" for n in range(1, 5001)))
    rows: list[str] = []
    offset = 1
    while True:
        read = await result(READ, context, path="a", offset=offset, limit=MAX_LINES)
        assert len(read.content.encode()) <= MAX_CONTENT_BYTES
        rows += read.content.splitlines()[1:]
        if not read.truncated:
            break
        offset = read.offset + read.line_count
        assert f"offset {offset}" in read.notice
    assert [int(row.split(":")[0]) for row in rows] == list(range(1, 5001))


async def test_seen_are_the_lines_that_were_shown_in_full(context: ToolContext) -> None:
    path = put(context, "a", "one\n" + "x" * 3000 + "\nthree\nfour\n")
    read = await result(READ, context, path="a", limit=3)
    snapshot = context.snapshots.find(str(path), read.tag)
    assert snapshot is not None
    assert list(snapshot.seen) == [1, 3]


# past the end, empty, bad numbers: three different answers


@pytest.mark.parametrize("offset", [6, 100])
async def test_an_offset_past_the_end_says_so_with_the_total(context: ToolContext, offset: int) -> None:
    put(context, "five", "1\n2\n3\n4\n5\n")
    read = await result(READ, context, path="five", offset=offset)
    assert (read.line_count, read.total_lines, read.truncated) == (0, 5, False)
    assert "past the end" in read.notice
    assert "5 lines" in read.notice


async def test_a_file_that_got_shorter_between_two_reads_says_so(context: ToolContext) -> None:
    put(context, "a", "1\n2\n3\n")
    await result(READ, context, path="a")
    put(context, "a", "1\n")
    read = await result(READ, context, path="a", offset=3)
    assert "past the end" in read.notice
    assert read.total_lines == 1


@pytest.mark.parametrize("offset", [1, 7])
async def test_an_empty_file_is_called_empty(context: ToolContext, offset: int) -> None:
    put(context, "none", b"")
    read = await result(READ, context, path="none", offset=offset)
    assert "empty" in read.notice
    assert "past the end" not in read.notice
    assert (read.total_lines, read.content) == (0, f"[none#{read.tag}]")


@pytest.mark.parametrize(
    "wrong",
    [
        *({"offset": value} for value in (0, -1, 1.5, "5", True)),
        *({"limit": value} for value in (0, -1, 2001, True)),
    ],
)
async def test_a_number_out_of_bounds_is_an_invalid_argument(
    context: ToolContext, wrong: dict[str, object]
) -> None:
    put(context, "a", "1\n")
    assert (await error(READ, context, path="a", **wrong)).code is ErrorCode.INVALID_ARGUMENT


# what is no text file


@pytest.mark.parametrize("path", ["src", "src/", ".", "link", "OUTSIDE"])
async def test_a_directory_is_refused_with_the_call_that_lists_it(
    context: ToolContext, tmp_path: Path, path: str
) -> None:
    put(context, "src/hidden-name.py", "x\n")
    (context.workspace.root / "link").symlink_to("src")
    (tmp_path / "outside").mkdir()
    path = str(tmp_path / "outside") if path == "OUTSIDE" else path
    refused = await error(READ, context, path=path)
    assert refused.code is ErrorCode.INVALID_ARGUMENT
    assert not refused.retriable
    assert refused.details["suggestedTool"] == "Glob"
    assert refused.details["suggestedArgs"] == {"path": path, "pattern": "**/*"}
    assert "hidden-name" not in refused.message
    assert "ToolSearch" not in refused.message


async def test_an_agent_that_must_activate_the_lister_first_is_told_how(context: ToolContext) -> None:
    active = ActiveTools(("Read", "Glob", "ToolSearch"), (ToolCard("Glob", "Lists files."),))
    refused = await error(READ, attrs.evolve(context, active=active), path=".")
    assert "call ToolSearch with the query `Glob` first" in refused.message
    assert refused.details["suggestedTool"] == "Glob"
    active.search("Glob")
    refused = await error(READ, attrs.evolve(context, active=active), path=".")
    assert "ToolSearch" not in refused.message
    assert refused.details["suggestedTool"] == "Glob"


async def test_an_agent_that_cannot_list_is_not_sent_to_a_tool_it_lacks(context: ToolContext) -> None:
    refused = await error(READ, attrs.evolve(context, active=ActiveTools(("Read", "Bash"))), path=".")
    assert refused.code is ErrorCode.INVALID_ARGUMENT
    assert refused.details == {"kind": "directory"}
    assert "Glob" not in refused.message
    assert "ToolSearch" not in refused.message


async def test_a_missing_file_is_not_found(context: ToolContext) -> None:
    put(context, "src/app.py", "")
    refused = await error(READ, context, path="src/ap.py")
    assert refused.code is ErrorCode.NOT_FOUND
    assert refused.details == {"nearest": "src", "similar": ["src/app.py"]}


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("x.png", b"<!DOCTYPE html><p>no", "HTML text"),
        ("y.png", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a Git LFS pointer (text)"),
        ("z.jpg", b"", "nothing (0 bytes)"),
        ("p.png", b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "PNG image"),
        ("lies.txt", b"%PDF-1.7\n%\xe2\xe3", "PDF document"),
        ("noext", b"MZ\x90\0\x03", "Windows program"),
        ("blob", b"abc\0def", "unknown binary data"),
        ("control", bytes(range(1, 9)) * 10, "text"),
    ],
)
async def test_binary_content_is_refused_with_its_size_and_what_the_bytes_say(
    context: ToolContext, name: str, data: bytes, kind: str
) -> None:
    put(context, name, data)
    refused = await error(READ, context, path=name)
    assert refused.code is ErrorCode.TOOL_BINARY_CONTENT
    assert refused.details == {"type": kind, "bytes": len(data)}
    assert "\0" not in refused.message


@pytest.mark.parametrize(
    "data",
    [
        b"MZ was here\n",
        b"BMW\n",
        "日本語\n".encode() * 2000,
        "\ufeffmark\n".encode(),
        "wide\n".encode("utf-16"),
    ],
)
async def test_text_is_read_whatever_it_starts_with(context: ToolContext, data: bytes) -> None:
    put(context, "a.txt", data)
    assert (await result(READ, context, path="a.txt")).total_lines >= 1


async def test_a_fifo_is_refused_without_waiting_for_a_writer(context: ToolContext) -> None:
    os.mkfifo(context.workspace.root / "fifo")
    assert (await error(READ, context, path="fifo")).code is ErrorCode.INVALID_ARGUMENT


async def test_a_denied_file_is_denied(context: ToolContext) -> None:
    put(context, ".env", "SENTINEL=1\n")
    refused = await error(READ, context, path=".env")
    assert (refused.code, refused.details["reason"]) == (ErrorCode.TOOL_DENIED, "deny-list")


# lines and bytes


async def test_one_enormous_line_is_cut_and_the_answer_says_so(context: ToolContext) -> None:
    put(context, "x.min.js", "é" * 1_000_000)
    for arguments in ({}, {"limit": 1}):
        read = await result(READ, context, path="x.min.js", **arguments)
        assert read.truncated
        assert "longer than 2000 characters" in read.notice
        assert read.content.endswith("é…")
        assert len(read.content.encode()) < 8192
        assert (read.line_count, read.total_lines) == (1, 1)


async def test_lines_end_at_line_feeds_and_nowhere_else(context: ToolContext) -> None:
    put(context, "a", "a\x0cb\u2028c\u0085d\re\r\nf\n")
    read = await result(READ, context, path="a")
    assert (read.total_lines, read.newline) == (2, "mixed")
    assert read.content.endswith("1:a\x0cb\u2028c\u0085d\re\n2:f")


async def test_other_bytes_are_shown_as_replacement_marks(context: ToolContext) -> None:
    put(context, "a", b"caf\xe9\n")
    read = await result(READ, context, path="a")
    assert (read.encoding, read.content.splitlines()[1]) == ("unknown-8bit", "1:caf\ufffd")


async def test_a_name_with_a_line_break_cannot_forge_a_row(context: ToolContext) -> None:
    put(context, "a\n9:forged", "one\n")
    read = await result(READ, context, path="a\n9:forged")
    assert read.path == "a\n9:forged"
    assert len(read.content.splitlines()) == 2


# large files


def large_text(lines: int) -> bytes:
    rng = random.Random(1)
    return b"".join(b"%d %s\n" % (n, b"x" * rng.randint(0, 60)) for n in range(1, lines + 1))


async def test_a_large_file_is_paged_like_a_small_one(context: ToolContext) -> None:
    data = large_text(100_000)
    path = put(context, "big.log", data)
    for offset in (1, 2, 40_000, 99_999):
        read = await result(READ, context, path="big.log", offset=offset, limit=2)
        assert [row.split(" ")[0] for row in read.content.splitlines()[1:]] == [
            f"{n}:{n}" for n in (offset, offset + 1)
        ]
        assert (read.total_lines, read.file_bytes) == (100_000, len(data))
    snapshot = context.snapshots.find(str(path), read.tag)
    assert snapshot is not None
    assert snapshot.digest == hashlib.sha256(data).hexdigest()
    assert snapshot.data is None
    past = await result(READ, context, path="big.log", offset=100_001)
    assert "past the end" in past.notice


async def test_a_large_file_is_hashed_once_per_version(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(context, "big.log", large_text(100_000))
    first = await result(READ, context, path="big.log", limit=1)
    with monkeypatch.context() as patched:
        patched.setattr("agents.large_files.hashlib.sha256", None)  # calling it would fail
        again = await result(READ, context, path="big.log", offset=5000, limit=1)
    assert again.tag == first.tag
    put(context, "big.log", large_text(100_001))
    assert (await result(READ, context, path="big.log", limit=1)).total_lines == 100_001


@settings(max_examples=150, deadline=None)
@given(
    lines=st.lists(st.text(alphabet="ab\r\u00e9\u2028\U0001f600", max_size=9), max_size=12),
    endings=st.lists(st.sampled_from(["\n", "\r\n"]), min_size=12, max_size=12),
    final=st.booleans(),
    codec=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "latin-1"]),
    chunk=st.sampled_from([2, 4, 6, 16, 1 << 20]),
    first=st.integers(1, 13),
)
def test_a_streamed_window_equals_the_window_of_the_decoded_file(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[str],
    endings: list[str],
    final: bool,
    codec: str,
    chunk: int,
    first: int,
) -> None:
    text = "".join(line + end for line, end in zip(lines, endings, strict=False))
    text = text if final else text.removesuffix("\n").removesuffix("\r")
    data = text.encode(codec, "replace")
    expected = decode(data)
    path = tmp_path_factory.mktemp("large") / "f"
    path.write_bytes(data)
    shown: list[WindowLine] = []

    def take(line: WindowLine) -> bool:
        shown.append(line)
        return True

    with pytest.MonkeyPatch.context() as patched, path.open("rb") as file:
        patched.setattr("agents.large_files._CHUNK", chunk)
        facts = LargeFiles().facts(file.fileno(), lambda: None)
        read_window(file.fileno(), facts, first=first, take=take, max_chars=5)
    assert (facts.total_lines, facts.newline, facts.encoding) == (
        len(expected.lines),
        expected.newline,
        expected.encoding,
    )
    assert facts.digest == hashlib.sha256(data).hexdigest()
    wanted = expected.shown_lines[first - 1 :]
    assert [line.text for line in shown] == [line[:5] for line in wanted]
    assert [line.clipped for line in shown] == [len(line) > 5 for line in wanted]
