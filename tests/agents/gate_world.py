"""A workspace with its gate, for tests: real files, an approver that answers as told, events in memory."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import attrs
import msgspec
import trio

from agents.emitter import Emitter
from agents.errors import ErrorCode, Failure, ToolError, failure
from agents.events import AgentRef, Event, PermissionRequested, PermissionResolved
from agents.gate import Gate
from agents.journal import Journal
from agents.locks import PathLocks
from agents.messages import ToolCall
from agents.permit import Permit
from agents.requests import Answer, Decision, Denial, PermissionRequest
from agents.rules.effects import EffectIntent, EffectResult
from agents.rules.paths import ResolvedPath
from agents.rules.permissions import Grant, Policy, Rule
from agents.snapshots import SnapshotStore
from agents.spec import OperatingMode, PermissionMode
from agents.tools.base import CallGroup, PathUse, Preview, Target, ToolContext, ToolOutput, WaitKind
from agents.workspace import Workspace
from telemetry import attributes as names
from telemetry.spans import start_span

YES = Answer(decision=Decision.ALLOW_ONCE, source="test")
ALWAYS = Answer(decision=Decision.ALLOW_SESSION, source="test")
NO = Answer(decision=Decision.DENY, source="test", feedback="use b.txt")


class PathArguments(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    path: str
    content: str = ""
    ops: list[dict[str, Any]] | None = None


class BashArguments(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    command: str


def put(path: str, text: str) -> None:
    """Without a thread: an autojump clock would run on while one works."""
    Path(path).write_text(text)


@attrs.define
class FileTool:
    """A small tool on one path, with the checks and the effect of the real ones."""

    name: str
    use: PathUse
    explicit: bool = True
    checked: list[str] = attrs.field(factory=list)
    refuses: ToolError | None = None
    description: str = "A tool on one path."
    risk: Any = "high"
    group: CallGroup = CallGroup.MUTATION
    input: type[msgspec.Struct] = PathArguments
    timeout_seconds: float | None = None

    def targets(self, arguments: PathArguments) -> tuple[Target, ...]:
        return (Target(arguments.path, self.use, self.explicit),)

    async def check(
        self, arguments: PathArguments, paths: tuple[ResolvedPath, ...], context: ToolContext
    ) -> Preview | None:
        self.checked.append(paths[0].canonical)
        if self.refuses is not None:
            raise Failure(self.refuses)
        return Preview(f"+{arguments.content}\n") if self.use is PathUse.WRITE else None

    async def run(self, arguments: PathArguments, permit: Permit, context: ToolContext) -> ToolOutput:
        put(permit.paths[0].canonical, arguments.content)
        return ToolOutput(None)


@attrs.define
class BashTool:
    name: str = "Bash"
    description: str = "A command line."
    risk: Any = "high"
    group: CallGroup = CallGroup.ALONE
    input: type[msgspec.Struct] = BashArguments
    timeout_seconds: float | None = None

    def targets(self, arguments: BashArguments) -> tuple[Target, ...]:
        return ()

    async def check(
        self, arguments: BashArguments, paths: tuple[ResolvedPath, ...], context: ToolContext
    ) -> Preview | None:
        return None

    async def run(self, arguments: BashArguments, permit: Permit, context: ToolContext) -> ToolOutput:
        await trio.run_process(["bash", "-c", arguments.command], cwd=context.workspace.root)
        return ToolOutput(None)


class Recorder:
    """An `EventSink` in memory. `refuse` makes the next events of one type fail."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.refuse: str | None = None

    async def emit(self, events: Sequence[Event]) -> tuple[Event, ...]:
        await trio.lowlevel.checkpoint()
        if any(event.type == self.refuse for event in events):
            raise failure(ErrorCode.STORE_WRITE_FAILED, "The disk is full; free some space.")
        stored = tuple(
            msgspec.structs.replace(event, seq=len(self.events) + number)
            for number, event in enumerate(events, start=1)
        )
        self.events.extend(stored)
        return stored

    def show(self, event: Event) -> None:
        raise AssertionError("nothing here is ephemeral")

    @property
    def requests(self) -> list[PermissionRequest]:
        return [e.payload.request for e in self.events if isinstance(e.payload, PermissionRequested)]

    @property
    def resolved(self) -> list[PermissionResolved]:
        return [e.payload for e in self.events if isinstance(e.payload, PermissionResolved)]


class Book:
    """The session's grants."""

    def __init__(self) -> None:
        self.given: set[Grant] = set()

    def add(self, grant: Grant) -> None:
        self.given.add(grant)

    def all(self) -> frozenset[Grant]:
        return frozenset(self.given)


