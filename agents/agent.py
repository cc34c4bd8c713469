"""`Agent`: one executing agent with everything its loop may use, and the running tally of what it did."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs

from agents.emitter import Emitter
from agents.errors import ToolError
from agents.events import AgentRef, AgentStarted, AnyPayload, MessageAppended
from agents.gate import Gate
from agents.journal import Journal
from agents.locks import PathLocks
from agents.messages import Message, Usage
from agents.models.base import Model
from agents.outcome import AgentOutcome, Ending
from agents.ports import Delegator
from agents.requests import Denial
from agents.results import FileChange, Waits, merge_changes
from agents.rules.recovery import RecoveryBook
from agents.snapshots import SnapshotStore
from agents.spec import AgentSpec
from agents.tools.active import ActiveTools
from agents.tools.base import Tool
from agents.tools.search.helpers import SearchHelpers
from agents.workspace import Workspace
from telemetry.records import SpanRef
from telemetry.spans import Span


@attrs.define
class Tally:
    """What a run did so far. Read live by TaskList, and by settlement whatever the ending."""

    turns: int = 0
    tool_calls: int = 0
    usage: Usage = attrs.field(factory=Usage)
    waits: Waits = attrs.field(factory=Waits)
    last_tool: str | None = None
    asking: int = 0
    """How many of its calls wait for a permission now."""
    denials: list[Denial] = attrs.field(factory=list)
    files: dict[str, FileChange] = attrs.field(factory=dict)
    terminal: ToolError | None = None
    """Set when the mutation guard ended the run."""
    error_span: SpanRef | None = None
    graces: int = 0
    counted: int = 0

    def changed(self, change: FileChange) -> None:
        """Note a change; several changes of one file become one from the first state to the last."""
        earlier = self.files.pop(change.path, None)
        if earlier is not None:
            change = merge_changes(earlier, change)
        if change.before != change.after:
            self.files[change.path] = change


@attrs.define
class Transcript:
    """A conversation in memory; each message is stored before it counts."""

    emitter: Emitter
    span: Span
    messages: list[Message] = attrs.field(factory=list)

    async def append(self, message: Message, *also: AnyPayload) -> None:
        """Store `message` (and `also`, in the same transaction), then keep it."""
        payloads: Sequence[AnyPayload] = (MessageAppended(message=message), *also)
        await self.emitter.sink.emit([self.emitter.event(payload, self.span) for payload in payloads])
        self.messages.append(message)

    @property
    def last_text(self) -> str:
        """The newest visible text the agent wrote."""
        for message in reversed(self.messages):
            if message.role == "assistant" and message.text.strip():
                return message.text
        return ""


@attrs.define(eq=False)
class Agent:
    """One agent for one run. Shared parts (workspace, locks, recovery, sink) belong to the session."""

    spec: AgentSpec
    ref: AgentRef
    owner: str
    """runId of a delegate, turnId of the main agent: keys of the mutation guard hang on it."""
    model: Model
    system: str
    tools: Mapping[str, Tool]
    """By name: what it has, whether active or not."""
    gate: Gate
    recovery: RecoveryBook
    emitter: Emitter
    workspace: Workspace
    snapshots: SnapshotStore
    locks: PathLocks
    journal: Journal
    span: Span
    """`invoke_agent`."""
    child_environment: Callable[[str, Span], Mapping[str, str]]
    """The environment for a call's processes, by call id and tool span."""
    max_turns: int
    capture_content: bool = False
    """Whether arguments and results go into spans."""
    delegator: Delegator | None = None
    helpers: SearchHelpers | None = None
    tally: Tally = attrs.field(factory=Tally)
    active: ActiveTools = attrs.field(
        default=attrs.Factory(lambda self: ActiveTools(tuple(self.tools)), takes_self=True)
    )
    """The tools that its requests carry: all of them, unless some are deferred."""

    async def announce(self) -> None:
        """Store that it has started, with what."""
        started = AgentStarted(
            name=self.spec.name,
            model=self.model.name,
            tools=tuple(self.tools),
            provider=self.model.provider,
        )
        await self.emitter.emit(started, self.span)

    def outcome(self, ending: Ending, text: str, error: ToolError | None = None) -> AgentOutcome:
        """What the run has to show for itself now."""
        return AgentOutcome(
            ending=ending,
            text=text,
            error=error,
            turns=self.tally.turns,
            tool_calls=self.tally.tool_calls,
            usage=self.tally.usage,
            waits=self.tally.waits,
            files_changed=tuple(self.tally.files.values()),
            denials=tuple(self.tally.denials),
            error_span=self.tally.error_span,
        )

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """Count a call as waiting for a permission for the block."""
        self.tally.asking += 1
        try:
            yield
        finally:
            self.tally.asking -= 1
