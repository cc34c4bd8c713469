"""Search helpers: processes that take a share of a large search, so that it uses the processors there are.

They belong to a session and end with it. The first large search starts them and does without; a later one asks
those that are ready, and whatever becomes of one, its share is still searched, then by the search itself.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from typing import Any

from agents.tools.search.helper import LENGTH, READY
from agents.tools.search.worker import Clock

MOST_HELPERS = 3
MOST_FAILURES = 3
"""When so many did not even start, no more are tried."""
MAX_JOB_BYTES = 32 << 10
"""So much fits into a pipe even when nobody reads; a larger job is not given away."""
PATIENCE_SECONDS = 2.0
"""A helper that says nothing for so long is given up."""
# Its own folder out of the module path: what lies where it happens to start is not ours to import.
COMMAND = (sys.executable, "-P", "-m", "agents.tools.search.helper")
_LOOK_SECONDS = 0.02
_KEPT_VARIABLES = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "PATH", "PYTHONHOME", "PYTHONPATH", "PYTHONUTF8")


class HelperLost(Exception):
    """The helper does not answer any more, or answers nonsense."""


class Helper:
    """One process and the pipes to it. Used by one thread at a time."""

    def __init__(self) -> None:
        """Start it. Raises OSError where that is impossible."""
        environment = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        self.process = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=environment,
            bufsize=0,
            start_new_session=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._jobs = self.process.stdin
        self._answers = self.process.stdout
        os.set_blocking(self._jobs.fileno(), False)
        self._poll = select.poll()
        self._poll.register(self._answers, select.POLLIN)
        self._read = b""
        self.has_started = False

    def is_alive(self) -> bool:
        return self.process.poll() is None

    def is_ready(self) -> bool:
        """Whether it has started up."""
        if not self.has_started and self._poll.poll(0):
            self.has_started = self._answers.read(1) == READY
        return self.has_started

    def ask(self, message: bytes) -> bool:
        """Give it a job. False: it is gone, or does not read."""
        try:
            return self._jobs.write(message) == len(message)
        except OSError:
            return False

    def has_answered(self) -> bool:
        """Whether some of its answer waits to be read, or it is gone."""
        return bool(self._read) or bool(self._poll.poll(0))

    def answers(self, clock: Clock) -> Generator[Any, None, None]:
        """The messages of its answer, without an end. Raises `HelperLost`, and what `clock.check` raises."""
        while True:
            yield self._message(clock)

    def _message(self, clock: Clock) -> Any:
        (length,) = LENGTH.unpack(self._bytes(LENGTH.size, clock))
        try:
            return pickle.loads(self._bytes(length, clock))
        except (pickle.UnpicklingError, ValueError, EOFError, AttributeError) as error:
            raise HelperLost from error

    def _bytes(self, count: int, clock: Clock) -> bytes:
        heard = time.monotonic()
        while len(self._read) < count:
            clock.check()
            if self._poll.poll(_LOOK_SECONDS * 1000):
                more = os.read(self._answers.fileno(), 1 << 16)
                if not more:
                    raise HelperLost
                self._read += more
                heard = time.monotonic()
            elif time.monotonic() > heard + PATIENCE_SECONDS:
                raise HelperLost
        taken, self._read = self._read[:count], self._read[count:]
        return taken

    def kill(self) -> None:
        """End the process, whatever it does. Its pipes stay open for the thread that may still use them."""
        self.process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=5)

    def close(self) -> None:
        """End the process and close the pipes."""
        self.kill()
        self._jobs.close()
        self._answers.close()


class SearchHelpers:
    """The helpers of one session. Safe to use from worker threads; starts nothing before it is asked."""

    def __init__(self, most: int | None = None) -> None:
        """`most` processes at a time; None: one for each processor beside this process's own, at most three."""
        self._most = min(MOST_HELPERS, _processors() - 1) if most is None else most
        self._guard = threading.Lock()
        self._idle: list[Helper] = []
        self._busy: set[Helper] = set()
        self._failures = 0
        self._closed = False

    def take(self, *, start: bool = True) -> list[Helper]:
        """The helpers that are ready and not at work, for the caller to `give_back`.

        With `start` those that are missing are started, for a later call.
        """
        with self._guard:
            if self._closed:
                return []
            gone = [helper for helper in self._idle if not helper.is_alive()]
            for helper in gone:
                self._failures += not helper.has_started
                helper.close()
            alive = [helper for helper in self._idle if helper not in gone]
            ready = [helper for helper in alive if helper.is_ready()]
            self._idle = [helper for helper in alive if helper not in ready]
            self._busy.update(ready)
            if start and self._failures < MOST_FAILURES:
                self._start()
            return ready

    def _start(self) -> None:
        try:
            while len(self._idle) + len(self._busy) < self._most:
                self._idle.append(Helper())
        except (OSError, TypeError):  # no process or no interpreter to be had: the search goes on without
            self._failures += 1

    def give_back(self, helper: Helper, *, done: bool) -> None:
        """After a job. One that is not `done` with it is ended."""
        with self._guard:
            self._busy.discard(helper)
            if done and not self._closed:
                self._idle.append(helper)
                return
        helper.close()

    def close(self) -> None:
        """End all of them. A search that still runs in a thread nobody waits for finds its helpers gone."""
        with self._guard:
            self._closed = True
            idle, self._idle = self._idle, []
            busy = list(self._busy)
        for helper in idle:
            helper.close()
        for helper in busy:
            helper.kill()


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
