"""Calls that a crash left without an answer get one: the stored result, or what is known instead of it.

A provider takes a conversation only if every call has its result, and an agent that does not know what it has
done does it again. So the answer is put together from the call's stored end and from the effect journal, and
is stored in the conversation like any other, once.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import msgspec

from agents.errors import ErrorCode, ToolError
from agents.events import (
    AgentRef,
    AnyPayload,
    Event,
    MessageAppended,
    ResultsDelivered,
    ToolFinished,
    ToolStarted,
    timestamp,
)
from agents.messages import Message, ToolCall, ToolResult
from agents.results import BashResult, ReadResult, Result, TaskWaitResult, model_text
from orchestrator.store.base import EffectRow, Store, TaskRow, TurnRow
from orchestrator.task import RUNNING
from orchestrator.telling import FINDINGS, shown

TEXTED: Mapping[str, type[Result]] = {"Bash": BashResult, "Read": ReadResult, "TaskWait": TaskWaitResult}
"""Tools whose results have long texts, which the model reads below the JSON object."""


@attrs.frozen
class _Known:
    """What is stored of the session's calls, by call id."""

    started: frozenset[str]
    finished: Mapping[str, ToolFinished]
    effects: Mapping[str, Sequence[EffectRow]]


async def answer_open_calls(store: Store, session_id: str) -> int:
    """Answer the open calls of every conversation that was being worked on; how many conversations had some.

    Each conversation is one transaction.
    """
    rows: list[TaskRow | TurnRow] = [
        # The newest first: a follow-up prompt's turn goes on in the conversation of the one before it.
        *(turn for turn in reversed(await store.turns(session_id)) if turn.resumes_task is None),
        *await store.tasks(session_id),
    ]
    known: _Known | None = None
    answered = 0
    for row in rows:
        if row.status != RUNNING:
            continue
        messages = await store.messages(session_id, await _tasks_of(store, row))
        if not messages or not messages[-1].calls:
            continue
        known = known or await _read(store, session_id)
        await store.append(_answer(row, messages[-1], known))
        answered += 1
    return answered


async def _tasks_of(store: Store, row: TaskRow | TurnRow) -> list[str] | None:
    if isinstance(row, TurnRow):
        return None
    return [run.task_id for run in await store.chain(row.chain_id)]


async def _read(store: Store, session_id: str) -> _Known:
    events = await store.events(session_id)
    effects: dict[str, list[EffectRow]] = {}
    for row in await store.effects(session_id):
        effects.setdefault(row.intent.call_id, []).append(row)
    return _Known(
        started=frozenset(e.payload.call_id for e in events if isinstance(e.payload, ToolStarted)),
        finished={e.payload.call_id: e.payload for e in events if isinstance(e.payload, ToolFinished)},
        effects=effects,
    )


def _answer(row: TaskRow | TurnRow, asked: Message, known: _Known) -> list[Event]:
    parts = tuple(_result(call, known) for call in asked.calls)
    message = Message(id=f"msg-{uuid.uuid4().hex[:12]}", role="tool", parts=parts)
    given = [task_id for call in asked.calls for task_id in _delivered(known.finished.get(call.call_id))]
    payloads: list[AnyPayload] = [MessageAppended(message=message)]
    if given:
        payloads.append(ResultsDelivered(task_ids=tuple(given)))
    return [_event(row, payload) for payload in payloads]


def _result(call: ToolCall, known: _Known) -> ToolResult:
    finished = known.finished.get(call.call_id)
    if finished is not None:
        return ToolResult(call_id=call.call_id, ok=finished.ok, text=_stored_text(finished))
    if call.call_id not in known.started:
        error = _never_started()
    else:
        error = interrupted(call.tool, known.effects.get(call.call_id, ()))
    return ToolResult(call_id=call.call_id, ok=False, text=model_text(None, error))


def _stored_text(finished: ToolFinished) -> str:
    """The same text that the model would have read."""
    kind = TEXTED.get(finished.tool)
    if kind is not None and finished.result is not None:
        result = msgspec.convert(finished.result, kind)
        return model_text(result, finished.error, terminate=finished.terminate)
    head: dict[str, Any] = dict(finished.result or {})
    if finished.error is not None:
        head["error"] = finished.error
    if finished.terminate:
        head["terminate"] = True
    return msgspec.json.encode(head).decode("utf-8")


def _delivered(finished: ToolFinished | None) -> Iterable[str]:
    """The tasks whose results this answer hands to the agent."""
    if finished is None or finished.tool != "TaskWait" or not finished.ok or finished.result is None:
        return ()
    return (result.task_id for result in msgspec.convert(finished.result, TaskWaitResult).results)


def _never_started() -> ToolError:
    return ToolError(
        code=ErrorCode.TOOL_ABORTED,
        message="Not executed: the process ended before this call started. If it is still wanted, make the "
        "call again.",
        retriable=True,
    )


def interrupted(tool: str, effects: Sequence[EffectRow]) -> ToolError:
    """The error of a call that was running when the process ended, with what the journal knows of it."""
    found = [{"target": shown(row.intent), "finding": _finding(row)} for row in effects]
    return ToolError(
        code=ErrorCode.INTERRUPTED,
        message=f"The process ended while this call ran. {_advice(tool, effects)}",
        details={"effects": found} if found else {},
        retriable=True,
    )


def _finding(row: EffectRow) -> str:
    if row.result is not None:
        return "done" if row.result.ok else "failed"
    if row.intent.kind == "shell":
        return "unknown"
    return FINDINGS[row.verdict]


def _advice(tool: str, effects: Sequence[EffectRow]) -> str:
    if not effects:
        return _WITHOUT_EFFECT.get(tool, "It has no result. If one is still wanted, make the call again.")
    if any(row.result is None and row.intent.kind == "shell" for row in effects):
        return "It is not known whether the command ran: look before you repeat it."
    if effects[-1].intent.kind == "shell":
        return "The command had ended by then, but what it printed is lost: look before you repeat it."
    return "`effects` says what became of each change it made."


_NOTHING_DONE = "It had changed nothing yet. If it is still wanted, make the call again."
_WITHOUT_EFFECT = {
    "Write": _NOTHING_DONE,
    "Edit": _NOTHING_DONE,
    "Bash": "The command had not been started. If it is still wanted, make the call again.",
    "Task": "A delegate may have been started: look with TaskList before you start another one.",
    "TaskWait": "Call it again for the results that you have not been given.",
}


def _event(row: TaskRow | TurnRow, payload: AnyPayload) -> Event:
    if isinstance(row, TurnRow):
        agent, task_id = AgentRef(id=row.turn_id, name="main", label="main", depth=0), None
    else:
        agent = AgentRef(id=row.run_id, name=row.agent_name, label=row.label, depth=row.depth)
        task_id = row.task_id
    return Event(
        session_id=row.session_id,
        turn_id=row.turn_id,
        agent=agent,
        task_id=task_id,
        payload=payload,
        ts=timestamp(time.time_ns()),
        trace_id=row.trace_id,
        span_id=row.span_id,
    )
