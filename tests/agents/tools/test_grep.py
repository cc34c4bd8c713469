"""Grep: what is searched, what is found, and how an empty answer proves itself."""

from __future__ import annotations

import os
import re
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.errors import ErrorCode
from agents.rules.text import decode
from agents.tools.base import ToolContext
from agents.tools.grep import GrepTool
from agents.tools.read import ReadTool
from agents.tools.schema import argument_schema
from agents.tools.search import lines as search_lines
from agents.tools.search.lines import Text, matching_lines
from agents.tools.search.patterns import parse_pattern
from agents.tools.search.worker import Clock, GivenUp, OutOfTime, in_worker
from tests.agents.tools.context import error, make_context, result

GREP = GrepTool()
MODES = ("content", "filesWithMatches", "count")


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    return make_context(tmp_path)


def put(context: ToolContext, files: dict[str, str | bytes]) -> None:
    for name, data in files.items():
        path = context.workspace.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)


async def found_paths(context: ToolContext, mode: str, **arguments: Any) -> list[str]:
    found = await result(GREP, context, outputMode=mode, **arguments)
    if mode == "content":
        return [match.path for match in found.matches]
    return list(found.files) if mode == "filesWithMatches" else [row.path for row in found.counts]


# one file


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("path", ["d/a.txt", "link"])
async def test_a_file_named_as_path_is_searched_and_nothing_beside_it(
    context: ToolContext, mode: str, path: str
) -> None:
    put(context, {"d/a.txt": "x\nfoo\n", "d/b.txt": "foo\n"})
    (context.workspace.root / "link").symlink_to("d/a.txt")
    assert await found_paths(context, mode, path=path, pattern="foo") == ["d/a.txt"]


async def test_content_names_the_file_the_line_and_the_tag(context: ToolContext) -> None:
    put(context, {"d/a.txt": "x\nfoo\r\nfoo bar\n"})
    found = await result(GREP, context, path="d/a.txt", pattern="foo")
    assert [(match.path, match.line, match.text) for match in found.matches] == [
        ("d/a.txt", 2, "foo"),
        ("d/a.txt", 3, "foo bar"),
    ]
    read = await result(ReadTool(), context, path="d/a.txt")
    assert found.tags == {"d/a.txt": read.tag}
    assert (found.count, found.files, found.truncated) == (2, 1, False)


async def test_an_include_that_leaves_out_the_one_file_says_so(context: ToolContext) -> None:
    put(context, {"d/a.txt": "foo\n"})
    found = await result(GREP, context, path="d/a.txt", pattern="foo", include="*.py")
    assert (found.count, found.matches) == (0, ())
    assert "`include` leaves out" in found.notice


async def test_matched_lines_count_as_seen(context: ToolContext) -> None:
    put(context, {"a": "foo\nbar\nfoo" + "x" * 3000 + "\nfoo\n"})
    found = await result(GREP, context, pattern="foo")
    snapshot = context.snapshots.find(str(context.workspace.root / "a"), found.tags["a"])
    assert snapshot is not None
    assert list(snapshot.seen) == [1, 4]


# missing, unreadable, empty


async def test_a_missing_path_is_not_found_and_never_an_empty_success(context: ToolContext) -> None:
    put(context, {"src/utils/a.py": "x"})
    refused = await error(GREP, context, path="src/utlis", pattern="x")
    assert (refused.code, refused.details["similar"]) == (ErrorCode.NOT_FOUND, ["src/utils"])


