"""Processes that start fast: one that has imported everything forks for each. `python -m tests.faults.forks`.

It takes one order per line, `{"program": {…}, "out": file, "err": file}`, and answers each with the exit
status of the process it made for it, the negative number of a signal. It has no thread, so a fork is whole.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NoReturn

import attrs
import trio

from tests.faults.program import run

ROOT = Path(__file__).parents[2]


@attrs.define
class Forks:
    """The forking process, seen from outside. One order at a time."""

    process: trio.Process

    async def run(self, program: dict[str, Any], out: Path, err: Path) -> int:
        """Run the program to its end; its exit status."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        order = {"program": program, "out": str(out), "err": str(err)}
        await self.process.stdin.send_all(json.dumps(order).encode() + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            piece = await self.process.stdout.receive_some()
            assert piece, "the forking process ended"
            answer += piece
        return int(answer)


@asynccontextmanager
async def open_forks() -> AsyncIterator[Forks]:
    """A forking process for the block."""
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", "tests.faults.forks"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        yield Forks(process)
    finally:
        with trio.CancelScope(shield=True):
            process.kill()
            await process.wait()
            for stream in (process.stdin, process.stdout):
                assert stream is not None
                await trio.aclose_forcefully(stream)


def serve() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _become(order)
        _, status = os.waitpid(pid, 0)
        os.write(1, f"{os.waitstatus_to_exitcode(status)}\n".encode())


def _become(order: dict[str, Any]) -> NoReturn:
    status = 1
    try:
        os.close(0)
        for descriptor, name in ((1, order["out"]), (2, order["err"])):
            opened = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(opened, descriptor)
            os.close(opened)
        status = run(order["program"])
    finally:
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    serve()
