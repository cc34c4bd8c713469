"""Deny rules, seen from outside: what they keep from searches and command lines, and rules without a tool."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agents.errors import Failure
from agents.rules.permission_rules import Rule
from orchestrator.config import load_settings
from orchestrator.session import Session
from tests.command import environment, orc
from tests.harness import call, calls, events_of, say, scripted, session_on


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    for name in ("secrets/k.txt", "src/a.txt", "src/b.secret"):
        path = tmp_path / "repo" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("needle\n")
    return tmp_path


async def ran(root: Path, *given: dict[str, Any], deny: tuple[str, ...]) -> list[Any]:
    """The ends of these calls, in the order of the calls."""
    model = scripted({"main": [*(calls(one) for one in given), say("done")]})
    async with session_on(root, model, deny=deny, defer_tools=False) as session:
        await session.run("go")
        return await ends(session)


async def ends(session: Session) -> list[Any]:
    return [event.payload for event in await events_of(session, "tool.finished")]


SEARCHES = [
    call("Grep", pattern="needle"),
    call("Grep", pattern="needle", path="."),
    call("Grep", pattern="needle", outputMode="filesWithMatches"),
    call("Grep", pattern="needle", outputMode="count"),
    call("Glob", pattern="**/*.txt"),
    call("Glob", pattern="**/k.txt"),
]


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: json.dumps(search["arguments"]))
async def test_a_search_from_above_passes_over_what_may_not_be_read(
    repo: Path, search: dict[str, Any]
) -> None:
    (done,) = await ran(repo, search, deny=("Read(secrets/**)",))
    assert done.ok
    told = json.dumps(done.result)
    assert "secrets" not in told
    assert '"k.txt' not in told
    assert "1 denied entry" in done.result["notice"]


async def test_a_rule_for_one_search_tool_holds_for_its_walks_and_not_for_others(repo: Path) -> None:
    grep, glob = await ran(
        repo,
        call("Grep", pattern="needle", outputMode="filesWithMatches"),
        call("Glob", pattern="**/*.txt"),
        deny=("Grep(secrets/**)",),
    )
    assert sorted(grep.result["files"]) == ["src/a.txt", "src/b.secret"]
    assert sorted(glob.result["matches"]) == ["secrets/k.txt", "src/a.txt"]


@pytest.mark.parametrize(
    "named",
    [
        call("Read", path="secrets/k.txt"),
        call("Grep", pattern="needle", path="secrets"),
        call("Grep", pattern="needle", path="secrets/k.txt", outputMode="count"),
        call("Glob", pattern="*", path="secrets"),
        call("Edit", path="secrets/k.txt", tag="AAAA", ops=[{"op": "replace", "start": 1, "text": "x"}]),
        call("Bash", command="cat secrets/k.txt"),
        call("Bash", command="grep -c needle secrets/*"),
        call("Bash", command="wc -l < secrets/k.txt"),
        call("Bash", command="mv secrets/k.txt x"),
        call("Bash", command='d=secrets; head -n 1 "$d/k.txt"'),
    ],
    ids=lambda named: json.dumps(named["arguments"]),
)
async def test_what_may_not_be_read_is_refused_by_name_to_every_tool(
    repo: Path, named: dict[str, Any]
) -> None:
    (done,) = await ran(repo, named, deny=("Read(secrets/**)",))
    assert (done.error.code, done.error.details) == ("TOOL_DENIED", {"reason": "rule"})


@pytest.mark.parametrize(
    "change",
    [
        call("Write", path="secrets/new.txt", content="x"),
        call("Edit", path="secrets/k.txt", tag="AAAA", ops=[{"op": "replace", "start": 1, "text": "x"}]),
        call("Bash", command="echo x > secrets/$(echo k.txt)"),
        call("Bash", command="cp src/a.txt secrets/k.txt"),
    ],
    ids=lambda change: json.dumps(change["arguments"]),
)
async def test_what_may_not_be_edited_is_not_changed_by_any_tool(repo: Path, change: dict[str, Any]) -> None:
    (done,) = await ran(repo, change, deny=("Edit(secrets/**)",))
    assert (done.error.code, done.error.details) == ("TOOL_DENIED", {"reason": "rule"})
    assert (repo / "repo/secrets/k.txt").read_text() == "needle\n"


async def test_a_hint_does_not_name_what_may_not_be_read(repo: Path) -> None:
    (told,) = await ran(repo, call("Read", path="src/b.secre"), deny=())
    (quiet,) = await ran(repo, call("Read", path="src/b.secre"), deny=("Read(*.secret)",))
    assert told.error.details["similar"] == ["src/b.secret"]
    assert quiet.error.details["similar"] == []


async def test_the_count_of_denied_entries_does_not_tell_whether_a_pattern_fits_them(repo: Path) -> None:
    fits, fits_not = await ran(
        repo,
        call("Glob", pattern="**/b.secret"),
        call("Glob", pattern="**/c.secret"),
        deny=("Read(*.secret)",),
    )
    assert fits.result == fits_not.result


async def test_a_rule_that_comes_up_binds_the_next_search(repo: Path) -> None:
    search = call("Grep", pattern="needle", outputMode="count")
    model = scripted({"main": [calls(search), say("one"), calls(search), say("two")]})
    async with session_on(repo, model, defer_tools=False) as session:
        await session.run("go")
        session.assembly.deny = (Rule.parse("Read(secrets/**)"),)
        await session.run("again")
        before, after = await ends(session)
    assert (before.result["count"], after.result["count"]) == (3, 2)


# rules that name no tool


@pytest.mark.parametrize(
    ("rule", "meant"), [("Raed(x)", "`Read(x)`"), ("bash(id)", "`Bash(id)`"), ("Greb", "`Grep`")]
)
async def test_a_rule_without_a_tool_is_warned_about_with_the_likely_name(
    tmp_path: Path, rule: str, meant: str
) -> None:
    async with session_on(tmp_path, scripted({"main": [say("done")]}), deny=(rule,)) as session:
        (warning,) = session.warnings
    assert meant in warning
    home, other = tmp_path / "home", tmp_path / "other"
    with pytest.raises(Failure, match="--deny"):
        load_settings({"deny": (rule,)}, {"HOME": str(home)}, other)
    assert load_settings({}, {"HOME": str(home), "ORCHESTRATOR_DENY": rule}, other).settings.deny == (rule,)


async def test_a_rule_may_be_about_an_own_tool_or_a_plugins(tmp_path: Path) -> None:
    def greet(name: str) -> str:
        """Say hello."""
        return name

    model = scripted({"main": [say("done")]})
    rules = ("greet", "mcp__db__query", "Agent", "Task")
    async with session_on(tmp_path, model, deny=rules, tools=[greet]) as session:
        assert session.warnings == ()


def test_a_rule_without_a_tool_ends_the_command_with_2(tmp_path: Path) -> None:
    done = orc("run", "hi", "-C", tmp_path, "--deny", "Raed(x)", env=environment(tmp_path))
    assert done.returncode == 2
    assert "INVALID_ARGUMENT" in done.stderr
    assert "did you mean `Read(x)`?" in done.stderr.replace("\n", " ")


def test_where_no_name_is_near_all_tools_are_named() -> None:
    assert "the tools are Agent, Bash, Edit" in (Rule.parse("Zzzzzz").misnamed() or "")
