"""`Emitter`: builds one agent's events with the right envelope and hands them to the sink."""

from __future__ import annotations

import time

import attrs

from agents.events import AgentRef, AnyPayload, Event, timestamp
from agents.ports import EventSink
from telemetry.records import SpanRecord
from telemetry.spans import Span


@attrs.frozen
class Emitter:
    """Who speaks, and where to."""

    sink: EventSink
    session_id: str
    turn_id: str | None
    agent: AgentRef
    task_id: str | None = None

    def event(self, payload: AnyPayload, span: Span | None, *, ended: SpanRecord | None = None) -> Event:
        """An event of this agent in `span`; `ended` is the span record that this event completes, if any."""
        return Event(
            session_id=self.session_id,
            turn_id=self.turn_id,
            agent=self.agent,
            task_id=self.task_id,
            payload=payload,
            ts=timestamp(time.time_ns()),
            trace_id=None if span is None else span.trace_id,
            span_id=None if span is None else span.span_id,
            parent_span_id=None if span is None else span.parent_span_id,
            span=ended,
        )

    async def emit(self, payload: AnyPayload, span: Span | None, *, ended: SpanRecord | None = None) -> Event:
        """Store one event, then return it with its `seq`."""
        (stored,) = await self.sink.emit((self.event(payload, span, ended=ended),))
        return stored

    def show(self, payload: AnyPayload, span: Span | None) -> None:
        """Show an ephemeral event."""
        self.sink.show(self.event(payload, span))
