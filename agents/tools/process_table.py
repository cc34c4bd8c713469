"""Which process groups of tools run now; one table per Python process.

It is held in one place (`PROCESSES`) and not passed about, because its two users have no context: the second
Ctrl-C must kill every tool's processes from a signal handler, and reaping orphans concerns the whole Python
process, whatever session started them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

import attrs

from agents.tools.family import Member
from agents.tools.linux import become_subreaper

PATIENCE_SECONDS = 1.0
"""A dead child that nobody has waited for after so long is an orphan that came to us."""


@attrs.define
class ProcessTable:
    """Registered groups by the id of their leader."""

    _groups: set[int] = attrs.field(factory=set)
    _seen_dead: dict[tuple[int, int], float] = attrs.field(factory=dict)
    _subreaper: bool = False

    def adopt_orphans(self) -> None:
        """Become the parent of orphaned descendants, once."""
        if not self._subreaper:
            self._subreaper = True
            become_subreaper()

    def add(self, leader: int) -> None:
        """Register a group whose leader is our child."""
        self._groups.add(leader)

    def remove(self, leader: int) -> None:
        self._groups.discard(leader)

    @property
    def running(self) -> frozenset[int]:
        return frozenset(self._groups)

    def kill_all(self) -> None:
        """SIGKILL to every registered group. Safe in a signal handler: it takes no lock and never waits."""
        for leader in tuple(self._groups):
            with contextlib.suppress(OSError):
                os.killpg(leader, signal.SIGKILL)

    def reap(self, everyone: dict[int, Member], ours: frozenset[int]) -> None:
        """Wait for dead orphans: those in `ours` at once, others when nobody else has waited for them.

        A dead child of our own session is never touched: the code that started it waits for it.
        """
        own, session, now = os.getpid(), os.getsid(0), time.monotonic()
        dead = [m for m in everyone.values() if m.dead and m.parent == own and m.pid not in self._groups]
        waiting = dict(self._seen_dead)
        self._seen_dead.clear()
        for member in dead:
            key = (member.pid, member.started)
            since = waiting.get(key, now)
            if member.pid in ours or (member.session != session and now - since >= PATIENCE_SECONDS):
                with contextlib.suppress(OSError):
                    os.waitpid(member.pid, os.WNOHANG)
            elif member.session != session:
                self._seen_dead[key] = since


PROCESSES = ProcessTable()