async def test_a_directory_that_cannot_be_read_is_an_error_when_named_and_counted_in_a_tree(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(context, {"open/a.txt": "foo\n", "closed/b.txt": "foo\n"})
    real = os.open

    def deny(path: Any, flags: int, *rest: Any, **names: Any) -> int:
        inside = names.get("dir_fd") is not None and os.readlink(f"/proc/self/fd/{names['dir_fd']}").endswith(
            "/closed"
        )
        if (path == "closed" and not flags & getattr(os, "O_PATH", 0)) or (path == "." and inside):
            raise PermissionError(13, "Permission denied")
        return real(path, flags, *rest, **names)

    monkeypatch.setattr("agents.descriptors.os.open", deny)  # as root, mode 000 stops nobody
    found = await result(GREP, context, pattern="foo")
    assert [match.path for match in found.matches] == ["open/a.txt"]
    assert "1 unreadable entry" in found.notice
    refused = await error(GREP, context, path="closed", pattern="foo")
    assert (refused.code, refused.details["reason"]) == (ErrorCode.TOOL_FAILED, "eacces")


@pytest.mark.parametrize("mode", MODES)
async def test_an_empty_answer_says_how_much_was_searched_and_skipped(
    context: ToolContext, mode: str
) -> None:
    put(context, {"a.txt": "x\n", "b.txt": "x\n", "c.bin": b"\0", "build/d.txt": "foo\n"})
    found = await result(GREP, context, pattern="foo", outputMode=mode)
    assert found.count == 0
    assert found.notice == "No match; 2 files searched. Passed over: 1 entry by ignore rules, 1 binary file."


# arguments


async def test_aliases_of_the_output_mode_are_the_documented_mode(context: ToolContext) -> None:
    put(context, {"a.txt": "foo\n"})
    plain = await result(GREP, context, pattern="foo", outputMode="filesWithMatches")
    for alias in ("files_with_matches", "files-with-matches"):
        assert await result(GREP, context, pattern="foo", outputMode=alias) == plain


@pytest.mark.parametrize("mode", ["files", "context", "CONTENT", "", None, 1, ["content"]])
async def test_any_other_output_mode_is_refused_naming_the_three(context: ToolContext, mode: object) -> None:
    refused = await error(GREP, context, pattern="x", outputMode=mode)
    assert refused.code is ErrorCode.INVALID_ARGUMENT
    assert all(f"`{allowed}`" in refused.message for allowed in MODES)


def test_the_schema_shows_exactly_the_three_modes() -> None:
    properties = argument_schema(GREP)["properties"]
    assert sorted(properties["outputMode"]["enum"]) == sorted(MODES)
    assert properties["headLimit"] | {"minimum": 1, "maximum": 2000} == properties["headLimit"]


@pytest.mark.parametrize(
    "wrong", [{"headLimit": v} for v in (0, -1, 2001, 1.5, "5", True)] + [{"output_mode": "count"}]
)
async def test_wrong_arguments_are_never_a_silent_default(
    context: ToolContext, wrong: dict[str, object]
) -> None:
    assert (await error(GREP, context, pattern="x", **wrong)).code is ErrorCode.INVALID_ARGUMENT


# ignore rules, deny list, links


async def test_ignored_paths_that_are_named_are_searched_and_a_tree_counts_them(context: ToolContext) -> None:
    put(context, {".gitignore": "build/\nsecret.txt\n", "build/x": "K\n", "secret.txt": "K\n", "a": "K\n"})
    assert await found_paths(context, "content", path="build", pattern="K") == ["build/x"]
    assert await found_paths(context, "content", path="secret.txt", pattern="K") == ["secret.txt"]
    tree = await result(GREP, context, path=".", pattern="K")
    assert [match.path for match in tree.matches] == ["a"]
    assert "2 entries by ignore rules" in tree.notice


@pytest.mark.parametrize("mode", MODES)
async def test_denied_files_are_never_opened_in_any_mode(
    context: ToolContext, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(context, {".env": "SENTINEL\n", "sub/key.pem": "SENTINEL\n", "a": "x\n"})
    opened: list[str] = []
    real = os.open

    def watch(path: Any, *rest: Any, **names: Any) -> int:
        opened.append(os.fspath(path))
        return real(path, *rest, **names)

    monkeypatch.setattr("agents.descriptors.os.open", watch)
    assert await found_paths(context, mode, pattern="SENTINEL") == []
    assert (
        await error(GREP, context, path=".env", pattern="x", outputMode=mode)
    ).code is ErrorCode.TOOL_DENIED
    assert not {".env", "key.pem"} & set(opened)


@pytest.mark.parametrize("mode", MODES)
async def test_a_linked_target_is_neither_shown_nor_counted(
    context: ToolContext, tmp_path: Path, mode: str
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("SENTINEL-1\n")
    put(context, {"docs/a.md": "x\n"})
    (context.workspace.root / "docs" / "key.md").symlink_to(tmp_path / "outside" / "secret.txt")
    (context.workspace.root / "broken").symlink_to("nowhere")
    found = await result(GREP, context, path=".", pattern="SENTINEL", outputMode=mode)
    assert found.count == 0
    assert "2 symbolic links" in found.notice


async def test_fifos_and_sockets_never_block_a_search(context: ToolContext) -> None:
    put(context, {"a": "foo\n"})
    os.mkfifo(context.workspace.root / "fifo")
    with trio.fail_after(5):
        found = await result(GREP, context, pattern="foo")
    assert (found.count, "1 special file" in found.notice) == (1, True)


async def test_names_of_pattern_signs_are_literal_and_no_argument_is_a_flag(context: ToolContext) -> None:
    put(
        context,
        {"-n": "say -e here\n", "app/[id]/p.tsx": "foo\n", "x{1,2}.md": "foo\n", "two\nlines": "foo\n"},
    )
    assert await found_paths(context, "content", path="-n", pattern="-e") == ["-n"]
    assert await found_paths(context, "content", path="app/[id]", pattern="foo") == ["app/[id]/p.tsx"]
    assert sorted(await found_paths(context, "count", pattern="foo")) == [
        "app/[id]/p.tsx",
        "two\nlines",
        "x{1,2}.md",
    ]


# patterns


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("foo(", "missing )"),
        ("[z-a]", "invalid character class range"),
        ("(?<=a+)b", "look-around"),
        ("(?!x)y", "look-around"),
        ("", "empty"),
        ("a\nb", "line by line"),
        ("a\\nb", "line by line"),
        ("(a)\\1", "back references"),
        ("a++", "possessive"),
        ("a\\", "single `\\`"),
        ("x" * 1001, "the limit is 1000"),
        ("x{2,1}", "repetition"),
        ("(\\w{100}){20}z", "repetition"),
    ],
)
async def test_a_pattern_that_cannot_be_used_is_refused_with_the_reason(
    context: ToolContext, pattern: str, reason: str
) -> None:
    refused = await error(GREP, context, pattern=pattern)
    assert refused.code is ErrorCode.INVALID_ARGUMENT
    assert reason in refused.message
    assert "RE2" in refused.message
    assert "RE2" in GREP.description


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        ("interface{}", "x interface{} y"),
        ("{{ name }}", "<p>{{ name }}</p>"),
        ("\\<foo\\>", "a foo b"),
        ("foo$", "foo\r"),
        ("^foo", "\ufefffoo"),
        ("end\\Z", "the end"),
        ("a]b}", "xa]b}"),
        ("[]x]y", "]y"),
        ("\\Qa.b\\E+", "a.bb"),
        ("[^\\n]+x", "abx"),
        ("[[:digit:]]+", "a1"),
        ("(?i)FOO", "foo"),
        ("(?P<n>a)b", "ab"),
        ("\\$\\{x\\}", "${x}"),
    ],
)
async def test_patterns_as_models_write_them_find_what_they_mean(
    context: ToolContext, pattern: str, line: str
) -> None:
    put(context, {"a": line + "\n", "b": "nothing here: -\n"})
    assert await found_paths(context, "content", pattern=pattern) == ["a"]


