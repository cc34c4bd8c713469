from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agents.rules.drift import align, map_lines
from tests.agents.rules.edit_model import CALM

LINES = st.lists(st.sampled_from("abcdefgh}"), max_size=24)


@CALM
@given(LINES, LINES)
def test_a_mapped_line_is_the_same_text(old: list[str], new: list[str]) -> None:
    lines = map_lines(old, new)
    for number, text in enumerate(old, 1):
        at = lines.new(number)
        assert at is None or new[at - 1] == text


@CALM
@given(LINES, LINES)
def test_mapped_lines_keep_their_order(old: list[str], new: list[str]) -> None:
    for positions in (align(old, new), list(map_lines(old, new).positions)):
        found = [at for at in positions if at is not None]
        assert found == sorted(set(found))


@CALM
@given(LINES)
def test_an_unchanged_text_maps_to_itself_and_every_line_is_certain(text: list[str]) -> None:
    lines = map_lines(text, text)
    assert all(lines.new(number) == number and lines.certain(number) for number in range(1, len(text) + 1))


@CALM
@given(LINES, LINES, LINES)
def test_lines_put_in_before_a_unique_block_move_it_whole(
    head: list[str], put_in: list[str], tail: list[str]
) -> None:
    block = ["one", "two", "three"]
    lines = map_lines([*head, *block, *tail], [*put_in, *head, *block, *tail])
    for number in range(len(head) + 1, len(head) + 4):
        assert lines.offset(number) == len(put_in)
        assert lines.certain(number)


def test_a_unique_line_is_certain_with_one_agreeing_neighbour() -> None:
    lines = map_lines(["a", "b", "c", "d"], ["a", "b", "X", "d"])
    assert lines.certain(2)
    assert not lines.certain(3)


def test_a_unique_line_whose_neighbours_both_changed_is_not_certain() -> None:
    lines = map_lines(["a", "b", "c", "d", "e"], ["a", "X", "c", "Y", "e"])
    assert lines.new(3) == 3
    assert not lines.certain(3)


def test_a_repeated_line_needs_both_neighbours() -> None:
    old = ["a", "}", "b", "}", "c"]
    lines = map_lines(old, ["a", "}", "b", "}", "X"])
    assert lines.certain(2)
    assert not lines.certain(4)


def test_one_more_copy_of_a_repeated_block_leaves_the_copies_uncertain() -> None:
    block = ["if x:", "    go()", ""]
    lines = map_lines([*block, *block, "end"], [*block, *block, *block, "end"])
    assert not any(lines.certain(number) for number in range(1, 7))
    assert lines.new(7) == 10


def test_the_head_and_the_end_of_the_file_count_as_neighbours() -> None:
    lines = map_lines(["a", "b"], ["a", "X"])
    assert lines.certain(1)
    assert map_lines(["a", "b"], ["X", "b"]).certain(2)


def test_a_moved_line_is_looked_for_near_the_line_before_it() -> None:
    lines = map_lines(["a", "b", "c"], ["x", "y", "a", "B", "c"])
    assert lines.near(2) == 4
    assert map_lines(["a"], []).near(1) == 0


def test_a_text_of_equal_lines_costs_no_more_than_another() -> None:
    lines = map_lines(["x"] * 50_000, ["x"] * 50_001)
    assert lines.new(1) is None
