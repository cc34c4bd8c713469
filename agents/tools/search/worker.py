"""A search runs in a worker thread that can be given up: a flag and a clock are looked at all along."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Literal, TypeVar

import attrs
import trio

SEARCH_SECONDS = 10.0
MAX_SEARCHES = 2
"""Searches that run at once; more would only slow each other down."""
MAX_READS = 8
"""The same for Reads, which never wait for a search."""

T = TypeVar("T")
Kind = Literal["search", "read"]
_LIMITS: dict[Kind, int] = {"search": MAX_SEARCHES, "read": MAX_READS}
_limiters: trio.lowlevel.RunVar[dict[Kind, trio.CapacityLimiter]] = trio.lowlevel.RunVar("search workers")


class OutOfTime(Exception):
    """The search's time is over: what was found so far is what there is."""


class GivenUp(Exception):
    """Nobody waits for the search any more."""


@attrs.define
class Clock:
    """What a search looks at now and then."""

    deadline: float
    """Of `time.monotonic`."""
    given_up: threading.Event

    def check(self) -> None:
        """Raises `GivenUp` or `OutOfTime` when it is time to stop."""
        if self.given_up.is_set():
            raise GivenUp
        if time.monotonic() > self.deadline:
            raise OutOfTime


async def in_worker(
    search: Callable[[Clock], T], seconds: float = SEARCH_SECONDS, kind: Kind = "search"
) -> T:
    """Run `search` in a thread. A cancelled caller returns at once, and the thread stops soon after.

    So many of one `kind` run at once, others wait.
    """
    given_up = threading.Event()

    def work() -> T:
        return search(Clock(time.monotonic() + seconds, given_up))

    try:
        async with _limiter(kind):
            return await trio.to_thread.run_sync(work, abandon_on_cancel=True)
    finally:
        given_up.set()


def _limiter(kind: Kind) -> trio.CapacityLimiter:
    try:
        limiters = _limiters.get()
    except LookupError:
        limiters = {each: trio.CapacityLimiter(limit) for each, limit in _LIMITS.items()}
        _limiters.set(limiters)
    return limiters[kind]
