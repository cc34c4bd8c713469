"""Another process at the store: `python -m tests.orchestrator.store.worker MODE PATH SESSION …`.

It reports on stdout, one line per fact, each flushed.
"""

from __future__ import annotations

import itertools
import resource
import sys
from pathlib import Path

import trio

from agents.errors import Failure
from orchestrator.store.sqlite import SqliteStore, open_sqlite_store
from tests.orchestrator.store.stories import bare, said


def report(*words: object) -> None:
    sys.stdout.write(" ".join(str(word) for word in words) + "\n")
    sys.stdout.flush()


async def storm(store: SqliteStore, session: str) -> None:
    """Twenty tasks append until somebody kills us; every acknowledged `seq` is reported."""

    async def agent(name: int) -> None:
        for count in itertools.count():
            for stored in await store.append((said(f"{name}-{count}", session), bare(count, session))):
                report("stored", stored.seq)

    async with store.lease(session), trio.open_nursery() as nursery:
        for name in range(20):
            nursery.start_soon(agent, name)


async def hold(store: SqliteStore, session: str) -> None:
    """Hold the session until somebody kills us."""
    async with store.lease(session) as lease:
        await store.append((bare(0, session),))
        report("held", lease.epoch)
        await trio.sleep_forever()


async def append(store: SqliteStore, session: str, count: str) -> None:
    """Append that many events from ten tasks, and end."""

    async def agent() -> None:
        for number in range(int(count) // 10):
            await store.append((bare(number, session),))

    async with store.lease(session), trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(agent)
    report("done")


async def fill(store: SqliteStore, session: str) -> None:
    """Append until the disk is full, which here is a limit on the size of a file."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000))
    seq = 0
    try:
        while True:
            (stored,) = await store.append((said("x" * 50_000, session, identifier=f"m{seq}"),))
            seq = stored.seq
    except Failure as error:
        report("stored", seq)
        report("failed", error.error.code)
    try:
        await store.append((bare(0, session),))
    except Failure as error:
        report("again", error.error.code)


async def crash(store: SqliteStore, session: str) -> None:
    """End by an exception that nobody catches."""
    await store.append((bare(0, session),))
    raise ValueError("crash")


async def main(mode: str, path: str, *rest: str) -> None:
    modes = {"storm": storm, "hold": hold, "append": append, "fill": fill, "crash": crash}
    async with open_sqlite_store(Path(path)) as store:
        await modes[mode](store, *rest)


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
