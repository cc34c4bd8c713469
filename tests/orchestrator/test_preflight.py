"""Which calls could still ask, before anything runs: the gate's own decision over representative calls."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.rules.paths import Places
from agents.rules.permission_rules import Rule
from agents.rules.permissions import Ask, Deny, Policy, decide
from agents.spec import OperatingMode, PermissionMode
from orchestrator.preflight import AgentFacts, Finding, preflight, samples

ASK, EDITS, AUTO = PermissionMode.ASK, PermissionMode.ACCEPT_EDITS, PermissionMode.AUTO
PLACES = Places(workspace="/w/repo", scratch="/d/scratch/s", data_dir="/d", added=("/extra",))
TOOLS = ("Read", "Glob", "Grep", "Write", "Edit", "Bash", "Task", "ToolSearch", "mcp__db__query", "mine")


def rules(*texts: str) -> tuple[Rule, ...]:
    return tuple(Rule.parse(text) for text in texts)


def found(
    tool: str,
    *,
    mode: PermissionMode = ASK,
    operating: OperatingMode = OperatingMode.AGENT,
    allow: tuple[str, ...] = (),
    deny: tuple[str, ...] = (),
    narrowed_to: PermissionMode | None = None,
) -> dict[str, Finding]:
    """What would become of the calls of one tool, by place."""
    agent = AgentFacts("main", (tool,), mode, narrowed_to)
    findings = preflight(
        [agent], places=PLACES, home="/h", mode=operating, allow=rules(*allow), deny=rules(*deny)
    )
    return {finding.place: finding for finding in findings}


def asking(findings: dict[str, Finding]) -> set[str]:
    return {place for place, finding in findings.items() if finding.verdict == "asks"}


WORKSPACE, ADDED = "in the workspace", "in the added folder /extra"
SCRATCH, OUTSIDE = "in the scratch folder", "outside the roots"
PROTECTED = "a protected place (git's own files, start-up files, settings)"
ALWAYS_ASKING_LINES = {
    "a line that writes a protected place",
    "a line that cannot be judged",
    "a line that answers requests itself",
}


@pytest.mark.parametrize(
    ("tool", "mode", "places"),
    [
        ("Read", ASK, {OUTSIDE}),
        ("Read", AUTO, set()),
        ("Write", ASK, {WORKSPACE, ADDED, OUTSIDE, PROTECTED}),
        ("Edit", EDITS, {OUTSIDE, PROTECTED}),
        ("Edit", AUTO, {PROTECTED}),
        ("Task", ASK, set()),
        ("ToolSearch", ASK, set()),
        ("mine", EDITS, {"every call"}),
        ("mcp__db__query", ASK, {"every call"}),
        ("mine", AUTO, set()),
    ],
)
def test_the_places_that_ask_are_those_of_the_table(
    tool: str, mode: PermissionMode, places: set[str]
) -> None:
    assert asking(found(tool, mode=mode)) == places


def test_protected_places_ask_in_every_mode_and_block_nothing() -> None:
    for mode in PermissionMode:
        finding = found("Write", mode=mode)[PROTECTED]
        assert (finding.verdict, finding.always, finding.blocks) == ("asks", True, False)
        assert (finding.by, finding.remedies) == ("every mode", ())


def test_lines_that_cannot_be_answered_in_advance_are_told_apart() -> None:
    findings = found("Bash", mode=AUTO)
    assert asking(findings) == ALWAYS_ASKING_LINES
    assert not any(finding.blocks for finding in findings.values())
    assert asking(found("Bash", mode=ASK)) == set(findings)


def test_a_remedy_is_an_option_that_lets_the_call_run() -> None:
    assert found("Write")[WORKSPACE].remedies == (
        "--permission-mode accept-edits",
        "--permission-mode auto",
        "--allow Write",
    )
    assert found("Read")[OUTSIDE].remedies == ("--permission-mode auto", "--allow 'Read(/**)'")
    assert found("Bash")["a line that writes outside the roots"].remedies == ("--permission-mode auto",)


def test_a_definition_that_narrows_takes_the_modes_off_the_remedies() -> None:
    findings = found("Write", narrowed_to=ASK)
    assert findings[WORKSPACE].remedies == ("--allow Write",)
    assert findings[OUTSIDE].blocks
    assert found("Bash", narrowed_to=ASK)["a line that writes outside the roots"].remedies == ()


def test_a_bare_allow_rule_answers_for_the_roots_and_is_named() -> None:
    findings = found("Write", allow=("Write",))
    assert asking(findings) == {OUTSIDE, PROTECTED}
    assert findings[WORKSPACE].by == "allow rule Write"


def test_a_rule_for_the_outside_answers_for_the_outside_and_is_named() -> None:
    findings = found("Read", allow=("Read(src/**)", "Read(/**)"))
    assert asking(findings) == set()
    assert findings[OUTSIDE].by == "allow rule Read(/**)"


def test_a_deny_rule_denies_and_is_named_and_blocks_nothing() -> None:
    findings = found("Bash", deny=("Bash(rm *)", "Bash"))
    assert {finding.verdict for finding in findings.values()} == {"denied"}
    assert {finding.by for finding in findings.values()} == {"deny rule Bash"}
    assert not any(finding.blocks for finding in findings.values())


def test_rules_with_a_pattern_are_named_beside_what_they_speak_of_in_part() -> None:
    findings = found("Write", allow=("Write(docs/**)", "Write(/tmp/**)"), deny=("Write(*.lock)", "Read"))
    assert findings[WORKSPACE].partly == (
        "allow rule Write(docs/**)",
        "allow rule Write(/tmp/**)",
        "deny rule Write(*.lock)",
    )
    assert findings[OUTSIDE].partly == ("allow rule Write(/tmp/**)", "deny rule Write(*.lock)")
    assert findings[SCRATCH].partly == ("deny rule Write(*.lock)",)


def test_plan_denies_what_changes_and_asks_for_every_command() -> None:
    plan = OperatingMode.PLAN
    assert {one.verdict for one in found("Write", operating=plan, mode=AUTO).values()} == {"denied"}
    assert {one.by for one in found("Task", operating=plan).values()} == {"mode plan"}
    lines = found("Bash", operating=plan, mode=AUTO)
    assert lines["a patch command"].verdict == "denied"
    assert (lines["a command without a place"].by, lines["a command without a place"].remedies) == (
        "mode plan",
        ("--allow Bash",),
    )
    allowed = found("Bash", operating=plan, allow=("Bash",))
    assert allowed["a command without a place"].by == "allow rule Bash"


def test_every_agent_is_told_by_its_own_mode() -> None:
    agents = [AgentFacts("main", ("Write",), AUTO), AgentFacts("careful", ("Write",), ASK, ASK)]
    findings = preflight(agents, places=PLACES, home="/h", mode=OperatingMode.AGENT, allow=(), deny=())
    told = {(one.agent, one.place): one.verdict for one in findings}
    assert (told["main", WORKSPACE], told["careful", WORKSPACE]) == ("runs", "asks")


RULES = st.sampled_from(
    [
        "Bash",
        "Read",
        "Write",
        "Bash(any-command)",
        "Write(any-file)",
        "Read(/**)",
        "Edit(*)",
        "mine",
        "mcp__db",
    ]
)


@given(
    tool=st.sampled_from(TOOLS),
    mode=st.sampled_from(PermissionMode),
    operating=st.sampled_from(OperatingMode),
    allow=st.lists(RULES, max_size=3),
    deny=st.lists(RULES, max_size=2),
)
def test_what_is_told_is_what_the_gate_would_decide(
    tool: str, mode: PermissionMode, operating: OperatingMode, allow: list[str], deny: list[str]
) -> None:
    findings = found(tool, mode=mode, operating=operating, allow=tuple(allow), deny=tuple(deny))
    policy = Policy(operating, mode, rules(*allow), rules(*deny))
    for sample in samples(tool, PLACES, "/h"):
        decided = decide(sample.facts, policy)
        finding = findings[sample.place]
        expected = "asks" if isinstance(decided, Ask) else "denied" if isinstance(decided, Deny) else "runs"
        assert finding.verdict == expected
        assert finding.blocks == (expected == "asks" and not finding.always)
        assert bool(finding.reason) == (expected != "runs")
        assert not finding.remedies or expected == "asks"


def test_importing_it_loads_nothing_that_does_io() -> None:
    program = (
        "import sys, orchestrator.preflight\n"
        "print([m for m in ('trio', 'asyncio', 'sqlite3', 'opentelemetry.sdk') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"
