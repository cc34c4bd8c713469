"""While somebody swaps folders and files for links, no tool reads or writes what lay outside."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest

from agents.errors import ErrorCode, Failure, ToolError
from agents.permit import Permit
from agents.tools.base import Tool, ToolContext, ToolOutput
from agents.tools.edit import EditTool
from agents.tools.glob import GlobTool
from agents.tools.grep import GrepTool
from agents.tools.read import ReadTool
from agents.tools.schema import decode_arguments
from agents.tools.write import WriteTool
from tests.agents.adversary import HIDDEN, SECRET, Ground, Interruption, flipping
from tests.agents.tools.context import make_context, make_workspace, result

FILE = "d/e/a.txt"
EDIT = {"op": "replace", "start": 1, "text": "changed"}
CALLS: dict[str, tuple[Tool, dict[str, Any]]] = {
    "read": (ReadTool(), {"path": FILE}),
    "read missing": (ReadTool(), {"path": "d/e/missing.txt"}),
    "read folder": (ReadTool(), {"path": "d/e"}),
    "grep tree": (GrepTool(), {"pattern": f"inside|{SECRET}"}),
    "grep folder": (GrepTool(), {"pattern": "one", "path": "d", "outputMode": "count"}),
    "grep file": (GrepTool(), {"pattern": "one", "path": FILE}),
    "glob": (GlobTool(), {"pattern": "**/*", "path": "d"}),
    "write new": (WriteTool(), {"path": "d/e/new/file.txt", "content": "new"}),
    "overwrite": (WriteTool(), {"path": FILE, "content": "all new"}),
    "edit": (EditTool(), {"path": FILE, "ops": [EDIT]}),
    "edit and move": (EditTool(), {"path": FILE, "ops": [EDIT, {"op": "moveFile", "to": "d/moved.txt"}]}),
    "delete": (EditTool(), {"path": FILE, "ops": [{"op": "deleteFile"}]}),
}
SWAPS: dict[str, Callable[[Ground], None]] = {
    "folder": Ground.swap_folder,
    "inner folder": Ground.swap_inner_folder,
    "file": Ground.swap_file,
    "moved out": Ground.move_folder_out,
}


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    monkeypatch.setattr("os.fsync", lambda descriptor: None)  # durability is not what is tried here
    made = Ground(tmp_path)
    made.lay_out()
    return made


async def attempt(tool: Tool, context: ToolContext, arguments: dict[str, Any]) -> str | None:
    """What the agent is told by a call without a permission for the outside; None where it would be asked."""
    decoded = decode_arguments(tool, arguments)
    assert not isinstance(decoded, ToolError)
    try:
        paths = tuple(context.workspace.resolve(target.path) for target in tool.targets(decoded))
        if any(path.outside for path in paths):
            return None
        permit = Permit._create(context.call_id, tool.name, decoded, paths, None)
        output = await tool.run(decoded, permit, context)
    except Failure as failed:
        output = ToolOutput(None, failed.error)
    return msgspec.json.encode([output.result, output.error]).decode()


async def prepared(
    ground: Ground, arguments: dict[str, Any], tool: Tool
) -> tuple[ToolContext, dict[str, Any]]:
    """A context whose agent has seen the file as far as the call needs it."""
    context = make_context(ground.root, workspace=make_workspace(ground.root))
    if tool.name in ("Edit", "Write") and arguments["path"] == FILE:
        read = await result(ReadTool(), context, path=FILE)
        if tool.name == "Edit":
            arguments = {**arguments, "tag": read.tag}
    return context, arguments


@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize("call", CALLS)
async def test_a_swap_before_any_step_of_a_call_reaches_nothing_outside(
    ground: Ground, call: str, swap: str
) -> None:
    tool, given = CALLS[call]
    before = ground.outside_now()
    # One kind of swap is tried at every step, the others at every third, from another one in each run.
    stride = 1 if swap == "folder" else 3
    step, codes = random.randrange(stride), set()
    while True:
        context, arguments = await prepared(ground, given, tool)
        interruption = Interruption(step, lambda: SWAPS[swap](ground))
        with interruption.watching():
            told = await attempt(tool, context, arguments)
        assert SECRET not in (told or "").replace(f"|{SECRET}", ""), (step, told)
        assert HIDDEN not in (told or ""), (step, told)
        assert "missinq" not in (told or ""), (step, told)
        assert ground.outside_now() == before, (step, told)
        kept = context.snapshots.latest(str(ground.repo / FILE))
        assert kept is None or SECRET.encode() not in (kept.data or b"")
        codes.add(None if told is None else "CONFLICT" if ErrorCode.CONFLICT.value in told else "other")
        if not interruption.came:
            break
        ground.lay_out()
        shutil.rmtree(ground.root / "away", ignore_errors=True)
        step += stride
    assert step > 3
    assert "other" in codes


@pytest.mark.parametrize("call", ["read", "grep tree", "glob", "overwrite", "edit"])
async def test_a_process_that_swaps_all_the_time_gains_nothing(ground: Ground, call: str) -> None:
    tool, given = CALLS[call]
    before = ground.outside_now()
    context, arguments = await prepared(ground, given, tool)
    told: list[str | None] = []
    end = time.monotonic() + 0.4
    with flipping(ground):
        while time.monotonic() < end or (len(told) < 20 and time.monotonic() < end + 5):
            answer = await attempt(tool, attrs.evolve(context, call_id=f"call-{len(told)}"), arguments)
            assert SECRET not in (answer or "").replace(f"|{SECRET}", "")
            assert HIDDEN not in (answer or "")
            told.append(answer)
    assert ground.outside_now() == before
    assert len(told) >= 20
