"""What an event changes in the tables: one pure function, used by every store. Pure.

`Insert` keeps the row that is already there, `Update` of a missing row does nothing; so replaying all events
of a session, in order and from nothing, gives the tables back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import attrs

from agents.events import (
    Event,
    MessageAppended,
    Payload,
    PermissionRequested,
    PermissionResolved,
    ResultsDelivered,
    SessionChanged,
    SessionStarted,
    TaskFinished,
    TaskStartedEvent,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from agents.requests import Decision
from orchestrator.store.base import RUNNING
from orchestrator.store.codec import encode_json

PROJECTED = ("sessions", "turns", "tasks", "messages", "calls", "requests", "grants")
"""The tables that hold nothing but what the events say."""

KEYS: Mapping[str, tuple[str, ...]] = {
    "sessions": ("session_id",),
    "turns": ("turn_id",),
    "tasks": ("task_id",),
    "messages": ("session_id", "seq"),
    "calls": ("call_id",),
    "requests": ("request_id",),
    "grants": ("request_id",),
    "effects": ("effect_id",),
    "exports": ("session_id", "target"),
}
"""Primary key of every table that takes changes."""


@attrs.frozen
class Insert:
    """A new row; nothing happens where its key exists."""

    table: str
    values: Mapping[str, Any]

    @property
    def key(self) -> tuple[Any, ...]:
        return tuple(self.values[column] for column in KEYS[self.table])


@attrs.frozen
class Update:
    """New values for some columns of one row; nothing happens where there is no such row."""

    table: str
    key: tuple[Any, ...]
    """In the order of `KEYS`."""
    values: Mapping[str, Any]


Change = Insert | Update

P = TypeVar("P", bound=Payload)


def watermark_changes(session_id: str, target: str, seq: int) -> tuple[Change, ...]:
    """How far `target` has acknowledged the session's spans. No event says it: it is not replayed."""
    row = {"session_id": session_id, "target": target, "seq": seq}
    return Insert("exports", row), Update("exports", (session_id, target), {"seq": seq})


def project(event: Event) -> tuple[Change, ...]:
    """The row changes of a stored event (its `seq` is set)."""
    rule = _RULES.get(type(event.payload))
    return () if rule is None else rule(event, event.payload)


def _session_started(event: Event, payload: SessionStarted) -> tuple[Change, ...]:
    newest = {
        "mode": payload.mode,
        "permission_mode": payload.permission_mode,
        "model": payload.model,
        "base_url": payload.base_url,
        "agent": payload.main_agent,
    }
    first = {
        "session_id": event.session_id,
        "workspace": payload.workspace,
        "created": event.ts,
        **newest,
    }
    return Insert("sessions", first), Update("sessions", (event.session_id,), newest)


def _session_changed(event: Event, payload: SessionChanged) -> tuple[Change, ...]:
    newest = {"mode": payload.mode, "permission_mode": payload.permission_mode}
    return (Update("sessions", (event.session_id,), newest),)


def _turn_started(event: Event, payload: TurnStarted) -> tuple[Change, ...]:
    if event.turn_id is None:
        return ()
    row = {
        "turn_id": event.turn_id,
        "session_id": event.session_id,
        "idx": payload.index,
        "prompt": payload.prompt,
        "status": RUNNING,
        "error_code": None,
        "text": "",
        "started": event.ts,
        "finished": None,
        "trace_id": event.trace_id,
        "span_id": event.span_id,
        "resumes_task": payload.resumes_task,
    }
    return (Insert("turns", row),)


def _turn_finished(event: Event, payload: TurnFinished) -> tuple[Change, ...]:
    values = {
        "status": payload.status,
        "error_code": None if payload.error is None else payload.error.code.value,
        "text": payload.text,
        "finished": event.ts,
    }
    return (Update("turns", (event.turn_id,), values),)


