"""The `Store` interface and the rows it answers with.

Two implementations pass one suite (`SqliteStore`, `MemoryStore`); a server database can join without
touching a caller. Rows are projections: each can be rebuilt from the events, except the effect journal, the
leases and the watermarks of the span export, which are facts of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol

import attrs

from agents.events import Event
from agents.messages import Message
from agents.requests import PermissionRequest
from agents.results import TaskResult
from agents.rules.effects import EffectIntent, EffectResult, Verdict
from orchestrator.store.holders import Holder
from orchestrator.store.mail import Letter
from telemetry.records import SpanRecord

RUNNING = "running"
TASKS_LISTED = 200
"""How many tasks of all sessions are listed where nobody asks for another number."""


@attrs.frozen
class SessionRow:
    """One session, as of its newest event. Times are RFC 3339 UTC."""

    session_id: str
    workspace: str
    mode: str
    permission_mode: str
    model: str
    base_url: str | None
    agent: str
    title: str
    """First line of the first prompt."""
    created: str
    updated: str
    turns: int
    status: str
    """Status of the newest turn, or `running`."""
    last_seq: int


@attrs.frozen
class TurnRow:
    """One prompt and what came of it."""

    turn_id: str
    session_id: str
    index: int
    prompt: str
    status: str
    """`running` or a TaskStatus."""
    error_code: str | None
    text: str
    started: str
    finished: str | None
    trace_id: str | None
    span_id: str | None
    resumes_task: str | None


@attrs.frozen
class TaskRow:
    """One delegate run. Every taskId issued on a chain addresses the chain."""

    task_id: str
    run_id: str
    chain_id: str
    session_id: str
    turn_id: str | None
    agent_name: str
    label: str
    description: str
    prompt: str
    model: str
    parent_owner: str
    depth: int
    resumes: str | None
    status: str
    """`running` or a TaskStatus."""
    started: str
    finished: str | None
    result: TaskResult | None
    delivered: bool
    """Whether the parent has been given the result."""
    trace_id: str | None
    span_id: str | None
    """The Task's (or, for a person's resume, the agent's) span."""


@attrs.frozen
class RequestRow:
    """One permission request and how it was closed."""

    request: PermissionRequest
    decision: str | None
    """None while open."""
    source: str | None
    wait_ms: int | None
    decided_by: str | None = None
    """The person, where one is known by name."""
    closed: str | None = None
    """When it was closed, RFC 3339 UTC."""


@attrs.frozen
class EffectRow:
    """One journal entry. `before_image` is left out of `intent` here (None)."""

    intent: EffectIntent
    result: EffectResult | None
    verdict: str | None
    """What start-up recovery found for an effect without a result."""
    at: str


@attrs.frozen
class CallRow:
    """One tool call as journalled."""

    call_id: str
    session_id: str
    turn_id: str | None
    task_id: str | None
    owner: str
    tool: str
    ok: bool | None
    """None while open."""
    error_code: str | None
    started: str
    finished: str | None


@attrs.frozen
class Found:
    """What an id or a unique prefix of one names."""

    kind: Literal["session", "turn", "task", "run", "chain"]
    id: str
    session_id: str


@attrs.frozen
class Lease:
    """The right to work on one session. Every transaction of its holder checks `epoch`."""

    session_id: str
    epoch: int


CommitListener = Callable[[Sequence[Event]], None]
"""Called on the trio thread after each commit, before anybody's `append` returns, in `seq` order per session.
Must not raise or block."""


