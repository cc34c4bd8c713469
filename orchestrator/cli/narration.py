"""Events as lines for people, and what is known of each agent so far. Pure.

A tool row says how its call ended, and nothing else derives from it: that an agent or a turn failed is
said by its own row alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from agents.events import (
    AgentFinished,
    AgentRef,
    AgentStarted,
    Event,
    MessageAppended,
    ModelRequested,
    ModelResponded,
    PermissionRequested,
    PermissionResolved,
    RecoveryExhausted,
    SessionStarted,
    TaskStartedEvent,
    ToolFinished,
    ToolStarted,
    TurnStarted,
)
from agents.messages import Text
from agents.rules.preview import visible
from orchestrator.cli.last_words import last_words
from orchestrator.cli.words import counted, decided, elapsed, seconds, subject_of, told
from telemetry.attributes import PERMISSION_SCOPE

QUIET_TOOLS = frozenset({"Task", "TaskWait", "TaskList"})
"""Their good ends are told by the rows of the tasks."""


@attrs.frozen
class Line:
    """One row, without control characters; `style` is the terminal's."""

    text: str
    style: str = ""


@attrs.define
class AgentNow:
    """One agent as it stands."""

    ref: AgentRef
    parent: str | None
    """Owner id of the agent above it."""
    started: str
    doing: str = "thinking"
    asking: int = 0
    tokens: int = 0
    steps: int = 0
    """Tool calls so far."""
    status: str | None = None
    """None while it runs."""


