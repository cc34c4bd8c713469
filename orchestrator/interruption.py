"""What an earlier process left open in a session is closed at the next start, and its traces are completed.

Requests, tool calls, model calls, runs and turns end with the events that always end them, which also hold
the spans that were open: same ids, ERROR `INTERRUPTED`, up to the moment the process was last seen alive.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from typing import Literal, cast

import msgspec

from agents.errors import ErrorCode, ToolError
from agents.events import (
    AgentFinished,
    AgentRef,
    AnyPayload,
    Event,
    ModelRequested,
    ModelResponded,
    PermissionRequested,
    PermissionResolved,
    RecoveryReleased,
    RunSettled,
    TaskFinished,
    ToolFinished,
    ToolStarted,
    TurnClosed,
    TurnFinished,
    nanoseconds,
    timestamp,
)
from agents.messages import Usage
from agents.requests import Decision
from agents.results import FileChange, TaskResult, TaskStatus, Waits
from agents.rules.effects import Verdict
from orchestrator.answers import interrupted
from orchestrator.remains import Remains, Story, read_remains
from orchestrator.reopening import interrupted_span
from orchestrator.settlement import bounded_report, total_changes
from orchestrator.store.base import EffectRow, RequestRow, Store, TaskRow, TurnRow
from orchestrator.task import RUNNING
from telemetry.attributes import PROCESS_DIED
from telemetry.records import SpanRecord

INTERRUPTED: Literal["interrupted"] = "interrupted"
DIED = ToolError(
    code=ErrorCode.INTERRUPTED,
    message="The process ended while this ran. Resume it to go on after its last complete model turn.",
    retriable=True,
)


async def close_interrupted(store: Store, session_id: str) -> int:
    """Close everything an ended process left open in the session; how many runs and turns that were.

    The caller holds the session's lease. Safe to be interrupted itself: each part is one transaction, what is
    closed is not found again, and the spans of what is left end when the first ones did.
    """
    tasks = [task for task in await store.tasks(session_id) if task.status == RUNNING]
    turns = [turn for turn in await store.turns(session_id) if turn.status == RUNNING]
    requests = await store.requests(session_id, only_open=True)
    open_calls = {call.call_id for call in await store.calls(session_id) if call.ok is None}
    left_open = await _left_open(store, session_id)
    if not (tasks or turns or requests or open_calls or left_open):
        return 0
    events = await store.events(session_id)
    closing = _Closing(read_remains(events), await store.effects(session_id))
    for part in (
        *closing.requests(requests, events),
        *closing.calls(open_calls, events),
        *closing.chats(),
        *(closing.task(task) for task in sorted(tasks, key=lambda row: -row.depth)),
        *(closing.turn(turn) for turn in turns),
        *(closing.root(turn) for turn in left_open),
    ):
        await store.append(part)
    return len(tasks) + len(turns)


async def _left_open(store: Store, session_id: str) -> list[TurnRow]:
    """Turns that had given way to a follow-up prompt and waited for the last of their delegates."""
    settled = [row for row in await store.turns(session_id) if row.status != RUNNING and row.span_id]
    if not settled:
        return []
    ended = {span.span_id for span in await store.spans(session_id)}
    return [row for row in settled if row.span_id not in ended]


class _Closing:
    """Makes the events that close one session's remains, part by part."""

    def __init__(self, remains: Remains, effects: Sequence[EffectRow]) -> None:
        self._remains = remains
        self._effects = effects

    def requests(self, rows: Sequence[RequestRow], events: Sequence[Event]) -> Iterator[list[Event]]:
        open_ids = {row.request.id for row in rows}
        for event in events:
            if isinstance(event.payload, PermissionRequested) and event.payload.request.id in open_ids:
                resolved = PermissionResolved(
                    request_id=event.payload.request.id,
                    decision=Decision.CANCELLED.value,
                    source=PROCESS_DIED,
                    wait_ms=self._milliseconds(event),
                )
                yield [_after(event, resolved, self._span(event))]

    def calls(self, open_ids: Collection[str], events: Sequence[Event]) -> Iterator[list[Event]]:
        for event in events:
            if not isinstance(event.payload, ToolStarted) or event.payload.call_id not in open_ids:
                continue
            call = event.payload
            duration = self._milliseconds(event)
            finished = ToolFinished(
                call_id=call.call_id,
                tool=call.tool,
                ok=False,
                terminate=False,
                duration_ms=duration,
                waits=Waits(tool=duration),
                error=interrupted(call.tool, self._effects_of_call(call.call_id)),
            )
            # the span of a Task whose delegate was started ends with the delegate
            left_to_task = event.span_id in self._remains.task_spans
            yield [_after(event, finished, None if left_to_task else self._span(event))]

    def chats(self) -> Iterator[list[Event]]:
        for event in self._remains.opened.values():
            if isinstance(event.payload, ModelRequested):
                responded = ModelResponded(
                    usage=Usage(),
                    finish_reason=INTERRUPTED,
                    duration_ms=self._milliseconds(event),
                    error=DIED,
                )
                yield [_after(event, responded, self._span(event))]

    def task(self, row: TaskRow) -> list[Event]:
        ref = AgentRef(id=row.run_id, name=row.agent_name, label=row.label, depth=row.depth)
        story = self._remains.story(row.run_id)
        finished = TaskFinished(
            task_id=row.task_id,
            run_id=row.run_id,
            chain_id=row.chain_id,
            agent_name=row.agent_name,
            description=row.description,
            result=self._result(row, story),
            resumes=row.resumes,
        )
        whole = None if story.task is None else self._task_span(story.task)
        return [
            *self._settled(row, ref, row.task_id, row.run_id),
            _event(row, ref, row.task_id, finished, whole),
        ]

    def turn(self, row: TurnRow) -> list[Event]:
        ref = AgentRef(id=row.turn_id, name="main", label="main", depth=0)
        story = self._remains.story(row.turn_id)
        begun = self._remains.opened.get(row.span_id or "")
        finished = TurnFinished(
            status=INTERRUPTED,
            error=DIED,
            text=story.text,
            usage=self._remains.usage_with_delegates(row.turn_id),
            duration_ms=0 if begun is None else self._milliseconds(begun),
            waits=story.waits,
            denials=(),
            files_changed=self._changes(row.turn_id),
        )
        whole = None if begun is None else self._span(begun)
        return [
            *self._settled(row, ref, None, row.turn_id),
            _event(row, ref, None, finished, whole),
        ]

    def root(self, row: TurnRow) -> list[Event]:
        """The end of a trace whose turn has its result already."""
        ref = AgentRef(id=row.turn_id, name="main", label="main", depth=0)
        begun = self._remains.opened.get(row.span_id or "")
        whole = None if begun is None else self._span(begun)
        closed = TurnClosed(status=cast("TaskStatus", row.status))
        return [_event(row, ref, None, closed, whole)]

    def _settled(self, row: TaskRow | TurnRow, ref: AgentRef, task_id: str | None, owner: str) -> list[Event]:
        """What settlement stores beside the result: that it happened, the released keys, the agent's end."""
        story = self._remains.story(owner)
        settled = RunSettled(owner=owner, status=INTERRUPTED)
        released = RecoveryReleased(owner=owner, keys=())
        events = [_event(row, ref, task_id, payload) for payload in (settled, released)]
        if story.started is not None:
            ended = AgentFinished(status=INTERRUPTED, usage=story.usage, turns=story.turns, error=DIED)
            events.append(_after(story.started, ended, self._span(story.started)))
        return events

    def _result(self, row: TaskRow, story: Story) -> TaskResult:
        return TaskResult(
            task_id=row.task_id,
            run_id=row.run_id,
            chain_id=row.chain_id,
            agent=row.agent_name,
            label=row.label,
            status=INTERRUPTED,
            error=DIED,
            report=bounded_report(story.text),
            turns=story.turns,
            tool_calls=story.tool_calls,
            usage=self._remains.usage_with_delegates(row.run_id),
            duration_ms=0 if story.task is None else self._milliseconds(story.task),
            waits=story.waits,
            files_changed=self._changes(row.run_id),
            resumable=True,
        )

    def _task_span(self, started: Event) -> SpanRecord | None:
        """The Task span that the run's end ends; a run that a person resumed has none beside its agent's."""
        call = self._remains.opened.get(started.span_id or "")
        return self._span(call) if call is not None and isinstance(call.payload, ToolStarted) else None

    def _changes(self, owner: str) -> tuple[FileChange, ...]:
        """What an agent and those below it changed in the workspace, by the journal."""
        family = self._remains.family(owner)
        rows = [row for row in self._effects if row.intent.owner in family]
        return total_changes([change for row in rows if (change := _change(row)) is not None], ())

    def _effects_of_call(self, call_id: str) -> list[EffectRow]:
        return [row for row in self._effects if row.intent.call_id == call_id]

    def _span(self, event: Event) -> SpanRecord | None:
        return interrupted_span(event, self._remains)

    def _milliseconds(self, event: Event) -> int:
        return round((self._remains.end_of(event) - nanoseconds(event.ts)) / 1e6)


def _change(row: EffectRow) -> FileChange | None:
    intent = row.intent
    landed = row.verdict == Verdict.APPLIED if row.result is None else row.result.ok
    if intent.kind != "file" or not intent.inside or not landed:
        return None
    return FileChange(
        path=intent.shown or intent.target,
        change="created"
        if intent.before_hash is None
        else "deleted"
        if intent.planned_hash is None
        else "modified",
        before=intent.before_hash,
        after=intent.planned_hash,
    )


def _after(opening: Event, payload: AnyPayload, span: SpanRecord | None) -> Event:
    """The event that closes what `opening` began, by the same agent."""
    return msgspec.structs.replace(opening, payload=payload, ts=timestamp(time.time_ns()), seq=0, span=span)


def _event(
    row: TaskRow | TurnRow,
    ref: AgentRef,
    task_id: str | None,
    payload: AnyPayload,
    span: SpanRecord | None = None,
) -> Event:
    return Event(
        session_id=row.session_id,
        turn_id=row.turn_id,
        agent=ref,
        task_id=task_id,
        payload=payload,
        ts=timestamp(time.time_ns()),
        trace_id=row.trace_id,
        span_id=row.span_id,
        parent_span_id=None if span is None else span.parent_span_id,
        span=span,
    )
