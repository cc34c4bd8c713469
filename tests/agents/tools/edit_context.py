"""One session's shared parts and one agent's own, for the tests of Write, Edit and the journal."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest
import trio

from agents.errors import ErrorCode, Failure, ToolError
from agents.events import AgentRef
from agents.journal import Journal
from agents.locks import PathLocks
from agents.permit import Permit
from agents.rules.effects import EffectIntent, EffectResult
from agents.rules.paths import ResolvedPath
from agents.rules.text import decode
from agents.snapshots import SnapshotStore
from agents.tools.base import Tool, ToolContext, ToolOutput, WaitKind
from agents.tools.edit import EditInput, EditTool
from agents.tools.write import WriteInput, WriteTool
from agents.workspace import Workspace
from telemetry.spans import start_span


@attrs.define
class KeptLog:
    """An effect log in memory; `pause` makes every entry take its time."""

    intents: list[EffectIntent] = attrs.field(factory=list)
    results: list[EffectResult] = attrs.field(factory=list)
    pause: float = 0.0

    async def intend(self, intent: EffectIntent) -> None:
        await trio.sleep(self.pause)
        self.intents.append(intent)

    async def finish(self, result: EffectResult) -> None:
        await trio.sleep(self.pause)
        self.results.append(result)


@attrs.define
class Place:
    """A workspace on disk with everything the session's agents share."""

    root: Path
    outside: Path
    workspace: Workspace
    locks: PathLocks = attrs.field(factory=PathLocks)
    log: Any = attrs.field(factory=KeptLog)
    """A `KeptLog`, or any other `EffectLog`."""
    waits: list[WaitKind] = attrs.field(factory=list)

    def write(self, name: str, data: bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    @contextlib.contextmanager
    def waiting(self, kind: WaitKind) -> Iterator[None]:
        self.waits.append(kind)
        yield

    def leftovers(self) -> list[str]:
        return [path.name for path in self.root.rglob("*") if path.name.startswith(".orchestrator-")]


@attrs.define
class Hand:
    """One agent: what it has seen is its own."""

    place: Place
    owner: str = "run-1"
    call_id: str = "call-1"
    snapshots: SnapshotStore = attrs.field(factory=SnapshotStore)

    def context(self) -> ToolContext:
        return ToolContext(
            call_id=self.call_id,
            session_id="session-1",
            agent=AgentRef(id=self.owner, name="main", label="main", depth=0),
            workspace=self.place.workspace,
            snapshots=self.snapshots,
            locks=self.place.locks,
            journal=Journal(self.place.log, session_id="session-1", owner=self.owner),
            span=start_span("execute_tool", parent=None),
            waiting=self.place.waiting,
            progress=lambda stream, text: None,
            environment={},
        )

    def read(self, path: str, seen: Any = None) -> str:
        """Take note of a file as Read would, all lines or those given; its tag."""
        resolved = self.place.workspace.resolve(path)
        data = self.place.workspace.read(resolved).data
        lines = range(1, len(decode(data).lines) + 1) if seen is None else seen
        return self.snapshots.record_read(resolved.canonical, data, seen=lines)

    async def edit(self, path: str, tag: Any, *ops: Any) -> ToolOutput:
        return await self._run(EditTool(), EditInput(path=path, tag=tag, ops=list(ops)))

    async def write(self, path: str, content: str) -> ToolOutput:
        return await self._run(WriteTool(), WriteInput(path=path, content=content))

    async def preview(self, tool: Tool, arguments: msgspec.Struct) -> str:
        shown = await tool.check(arguments, self._paths(tool, arguments), self.context())
        assert shown is not None
        return shown.diff

    async def _run(self, tool: Tool, arguments: msgspec.Struct) -> ToolOutput:
        permit = Permit._create(self.call_id, tool.name, arguments, self._paths(tool, arguments), None)
        return await tool.run(arguments, permit, self.context())

    def _paths(self, tool: Tool, arguments: msgspec.Struct) -> tuple[ResolvedPath, ...]:
        return tuple(self.place.workspace.resolve(target.path) for target in tool.targets(arguments))


def make_place(tmp_path: Path) -> Place:
    root, outside = tmp_path / "work", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    workspace = Workspace(
        root, scratch=tmp_path / "data" / "scratch" / "s", data_dir=tmp_path / "data", home=tmp_path
    )
    return Place(root=root, outside=outside, workspace=workspace)


@contextlib.contextmanager
def fails(code: ErrorCode) -> Iterator[list[ToolError]]:
    """Expect `Failure` with `code`; the list holds the error after the block."""
    caught: list[ToolError] = []
    with pytest.raises(Failure) as failed:
        yield caught
    error = failed.value.error
    assert error.code is code, error
    caught.append(error)
