"""Events as lines for people, and what is known of each agent so far. Pure.

A tool row says how its call ended, and nothing else derives from it: that an agent or a turn failed is
said by its own row alone.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from agents.errors import ToolError
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
    TurnFinished,
    TurnStarted,
)
from agents.messages import Text, Usage
from agents.results import Waits
from agents.rules.preview import visible

QUIET_TOOLS = frozenset({"Task", "TaskWait", "TaskList"})
"""Their good ends are told by the rows of the tasks."""
SUBJECTS = ("command", "pattern", "path", "subagent_type", "taskIds")
"""The argument that says most about a call, in order of preference."""
MAX_SUBJECT = 90
DECISIONS = {
    "allow-once": "allowed once",
    "allow-session": "allowed for the session",
    "deny": "denied",
    "timeout": "denied: nobody answered in time",
    "cancelled": "withdrawn",
    "no-approver": "denied: nobody to ask",
}


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
        text = f"? {_label(event)} {request.tool} waits for you: {request.reason} · {request.id}"
        return [_line(text, "yellow")]

    def _resolved(self, resolved: PermissionResolved, event: Event) -> list[Line]:
        self._wait(event, -1)
        tool = self._requests.pop(resolved.request_id, "")
        how = DECISIONS.get(resolved.decision, resolved.decision)
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
            code = finished.error.code.value
            return [
                _line(f"✗ {_label(event)} {finished.status} · {code}: {finished.error.message}", "bold red")
            ]
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
    """A finished call: one row where it went well, its whole error where it did not."""
    head = f"{label} {finished.tool} {subject}".strip()
    took = seconds(finished.duration_ms)
    if finished.error is None:
        return [] if finished.tool in QUIET_TOOLS else [_line(f"  ✓ {head} · {took}", "dim")]
    ends = " · ends this run" if finished.terminate else ""
    return [
        _line(f"  ✗ {head} · {took} · {finished.error.code.value}: {finished.error.message}{ends}", "red")
    ]


def card(finished: TurnFinished, session_id: str, turn_id: str | None) -> list[tuple[str, str]]:
    """How a turn ended: names and values, for the one card at its end."""
    rows = [("outcome", f"{finished.status} in {seconds(finished.duration_ms)}")]
    if finished.error is not None:
        rows.append(("error", told(finished.error)))
    rows += [
        ("tokens", tokens(finished.usage)),
        ("time", split(finished.waits)),
    ]
    if finished.files_changed:
        rows.append(
            ("files", ", ".join(f"{change.path} ({change.change})" for change in finished.files_changed))
        )
    if finished.denials:
        denied = ", ".join(f"{one.tool} of {one.agent} ({one.reason})" for one in finished.denials)
        rows.append(("denied", f"{denied} · allow in advance with --allow RULE or --permission-mode"))
    rows.append(("session", session_id))
    if finished.status != "completed":
        rows.append(("go on", f"orchestrator resume {session_id}"))
    return [(name, visible(value)) for name, value in rows]


def subject_of(arguments: Any) -> str:
    """What a call is about, in a few words."""
    if not isinstance(arguments, Mapping):
        return ""
    named = next((arguments[name] for name in SUBJECTS if arguments.get(name)), "")
    text = " ".join(str(named).split())
    return text if len(text) <= MAX_SUBJECT else f"{text[: MAX_SUBJECT - 1]}…"


def told(error: ToolError) -> str:
    return f"{error.code.value}: {error.message}"


def tokens(usage: Usage) -> str:
    cached = f" ({usage.cache_read_tokens:,} cached)" if usage.cache_read_tokens else ""
    return f"{usage.input_tokens:,} in{cached}, {usage.output_tokens:,} out"


def split(waits: Waits) -> str:
    """Where an agent's time went."""
    parts = (("model", waits.model), ("tools", waits.tool), ("you", waits.permission), ("locks", waits.lock))
    return ", ".join(f"{name} {seconds(value)}" for name, value in parts)


def seconds(milliseconds: float) -> str:
    if milliseconds < 1000:
        return f"{round(milliseconds)} ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1000:.1f} s"
    minutes, rest = divmod(round(milliseconds / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} m" if hours else f"{minutes} m {rest:02} s"


def elapsed(start: str, end: str | None) -> str:
    """Between two RFC 3339 times; empty where there is no end."""
    if end is None:
        return ""
    begun, ended = (datetime.datetime.fromisoformat(text) for text in (start, end))
    return seconds((ended - begun).total_seconds() * 1000)


def counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _label(event: Event) -> str:
    return "session" if event.agent is None else event.agent.label


def _line(text: str, style: str = "") -> Line:
    return Line(visible(text), style)
