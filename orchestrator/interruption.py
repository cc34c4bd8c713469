"""What an earlier process left open in a session is closed at the next start: runs, turns and requests."""

from __future__ import annotations

import time
from collections.abc import Sequence

from agents.errors import ErrorCode, ToolError
from agents.events import (
    AgentRef,
    AnyPayload,
    Event,
    PermissionResolved,
    RecoveryReleased,
    RunSettled,
    TaskFinished,
    TurnFinished,
    timestamp,
)
from agents.messages import Usage
from agents.requests import Decision
from agents.results import TaskResult, Waits
from orchestrator.store.base import RequestRow, Store, TaskRow, TurnRow
from orchestrator.task import RUNNING

PROCESS_DIED = ToolError(
    code=ErrorCode.INTERRUPTED,
    message="The process ended while this ran. Resume it to go on after its last complete model turn.",
    retriable=True,
)


async def close_interrupted(store: Store, session_id: str) -> int:
    """Close everything an ended process left open in the session; how many runs and turns that were.

    The caller holds the session's lease. Safe to be interrupted itself: each part is one transaction, and what
    is closed is not found again.
    """
    tasks = [task for task in await store.tasks(session_id) if task.status == RUNNING]
    turns = [turn for turn in await store.turns(session_id) if turn.status == RUNNING]
    requests = await store.requests(session_id, only_open=True)
    for request in requests:
        await store.append([_closed_request(session_id, request)])
    for task in sorted(tasks, key=lambda row: -row.depth):
        messages = await store.messages(session_id, [task.task_id])
        texts = [message.text for message in messages if message.role == "assistant" and message.text.strip()]
        await store.append(_closed_task(task, texts[-1] if texts else ""))
    for turn in turns:
        await store.append(_closed_turn(turn))
    return len(tasks) + len(turns)


def _closed_request(session_id: str, row: RequestRow) -> Event:
    resolved = PermissionResolved(
        request_id=row.request.id, decision=Decision.CANCELLED.value, source="process died", wait_ms=0
    )
    return _event(session_id, None, None, row.request.task_id, resolved, None)


def _closed_task(task: TaskRow, report: str) -> Sequence[Event]:
    ref = AgentRef(id=task.run_id, name=task.agent_name, label=task.label, depth=task.depth)
    result = TaskResult(
        task_id=task.task_id,
        run_id=task.run_id,
        chain_id=task.chain_id,
        agent=task.agent_name,
        label=task.label,
        status="interrupted",
        error=PROCESS_DIED,
        report=report,
        turns=0,
        tool_calls=0,
        usage=Usage(),
        duration_ms=0,
        waits=Waits(),
        files_changed=(),
        resumable=True,
    )
    finished = TaskFinished(
        task_id=task.task_id,
        run_id=task.run_id,
        chain_id=task.chain_id,
        agent_name=task.agent_name,
        description=task.description,
        result=result,
        resumes=task.resumes,
    )
    payloads: Sequence[AnyPayload] = (
        RunSettled(owner=task.run_id, status="interrupted"),
        RecoveryReleased(owner=task.run_id, keys=()),
        finished,
    )
    return [
        _event(task.session_id, task.turn_id, ref, task.task_id, payload, (task.trace_id, task.span_id))
        for payload in payloads
    ]


def _closed_turn(turn: TurnRow) -> Sequence[Event]:
    ref = AgentRef(id=turn.turn_id, name="main", label="main", depth=0)
    finished = TurnFinished(
        status="interrupted",
        error=PROCESS_DIED,
        text=turn.text,
        usage=Usage(),
        duration_ms=0,
        waits=Waits(),
        denials=(),
        files_changed=(),
    )
    payloads: Sequence[AnyPayload] = (
        RunSettled(owner=turn.turn_id, status="interrupted"),
        RecoveryReleased(owner=turn.turn_id, keys=()),
        finished,
    )
    return [
        _event(turn.session_id, turn.turn_id, ref, None, payload, (turn.trace_id, turn.span_id))
        for payload in payloads
    ]


def _event(
    session_id: str,
    turn_id: str | None,
    ref: AgentRef | None,
    task_id: str | None,
    payload: AnyPayload,
    span: tuple[str | None, str | None] | None,
) -> Event:
    trace_id, span_id = span or (None, None)
    return Event(
        session_id=session_id,
        turn_id=turn_id,
        agent=ref,
        task_id=task_id,
        payload=payload,
        ts=timestamp(time.time_ns()),
        trace_id=trace_id,
        span_id=span_id,
    )
