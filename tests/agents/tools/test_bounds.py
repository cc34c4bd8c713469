"""What one agent asks for never takes the time or the memory of the others."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import trio

from agents.tools.bash import BashTool
from agents.tools.grep import GrepTool
from agents.tools.read import ReadTool
from agents.tools.search.worker import MAX_SEARCHES, Clock, GivenUp, in_worker
from tests.agents.tools.context import make_context, make_workspace, result

ROOT = Path(__file__).parents[3]
HOSTILE = "(a+)+$"


async def test_reads_of_another_agent_go_on_while_a_hostile_pattern_is_searched_for(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path)
    for number in range(20):
        (workspace.root / f"{number:02}.txt").write_text(("a" * 50_000 + "!\n") * 10)
    (workspace.root / "small.txt").write_text("one\n")
    searcher, reader = (
        make_context(tmp_path, workspace=workspace),
        make_context(tmp_path, workspace=workspace),
    )
    slowest = 0.0
    with trio.fail_after(15):
        async with trio.open_nursery() as nursery:
            for _ in range(MAX_SEARCHES + 1):
                nursery.start_soon(_search_hostile, searcher)
            for _ in range(10):
                begun = time.monotonic()
                await result(ReadTool(), reader, path="small.txt")
                slowest = max(slowest, time.monotonic() - begun)
    assert slowest < 5


async def _search_hostile(context: object) -> None:
    found = await result(GrepTool(), context, pattern=HOSTILE)  # type: ignore[arg-type]
    assert found.count == 0


async def test_reads_never_wait_for_searches_however_many_there_are(tmp_path: Path) -> None:
    context = make_context(tmp_path)
    (context.workspace.root / "a.txt").write_text("one\n")
    busy = [trio.Event() for _ in range(MAX_SEARCHES)]
    token = trio.lowlevel.current_trio_token()

    def search(clock: Clock, started: trio.Event) -> None:
        token.run_sync_soon(started.set)
        with contextlib.suppress(GivenUp):
            while True:
                clock.check()
                time.sleep(0.001)

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            for started in busy:
                nursery.start_soon(in_worker, lambda clock, started=started: search(clock, started))
            for started in busy:
                await started.wait()
            for _ in range(10):
                await result(ReadTool(), context, path="a.txt")
            nursery.cancel_scope.cancel()


def test_three_hundred_megabytes_of_output_take_bounded_memory(tmp_path: Path) -> None:
    """In a process of its own, which measures how far it has grown."""
    program = textwrap.dedent(
        """
        import json, os, sys
        from pathlib import Path
        import trio
        from agents.tools.processes import run_command

        def peak():  # not ru_maxrss, which starts with that of the parent
            return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024

        async def main():
            folder = Path(sys.argv[1])
            async def run(command):
                return await run_command(
                    ["bash", "-c", command], cwd=folder, env=dict(os.environ), timeout=60, scratch=folder
                )
            await run("echo warm; head -c 1000000 /dev/zero")
            before = peak()
            ended = await run("head -c 300000000 /dev/zero | tr '\\\\0' x")
            print(json.dumps({
                "grown": peak() - before,
                "total": ended.stdout.total_bytes,
                "shown": len(ended.stdout.text),
                "spilled": ended.stdout.spill.stat().st_size,
            }))

        trio.run(main)
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    measured = json.loads(done.stdout)
    assert measured["total"] == 300_000_000
    assert measured["spilled"] == 64 << 20
    assert measured["shown"] < 100_000
    assert measured["grown"] < 48


async def test_a_child_in_a_session_of_its_own_is_named_and_gone(tmp_path: Path) -> None:
    context = make_context(
        tmp_path,
        environment={
            "PATH": os.environ["PATH"],
            "ORCHESTRATOR_SESSION_ID": "s",
            "ORCHESTRATOR_RUN_ID": "r",
            "ORCHESTRATOR_CALL_ID": f"call-{os.getpid()}-{threading.get_ident()}",
        },
    )
    begun = time.monotonic()
    ended = await result(BashTool(), context, command="setsid sleep 300 & echo x")
    assert ended.stdout == "x\n"
    assert time.monotonic() - begun < 30
    (survivor,) = ended.survivors
    pid, name = survivor.split()
    assert name in ("sleep", "setsid")
    assert not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2]
