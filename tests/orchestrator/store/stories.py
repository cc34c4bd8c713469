"""Events for the store's tests: single ones, and a whole session that touches every table."""

from __future__ import annotations

from typing import Any

from agents.errors import ErrorCode, ToolError
from agents.events import (
    AgentFinished,
    AgentRef,
    AgentStarted,
    AnyPayload,
    EffectsTold,
    Event,
    LockWaited,
    MessageAppended,
    ModelRequested,
    ModelResponded,
    PermissionRequested,
    PermissionResolved,
    RecoveryCounted,
    RecoveryExhausted,
    RecoveryGrace,
    RecoveryKey,
    RecoveryReleased,
    ResultsDelivered,
    RunSettled,
    SessionChanged,
    SessionStarted,
    TaskFinished,
    TaskStartedEvent,
    ToolFinished,
    ToolStarted,
    TurnClosed,
    TurnFinished,
    TurnStarted,
)
from agents.messages import Message, Reasoning, Text, ToolCall, ToolResult, Usage
from agents.requests import Denial, PermissionRequest
from agents.results import FileChange, TaskResult, Waits
from agents.rules.effects import EffectIntent
from telemetry.records import SpanEvent, SpanRecord

DAY = "2026-01-01T00:00:"


def at(second: int) -> str:
    return f"{DAY}{second:02d}.000Z"


def event(payload: AnyPayload, session: str = "s1", second: int = 0, **envelope: Any) -> Event:
    return Event(
        session_id=session,
        turn_id=envelope.pop("turn", "turn-1"),
        agent=envelope.pop("agent", None),
        task_id=envelope.pop("task", None),
        payload=payload,
        ts=at(second),
        **envelope,
    )


def bare(number: int = 0, session: str = "s1") -> Event:
    """An event that changes no table but its own."""
    return event(ModelRequested(attempt=number), session)


def said(text: str, session: str = "s1", task: str | None = None, identifier: str = "") -> Event:
    message = Message(id=identifier or f"m-{text}", role="assistant", parts=(Text(text=text),))
    return event(MessageAppended(message=message), session, task=task)


def span(trace: str, identifier: str) -> SpanRecord:
    return SpanRecord(
        service="orchestrator",
        name=f"span {identifier}",
        kind="INTERNAL",
        trace_id=trace,
        span_id=identifier,
        parent_span_id=None,
        start_ns=1,
        end_ns=2,
        attributes={"a": 1, "b": "x", "c": [1.5, 2.5], "d": True},
        events=(SpanEvent(name="e", time_ns=1, attributes={"k": "v"}),),
        status="ERROR",
        status_description="why",
    )


def result(task: str, run: str, chain: str, label: str, status: Any = "completed") -> TaskResult:
    return TaskResult(
        task_id=task,
        run_id=run,
        chain_id=chain,
        agent=label.partition("#")[0],
        label=label,
        status=status,
        report="done",
        turns=1,
        tool_calls=2,
        usage=Usage(input_tokens=3),
        duration_ms=4,
        waits=Waits(model=1),
        files_changed=(FileChange(path="a.py", change="created", before=None, after="0" * 64),),
        resumable=True,
        error=None if status == "completed" else ToolError(code=ErrorCode.TURN_LIMIT, message="too long"),
    )


def task_started(number: int, session: str = "s1", *, chain: int | None = None) -> Event:
    """Task `t<number>`, run `r<number>`, in chain `c<chain>` with label `fixer#<chain>`."""
    line = number if chain is None else chain
    return event(
        TaskStartedEvent(
            task_id=f"t{number}",
            run_id=f"r{number}",
            chain_id=f"c{line}",
            agent_name="fixer",
            description="fix it",
            prompt="Fix it.",
            model="script:x",
            parent_owner="turn-1",
            resumes=None if chain is None else f"t{chain}",
        ),
        session,
        number,
        agent=AgentRef(id=f"r{number}", name="fixer", label=f"fixer#{line}", depth=1),
        task=f"t{number}",
        trace_id="a" * 32,
        span_id="b" * 16,
    )


def task_finished(
    number: int, session: str = "s1", *, chain: int | None = None, status: Any = "completed"
) -> Event:
    line = number if chain is None else chain
    return event(
        TaskFinished(
            task_id=f"t{number}",
            run_id=f"r{number}",
            chain_id=f"c{line}",
            agent_name="fixer",
            description="fix it",
            result=result(f"t{number}", f"r{number}", f"c{line}", f"fixer#{line}", status),
        ),
        session,
        number + 30,
        task=f"t{number}",
    )


def request(identifier: str = "q1", session: str = "s1") -> PermissionRequest:
    return PermissionRequest(
        id=identifier,
        session_id=session,
        owner="turn-1",
        agent_label="main",
        agent_chain=("main",),
        task_id=None,
        call_id="call-1",
        tool="Bash",
        risk="high",
        reason="it is a shell command",
        preview="ls",
        created=at(0),
        deadline=at(59),
        grant="`ls`",
    )


