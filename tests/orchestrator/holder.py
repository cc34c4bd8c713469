"""Another process that works on a session: `python -m tests.orchestrator.holder JSON`.

`JSON` is `{"root": folder, "agents": script, "settings": {…}, "inbox": true}`. It prints one line with the
session's id when the session is open, and one with the turn's result as JSON at the end.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

from agents.spec import PermissionMode
from orchestrator.opening import Extras, open_settings
from orchestrator.settings import Settings
from tests.harness import scripted

ROOT = Path(__file__).parents[2]


async def main(order: dict[str, Any]) -> None:
    root = Path(order["root"])
    chosen = dict(order.get("settings", {}))
    chosen["permission_mode"] = PermissionMode(chosen.get("permission_mode", "ask"))
    settings = Settings(workspace=root / "repo", data_dir=root / "data", **chosen)
    extras = Extras(model=scripted(order["agents"]), inbox=order.get("inbox", True))
    async with open_settings(settings, extras) as session:
        print(session.id, flush=True)
        outcome = await session.run("Go")
        denials = [(one.agent, one.reason) for one in outcome.denials]
        print(json.dumps({"status": outcome.status, "text": outcome.text, "denials": denials}), flush=True)


@attrs.define
class Holder:
    """The process as its starter sees it."""

    process: trio.Process
    root: Path
    session_id: str = ""

    @property
    def store_path(self) -> Path:
        return self.root / "data" / "store.sqlite3"

    async def line(self) -> str:
        """The next line it prints."""
        assert self.process.stdout is not None
        data = b""
        while not data.endswith(b"\n"):
            piece = await self.process.stdout.receive_some(1)
            if not piece:
                raise AssertionError(f"the holder ended: {data!r}")
            data += piece
        return data.decode().strip()

    async def result(self) -> dict[str, Any]:
        """What its turn came to; waits for the process's end."""
        told: dict[str, Any] = json.loads(await self.line())
        assert await self.process.wait() == 0
        return told


@asynccontextmanager
async def holding(root: Path, agents: dict[str, Any], **order: Any) -> AsyncIterator[Holder]:
    """A process that has opened a session on `root/repo`; killed at the end if it still lives."""
    (root / "repo").mkdir(exist_ok=True)
    text = json.dumps({"root": str(root), "agents": agents, **order})
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", "tests.orchestrator.holder", text], cwd=ROOT, stdout=subprocess.PIPE
    )
    holder = Holder(process, root)
    try:
        holder.session_id = await holder.line()
        yield holder
    finally:
        with trio.CancelScope(shield=True):
            if process.returncode is None:
                process.kill()
            await process.wait()
            assert process.stdout is not None
            with contextlib.suppress(OSError):
                await process.stdout.aclose()


if __name__ == "__main__":
    trio.run(main, json.loads(sys.argv[1]))