Respond = Callable[[PermissionRequest], Awaitable[Answer]]


@attrs.define
class Answers:
    """Answers from a list, or with a function; the last answer is repeated."""

    answers: list[Answer | Respond]
    asked: list[PermissionRequest] = attrs.field(factory=list)

    async def ask(self, request: PermissionRequest) -> Answer:
        await trio.lowlevel.checkpoint()
        self.asked.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return answer if isinstance(answer, Answer) else await answer(request)


@attrs.define
class World:
    """A workspace `/w/repo` beside outside folders, one gate, and everything that it said."""

    base: Path = attrs.field(converter=lambda path: path.resolve())
    mode: PermissionMode = PermissionMode.ASK
    operating: OperatingMode = OperatingMode.AGENT
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    answers: list[Answer | Respond] = attrs.field(factory=lambda: [NO])
    timeout: float = 120
    label: str = "fixer#2"
    sink: Recorder = attrs.field(factory=Recorder)
    book: Any = attrs.field(factory=Book)
    denials: list[Denial] = attrs.field(factory=list)
    cuttable: list[trio.CancelScope] = attrs.field(factory=list)
    approver: Any = None
    workspace: Workspace = attrs.field(init=False)
    gate: Gate = attrs.field(init=False)
    context: ToolContext = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        for folder in ("repo/src", "outside/other", "outside/ok", "repo-evil", "data", "home"):
            (self.base / folder).mkdir(parents=True, exist_ok=True)
        self.workspace = Workspace(
            self.base / "repo",
            scratch=self.base / "data" / "scratch" / "s-1",
            data_dir=self.base / "data",
            home=self.base / "home",
        )
        self.approver = self.approver or Answers(self.answers)
        agent = AgentRef(id=f"run-{self.label}", name="fixer", label=self.label, depth=2)
        emitter = Emitter(sink=self.sink, session_id="s-1", turn_id="t-1", agent=agent, task_id="task-7")
        self.gate = Gate(
            policy=self.policy,
            workspace=self.workspace,
            approver=self.approver,
            emitter=emitter,
            agent_chain=("main", "planner#1", self.label),
            grants=self.book,
            permission_timeout=self.timeout,
            on_denied=self.denials.append,
        )
        self.context = make_context(self.workspace, agent, self.waiting)

    def policy(self) -> Policy:
        return Policy(
            operating_mode=self.operating,
            permission_mode=self.mode,
            allow=tuple(Rule.parse(text) for text in self.allow),
            deny=tuple(Rule.parse(text) for text in self.deny),
        )

    @contextlib.contextmanager
    def waiting(self, kind: WaitKind) -> Iterator[None]:
        assert kind == "permission"
        scope = trio.CancelScope()
        self.cuttable.append(scope)
        with scope:
            yield
        if scope.cancelled_caught:
            raise failure(ErrorCode.TOOL_ABORTED, "An earlier call ended the run; make the call again.")

    async def admit(self, tool: Any, **arguments: Any) -> Permit | ToolError:
        decoded = tool.input(**arguments)
        call = ToolCall(call_id="call-1", tool=tool.name, arguments=msgspec.to_builtins(decoded))
        return await self.gate.admit(call, tool, decoded, self.context)

    async def perform(self, tool: Any, **arguments: Any) -> Permit | ToolError:
        """Admit, and run what was permitted."""
        permit = await self.admit(tool, **arguments)
        if isinstance(permit, Permit):
            await tool.run(permit.arguments, permit, self.context)
        return permit


class NoEffects:
    """The gate has no effect: nothing may reach the journal."""

    async def intend(self, intent: EffectIntent) -> None:
        raise AssertionError(intent)

    async def finish(self, result: EffectResult) -> None:
        raise AssertionError(result)


def make_context(
    workspace: Workspace, agent: AgentRef, waiting: Callable[[WaitKind], AbstractContextManager[None]]
) -> ToolContext:
    return ToolContext(
        call_id="call-1",
        session_id="s-1",
        agent=agent,
        workspace=workspace,
        snapshots=SnapshotStore(),
        locks=PathLocks(),
        journal=Journal(NoEffects(), session_id="s-1", owner="run-1"),
        span=start_span(names.tool_span("Write"), parent=None, service="fixer"),
        waiting=waiting,
        progress=lambda stream, text: None,
        environment={},
    )


def a_write() -> FileTool:
    return FileTool("Write", PathUse.WRITE)


def an_edit() -> FileTool:
    return FileTool("Edit", PathUse.WRITE)


def a_read() -> FileTool:
    return FileTool("Read", PathUse.READ)
