"""How many durable events a second the SQLite store takes from many agents, and how long each waits.

Run as a script: `python tests/benchmarks/bench_store.py [--agents 50] [--seconds 3] [--folder DIR]`. Every
event is a unit of its own, acknowledged after its commit (WAL, synchronous=FULL). `bare` events change no
table but their own; the others are a working agent's mixture of calls and messages with their projections.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import trio

from agents.events import (
    AgentRef,
    AnyPayload,
    Event,
    MessageAppended,
    RecoveryCounted,
    ToolFinished,
    ToolStarted,
    timestamp,
)
from agents.messages import Message, Text
from agents.results import Waits
from orchestrator.store.sqlite import open_sqlite_store

FILLER = "x" * 160


def bare(_name: str) -> Iterator[AnyPayload]:
    """Bodies of about 300 bytes."""
    while True:
        yield RecoveryCounted(kind="edit", target=FILLER, code="EDIT_TAG_MISMATCH", attempt=1, limit=3)


def working(name: str) -> Iterator[AnyPayload]:
    """A call, its end, and a message, over and over."""
    count = 0
    while True:
        count += 1
        call = f"{name}-{count}"
        yield ToolStarted(call_id=call, tool="Read", arguments={"path": FILLER})
        yield ToolFinished(
            call_id=call, tool="Read", ok=True, terminate=False, duration_ms=1, waits=Waits(), result=FILLER
        )
        yield MessageAppended(message=Message(id=call, role="assistant", parts=(Text(text=FILLER),)))


async def measure(
    title: str, path: Path, agents: int, seconds: float, payloads: Callable[[str], Iterator[AnyPayload]]
) -> None:
    """Print the rate and the acknowledgement latency of one run."""
    waits: list[float] = []
    async with open_sqlite_store(path) as store:
        end = time.perf_counter() + seconds

        async def agent(number: int) -> None:
            name = f"agent-{number}"
            ref = AgentRef(id=name, name=name, label=name, depth=1)
            for payload in payloads(name):
                begun = time.perf_counter()
                if begun >= end:
                    return
                event = Event(
                    session_id="bench",
                    turn_id="turn",
                    agent=ref,
                    task_id=name,
                    payload=payload,
                    ts=timestamp(time.time_ns()),
                )
                await store.append((event,))
                waits.append(time.perf_counter() - begun)

        async with store.lease("bench"):
            begun = time.perf_counter()
            async with trio.open_nursery() as nursery:
                for number in range(agents):
                    nursery.start_soon(agent, number)
            took = time.perf_counter() - begun
    waits.sort()
    p50, p99 = statistics.median(waits), waits[int(len(waits) * 0.99)]
    latency = f"ack p50 {p50 * 1000:6.2f} ms   p99 {p99 * 1000:6.2f} ms"
    print(f"{title:18} {len(waits) / took:9,.0f} events/s   {latency}")


async def main(agents: int, seconds: float, folder: str | None) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        print(f"{agents} agents, one event per unit, acknowledged after commit, synchronous=FULL")
        await measure("bare", Path(temporary) / "bare.sqlite3", agents, seconds, bare)
        await measure("with projections", Path(temporary) / "working.sqlite3", agents, seconds, working)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--folder", default=None)
    options = parser.parse_args()
    trio.run(main, options.agents, options.seconds, options.folder)
