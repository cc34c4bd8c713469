"""A real `ToolContext` over a real folder, for the tests of tools."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import msgspec

from agents.errors import Failure, ToolError
from agents.events import AgentRef
from agents.journal import Journal
from agents.locks import PathLocks
from agents.permit import Permit
from agents.rules.effects import EffectIntent, EffectResult
from agents.snapshots import SnapshotStore
from agents.tools.base import Tool, ToolContext, ToolOutput, WaitKind
from agents.tools.schema import decode_arguments
from agents.workspace import Workspace
from telemetry.spans import start_span


@attrs.define
class ListedEffects:
    """An effect log in memory."""

    intents: list[EffectIntent] = attrs.field(factory=list)
    results: list[EffectResult] = attrs.field(factory=list)

    async def intend(self, intent: EffectIntent) -> None:
        self.intents.append(intent)

    async def finish(self, result: EffectResult) -> None:
        self.results.append(result)


def make_workspace(tmp_path: Path, **overrides: Any) -> Workspace:
    """A workspace in `tmp_path/repo`; everything beside it is outside."""
    root = tmp_path / "repo"
    root.mkdir(exist_ok=True)
    data_dir = tmp_path / "data"
    given: dict[str, Any] = {
        "scratch": data_dir / "scratch" / "s1",
        "data_dir": data_dir,
        "home": tmp_path / "home",
    }
    return Workspace(**{"root": root, **given, **overrides})


def make_context(tmp_path: Path, **overrides: Any) -> ToolContext:
    """A context whose workspace is `tmp_path/repo`. `overrides` replace fields of `ToolContext`."""
    workspace = overrides.pop("workspace", None) or make_workspace(tmp_path)

    @contextlib.contextmanager
    def waiting(kind: WaitKind) -> Iterator[None]:
        yield

    given: dict[str, Any] = {
        "call_id": "call-1",
        "session_id": "session-1",
        "agent": AgentRef(id="run-1", name="main", label="main", depth=0),
        "workspace": workspace,
        "snapshots": SnapshotStore(),
        "locks": PathLocks(),
        "journal": Journal(ListedEffects(), session_id="session-1", owner="run-1"),
        "span": start_span("execute_tool", parent=None),
        "waiting": waiting,
        "progress": lambda stream, text: None,
        "environment": {"PATH": os.environ.get("PATH", "")},
    }
    return ToolContext(**{**given, **overrides})


async def call(tool: Tool, context: ToolContext, **arguments: Any) -> ToolOutput | ToolError:
    """Decode the arguments, resolve the paths and run the tool as if the gate had let it through."""
    decoded = decode_arguments(tool, arguments)
    if isinstance(decoded, ToolError):
        return decoded
    try:
        paths = tuple(context.workspace.resolve(target.path) for target in tool.targets(decoded))
        permit = Permit._create(context.call_id, tool.name, decoded, paths, None)
        return await tool.run(decoded, permit, context)
    except Failure as failed:
        return failed.error


async def result(tool: Tool, context: ToolContext, **arguments: Any) -> Any:
    """The result of a call that succeeds."""
    output = await call(tool, context, **arguments)
    assert isinstance(output, ToolOutput), output
    assert isinstance(output.result, msgspec.Struct)
    return output.result


async def error(tool: Tool, context: ToolContext, **arguments: Any) -> ToolError:
    """The error of a call that fails."""
    output = await call(tool, context, **arguments)
    assert isinstance(output, ToolError), output
    return output
