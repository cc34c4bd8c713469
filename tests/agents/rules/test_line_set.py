from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agents.rules.line_set import LineSet
from tests.agents.rules.edit_model import CALM

LINES = st.sets(st.integers(1, 40))


@CALM
@given(LINES, LINES)
def test_it_is_a_set(one: set[int], other: set[int]) -> None:
    first, second = LineSet.of(one), LineSet.of(other)
    assert set(first) == one
    assert set(first | second) == one | other
    assert len(first) == len(one)
    assert all((line in first) == (line in one) for line in range(1, 41))


@CALM
@given(LINES, st.integers(1, 40), st.integers(0, 20), st.integers(0, 9))
def test_missing_and_moved_agree_with_plain_sets(lines: set[int], first: int, more: int, by: int) -> None:
    wanted = set(range(first, first + more + 1))
    assert set(LineSet.of(lines).missing(first, first + more)) == wanted - lines
    assert set(LineSet.of(lines).moved(first, first + more, by)) == {line + by for line in wanted & lines}


def test_a_range_costs_one_entry_and_reads_well() -> None:
    assert LineSet.of(range(1, 1_000_001)).ranges == ((1, 1_000_000),)
    assert str(LineSet.of([9, 3, 4, 5])) == "3-5, 9"
