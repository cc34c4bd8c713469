"""What a query for a tool means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.rules.tool_search import MAX_MATCHES, MAX_SUMMARY, ToolCard, find_tools
from agents.tools.glob import GlobTool
from agents.tools.grep import GrepTool

GLOB = ToolCard("Glob", GlobTool.description)
GREP = ToolCard("Grep", GrepTool.description)
DOCS = ToolCard("mcp__docs__find_page", "Find a page of the product's documentation.")
TICKETS = ToolCard("mcp__tickets__createTicket", "Open a ticket in the tracker.")
CARDS = (GLOB, GREP, DOCS, TICKETS)


def names(query: str, cards: tuple[ToolCard, ...] = CARDS) -> list[str]:
    return [card.name for card in find_tools(query, cards)]


@pytest.mark.parametrize("query", ["Glob", "glob", " GLOB ", "`Glob`"])
def test_an_exact_name_means_that_tool_alone(query: str) -> None:
    assert names(query) == ["Glob"]


@pytest.mark.parametrize("query", ["Grep, Glob", "Grep Glob", "grep glob grep"])
def test_several_names_mean_those_tools_in_their_order(query: str) -> None:
    assert names(query) == ["Grep", "Glob"]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("list the files of a directory", "Glob"),
        ("find files by name", "Glob"),
        ("which files are there", "Glob"),
        ("search for text in file contents", "Grep"),
        ("regular expression search", "Grep"),
        ("where is this function used? find usages", "Grep"),
        ("look something up in the documentation", "mcp__docs__find_page"),
        ("open a ticket", "mcp__tickets__createTicket"),
        ("creating tickets", "mcp__tickets__createTicket"),
    ],
)
def test_a_phrase_means_the_tool_that_can_do_it(query: str, first: str) -> None:
    assert names(query)[0] == first


@pytest.mark.parametrize("query", ["", "   ", "the of a", "zebra", "¿", "\0", "Glob's"])
def test_a_query_that_fits_nothing_finds_nothing(query: str) -> None:
    assert names(query, (TICKETS,)) == []


def test_a_stray_word_in_common_is_not_enough_beside_a_good_match() -> None:
    assert names("open a ticket in the tracker") == ["mcp__tickets__createTicket"]


@given(query=st.text(max_size=60), count=st.integers(0, 9))
def test_at_most_four_are_found_each_once_and_only_such_as_there_are(query: str, count: int) -> None:
    cards = tuple(ToolCard(f"mcp__s__find{n}", f"Find thing {n}, {query}") for n in range(count))
    found = find_tools(query, cards)
    assert len(found) <= MAX_MATCHES
    assert len(set(found)) == len(found)
    assert set(found) <= set(cards)
    assert found == find_tools(query, cards)


@given(st.permutations(CARDS))
def test_an_exact_name_wins_in_whatever_order_the_tools_come(cards: list[ToolCard]) -> None:
    assert all(names(card.name, tuple(cards)) == [card.name] for card in cards)


@given(st.text(max_size=400))
def test_a_summary_is_one_bounded_line(description: str) -> None:
    summary = ToolCard("x", description).summary
    assert len(summary) <= MAX_SUMMARY
    assert "\n" not in summary


def test_a_summary_is_the_first_sentence() -> None:
    assert ToolCard("x", "List files, e.g.\nall. Then more.").summary == "List files, e.g."
    assert ToolCard("x", "Version 1.5 of it. More.").summary == "Version 1.5 of it."
