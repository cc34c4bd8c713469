"""Lines that fit a terminal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from orchestrator.cli.listing import table
from orchestrator.cli.wrapping import NARROWEST, wrapped

texts = st.text(st.sampled_from("ab 日é-\n"), max_size=120)


def test_lines_are_cut_between_words_and_hang_below_their_beginning() -> None:
    assert wrapped("  ✗ fixer#1 Edit a.py failed because of this", 24) == [
        "  ✗ fixer#1 Edit a.py",
        "    failed because of",
        "    this",
    ]
    assert wrapped("name  one two three four", 16, hang=6) == ["name  one two", "      three four"]


def test_lines_of_a_text_hang_as_well_and_stay_whole_without_a_terminal() -> None:
    assert wrapped("  main: first\nsecond\n\nthird", None) == ["  main: first", "    second", "", "    third"]
    assert wrapped("x" * 500, None) == ["x" * 500]


def test_only_a_word_longer_than_a_line_is_cut_in_two() -> None:
    assert wrapped("a " + "x" * 30, 20) == ["a", "  " + "x" * 18, "  " + "x" * 12]


@given(texts, st.integers(NARROWEST, 60))
def test_no_line_is_wider_than_the_terminal_and_nothing_is_lost(text: str, width: int) -> None:
    lines = wrapped(text, width)
    assert all(cell_len(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_a_table_that_is_too_wide_loses_empty_columns_then_named_ones_then_the_ends_of_cells() -> None:
    names = ("ID", "EMPTY", "AGENT", "DESCRIPTION")
    rows = [("task-1", "", "fixer", "repairs one defect and proves it")]
    assert table(names, rows, width=80)[0].split() == list(names)
    assert table(names, rows, width=50)[0].split() == ["ID", "AGENT", "DESCRIPTION"]
    assert table(names, rows, width=40, drop=("AGENT",))[0].split() == ["ID", "DESCRIPTION"]
    cut = table(names, rows, width=30, drop=("AGENT",), cut=("DESCRIPTION",))
    assert cut == ["ID      DESCRIPTION", "task-1  repairs one defect an…"]
