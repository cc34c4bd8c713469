"""Live delegates that wait on a slow model: memory above the base, and how long cancelling them takes.

Run as `python -m tests.benchmarks.bench_delegates [COUNT]`, or with the others by `make bench`.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import trio

from tests.harness import call, calls, say, scripted, session_on

KIB_PER_DELEGATE = 60
"""What a live delegate may cost above the base."""


def resident_kib() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def model(count: int) -> Any:
    task = call("Task", subagent_type="explorer", prompt="Look")
    return scripted(
        {
            "main": [calls(*([task] * count)), calls(call("TaskWait")), say("never")],
            "explorer": [say("never")],
        },
        faults=[{"agent": "explorer", "turn": 1, "delay_ms": 600_000}],
    )


async def measure(count: int) -> tuple[float, float, float]:
    """KiB per live delegate, seconds to start them all, seconds to cancel and settle them all."""
    with tempfile.TemporaryDirectory() as folder:
        async with session_on(Path(folder), model(count), max_delegates=count) as session:
            base = resident_kib()
            started = time.perf_counter()
            took: dict[str, float] = {}

            async def stop_when_all_wait() -> None:
                while sum(run.agent is not None for run in session.crew.running) < count:
                    await trio.sleep(0.05)
                requested = 0
                while requested < count + 2:
                    stored = await session.store.events(session.id)
                    requested = sum(event.type == "model.requested" for event in stored)
                    await trio.sleep(0.1)
                took["start"] = time.perf_counter() - started
                took["kib"] = (resident_kib() - base) / count
                took["stop"] = time.perf_counter()
                session.stop()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(stop_when_all_wait)
                outcome = await session.run("Go")
            assert outcome.status == "stopped"
            rows = await session.store.tasks(session.id)
            assert [row.status for row in rows] == ["aborted"] * count
            return took["kib"], took["start"], time.perf_counter() - took["stop"]


def main(arguments: list[str] | None = None) -> None:
    given = sys.argv[1:] if arguments is None else arguments
    for count in [int(given[0])] if given else [50, 500]:
        kib, start, stop = trio.run(measure, count)
        print(
            f"{count} live delegates: {kib:.0f} KiB each above the base (bound {KIB_PER_DELEGATE}), "
            f"{start:.2f} s to start, {stop:.2f} s to cancel and settle"
        )


if __name__ == "__main__":
    main()
