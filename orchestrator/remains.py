"""What a process that died left open in a session's traces, read from the stored events alone. Pure.

Every event names its span and that span's parent, and the event that ends a span holds it whole. So a span
is open when an event that begins one is there and no event holds it.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from agents.errors import ErrorCode, ToolError
from agents.events import (
    AgentStarted,
    Event,
    MessageAppended,
    ModelRequested,
    ModelResponded,
    PermissionRequested,
    RecoveryCounted,
    RecoveryExhausted,
    RecoveryGrace,
    RecoveryReleased,
    ResultsDelivered,
    RunSettled,
    SessionStarted,
    TaskStartedEvent,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
    nanoseconds,
)
from agents.messages import Usage
from agents.results import Waits
from telemetry import attributes as names

Opening = TurnStarted | AgentStarted | ModelRequested | ToolStarted | PermissionRequested


@attrs.define
class Story:
    """What one agent did as far as it is stored."""

    started: Event | None = None
    """Its `agent.started`."""
    task: Event | None = None
    """The `task.started` of a delegate."""
    usage: Usage = attrs.field(factory=Usage)
    waits: Waits = attrs.field(factory=Waits)
    turns: int = 0
    tool_calls: int = 0
    text: str = ""
    """The last visible text it wrote."""
    guard: list[Event] = attrs.field(factory=list)
    """Its `recovery.*` events."""
    status: str | None = None
    """A turn's, where it was settled before the process died."""


@attrs.define
class Remains:
    """A session's events, sorted by what the closing of open spans needs."""

    opened: dict[str, Event] = attrs.field(factory=dict)
    """By span id: the event that began a span that nobody has ended, in order."""
    attempts: dict[str, list[Event]] = attrs.field(factory=dict)
    """By span id: the repetitions of an open model call."""
    stories: dict[str, Story] = attrs.field(factory=dict)
    """By owner id."""
    ends: dict[str, int] = attrs.field(factory=dict)
    """By turn id: when the process was last seen alive, in ns."""
    closed_at: dict[str, int] = attrs.field(factory=dict)
    """By turn id: the end that an earlier, itself interrupted closing gave to its spans."""
    instances: dict[str, str] = attrs.field(factory=dict)
    """By turn id: the process that made its spans."""
    task_spans: set[str] = attrs.field(factory=set)
    """Spans that a settlement ends."""

    def story(self, owner: str) -> Story:
        return self.stories.setdefault(owner, Story())

    def end_of(self, event: Event) -> int:
        """When what `event` began ended."""
        turn_id = event.turn_id or ""
        return max(
            nanoseconds(event.ts),
            self.closed_at.get(turn_id, 0) or self.ends.get(turn_id, 0),
        )

    def usage_with_delegates(self, owner: str) -> Usage:
        """Every model call of an agent and of what ran below it, once."""
        usage = Usage()
        for one in self.family(owner):
            usage += self.story(one).usage
        return usage

    def family(self, owner: str) -> tuple[str, ...]:
        """The owner id and those of all runs below it."""
        found = [owner]
        for one in found:  # grows while it is read: level by level
            found += [run for run, parent in self._parents() if parent == one and run not in found]
        return tuple(found)

    def _parents(self) -> list[tuple[str, str]]:
        tasks = [story.task.payload for story in self.stories.values() if story.task is not None]
        return [(task.run_id, task.parent_owner) for task in tasks if isinstance(task, TaskStartedEvent)]


def read_remains(events: Sequence[Event]) -> Remains:
    """Sort a session's events, which are in `seq` order."""
    remains = Remains()
    ended = {event.span.span_id for event in events if event.span is not None}
    instance: str | None = None
    for event in events:
        payload = event.payload
        if isinstance(payload, SessionStarted):
            instance = payload.instance_id
        if isinstance(payload, TurnStarted) and event.turn_id is not None and instance is not None:
            remains.instances[event.turn_id] = instance
        _note_time(event, remains)
        if event.span_id is not None and event.span_id not in ended and isinstance(payload, Opening):
            if event.span_id not in remains.opened:
                remains.opened[event.span_id] = event
            elif isinstance(payload, ModelRequested):
                remains.attempts.setdefault(event.span_id, []).append(event)
        if isinstance(payload, TaskStartedEvent):
            remains.story(payload.run_id).task = event
            if event.span_id is not None:
                remains.task_spans.add(event.span_id)
        if event.agent is not None:
            _note(event, remains.story(event.agent.id))
    return remains


def _note_time(event: Event, remains: Remains) -> None:
    if event.turn_id is None:
        return
    if event.span is not None:
        if event.span.status_description == names.PROCESS_DIED:
            remains.closed_at.setdefault(event.turn_id, event.span.end_ns)
            return
        remains.instances.setdefault(event.turn_id, event.span.instance_id)
    if _may_be_later(event):
        return
    seen = max(nanoseconds(event.ts), 0 if event.span is None else event.span.end_ns)
    remains.ends[event.turn_id] = max(seen, remains.ends.get(event.turn_id, 0))


def _may_be_later(event: Event) -> bool:
    """Whether a later process may have written it for the one that died: answers, and what closes."""
    match event.payload:
        case ResultsDelivered() | RecoveryReleased():
            return True
        case MessageAppended(message=message):
            return message.role == "tool"
        case ToolFinished(error=ToolError(code=ErrorCode.INTERRUPTED)):
            return True
        case RunSettled(status="interrupted"):
            return True
        case _:
            return False


def _note(event: Event, story: Story) -> None:
    match event.payload:
        case AgentStarted():
            story.started = event
        case ModelResponded(error=ToolError(code=ErrorCode.INTERRUPTED)):
            pass  # an earlier closing's, which another crash broke off
        case ModelResponded(usage=usage, error=error, duration_ms=duration, finish_reason=reason):
            story.usage += usage
            story.waits += Waits(model=duration)
            story.turns += 1 if error is None and reason != "cancelled" else 0
        case ToolStarted():
            story.tool_calls += 1
        case ToolFinished(error=ToolError(code=ErrorCode.INTERRUPTED)):
            pass
        case ToolFinished(waits=waits):
            story.waits += waits
        case MessageAppended(message=message) if message.role == "assistant" and message.text.strip():
            story.text = message.text
        case RecoveryGrace() | RecoveryCounted() | RecoveryExhausted():
            story.guard.append(event)
        case TurnFinished(status=status):
            story.status = status
        case _:
            pass
