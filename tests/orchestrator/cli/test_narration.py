"""Events as lines: what a person reads of a run."""

from __future__ import annotations

from typing import Any

import msgspec

from agents.errors import ErrorCode, ToolError
from agents.events import (
    AgentFinished,
    AgentRef,
    AgentStarted,
    Event,
    MessageAppended,
    ModelResponded,
    PermissionRequested,
    PermissionResolved,
    TaskStartedEvent,
    ToolFinished,
    ToolStarted,
    TurnFinished,
)
from agents.messages import Message, Text, ToolCall, Usage
from agents.requests import Denial, PermissionRequest
from agents.results import FileChange, TaskResult, Waits
from orchestrator.cli.card import Hints, card
from orchestrator.cli.narration import Narrator
from orchestrator.cli.tally import Tally
from orchestrator.cli.words import counted, elapsed, seconds, subject_of

MAIN = AgentRef(id="turn-1", name="main", label="main", depth=0)
FIXER = AgentRef(id="run-1", name="fixer", label="fixer#1", depth=1)
ERROR = ToolError(code=ErrorCode.EDIT_RANGE_INVALID, message="Line 9 is outside the file.")


def event(payload: Any, agent: AgentRef | None = FIXER, ts: str = "2026-01-01T00:00:00.000Z") -> Event:
    return Event(
        session_id="ses-1", turn_id="turn-1", agent=agent, task_id=None, payload=payload, ts=ts, seq=1
    )


def started(agent: AgentRef = FIXER) -> Event:
    return event(AgentStarted(name=agent.name, model="script:x", tools=()), agent)


def called(error: ToolError | None = None, *, tool: str = "Edit", terminate: bool = False) -> Event:
    finished = ToolFinished(
        call_id="c1",
        tool=tool,
        ok=error is None,
        terminate=terminate,
        duration_ms=1234,
        waits=Waits(),
        error=error,
    )
    return event(finished)


def texts(narrator: Narrator, *events: Event) -> list[str]:
    return [line.text for one in events for line in narrator.lines(one)]


def test_a_failed_call_keeps_a_row_with_its_whole_error_and_the_terminating_one_is_marked() -> None:
    narrator = Narrator()
    begun = event(ToolStarted(call_id="c1", tool="Edit", arguments={"path": "a.py", "ops": []}))
    failed = "  ✗ fixer#1 Edit a.py · 1.2 s · EDIT_RANGE_INVALID: Line 9 is outside the file."
    assert texts(narrator, started(), begun, called(ERROR)) == [failed]
    assert texts(narrator, begun, called(ERROR, terminate=True)) == [f"{failed} · ends this run"]


def test_a_command_that_failed_has_its_status_and_its_telling_line() -> None:
    error = ToolError(
        code=ErrorCode.TOOL_FAILED, message="The command ended with exit code 1. Read its output."
    )
    for out, err, told in (
        ("ran", "Traceback:\n  x\nValueError: no\n\nFAILED (errors=1)\n", "exit 1 · ValueError: no"),
        ("E   AssertionError: 3 != 2\n1 failed", "", "exit 1 · E AssertionError: 3 != 2"),
        ("", "make: *** [all] Error 2\nfatal: nothing\n---\n", "exit 1 · fatal: nothing"),
        ("some\nlast words\n---\n", "", "exit 1 · last words"),
        ("", "", "exit 1"),
    ):
        result = {"exitCode": 1, "stdout": out, "stderr": err}
        payload = msgspec.structs.replace(called(error, tool="Bash").payload, result=result)
        assert texts(Narrator(), event(payload))[0].endswith(f" · {told}")


def test_a_request_has_no_row_where_it_is_shown_beside_the_rows_or_nobody_is_asked() -> None:
    narrator = Narrator(announces=False)
    asked = msgspec.convert(
        {
            **dict.fromkeys(("id", "sessionId", "owner", "agentLabel", "callId", "tool", "reason"), "x"),
            **dict.fromkeys(("preview", "created", "deadline"), "x"),
            "agentChain": (),
            "taskId": None,
            "risk": "low",
        },
        PermissionRequest,
    )
    assert texts(narrator, started(), event(PermissionRequested(request=asked))) == []
    assert narrator.agents["run-1"].asking == 1