async def test_words_of_other_alphabets_are_not_silently_missed(context: ToolContext) -> None:
    put(context, {"a": "имя\n"})
    found = await result(GREP, context, pattern="\\bимя\\b")
    assert found.count == 0
    assert "ASCII letters only" in found.notice
    assert (await result(GREP, context, pattern="ИМЯ", caseInsensitive=True)).count == 1


async def test_case_is_ignored_only_when_asked(context: ToolContext) -> None:
    put(context, {"a": "Foo\nfoo\nÉtude\n"})
    assert (await result(GREP, context, pattern="foo")).count == 1
    assert (await result(GREP, context, pattern="FOO", caseInsensitive=True)).count == 2
    assert (await result(GREP, context, pattern="étude", caseInsensitive=True)).count == 1


async def test_a_pattern_of_nested_repeats_stalls_nobody(context: ToolContext) -> None:
    put(context, {"a": "a" * 40 + "!\n", "b": ("a" * 100_000 + "!\n") * 10})
    reads = 0

    async def ten_reads() -> None:
        nonlocal reads
        for _ in range(10):
            await result(ReadTool(), context, path="a")
            reads += 1

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ten_reads)
            assert (await result(GREP, context, pattern="(a+)+$")).count == 0
    assert reads == 10


async def test_a_search_that_runs_out_of_time_is_never_an_empty_success(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(context, {f"{n:03}": "foo\n" for n in range(50)})
    clock = iter(range(10_000))
    monkeypatch.setattr("agents.tools.search.worker.time.monotonic", lambda: next(clock) * 0.4)
    partial = await result(GREP, context, pattern="foo")
    assert 0 < partial.count < 50
    assert partial.truncated
    assert "there may be more" in partial.notice
    refused = await error(GREP, context, pattern="bar")
    assert refused.code is ErrorCode.TOOL_TIMEOUT


async def test_a_cancelled_search_stops_in_its_thread() -> None:
    started, stopped = trio.Event(), trio.Event()
    token = trio.lowlevel.current_trio_token()

    def search(clock: Clock) -> None:
        token.run_sync_soon(started.set)
        try:
            while True:
                clock.check()
                time.sleep(0.001)
        except GivenUp:
            token.run_sync_soon(stopped.set)

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(in_worker, search)
            await started.wait()
            nursery.cancel_scope.cancel()
        await stopped.wait()


# order, limits, size


async def test_content_and_counts_come_in_path_order_and_stop_at_the_limit(context: ToolContext) -> None:
    names = ["a.txt", "a/b.txt", "a/z/q.txt", "ab.txt", "b.txt", "B.txt", "é.txt"]
    put(context, dict.fromkeys(reversed(names), "foo\nfoo\n"))
    assert await found_paths(context, "count", pattern="foo") == sorted(names)
    cut = await result(GREP, context, pattern="foo", headLimit=3)
    assert [(match.path, match.line) for match in cut.matches] == [("B.txt", 1), ("B.txt", 2), ("a.txt", 1)]
    assert (cut.truncated, "there are more" in cut.notice) == (True, True)
    exact = await result(GREP, context, pattern="foo", headLimit=14)
    assert (exact.count, exact.truncated, exact.notice) == (14, False, None)


@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        (r"print\(.*done", [1]),
        (r"x.*y", [2]),
        (r'x = "[^"]*"; y', [2]),
        (r"^.*done.*$", [1]),
        ("caf\ufffd done", [1]),
        ("done|nothing", [1]),
        ("DONE", []),
    ],
)
@pytest.mark.parametrize("path", [None, "l.txt"])
async def test_lines_with_bytes_that_are_no_text_are_found_as_read_shows_them(
    context: ToolContext, pattern: str, lines: list[int], path: str | None
) -> None:
    put(context, {"l.txt": b'print("caf\xe9 done")\nx = "\xe9"; y = 1\n'})
    found = await result(GREP, context, pattern=pattern, **({"path": path} if path else {}))
    assert [match.line for match in found.matches] == lines