@attrs.define
class Narrator:
    """Turns a session's events, in order, into rows."""

    announces: bool = True
    """Whether a request gets a row: not where it is shown beside the rows, nor where nobody is asked."""
    agents: dict[str, AgentNow] = attrs.field(factory=dict)
    """By owner id, in order of start."""
    _subjects: dict[str, str] = attrs.field(factory=dict)
    _requests: dict[str, str] = attrs.field(factory=dict)
    _parents: dict[str, str] = attrs.field(factory=dict)

    def lines(self, event: Event) -> list[Line]:
        """The rows of one event; none for what needs no row."""
        tell: Callable[[Any, Event], list[Line]] | None = getattr(
            self, _TELLERS.get(type(event.payload), ""), None
        )
        return [] if tell is None else tell(event.payload, event)

    def _session(self, started: SessionStarted, event: Event) -> list[Line]:
        mode = (
            started.permission_mode
            if started.mode == "agent"
            else f"{started.mode}, {started.permission_mode}"
        )
        again = "resumed · " if started.resumed else ""
        return [
            _line(
                f"session {event.session_id} · {again}{started.workspace} · {started.model} · {mode}", "dim"
            )
        ]

    def _turn(self, started: TurnStarted, event: Event) -> list[Line]:
        self.agents.clear()
        return []

    def _task(self, started: TaskStartedEvent, event: Event) -> list[Line]:
        self._parents[started.run_id] = started.parent_owner
        what = f" · {started.description}" if started.description else ""
        verb = "resumed" if started.resumes else "started"
        return [_line(f"▶ {_label(event)} {verb}{what} · {started.task_id}", "cyan")]

    def _agent(self, started: AgentStarted, event: Event) -> list[Line]:
        if event.agent is not None:
            ref = event.agent
            self.agents[ref.id] = AgentNow(ref=ref, parent=self._parents.get(ref.id), started=event.ts)
        return []

    def _asked(self, requested: ModelRequested, event: Event) -> list[Line]:
        self._set(event, "thinking" if requested.attempt <= 1 else f"asking again ({requested.attempt})")
        return []

    def _answered(self, responded: ModelResponded, event: Event) -> list[Line]:
        now = self._now(event)
        if now is not None:
            now.tokens += responded.usage.input_tokens + responded.usage.output_tokens
        return []

    def _message(self, appended: MessageAppended, event: Event) -> list[Line]:
        message = appended.message
        if message.role != "assistant" or not message.calls:
            return []  # the last text is the result, and shown as such
        texts = [part.text.strip() for part in message.parts if isinstance(part, Text)]
        return [_line(f"  {_label(event)}: {text}") for text in texts if text]

    def _call(self, started: ToolStarted, event: Event) -> list[Line]:
        self._subjects[started.call_id] = subject_of(started.arguments)
        self._set(event, f"{started.tool} {self._subjects[started.call_id]}".strip())
        return []

    def _called(self, finished: ToolFinished, event: Event) -> list[Line]:
        now = self._now(event)
        if now is not None:
            now.steps += 1
        subject = self._subjects.pop(finished.call_id, "")
        return tool_rows(finished, _label(event), subject)

    def _request(self, requested: PermissionRequested, event: Event) -> list[Line]:
        request = requested.request
        self._requests[request.id] = request.tool
        self._wait(event, 1)
        if not self.announces:
            return []
        text = f"? {_label(event)} {request.tool} waits for you: {request.reason} · {request.id}"
        return [_line(text, "yellow")]

    def _resolved(self, resolved: PermissionResolved, event: Event) -> list[Line]:
        self._wait(event, -1)
        tool = self._requests.pop(resolved.request_id, "")
        scope = None if event.span is None else event.span.attributes.get(PERMISSION_SCOPE)
        how = decided(resolved.decision, scope)
        who = resolved.source if resolved.by is None else f"{resolved.source}, {resolved.by}"
        text = f"  {_label(event)} {tool} {how} ({who}, {seconds(resolved.wait_ms)})"
        return [_line(text, "yellow")]

    def _exhausted(self, exhausted: RecoveryExhausted, event: Event) -> list[Line]:
        text = f"! {_label(event)} has used up its {exhausted.limit} attempts at {exhausted.target}"
        return [_line(text, "red")]

    def _agent_end(self, finished: AgentFinished, event: Event) -> list[Line]:
        now = self._now(event)
        took = "" if now is None else f" · {elapsed(now.started, event.ts)}"
        steps = "" if now is None else f" · {counted(now.steps, 'call')}"
        if now is not None:
            now.status = finished.status
        if finished.error is not None:
            text = f"✗ {_label(event)} {finished.status} · {told(finished.error)}"
            return [_line(text, "bold red")]
        if event.agent is None or event.agent.depth == 0:
            return []
        mark, style = ("■", "green") if finished.status == "completed" else ("□", "yellow")
        return [_line(f"{mark} {_label(event)} {finished.status}{took}{steps}", style)]

    def _now(self, event: Event) -> AgentNow | None:
        return None if event.agent is None else self.agents.get(event.agent.id)

    def _set(self, event: Event, doing: str) -> None:
        now = self._now(event)
        if now is not None:
            now.doing = doing

    def _wait(self, event: Event, change: int) -> None:
        now = self._now(event)
        if now is not None:
            now.asking += change


_TELLERS: dict[type, str] = {
    SessionStarted: "_session",
    TurnStarted: "_turn",
    TaskStartedEvent: "_task",
    AgentStarted: "_agent",
    ModelRequested: "_asked",
    ModelResponded: "_answered",
    MessageAppended: "_message",
    ToolStarted: "_call",
    ToolFinished: "_called",
    PermissionRequested: "_request",
    PermissionResolved: "_resolved",
    RecoveryExhausted: "_exhausted",
    AgentFinished: "_agent_end",
}


def tool_rows(finished: ToolFinished, label: str, subject: str) -> list[Line]:
    """A finished call: one row where it went well; where it did not its error, or a command's last words."""
    head = f"{label} {finished.tool} {subject}".strip()
    took = seconds(finished.duration_ms)
    if finished.error is None:
        return [] if finished.tool in QUIET_TOOLS else [_line(f"  ✓ {head} · {took}", "dim")]
    ends = " · ends this run" if finished.terminate else ""
    why = last_words(finished) or told(finished.error)
    return [_line(f"  ✗ {head} · {took} · {why}{ends}", "red")]


def _label(event: Event) -> str:
    return "session" if event.agent is None else event.agent.label


def _line(text: str, style: str = "") -> Line:
    return Line(visible(text), style)
