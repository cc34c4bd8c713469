"""What the audit says was behind a decision."""

from __future__ import annotations

import pytest

from agents.rules.audit import TOGETHER, rule_behind, why
from agents.rules.paths import NodeKind, Places, Walked, classify
from agents.rules.permissions import (
    Allow,
    Ask,
    CallFacts,
    PathFact,
    Policy,
    Rule,
    decide,
    kind_of,
)
from agents.rules.shell import parse_line
from agents.spec import OperatingMode, PermissionMode

PLACES = Places(workspace="/w/repo", scratch="/d/scratch/s", data_dir="/d")


def call(tool: str, path: str | None = None, line: str | None = None) -> CallFacts:
    paths = ()
    if path is not None:
        place = classify(path, Walked(f"/w/repo/{path}", NodeKind.FILE), PLACES)
        paths = (PathFact(place, "write"),)
    shell = None if line is None else parse_line(line)
    return CallFacts(tool=tool, kind=kind_of(tool), workspace="/w/repo", home="/h", paths=paths, shell=shell)


def rules(*texts: str) -> tuple[Rule, ...]:
    return tuple(Rule.parse(text) for text in texts)


@pytest.mark.parametrize(
    ("facts", "policy", "expected"),
    [
        (
            call("Write", "a.txt"),
            Policy(allow=rules("Write(docs/**)", "Write(*.txt)")),
            ("rule", "Write(*.txt)"),
        ),
        (call("Write", "a.txt"), Policy(permission_mode=PermissionMode.AUTO), ("table", None)),
        (call("Write", "a.txt"), Policy(deny=rules("Bash", "Write")), ("deny-rule", "Write")),
        (call("Write", ".env"), Policy(deny=rules("Read")), ("deny-list", None)),
        (call("Write", "a.txt"), Policy(operating_mode=OperatingMode.PLAN), ("plan", None)),
        (call("Bash", line="ls"), Policy(allow=rules("Bash(git *)", "Bash")), ("rule", "Bash")),
        (
            call("Bash", line="ls; git log"),
            Policy(allow=rules("Bash(git *)", "Bash(ls)")),
            ("rule", TOGETHER),
        ),
    ],
)
def test_the_rule_is_the_one_that_alone_leads_to_the_decision(
    facts: CallFacts, policy: Policy, expected: tuple[str, str | None]
) -> None:
    decided = decide(facts, policy)
    assert not isinstance(decided, Ask)
    assert (why(decided), rule_behind(facts, policy, decided)) == expected


def test_an_answer_is_nobody_s_rule() -> None:
    facts = call("Write", "a.txt")
    assert rule_behind(facts, Policy(), decide(facts, Policy())) is None
    assert why(Allow("grant")) == "grant"
