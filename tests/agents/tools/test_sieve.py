"""Many files are searched as one text, and no file with a match is lost by it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.tools.search import sieve
from agents.tools.search.lines import has_match, searchable
from agents.tools.search.patterns import parse_pattern
from agents.tools.search.sieve import sift

FILES = st.lists(st.text(alphabet="ab.é\n\r ", max_size=8).map(str.encode), max_size=12)
PATTERNS = st.sampled_from(
    ["a", "^a", "b$", "^$", "a|b", "a|b|é", "[^a]", "a*", "\\bab", "\\Bb", "(?:a|b)b", "^a|b$", ".", "b\\b"]
)


def nothing() -> None:
    """Nobody gives up."""


@settings(deadline=None)
@given(
    files=FILES,
    source=PATTERNS,
    ignore_case=st.booleans(),
    size=st.sampled_from([1, 2, 128]),
    most=st.sampled_from([1, 5, 1 << 20]),
)
def test_every_file_with_a_match_comes_out_in_order_and_all_others_are_counted(
    files: list[bytes], source: str, ignore_case: bool, size: int, most: int
) -> None:
    pattern = parse_pattern(source, ignore_case=ignore_case)
    if pattern.regex is None:
        return
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sieve, "FIRST_FILES", size)
        patched.setattr(sieve, "MOST_BYTES", most)
        numbered = list(enumerate(files))
        sifted = list(sift(numbered, pattern, lambda file: file[1], nothing))
    came = [file[0] for _, file in sifted if file is not None]
    assert came == sorted(came)
    assert sum(passed for passed, _ in sifted) + len(came) == len(files)
    matching = [at for at, data in numbered if has_match(pattern, searchable(data), nothing)]
    assert set(matching) <= set(came)


@pytest.mark.parametrize("source", ["\\Aa", "a\\z", "a\\Z", "(?-m)^a", "(?s:a.)", "(?i)a"])
def test_what_looks_at_the_edge_of_a_text_is_not_searched_in_joined_texts(source: str) -> None:
    assert not parse_pattern(source).joinable


@pytest.mark.parametrize("source", ["a|b", "^a$", "(?:a)b+", "(?P<n>a).", "\\ba"])
def test_what_looks_at_lines_alone_is(source: str) -> None:
    assert parse_pattern(source).joinable


@pytest.mark.parametrize(
    ("source", "count"),
    [("todo|fixme", 2), ("a|b|c", 3), ("\\Qa|b\\E|c", 2), ("a|", 0), ("a|b+", 0), ("(a|b)", 0), ("a", 0)],
)
def test_texts_between_bars_are_searched_one_by_one(source: str, count: int) -> None:
    assert len(parse_pattern(source).alternatives) == count


def test_a_search_that_is_given_up_ends_before_the_next_batch() -> None:
    class Over(Exception):
        pass

    def over() -> None:
        raise Over

    with pytest.raises(Over):
        list(sift([b"a"], parse_pattern("a|b"), lambda data: data, over))
