"""Ctrl-C: the first one ends the turn cleanly, the second one ends everything at once."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Callable

import attrs
import trio

from agents.tools.processes import kill_all_groups
from orchestrator.cli.leaving import Status
from orchestrator.session import Session

AGAIN_SECONDS = 0.05
SHOW_CURSOR = "\x1b[?25h"


def watched_signals() -> tuple[signal.Signals, ...]:
    """SIGINT and SIGTERM; a closed terminal (SIGHUP) too, unless `nohup` or the like ignores it."""
    ends = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        ends.append(signal.SIGHUP)
    return tuple(ends)


@attrs.define(eq=False)
class Stopper:
    """What a person's wish to stop does to the command."""

    opening: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    """Around everything until there is a session."""
    session: Session | None = None
    asked: trio.Event = attrs.field(factory=trio.Event)

    def ask(self) -> None:
        """The person wants it to stop. Returns at once."""
        self.asked.set()
        if self.session is None:
            self.opening.cancel()

    async def watch(self, signals: AsyncIterator[int]) -> None:
        """Ask at the first signal, end at the second one.

        A terminal that is closed sends its signal twice: that is one wish, not impatience.
        """
        async for number in signals:
            if self.asked.is_set() and number != signal.SIGHUP:
                end_at_once()
            self.ask()

    async def when_asked(self, act: Callable[[], None]) -> None:
        """Act once the person wants it to stop."""
        await self.asked.wait()
        act()

    async def stop_when_asked(self, session: Session) -> None:
        """End the open turn, and one that is just about to open."""
        await self.asked.wait()
        while True:
            session.stop()
            await trio.sleep(AGAIN_SECONDS)


def end_at_once() -> None:
    """Kill every tool process and leave, unsettled: the next start settles."""
    try:
        kill_all_groups()
        if sys.stderr is not None and sys.stderr.isatty():
            os.write(sys.stderr.fileno(), SHOW_CURSOR.encode())
    finally:
        os._exit(Status.STOPPED)