@pytest.mark.parametrize("pattern", [r"\p{L}+b", r"\p{Greek}", r"\x{3b1}", r"\P{Lu}\x{3b1}", r"[\p{Greek}]"])
async def test_classes_and_code_points_are_spelled_as_in_re2(context: ToolContext, pattern: str) -> None:
    put(context, {"a": "1\naαb\n"})
    assert [match.line for match in (await result(GREP, context, pattern=pattern)).matches] == [2]


@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        (r"\x1b\[31m", [1]),
        (r"\x1b\[", [1]),
        (r"\x22hello", [2]),
        (r"\x41bcd", [3]),
        (r"\pLbcd", [3]),
        (r"\PNbcd", [3]),
    ],
)
async def test_what_belongs_to_an_escape_is_no_text(
    context: ToolContext, pattern: str, lines: list[int]
) -> None:
    put(context, {"log.txt": b'\x1b[31mred\x1b[0m\nsay "hello"\nAbcd\n'})
    for path in (None, "log.txt"):
        found = await result(GREP, context, pattern=pattern, **({"path": path} if path else {}))
        assert [match.line for match in found.matches] == lines


@pytest.mark.parametrize("pattern", ["foo\r", "foo\r|zzz", "\ufeffhello"])
async def test_every_mode_looks_at_the_same_lines(context: ToolContext, pattern: str) -> None:
    put(context, {"crlf.txt": b"foo\r\n", "bom.txt": b"\xef\xbb\xbfhello\n"})
    for mode in MODES:
        assert await found_paths(context, mode, pattern=pattern) == [], mode