def _task_started(event: Event, payload: TaskStartedEvent) -> tuple[Change, ...]:
    # Label and depth are the delegate's; an envelope in another agent's name does not say them.
    speaker = event.agent if event.agent is not None and event.agent.id == payload.run_id else None
    row = {
        "task_id": payload.task_id,
        "run_id": payload.run_id,
        "chain_id": payload.chain_id,
        "session_id": event.session_id,
        "seq": event.seq,
        "turn_id": event.turn_id,
        "agent_name": payload.agent_name,
        "label": payload.agent_name if speaker is None else speaker.label,
        "description": payload.description,
        "prompt": payload.prompt,
        "model": payload.model,
        "parent_owner": payload.parent_owner,
        "depth": 1 if speaker is None else speaker.depth,
        "resumes": payload.resumes,
        "status": RUNNING,
        "started": event.ts,
        "finished": None,
        "result": None,
        "delivered": 0,
        "trace_id": event.trace_id,
        "span_id": event.span_id,
    }
    return (Insert("tasks", row),)


def _task_finished(event: Event, payload: TaskFinished) -> tuple[Change, ...]:
    values = {
        "status": payload.result.status,
        "finished": event.ts,
        "result": encode_json(payload.result),
        "label": payload.result.label,
    }
    return (Update("tasks", (payload.task_id,), values),)


def _results_delivered(_event: Event, payload: ResultsDelivered) -> tuple[Change, ...]:
    return tuple(Update("tasks", (task_id,), {"delivered": 1}) for task_id in payload.task_ids)


def _message_appended(event: Event, payload: MessageAppended) -> tuple[Change, ...]:
    row = {
        "session_id": event.session_id,
        "seq": event.seq,
        "message_id": payload.message.id,
        "role": payload.message.role,
        "turn_id": event.turn_id,
        "task_id": event.task_id,
    }
    return (Insert("messages", row),)


def _tool_started(event: Event, payload: ToolStarted) -> tuple[Change, ...]:
    row = {
        "call_id": payload.call_id,
        "session_id": event.session_id,
        "seq": event.seq,
        "turn_id": event.turn_id,
        "task_id": event.task_id,
        "owner": "" if event.agent is None else event.agent.id,
        "tool": payload.tool,
        "ok": None,
        "error_code": None,
        "started": event.ts,
        "finished": None,
    }
    return (Insert("calls", row),)


def _tool_finished(event: Event, payload: ToolFinished) -> tuple[Change, ...]:
    values = {
        "ok": int(payload.ok),
        "error_code": None if payload.error is None else payload.error.code.value,
        "finished": event.ts,
    }
    return (Update("calls", (payload.call_id,), values),)


def _permission_requested(event: Event, payload: PermissionRequested) -> tuple[Change, ...]:
    row = {
        "request_id": payload.request.id,
        "session_id": event.session_id,
        "seq": event.seq,
        "body": encode_json(payload.request),
        "decision": None,
        "source": None,
        "wait_ms": None,
        "decided_by": None,
        "closed": None,
    }
    return (Insert("requests", row),)


def _permission_resolved(event: Event, payload: PermissionResolved) -> tuple[Change, ...]:
    values = {
        "decision": payload.decision,
        "source": payload.source,
        "wait_ms": payload.wait_ms,
        "decided_by": payload.by,
        "closed": event.ts,
    }
    closed = Update("requests", (payload.request_id,), values)
    if payload.decision != Decision.ALLOW_SESSION:
        return (closed,)
    grant = {
        "request_id": payload.request_id,
        "session_id": event.session_id,
        "seq": event.seq,
        "source": payload.source,
        "granted": event.ts,
    }
    return closed, Insert("grants", grant)


_RULES: Mapping[type[Payload], Callable[[Event, Any], tuple[Change, ...]]] = {
    SessionStarted: _session_started,
    SessionChanged: _session_changed,
    TurnStarted: _turn_started,
    TurnFinished: _turn_finished,
    TaskStartedEvent: _task_started,
    TaskFinished: _task_finished,
    ResultsDelivered: _results_delivered,
    MessageAppended: _message_appended,
    ToolStarted: _tool_started,
    ToolFinished: _tool_finished,
    PermissionRequested: _permission_requested,
    PermissionResolved: _permission_resolved,
}
