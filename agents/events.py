"""Everything that happens, as values: one envelope and one payload class per type. Pure.

An event is stored first and shown afterwards. `text.delta` and `tool.progress` alone are ephemeral: they have
no `seq` and no row. `lock.waited` and `run.settled` are stored for the trace and not printed. Unknown
types must be ignorable; fields are only ever added.
"""

from __future__ import annotations

import datetime
from typing import Any, ClassVar

import msgspec

from agents.errors import ToolError
from agents.messages import Message, Usage
from agents.requests import Denial, PermissionRequest
from agents.results import FileChange, TaskResult, TaskStatus, Waits
from telemetry.records import SpanRecord

WIRE_VERSION = 1


class AgentRef(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which agent speaks. `id` is its owner id: the runId of a delegate, the turnId of the main agent."""

    id: str
    name: str
    label: str
    depth: int


class Payload(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type", omit_defaults=True
):
    """Base of all payloads; the tag is the event's type."""

    EPHEMERAL: ClassVar[bool] = False
    PRINTED: ClassVar[bool] = True

    @property
    def type(self) -> str:
        tag = type(self).__struct_config__.tag
        assert isinstance(tag, str)
        return tag


class SessionStarted(Payload, frozen=True, kw_only=True, rename="camel", tag="session.started"):
    workspace: str
    mode: str
    permission_mode: str
    model: str
    resumed: bool
    main_agent: str = "main"
    """Definition that plays the main agent."""
    base_url: str | None = None
    trace_target: str | None = None
    """Where this session's spans go: an endpoint, `file:PATH`, or None for nowhere."""
    instance_id: str | None = None
    """`service.instance.id` of the process, as on its spans."""


class SessionChanged(Payload, frozen=True, kw_only=True, rename="camel", tag="session.changed"):
    """A person changed a mode while the session was open; both are given as they are now."""

    mode: str
    permission_mode: str


class ResumedTrace(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which earlier turn a resume goes on with: the root of its trace, and why."""

    trace_id: str
    span_id: str
    attempt: int
    """2 for the first resume, 3 for the resume of that one …"""
    reason: str
    """How the earlier turn or run ended: its error's code, else its status."""


class TurnStarted(Payload, frozen=True, kw_only=True, rename="camel", tag="turn.started"):
    prompt: str
    index: int
    """From 0, counted per session."""
    resumes_task: str | None = None
    """Set where a person's resume of a Task is this turn."""
    resumes_trace: ResumedTrace | None = None
    """Set where this turn is a resume."""
    trace_targets: tuple[str, ...] = ()
    """Every place that the turn's spans go to, as in `trace_target`; empty: they are not exported, ever."""


class AgentStarted(Payload, frozen=True, kw_only=True, rename="camel", tag="agent.started"):
    name: str
    model: str
    tools: tuple[str, ...]
    provider: str | None = None
    """The model's provider, as telemetry names it."""


class AgentFinished(Payload, frozen=True, kw_only=True, rename="camel", tag="agent.finished"):
    status: TaskStatus
    usage: Usage
    turns: int
    error: ToolError | None = None


class ModelRequested(Payload, frozen=True, kw_only=True, rename="camel", tag="model.requested"):
    attempt: int


class ModelResponded(Payload, frozen=True, kw_only=True, rename="camel", tag="model.responded"):
    usage: Usage
    finish_reason: str
    duration_ms: int
    first_chunk_ms: int | None = None
    error: ToolError | None = None


class TextDelta(Payload, frozen=True, kw_only=True, rename="camel", tag="text.delta"):
    EPHEMERAL: ClassVar[bool] = True
    text: str


class MessageAppended(Payload, frozen=True, kw_only=True, rename="camel", tag="message.appended"):
    message: Message


class ToolStarted(Payload, frozen=True, kw_only=True, rename="camel", tag="tool.started"):
    call_id: str
    tool: str
    arguments: Any


class ToolProgress(Payload, frozen=True, kw_only=True, rename="camel", tag="tool.progress"):
    EPHEMERAL: ClassVar[bool] = True
    call_id: str
    stream: str
    text: str


class ToolFinished(Payload, frozen=True, kw_only=True, rename="camel", tag="tool.finished"):
    call_id: str
    tool: str
    ok: bool
    terminate: bool
    duration_ms: int
    waits: Waits
    result: Any | None = None
    """The result object as on the wire (a failed or timed-out Bash has both `result` and `error`)."""
    error: ToolError | None = None


class PermissionRequested(Payload, frozen=True, kw_only=True, rename="camel", tag="permission.requested"):
    request: PermissionRequest
    mode: str | None = None
    """The permission mode that made it ask."""


class PermissionResolved(Payload, frozen=True, kw_only=True, rename="camel", tag="permission.resolved"):
    request_id: str
    decision: str
    source: str
    wait_ms: int
    by: str | None = None
    """The person who decided, where one is known by name."""


class RecoveryGrace(Payload, frozen=True, kw_only=True, rename="camel", tag="recovery.grace"):
    kind: str
    target: str
    code: str
    attempt: int
    limit: int


class RecoveryCounted(Payload, frozen=True, kw_only=True, rename="camel", tag="recovery.counted"):
    kind: str
    target: str
    code: str
    attempt: int
    limit: int


class RecoveryExhausted(Payload, frozen=True, kw_only=True, rename="camel", tag="recovery.exhausted"):
    kind: str
    target: str
    code: str
    attempt: int
    limit: int


class RecoveryKey(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One key of the mutation guard that was held at settlement."""

    kind: str
    target: str
    attempts: int
    graces: tuple[str, ...] = ()


class RecoveryReleased(Payload, frozen=True, kw_only=True, rename="camel", tag="recovery.released"):
    owner: str
    keys: tuple[RecoveryKey, ...]


class TaskStartedEvent(Payload, frozen=True, kw_only=True, rename="camel", tag="task.started"):
    task_id: str
    run_id: str
    chain_id: str
    agent_name: str
    description: str
    prompt: str
    model: str
    parent_owner: str
    resumes: str | None = None
    """The taskId this run continues."""


class TaskFinished(Payload, frozen=True, kw_only=True, rename="camel", tag="task.finished"):
    task_id: str
    run_id: str
    chain_id: str
    agent_name: str
    description: str
    result: TaskResult
    resumes: str | None = None


class LockWaited(Payload, frozen=True, kw_only=True, rename="camel", tag="lock.waited"):
    PRINTED: ClassVar[bool] = False
    call_id: str
    wait_ms: int


class RunSettled(Payload, frozen=True, kw_only=True, rename="camel", tag="run.settled"):
    PRINTED: ClassVar[bool] = False
    owner: str
    status: TaskStatus


class ResultsDelivered(Payload, frozen=True, kw_only=True, rename="camel", tag="results.delivered"):
    """Which settled tasks the parent has now been given, by TaskWait or a hand-over."""

    PRINTED: ClassVar[bool] = False
    task_ids: tuple[str, ...]


class EffectsTold(Payload, frozen=True, kw_only=True, rename="camel", tag="effects.told"):
    """Which effects that a crash left open the agent has now been told of, by the message beside this."""

    PRINTED: ClassVar[bool] = False
    effect_ids: tuple[str, ...]


class TurnClosed(Payload, frozen=True, kw_only=True, rename="camel", tag="turn.closed"):
    """The last delegate of a turn that had given way to a follow-up prompt has settled: its root span ends."""

    PRINTED: ClassVar[bool] = False
    status: TaskStatus


class TurnFinished(Payload, frozen=True, kw_only=True, rename="camel", tag="turn.finished"):
    status: TaskStatus
    text: str
    usage: Usage
    duration_ms: int
    waits: Waits
    denials: tuple[Denial, ...]
    files_changed: tuple[FileChange, ...]
    error: ToolError | None = None
    cost_usd: float | None = None


AnyPayload = (
    SessionStarted
    | SessionChanged
    | TurnStarted
    | AgentStarted
    | AgentFinished
    | ModelRequested
    | ModelResponded
    | TextDelta
    | MessageAppended
    | ToolStarted
    | ToolProgress
    | ToolFinished
    | PermissionRequested
    | PermissionResolved
    | RecoveryGrace
    | RecoveryCounted
    | RecoveryExhausted
    | RecoveryReleased
    | TaskStartedEvent
    | TaskFinished
    | LockWaited
    | RunSettled
    | ResultsDelivered
    | EffectsTold
    | TurnFinished
    | TurnClosed
)


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened. In the process only; `to_wire` and `from_wire` are its shape outside."""

    session_id: str
    turn_id: str | None
    agent: AgentRef | None
    task_id: str | None
    payload: AnyPayload
    ts: str
    """RFC 3339, UTC, milliseconds."""
    seq: int = 0
    """Per session from 1 without gaps, in commit order; given by the store. 0: not stored."""
    trace_id: str | None = None
    span_id: str | None = None
    parent_span_id: str | None = None
    span: SpanRecord | None = None
    """The whole span, on the event that ends it. Stored, never printed."""

    @property
    def type(self) -> str:
        return self.payload.type


def to_wire(event: Event) -> dict[str, Any]:
    """The flat camelCase object of `--output-format stream-json` (and of the store, without the span).

    Where payload and envelope share a key (`taskId`), the payload's value is the one shown.
    """
    wire: dict[str, Any] = {"v": WIRE_VERSION}
    if not event.payload.EPHEMERAL:
        wire["seq"] = event.seq
    wire["ts"] = event.ts
    wire["type"] = event.type
    wire["sessionId"] = event.session_id
    wire["turnId"] = event.turn_id
    wire["agent"] = None if event.agent is None else msgspec.to_builtins(event.agent)
    wire["taskId"] = event.task_id
    wire["traceId"] = event.trace_id
    wire["spanId"] = event.span_id
    wire["parentSpanId"] = event.parent_span_id
    wire.update(msgspec.to_builtins(event.payload))
    return wire


def from_wire(wire: dict[str, Any], span: SpanRecord | None = None) -> Event | None:
    """The event of a stored or printed object; None for a type that this version does not know."""
    try:
        payload = msgspec.convert(wire, AnyPayload)
    except msgspec.ValidationError:
        if wire.get("type") in KNOWN_TYPES:
            raise
        return None
    agent = wire.get("agent")
    return Event(
        session_id=wire["sessionId"],
        turn_id=wire.get("turnId"),
        agent=None if agent is None else msgspec.convert(agent, AgentRef),
        task_id=wire.get("taskId"),
        payload=payload,
        ts=wire["ts"],
        seq=wire.get("seq", 0),
        trace_id=wire.get("traceId"),
        span_id=wire.get("spanId"),
        parent_span_id=wire.get("parentSpanId"),
        span=span,
    )


KNOWN_TYPES = frozenset(cls.__struct_config__.tag for cls in AnyPayload.__args__)


def nanoseconds(ts: str) -> int:
    """A time as `timestamp` writes it, in nanoseconds since the epoch."""
    milliseconds = round(datetime.datetime.fromisoformat(ts).timestamp() * 1000)
    return milliseconds * 1_000_000


def timestamp(ns: int) -> str:
    """Nanoseconds since the epoch as RFC 3339 in UTC with milliseconds."""
    moment = datetime.datetime.fromtimestamp(ns // 1_000_000 / 1000, tz=datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