@pytest.mark.parametrize(
    "pattern", [r"\C", r"b\C", r"\Q\E", "|".join(f"[ab]*[ac].{{900}}{sign}" for sign in "cdefghij")]
)
async def test_what_cannot_be_searched_for_line_by_line_is_refused(
    context: ToolContext, pattern: str
) -> None:
    refused = await error(GREP, context, pattern=pattern)
    assert refused.code == ErrorCode.INVALID_ARGUMENT


@pytest.mark.parametrize("pattern", ["(?-m)^foo", "(?i-m:foo$)", r"\x0a", r"a\x{0A}b"])
async def test_what_looks_beyond_a_line_is_refused(context: ToolContext, pattern: str) -> None:
    refused = await error(GREP, context, pattern=pattern)
    assert refused.code == ErrorCode.INVALID_ARGUMENT
    assert "line by line" in refused.message


def test_an_expression_that_explodes_ends_with_its_time() -> None:
    data = b"".join(bytes(97 + (n * n * line) % 7 % 2 for n in range(4000)) + b"\n" for line in range(130))
    pattern, text = parse_pattern("[ab]*[ac].{900}c"), Text.of("", data * 10)
    begun = time.monotonic()
    clock = Clock(begun + 0.3, threading.Event())
    with pytest.raises(OutOfTime):
        list(matching_lines(pattern, text, clock.check))
    assert time.monotonic() < begun + 8  # a file that is searched in one go takes longer


async def test_edges_of_a_text_are_edges_of_a_line(context: ToolContext) -> None:
    put(context, {"a": "foo\nbar foo\nfoo bar\n"})
    for pattern, lines in ((r"\Abar", [2]), (r"bar\z", [3]), (r"foo\Z", [1, 2]), (r"\Afoo\z", [1])):
        found = await result(GREP, context, pattern=pattern)
        assert [match.line for match in found.matches] == lines, pattern


@pytest.mark.parametrize(("limit", "told"), [(3, "raise `headLimit`"), (2000, "the answer is full (48 KiB)")])
async def test_a_cut_count_is_the_sum_of_all_files_and_says_which_limit_cut_it(
    context: ToolContext, limit: int, told: str
) -> None:
    put(context, {f"{'long' * 40}{n:04}.txt": "foo\nfoo\n" for n in range(400)})
    found = await result(GREP, context, pattern="foo", outputMode="count", headLimit=limit)
    assert found.truncated
    assert found.count == 800
    assert len(found.counts) < 400
    assert f"The first {len(found.counts)} files in path order are shown, of 400;" in found.notice
    assert told in found.notice


async def test_what_a_search_that_was_cut_passed_over_is_not_told(context: ToolContext) -> None:
    put(context, {"a": "foo\nfoo\n", "b.png": "foo\n", "z": "foo\n"})
    cut = await result(GREP, context, pattern="foo", headLimit=1)
    assert "Passed over" not in cut.notice
    assert "raise `headLimit` (at most 2000)" in cut.notice


async def test_a_named_file_that_is_not_searched_says_so_and_how_to_look_into_it(
    context: ToolContext,
) -> None:
    put(context, {"a.bin": "foo\n", "b": b"foo\0"})
    with (context.workspace.root / "large.txt").open("wb") as file:
        file.truncate((64 << 20) + 1)
        file.write(b"foo\n" * 80_000)  # beyond the part that is looked at for zeros
    large = await result(GREP, context, pattern="foo", path="large.txt")
    assert large.notice == (
        "Nothing was searched: the file is larger than 64 MiB. Read it in parts, or search it with Bash (`grep -n`)."
    )
    for name in ("a.bin", "b"):
        binary = await result(GREP, context, pattern="foo", path=name)
        assert binary.notice.startswith("Nothing was searched: the file is binary.")