def test_a_failed_call_makes_nothing_else_look_failed() -> None:
    narrator = Narrator()
    texts(narrator, started(), called(ERROR), called(ERROR))
    end = event(AgentFinished(status="completed", usage=Usage(), turns=3), ts="2026-01-01T00:00:05.000Z")
    (line,) = narrator.lines(end)
    assert line.text == "■ fixer#1 completed · 5.0 s · 2 calls"
    assert line.style == "green"


def test_an_agent_that_ended_by_error_closes_with_a_row_of_its_own_the_main_agent_too() -> None:
    failed = AgentFinished(status="failed", usage=Usage(), turns=3, error=ERROR)
    for agent in (FIXER, MAIN):
        (line,) = Narrator().lines(event(failed, agent))
        assert line.text == f"✗ {agent.label} failed · EDIT_RANGE_INVALID: Line 9 is outside the file."


def test_what_an_agent_does_now_is_known_for_the_tree() -> None:
    narrator = Narrator()
    task = TaskStartedEvent(
        task_id="task-1",
        run_id="run-1",
        chain_id="chain-1",
        agent_name="fixer",
        description="Discounts",
        prompt="p",
        model="script:x",
        parent_owner="turn-1",
    )
    assert texts(narrator, event(task)) == ["▶ fixer#1 started · Discounts · task-1"]
    texts(narrator, started(MAIN), started())
    texts(narrator, event(ToolStarted(call_id="c1", tool="Bash", arguments={"command": "make\ntest"})))
    usage = Usage(input_tokens=1000, output_tokens=50)
    texts(narrator, event(ModelResponded(usage=usage, finish_reason="stop", duration_ms=1)))
    now = narrator.agents["run-1"]
    assert (now.parent, now.doing, now.tokens, now.status) == ("turn-1", "Bash make test", 1050, None)
    assert list(narrator.agents) == ["turn-1", "run-1"]


def test_a_permission_and_its_answer_are_told() -> None:
    narrator = Narrator()
    request = PermissionRequest(
        id="req-1",
        session_id="ses-1",
        owner="run-1",
        agent_label="fixer#1",
        agent_chain=("main", "fixer#1"),
        task_id=None,
        call_id="c1",
        tool="Bash",
        risk="high",
        reason="Bash runs a command.",
        preview="make",
        created="2026-01-01T00:00:00.000Z",
        deadline="2026-01-01T00:02:00.000Z",
    )
    resolved = PermissionResolved(request_id="req-1", decision="deny", source="terminal", wait_ms=61_000)
    assert texts(narrator, started(), event(PermissionRequested(request=request))) == [
        "? fixer#1 Bash waits for you: Bash runs a command. · req-1"
    ]
    assert narrator.agents["run-1"].asking == 1
    assert texts(narrator, event(resolved)) == ["  fixer#1 Bash denied (terminal, 1 m 01 s)"]
    assert narrator.agents["run-1"].asking == 0


def test_words_before_a_call_are_told_and_the_last_words_are_left_to_the_result() -> None:
    call = ToolCall(call_id="c1", tool="Read", arguments={})
    speaking = Message(id="m1", role="assistant", parts=(Text(text="I look."), call))
    last = Message(id="m2", role="assistant", parts=(Text(text="Done."),))
    narrator = Narrator()
    assert texts(narrator, event(MessageAppended(message=speaking))) == ["  fixer#1: I look."]
    assert texts(narrator, event(MessageAppended(message=last))) == []


def test_nothing_in_a_row_can_act_on_a_terminal() -> None:
    nasty = ToolError(code=ErrorCode.TOOL_FAILED, message="\x1b[2J\x1b]0;owned\x07 \u202egnp.exe")
    begun = event(ToolStarted(call_id="c1", tool="Bash", arguments={"command": "echo \x1b[31m"}))
    (row,) = texts(Narrator(), begun, called(nasty, tool="Bash"))
    assert not set(row) & set("\x1b\x07\u202e")


def test_good_calls_of_the_task_family_have_no_row_and_failed_ones_do() -> None:
    assert texts(Narrator(), called(tool="TaskWait")) == []
    assert len(texts(Narrator(), called(ERROR, tool="Task"))) == 1