class Store(Protocol):
    """Everything a session is. Errors leave as `Failure` with STORE_* or CHAIN_LOCKED."""

    @property
    def location(self) -> str:
        """The database file's path, or `memory`."""
        ...

    def listen(self, listener: CommitListener) -> None:
        """Register a listener for committed events of this process."""
        ...

    async def append(self, events: Sequence[Event]) -> tuple[Event, ...]:
        """Store `events` and their projections in one transaction; return them with their `seq`.

        Returns after the commit. Cancelling the wait does not cancel the write.
        """
        ...

    async def intend(self, intent: EffectIntent) -> None:
        """Journal an intent (and keep its before-image beside the store); durable on return."""
        ...

    async def finish(self, result: EffectResult) -> None:
        """Journal an effect's result."""
        ...

    async def judge(self, effect_id: str, verdict: Verdict) -> None:
        """Journal what start-up recovery found for an effect without a result; it is no longer open then."""
        ...

    async def before_image(self, effect_id: str) -> bytes | None:
        """The bytes that an effect's file held before; None where none were kept."""
        ...

    def lease(self, session_id: str, *, patience: float = 65.0) -> AbstractAsyncContextManager[Lease]:
        """Hold the session for the block, with a heartbeat. `Failure` CHAIN_LOCKED names a living holder.

        A holder on another host or in another container is watched for at most `patience` seconds.
        While a session is held, this store alone may write to it.
        """
        ...

    async def unsettled(self) -> tuple[str, ...]:
        """Sessions with a turn or task that says `running`, held by somebody or not; oldest first."""
        ...

    async def holder(self, session_id: str) -> Holder | None:
        """The process that holds the session and is not known to be dead; None: nobody works on it."""
        ...

    async def post(self, letter: Letter) -> None:
        """Leave a letter for the process that holds the session; durable on return.

        Raises `Failure` CONFLICT, and changes nothing, for one that comes too late: the request is closed or
        answered, nothing runs, nobody alive holds the session. Raises TOOL_DENIED for a caller that descends
        from a tool's process: what an agent runs never answers for the person.
        """
        ...

    async def take(self, session_id: str, patience: float = 0.0) -> tuple[Letter, ...]:
        """The letters for a session that this store holds, oldest first; each is given out once.

        Where there is none, waits about `patience` seconds (of real time, whatever trio's clock is) for one.
        """
        ...

    async def sessions(self, limit: int = 50) -> tuple[SessionRow, ...]:
        """Newest first."""
        ...

    async def session(self, session_id: str) -> SessionRow | None: ...

    async def turns(self, session_id: str) -> tuple[TurnRow, ...]:
        """In order of their index."""
        ...

    async def tasks(self, session_id: str | None = None, limit: int | None = None) -> tuple[TaskRow, ...]:
        """Of one session in order of start; of all sessions newest first.

        At most the newest `limit`; None: every task of one session, `TASKS_LISTED` of all sessions.
        """
        ...

    async def task(self, task_id: str) -> TaskRow | None: ...

    async def chain(self, chain_id: str) -> tuple[TaskRow, ...]:
        """The runs of one chain in order."""
        ...

    async def find(self, prefix: str) -> tuple[Found, ...]:
        """What `prefix` names: exact ids first, else every id that starts with it (at most 20)."""
        ...

    async def find_label(self, label: str, session_id: str) -> TaskRow | None:
        """The newest run of the chain with this label."""
        ...

    async def events(self, session_id: str, after: int = 0) -> tuple[Event, ...]:
        """Stored events with `seq` above `after`, in order; types unknown to this version are left out."""
        ...

    async def messages(self, session_id: str, task_ids: Sequence[str] | None) -> tuple[Message, ...]:
        """A conversation in order: of the main agent (None) or of a chain's runs."""
        ...

    async def spans(self, session_id: str, trace_id: str | None = None) -> tuple[SpanRecord, ...]:
        """Ended spans as stored, in `seq` order."""
        ...

    async def watermark(self, session_id: str, target: str) -> int:
        """The `seq` up to which `target` has acknowledged the session's spans; 0: none of them."""
        ...

    async def acknowledge(self, session_id: str, target: str, seq: int) -> None:
        """Move that watermark."""
        ...

    async def requests(
        self, session_id: str | None = None, *, only_open: bool = False
    ) -> tuple[RequestRow, ...]:
        """Permission requests in order of arrival."""
        ...

    async def calls(self, session_id: str) -> tuple[CallRow, ...]:
        """Tool calls in order of start."""
        ...

    async def effects(self, session_id: str, *, only_open: bool = False) -> tuple[EffectRow, ...]:
        """Journal entries in order."""
        ...
