"""What would have let a call run: options that can work, or none."""

from __future__ import annotations

import shlex

import pytest

from agents.requests import Answer, Decision, PermissionRequest
from agents.rules.advice import ACCEPT_EDITS, AUTO, options_for
from agents.rules.permission_rules import Rule
from agents.rules.refusals import refusal
from agents.rules.shell import allows, parse_line


def request(
    tool: str = "Bash", reason: str = "Shell commands ask in this permission mode.", **more: object
) -> PermissionRequest:
    values: dict[str, object] = {
        "id": "req-1",
        "session_id": "ses-1",
        "owner": "run-1",
        "agent_label": "main",
        "agent_chain": ("main",),
        "task_id": None,
        "call_id": "call-1",
        "tool": tool,
        "risk": "high",
        "reason": reason,
        "preview": "x",
        "created": "2026-01-01T00:00:00.000Z",
        "deadline": "2026-01-01T00:02:00.000Z",
        "grant": "every Bash command",
    }
    return PermissionRequest(**(values | more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "command", ["make test", "git log --format='%h %s'", "echo 'a*b'", "python3 -m unittest -q"]
)
def test_a_commands_own_rule_allows_just_it(command: str) -> None:
    option = options_for(request(grant_commands=(command,)))[0]
    flag, rule = shlex.split(option)
    pattern = Rule.parse(rule).pattern
    assert flag == "--allow"
    assert pattern is not None
    assert allows((pattern,), parse_line(command))
    assert not allows((pattern,), parse_line("rm -rf x"))


def test_each_command_of_a_line_gets_a_rule_and_an_unclear_line_the_whole_tool() -> None:
    both = options_for(request(grant_commands=("git status", "git diff")))[0]
    assert both == "--allow 'Bash(git status)' --allow 'Bash(git diff)'"
    assert options_for(request())[0] == "--allow Bash"


@pytest.mark.parametrize(
    "reason",
    [
        "It would write .git/config, which is protected: it is git metadata.",
        "The command line cannot be judged: too deep.",
        "It calls the orchestrator itself, which could answer permission requests.",
        "The path changed while the answer was awaited: it is now /x.",
    ],
)
def test_what_asks_in_every_mode_has_no_option_and_the_refusal_names_none(reason: str) -> None:
    asked = request("Write", reason, grant="")
    assert options_for(asked) == ()
    answer = Answer(decision=Decision.NO_APPROVER, source="policy")
    message = refusal("no-approver", asked, answer, 120).message
    assert asked.reason in message
    assert "--permission-mode" not in message
    assert "--allow" not in message
    assert "--permission-prompts inbox" in message


def test_a_line_that_reaches_outside_is_answered_by_the_mode_alone_and_planning_by_a_rule_alone() -> None:
    outside = "The command reaches outside the workspace: /etc."
    assert options_for(request(reason=outside, grant="")) == (AUTO,)
    assert options_for(request(reason="Shell commands ask while planning.", grant="")) == ("--allow Bash",)


def test_file_tools_are_answered_by_place() -> None:
    inside = request("Edit", "Edit changes a.py in the workspace.")
    assert options_for(inside) == ("--allow Edit", ACCEPT_EDITS, AUTO)
    outside = request("Read", "It would read outside the workspace: /etc/a [1].", external_path="/etc/a [1]")
    option, mode = options_for(outside)
    assert shlex.split(option) == ["--allow", r"Read(/etc/a \[1\])"]
    assert mode == AUTO


@pytest.mark.parametrize("reason", ["user", "timeout", "cancelled"])
def test_what_a_person_decided_or_missed_gets_no_advice_about_options(reason: str) -> None:
    answer = Answer(decision=Decision.DENY, source="terminal")
    assert "--" not in refusal(reason, request(), answer, 120).message  # type: ignore[arg-type]