def test_the_card_names_outcome_error_files_denials_and_how_to_go_on() -> None:
    finished = TurnFinished(
        status="failed",
        error=ERROR,
        text="",
        usage=Usage(input_tokens=1200, output_tokens=30, cache_read_tokens=1000),
        duration_ms=65_000,
        waits=Waits(model=1, permission=2000),
        denials=(Denial(agent="fixer#1", tool="Bash", call_id="c1", reason="no-approver"),),
        files_changed=(FileChange(path="a.py", change="modified", before="1", after="2"),),
    )
    rows = dict(card(finished, "ses-1", "turn-1"))
    assert rows["outcome"] == "failed in 1 m 05 s"
    assert rows["error"] == "EDIT_RANGE_INVALID: Line 9 is outside the file."
    assert rows["tokens"] == "1,200 in (1,000 cached), 30 out"
    assert rows["files"] == "a.py (modified)"
    assert rows["denied"].startswith("Bash (fixer#1): nobody to ask; allow in advance with --allow RULE")
    assert rows["go on"] == "orchestrator resume ses-1"


def result(label: str, status: str, *, resumable: bool = True) -> TaskResult:
    return TaskResult(
        task_id=f"task-{label}",
        run_id=f"run-{label}",
        chain_id=f"chain-{label}",
        agent="fixer",
        label=label,
        status=status,  # type: ignore[arg-type]
        report="",
        turns=1,
        tool_calls=1,
        usage=Usage(),
        duration_ms=1,
        waits=Waits(),
        files_changed=(),
        resumable=resumable,
        error=ERROR if status == "failed" else None,
    )


def ended(*results: TaskResult) -> dict[str, str]:
    finished = TurnFinished(
        status="completed",
        text="",
        usage=Usage(),
        duration_ms=1,
        waits=Waits(),
        denials=(),
        files_changed=(),
    )
    tally = Tally(results={one.chain_id: one for one in results})
    return dict(card(finished, "ses-1", "turn-1", tally, Hints(options=("--store", "x"))))


def test_the_card_of_a_completed_turn_tells_of_delegates_that_failed_and_how_to_go_on_with_them() -> None:
    rows = ended(result("a#1", "completed"), result("a#2", "failed"), result("a#3", "stopped"))
    assert rows["delegates"] == "1 completed, 1 failed, 1 stopped: a#2 EDIT_RANGE_INVALID, a#3 stopped"
    assert rows["go on"] == "orchestrator resume task-a#2 --store x"
    several = ended(result("a#1", "failed"), result("a#2", "truncated"))
    assert several["go on"] == "orchestrator resume ses-1 --failed --store x"
    for rows in (ended(result("a#1", "completed")), ended(result("a#1", "failed", resumable=False)), ended()):
        assert "go on" not in rows
    assert "delegates" not in ended()


def test_an_error_that_the_agents_own_row_tells_stands_in_the_card_by_its_code() -> None:
    finished = TurnFinished(
        status="failed",
        text="",
        usage=Usage(),
        duration_ms=1,
        waits=Waits(),
        denials=(),
        files_changed=(),
        error=ERROR,
    )
    assert dict(card(finished, "s", "t", Tally(shown_error=ERROR)))["error"] == "EDIT_RANGE_INVALID"


def test_what_a_call_is_about_is_one_short_line() -> None:
    assert subject_of({"path": "src", "pattern": "x.*y"}) == "x.*y"
    assert subject_of({"command": "a\nb"}) == "a b"
    assert len(subject_of({"command": "x" * 500})) == 90
    assert subject_of({}) == subject_of("not an object") == subject_of(None) == ""


def test_durations_are_told_in_the_unit_that_fits() -> None:
    told = [seconds(value) for value in (0, 999, 1000, 59_949, 60_000, 3_600_000)]
    assert told == ["0 ms", "999 ms", "1.0 s", "59.9 s", "1 m 00 s", "1 h 00 m"]
    assert elapsed("2026-01-01T00:00:00.000Z", "2026-01-01T00:00:02.500Z") == "2.5 s"
    assert elapsed("2026-01-01T00:00:00.000Z", None) == ""
    assert (counted(1, "call"), counted(0, "call")) == ("1 call", "0 calls")