def intent(identifier: str = "e1", session: str = "s1", image: bytes | None = b"before") -> EffectIntent:
    return EffectIntent(
        effect_id=identifier,
        session_id=session,
        owner="turn-1",
        call_id="call-1",
        kind="file",
        target="/w/a.py",
        inside=True,
        before_hash="1" * 64,
        planned_hash="2" * 64,
        temporary="/w/.a.py.tmp",
        before_image=image,
    )


def story(session: str = "s1", prefix: str = "") -> list[Event]:
    """One session with one event of every stored type at least; ids begin with `prefix`."""
    turn, call, ask = f"{prefix}turn-1", f"{prefix}call-1", f"{prefix}q1"
    main = AgentRef(id=turn, name="main", label="main", depth=0)
    run = AgentRef(id=f"{prefix}r1", name="fixer", label="fixer#1", depth=1)
    task = {
        "task_id": f"{prefix}t1",
        "run_id": f"{prefix}r1",
        "chain_id": f"{prefix}c1",
        "agent_name": "fixer",
    }
    failed = ToolError(code=ErrorCode.TOOL_DENIED, message="no", details={"reason": "user"}, retriable=True)
    calls = Message(
        id=f"{prefix}m1",
        role="assistant",
        parts=(
            Reasoning(provider="anthropic", data={"signature": "x"}),
            Text(text="I try."),
            ToolCall(call_id=call, tool="Bash", arguments={"command": "ls"}, provider_call_id="p"),
        ),
    )
    answer = Message(id=f"{prefix}m2", role="tool", parts=(ToolResult(call_id=call, ok=False, text="no"),))
    counts = {"kind": "edit", "target": "a.py", "code": "CONFLICT", "attempt": 1, "limit": 3}
    payloads: list[tuple[AnyPayload, AgentRef | None]] = [
        (
            SessionStarted(
                workspace="/w",
                mode="agent",
                permission_mode="ask",
                model="script:x",
                resumed=False,
                main_agent="lead",
            ),
            None,
        ),
        (TurnStarted(prompt="Fix it\nplease", index=0), main),
        (AgentStarted(name="main", model="script:x", tools=("Read", "Bash")), main),
        (ModelRequested(attempt=1), main),
        (ModelResponded(usage=Usage(), finish_reason="tool", duration_ms=5, first_chunk_ms=1), main),
        (MessageAppended(message=calls), main),
        (ToolStarted(call_id=call, tool="Bash", arguments={"command": "ls", "deep": [1, {"x": None}]}), main),
        (PermissionRequested(request=request(ask, session)), main),
        (PermissionResolved(request_id=ask, decision="allow-session", source="terminal", wait_ms=7), main),
        (LockWaited(call_id=call, wait_ms=3), main),
        (
            ToolFinished(
                call_id=call,
                tool="Bash",
                ok=False,
                terminate=False,
                duration_ms=9,
                waits=Waits(),
                error=failed,
            ),
            main,
        ),
        (MessageAppended(message=answer), main),
        (RecoveryGrace(**counts), main),
        (RecoveryCounted(**counts), main),
        (RecoveryExhausted(**counts), main),
        (TaskStartedEvent(**task, description="d", prompt="Fix.", model="m", parent_owner=turn), run),
        (RecoveryReleased(owner=turn, keys=(RecoveryKey(kind="edit", target="a.py", attempts=1),)), run),
        (AgentFinished(status="completed", usage=Usage(), turns=1), run),
        (RunSettled(owner=f"{prefix}r1", status="completed"), run),
        (
            TaskFinished(
                **task,
                description="d",
                result=result(f"{prefix}t1", f"{prefix}r1", f"{prefix}c1", "fixer#1"),
            ),
            run,
        ),
        (ResultsDelivered(task_ids=(f"{prefix}t1",)), main),
        (
            TurnFinished(
                status="failed",
                text="It failed.",
                usage=Usage(output_tokens=2),
                duration_ms=10,
                waits=Waits(permission=7),
                denials=(Denial(agent="main", tool="Bash", call_id=call, reason="user"),),
                files_changed=(),
                error=failed,
                cost_usd=0.5,
            ),
            main,
        ),
        (SessionChanged(mode="agent", permission_mode="ask"), None),
        (TurnClosed(status="failed"), main),
        (EffectsTold(effect_ids=("e1",)), main),
    ]
    return [
        event(
            payload,
            session,
            second,
            turn=turn,
            agent=agent,
            task=f"{prefix}t1" if agent is run else None,
            trace_id="a" * 32,
            span_id=f"{second:016x}",
            parent_span_id="c" * 16,
            span=span("a" * 32, f"{second:016x}") if second % 3 == 0 else None,
        )
        for second, (payload, agent) in enumerate(payloads)
    ]
