"""What deny rules keep from a search: the same as what they refuse by name."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.errors import Failure
from agents.rules.hidden import hidden_by
from agents.rules.paths import NodeKind, Places, Walked, classify
from agents.rules.permission_rules import Rule

PLACES = Places(workspace="/w/repo", scratch="/data/scratch/s", data_dir="/data")


def hides(rule: str, canonical: str, *, tool: str = "Grep", directory: bool = False) -> bool:
    hidden = hidden_by((Rule.parse(rule),), tool, workspace="/w/repo", home="/home/me")
    return hidden is not None and hidden(canonical, directory)


@pytest.mark.parametrize(
    ("rule", "tools"),
    [
        ("Read", {"Read", "Grep", "Glob", "Edit"}),
        ("Edit", {"Edit", "Write"}),
        ("Grep", {"Grep"}),
        ("Glob", {"Glob"}),
        ("Write", {"Write"}),
        ("Bash", {"Bash"}),
    ],
)
def test_a_deny_rule_for_reading_or_changing_is_about_every_tool_that_does_it(
    rule: str, tools: set[str]
) -> None:
    every = ("Read", "Grep", "Glob", "Write", "Edit", "Bash", "Task")
    assert {tool for tool in every if Rule.parse(rule).denies_tool(tool)} == tools


def test_an_allow_rule_is_about_its_own_tool() -> None:
    assert not Rule.parse("Read").is_for("Grep")
    assert not Rule.parse("Edit").is_for("Write")


def test_agent_is_another_name_for_task() -> None:
    assert Rule.parse("Agent").denies_tool("Task")


@pytest.mark.parametrize(
    ("rule", "path", "directory", "hidden"),
    [
        ("Read(secrets/**)", "/w/repo/secrets", True, True),
        ("Read(secrets/**)", "/w/repo/secrets/k.txt", False, True),
        ("Read(secrets/**)", "/w/repo/secrets2/k.txt", False, False),
        ("Read(secrets/**)", "/w/other/secrets/k.txt", False, False),
        ("Read(*.log)", "/w/repo/a/b.log", False, True),
        ("Read(*.log)", "/elsewhere/b.log", False, True),
        ("Read(/elsewhere/**)", "/elsewhere/b", False, True),
        ("Read(~/notes)", "/home/me/notes/b", False, True),
        ("Read(../other/**)", "/w/other/b", False, True),
        ("Edit(secrets/**)", "/w/repo/secrets/k.txt", False, False),
        ("Read", "/w/repo/a", False, False),
    ],
)
def test_a_rule_hides_what_its_pattern_names(rule: str, path: str, directory: bool, hidden: bool) -> None:
    assert hides(rule, path, directory=directory) is hidden


def test_without_a_rule_about_places_nothing_is_asked() -> None:
    rules = tuple(Rule.parse(text) for text in ("Read", "Bash(rm *)", "Edit(a)", "Glob(b)"))
    assert hidden_by(rules, "Grep", workspace="/w/repo", home=None) is None


PARTS = st.sampled_from(["a", "b.log", ".x", "secrets", "é", "[k]"])
PATTERNS = st.lists(
    st.sampled_from(["a", "*.log", "**", "*", "secrets", "?", "[ab]", "é"]), min_size=1, max_size=4
).map("/".join)
FRONTS = st.sampled_from(["", "/", "./", "~/", "../", "/w/repo/"])


@given(FRONTS, PATTERNS, st.sampled_from(["", "/"]), st.lists(PARTS, min_size=1, max_size=4), st.booleans())
@settings(max_examples=300, deadline=None)
def test_a_walk_passes_over_exactly_what_a_call_that_names_it_is_refused_for(
    front: str, pattern: str, end: str, parts: list[str], directory: bool
) -> None:
    try:
        rule = Rule.parse(f"Read({front}{pattern}{end})")
    except Failure:
        return
    for base in ("/w/repo", "/w/other", "/home/me", "/w"):
        canonical = "/".join((base, *parts))
        walked = Walked(canonical, NodeKind.DIRECTORY if directory else NodeKind.FILE)
        named = rule.denies_path(classify(canonical, walked, PLACES), workspace="/w/repo", home="/home/me")
        assert hides(str(rule), canonical, directory=directory) is named
