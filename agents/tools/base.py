"""The tool protocol: prepare (targets, check), run, and what a run is given."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol

import attrs
import msgspec

from agents.errors import ToolError
from agents.events import AgentRef
from agents.journal import Journal
from agents.locks import PathLocks
from agents.permit import Permit
from agents.ports import Delegator
from agents.results import FileChange
from agents.rules.paths import ResolvedPath
from agents.snapshots import SnapshotStore
from agents.tools.active import ActiveTools
from agents.tools.groups import CallGroup
from agents.tools.search.helpers import SearchHelpers
from agents.workspace import Workspace
from telemetry.spans import Span

Risk = Literal["low", "high"]
__all__ = [
    "CallGroup",
    "PathUse",
    "Preview",
    "Risk",
    "Target",
    "Tool",
    "ToolContext",
    "ToolOutput",
    "WaitKind",
]

WaitKind = Literal["permission", "lock"]


class PathUse(enum.Enum):
    """What a call does at a path."""

    READ = "read"
    WRITE = "write"


@attrs.frozen
class Target:
    """One path argument and what the call does there."""

    path: str
    """As the model wrote it."""
    use: PathUse
    explicit: bool = True
    """False for a default (Grep without `path`): never an outside path."""


@attrs.frozen
class Preview:
    """What a request shows of a Write or Edit inside the roots."""

    diff: str


@attrs.frozen
class ToolOutput:
    """What a tool hands back. `error` beside `result`: a failed Bash keeps its whole result."""

    result: msgspec.Struct | None
    error: ToolError | None = None
    attributes: Mapping[str, Any] = attrs.field(factory=dict)
    """Facts for the tool span (names from `telemetry.attributes`); never content."""
    files_changed: tuple[FileChange, ...] = ()
    """Changes inside the workspace."""
    mutated: str | None = None
    """Canonical path of a successful mutation, wherever it lies: it clears the guard's key."""
    delivers: tuple[str, ...] = ()
    """Tasks whose results this output hands to the model; noted in the transaction of the tool message."""
    ended_ns: int | None = None
    """When the span ends, where that is not now: a wait ends with the settlement it waited for."""
    keep_span_open: bool = False
    """True for Task: somebody else ends the span, at settlement."""


@attrs.frozen
class ToolContext:
    """What one call may use. Shared parts belong to the session, the rest to the one agent."""

    call_id: str
    session_id: str
    agent: AgentRef
    workspace: Workspace
    snapshots: SnapshotStore
    """This agent's own."""
    locks: PathLocks
    """The session's."""
    journal: Journal
    span: Span
    """The tool span."""
    waiting: Callable[[WaitKind], AbstractContextManager[None]]
    """Wrap every wait for a permission or a lock in this: it adds the time to the call's waits and lets
    a terminating sibling cut the wait (then `Failure` with TOOL_ABORTED leaves the block)."""
    progress: Callable[[str, str], None]
    """`progress(stream, text)`: an ephemeral event."""
    environment: Mapping[str, str]
    """The environment for child processes, already scrubbed (no provider key, no OTEL_*), with the
    session/run/call markers, TRACEPARENT and ORCHESTRATOR_SCRATCH_DIR set."""
    delegator: Delegator | None = None
    helpers: SearchHelpers | None = None
    """The session's processes for large searches; None: there are none."""
    active: ActiveTools | None = None
    """Which tools the agent has, and which of them are active; None: not known, nothing is ruled out."""


class Tool(Protocol):
    """One native, custom or plugin tool. Stateless: everything a call needs comes with the context."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str:
        """One paragraph that carries the limits in numbers; the contract's words come from guidance."""
        ...

    @property
    def risk(self) -> Risk: ...

    @property
    def group(self) -> CallGroup: ...

    @property
    def input(self) -> type[msgspec.Struct]:
        """The argument class: frozen, camelCase, unknown fields forbidden. Its JSON Schema is the tool's."""
        ...

    @property
    def timeout_seconds(self) -> float | None:
        """Wall-clock bound of `run`, waits included; None: the tool bounds itself."""
        ...

    def targets(self, arguments: Any) -> tuple[Target, ...]:
        """The paths the call names. No I/O."""
        ...

    async def check(
        self, arguments: Any, paths: tuple[ResolvedPath, ...], context: ToolContext
    ) -> Preview | None:
        """The call's own checks without an effect, before anybody is asked. Inside the roots only.

        Raises `Failure`: the error is returned at once and nobody is asked. None: nothing to show.
        """
        ...

    async def run(self, arguments: Any, permit: Permit, context: ToolContext) -> ToolOutput:
        """Do it. Raises `Failure` for every foreseen error; cancellation leaves nothing behind."""
        ...