async def test_files_with_matches_come_newest_first_sorted_before_the_cut(context: ToolContext) -> None:
    put(context, dict.fromkeys(("a", "b", "c", "d"), "foo\n"))
    for name, age in (("a", 300), ("b", 100), ("c", 200), ("d", 100)):
        os.utime(context.workspace.root / name, ns=(0, 10**18 - age))
    cut = await result(GREP, context, pattern="foo", outputMode="filesWithMatches", headLimit=3)
    assert cut.files == ("b", "d", "c")
    assert (cut.count, cut.truncated) == (4, True)


async def test_one_enormous_line_is_cut_around_the_match(context: ToolContext) -> None:
    put(context, {"x.min.js": "é" * 500_000 + "stats" + "é" * 500_000})
    found = await result(GREP, context, pattern="stats")
    (match,) = found.matches
    assert "stats" in match.text
    assert (len(match.text), match.text[0], match.text[-1]) == (2000, "…", "…")
    assert found.truncated
    assert "1 line is longer" in found.notice


async def test_the_answer_stays_within_its_size_however_long_the_lines_are(context: ToolContext) -> None:
    put(context, {f"{n:03}": ('foo "\\\t' + "é" * 1900 + "\n") * 5 for n in range(60)})
    found = await result(GREP, context, pattern="foo", headLimit=2000)
    assert len(msgspec.json.encode(found)) <= 48 * 1024
    assert found.truncated


async def test_a_file_too_large_for_a_tree_is_counted_and_searched_when_named(context: ToolContext) -> None:
    put(context, {"big.txt": b"x" * 99 + b"\n", "a": "foo\n"})
    os.truncate(context.workspace.root / "big.txt", 0)
    with (context.workspace.root / "big.txt").open("wb") as file:
        file.write((b"x" * 99 + b"\n") * 110_000 + b"foo\n")
    tree = await result(GREP, context, pattern="foo")
    assert [match.path for match in tree.matches] == ["a"]
    assert "1 file that is too large" in tree.notice
    named = await result(GREP, context, path="big.txt", pattern="foo")
    assert [match.line for match in named.matches] == [110_001]


# lines


async def test_wide_and_marked_files_are_searched_as_the_text_they_hold(context: ToolContext) -> None:
    put(context, {"a": "x\r\nfoo\r\n".encode("utf-16"), "b": b"\xef\xbb\xbffoo\n", "c": b"caf\xe9 foo\n"})
    found = await result(GREP, context, pattern="^foo|caf. foo|foo$")
    assert [(match.path, match.line, match.text) for match in found.matches] == [
        ("a", 2, "foo"),
        ("b", 1, "foo"),
        ("c", 1, "caf\ufffd foo"),
    ]


TEXT = st.lists(st.text(alphabet="ab \t\r\x0c\u00e9\u2028", max_size=6), max_size=8)


@settings(max_examples=300, deadline=None)
@given(
    rows=TEXT,
    newline=st.sampled_from(["\n", "\r\n"]),
    final=st.booleans(),
    pattern=st.sampled_from(
        [
            *("a", "ab", "^a", "b$", "a.b", "^$", "a|b", "\\s", "[^a]", "a*", "x?", "\\bab", "é", "a+b*$"),
            *("ab|b", "b|ab", "a|b|é", "a|", "(a|b)a", "a|b+", "a\\.|b"),
        ]
    ),
    ignore_case=st.booleans(),
    block=st.sampled_from([1, 3, 1 << 20]),
)
def test_the_lines_found_are_those_that_match_alone_with_the_numbers_of_read(
    rows: list[str], newline: str, final: bool, pattern: str, ignore_case: bool, block: int
) -> None:
    data = (newline.join(rows) + (newline if final else "")).encode()
    flags = re.ASCII | (re.IGNORECASE if ignore_case else 0)
    plain = re.compile(pattern.replace("\\s", "[ \t\r\x0c]"), flags)
    expected = [
        (number, line) for number, line in enumerate(decode(data).shown_lines, start=1) if plain.search(line)
    ]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(search_lines, "BLOCK_BYTES", block)
        compiled, text = parse_pattern(pattern, ignore_case=ignore_case), Text.of("", data)
        found = [
            row
            for lines in matching_lines(compiled, text, lambda: None)
            for row in zip(lines.numbers, lines.texts, strict=True)
        ]
    assert found == expected
