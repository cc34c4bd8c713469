"""Many files are searched as one text, and no file with a match is lost by it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.rules.text import decode
from agents.tools.search import sieve
from agents.tools.search.lines import Text, has_match, matching_lines
from agents.tools.search.patterns import Pattern, parse_pattern
from agents.tools.search.sieve import Sieve

FILES = st.lists(
    st.text(alphabet="ab.é\n\r ", max_size=8).map(str.encode)
    | st.text(alphabet="ab\n\r", max_size=4).map(lambda text: text.encode("utf-8-sig"))
    | st.text(alphabet="abé\n\r", max_size=4).map(lambda text: text.encode("utf-16"))
    | st.text(alphabet="abé\n\r", max_size=4).map(lambda text: text.encode("latin-1")),
    max_size=12,
)
PATTERNS = st.sampled_from(
    [
        *(
            "a",
            "é",
            "ab",
            "^a",
            "b$",
            "^$",
            "a|b",
            "a|b|é",
            "[^a]",
            "a*",
            "\\bab",
            "\\Bb",
            "(?:a|b)b",
            "^a|b$",
        ),
        *(".", "b\\b", "aba+", "aba+$", "\\Aa", "b\\z", "\\Aaba", "a\\.", "\\Qa.\\E"),
        *("a.b", "a[^x]b", "b.*a", "\ufffd", "a\ufffd", "(?s)^a", "(?i)a.b$", "\\p{L}b"),
    ]
)


def nothing() -> None:
    """Nobody gives up."""


def sifted(files: list[bytes], pattern: Pattern) -> list[tuple[int, Text | None, list[tuple[int, str]]]]:
    """What a sieve lets through, with the matching lines, found while the text was valid."""
    found = []
    held = Sieve(pattern)
    for at, data in enumerate(files):
        held.room[: len(data)] = data
        assert held.add("", str(at), len(data), at)
        if held.is_full:
            found += [(passed, text, rows_of(pattern, text)) for passed, text in held.sifted()]
    found += [(passed, text, rows_of(pattern, text)) for passed, text in held.sifted()]
    return found


def rows_of(pattern: Pattern, text: Text | None) -> list[tuple[int, str]]:
    if text is None:
        return []
    return [
        row
        for lines in matching_lines(pattern, text, nothing)
        for row in zip(lines.numbers, lines.texts, strict=True)
    ]


@settings(deadline=None)
@given(
    files=FILES,
    source=PATTERNS,
    ignore_case=st.booleans(),
    first=st.sampled_from([1, 2, 128]),
    most=st.sampled_from([1, 5, 1 << 19]),
)
def test_every_file_with_a_match_comes_out_in_order_with_its_lines_and_all_others_are_counted(
    files: list[bytes], source: str, ignore_case: bool, first: int, most: int
) -> None:
    pattern = parse_pattern(source, ignore_case=ignore_case)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sieve, "FIRST_FILES", first)
        patched.setattr(sieve, "MOST_BYTES", most)
        found = sifted(files, pattern)
    texts = {int(text.path): text for _, text, _ in found if text is not None}
    assert list(texts) == sorted(texts)
    assert sum(passed for passed, _, _ in found) + len(texts) == len(files)
    for at, data in enumerate(files):
        alone = Text.of(str(at), data)
        expected = rows_of(pattern, alone)
        assert expected or not has_match(pattern, alone, nothing)
        came = [rows for _, text, rows in found if text is not None and text.path == str(at)]
        assert came == [expected] if expected else came in ([], [[]])
        if at in texts:
            assert texts[at].mtime_ns == at
            assert expected or not texts[at].matches


@given(data=st.binary(max_size=20).filter(lambda data: b"\0" not in data))
def test_the_content_of_a_text_is_the_file_byte_for_byte(data: bytes) -> None:
    held = Sieve(parse_pattern("."))
    held.room[: len(data)] = data
    if held.add("", "file", len(data), 0):
        for _, text in held.sifted():
            if text is not None:
                assert text.data() == data
                assert text.head(4) == data[:4]


@given(
    lines=st.lists(st.binary(max_size=5).filter(lambda line: b"\n" not in line and not line.endswith(b"\r")))
)
def test_lines_that_are_decoded_together_come_out_as_each_by_itself(lines: list[bytes]) -> None:
    data = b"start\n" + b"".join(line + b"\n" for line in lines)
    rows = rows_of(parse_pattern("^"), Text.of("file", data))
    shown = [re.sub("[\udc80-\udcff]", "\ufffd", line.decode("utf-8", "surrogateescape")) for line in lines]
    assert rows == list(enumerate(["start", *shown], start=1))
    assert [text for _, text in rows] == list(decode(data).shown_lines)


def test_a_binary_file_is_left_out_and_the_next_one_takes_its_place() -> None:
    held = Sieve(parse_pattern("needle"))
    held.room[:9] = b"needle\0\n\n"
    assert not held.add("", "binary", 9, 0)
    held.room[:7] = b"needle\n"
    assert held.add("sub/", "text", 7, 0)
    ((passed, text),) = held.sifted()
    assert passed == 0
    assert text is not None
    assert (text.path, text.data()) == ("sub/text", b"needle\n")


@pytest.mark.parametrize("source", ["(?s:a.)", "(?i)a"])
def test_what_looks_at_the_edge_of_a_text_is_not_searched_in_joined_texts(source: str) -> None:
    assert not parse_pattern(source).joinable


@pytest.mark.parametrize("source", ["\\Aa", "a\\z", "a\\Z", "a|b", "^a$", "(?:a)b+", "(?P<n>a).", "\\ba"])
def test_what_looks_at_lines_alone_is(source: str) -> None:
    assert parse_pattern(source).joinable


@pytest.mark.parametrize(
    ("source", "count"),
    [("todo|fixme", 2), ("a|b|c", 3), ("\\Qa|b\\E|c", 2), ("a|", 0), ("a|b+", 0), ("(a|b)", 0), ("a", 0)],
)
def test_texts_between_bars_are_searched_one_by_one(source: str, count: int) -> None:
    assert len(parse_pattern(source).alternatives) == count
