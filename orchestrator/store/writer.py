"""The one writer: whatever queued while the last commit ran is the next transaction.

It is shielded and ends when its channel is closed and empty, so what was handed over is committed even while
the session is being cancelled. Once the file is gone or cannot be written, it acknowledges nothing more.
"""

from __future__ import annotations

import logging
import sqlite3
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

import aiosqlite
import attrs
import trio

from agents.errors import ErrorCode, Failure, ToolError, failure
from agents.events import Event
from orchestrator.store import transaction
from orchestrator.store.asyncio_host import AsyncioHost
from orchestrator.store.base import CommitListener
from orchestrator.store.files import FileGuard, StoreGone, salvage_targets, write_failed
from orchestrator.store.units import Refused, Work

MAX_UNITS = 512
QUEUE_UNITS = 1024
BUSY_SECONDS = 30.0
"""How long a write lock of somebody else is waited for; one wait in SQLite lasts `busy_timeout`."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
log = logging.getLogger(__name__)

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
_FATAL = (
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_NOTADB,
)


def primary_code(error: BaseException) -> int:
    """SQLite's primary result code of an exception; 0 for others."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


async def patiently(host: AsyncioHost, location: str, afn: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
    """Call until nobody else holds the lock; `Failure` STORE_BUSY after `BUSY_SECONDS`."""
    deadline = time.monotonic() + BUSY_SECONDS  # real time: SQLite's own waits know no other
    while True:
        try:
            return await host.call(afn, *args)
        except sqlite3.Error as error:
            if primary_code(error) not in _BUSY:
                raise
            if time.monotonic() >= deadline:
                raise failure(
                    ErrorCode.STORE_BUSY,
                    f"Another process has kept the store {location} locked for {BUSY_SECONDS:.0f} s; "
                    "end it, then try again.",
                    retriable=True,
                    details={"path": location},
                ) from error


@attrs.define(eq=False)
class _Ticket:
    """One unit on its way, and who waits for it."""

    work: Work
    done: trio.Event = attrs.field(factory=trio.Event)
    events: tuple[Event, ...] = ()
    error: ToolError | None = None


@attrs.define(eq=False)
class _Errand:
    """A transaction of its own: a lease operation, a rebuild."""

    run: Callable[[aiosqlite.Connection, FileGuard], Awaitable[Any]]
    done: trio.Event = attrs.field(factory=trio.Event)
    value: Any = None
    error: ToolError | None = None


@attrs.define(eq=False)
class Writer:
    """Owns the write connection. `run` is its task."""

    host: AsyncioHost
    connection: aiosqlite.Connection
    guard: FileGuard
    listeners: list[CommitListener] = attrs.field(factory=list)
    broken: ToolError | None = None
    """Why nothing is written any more."""
    _send: trio.MemorySendChannel[_Ticket | _Errand] = attrs.field(init=False)
    _receive: trio.MemoryReceiveChannel[_Ticket | _Errand] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._send, self._receive = trio.open_memory_channel[_Ticket | _Errand](QUEUE_UNITS)

    @property
    def location(self) -> str:
        return str(self.guard.path)

    async def write(self, work: Work) -> tuple[Event, ...]:
        """Hand the unit over and wait for its commit. Once handed over, cancelling ends only the wait."""
        ticket = _Ticket(work)
        await self._hand_over(ticket)
        return ticket.events

    async def do(self, run: Callable[[aiosqlite.Connection, FileGuard], Awaitable[T]]) -> T:
        """Run one transaction between two batches."""
        errand = _Errand(run)
        await self._hand_over(errand)
        value: T = errand.value
        return value

    async def _hand_over(self, item: _Ticket | _Errand) -> None:
        if self.broken is not None:
            raise Failure(self.broken)
        try:
            try:
                self._send.send_nowait(item)  # where there is room, a cancelled caller still gets it stored
            except trio.WouldBlock:
                await self._send.send(item)
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            raise Failure(write_failed(self.location, "it was closed")) from None
        await item.done.wait()
        if item.error is not None:
            raise Failure(item.error)

    def close(self) -> None:
        """Take nothing more; `run` commits what is queued and returns."""
        self._send.close()

    async def run(self) -> None:
        """Commit batches until closed. Raises nothing: every failure goes to those who wait."""
        with trio.CancelScope(shield=True):
            async for item in self._receive:
                batch: list[_Ticket] = []
                following: _Ticket | _Errand | None = item
                while isinstance(following, _Ticket):
                    batch.append(following)
                    following = self._next() if len(batch) < MAX_UNITS else None
                if batch:
                    await self._commit(batch)
                if following is not None:
                    await self._run_errand(following)

    def _next(self) -> _Ticket | _Errand | None:
        try:
            return self._receive.receive_nowait()
        except (trio.WouldBlock, trio.EndOfChannel):
            return None

    async def _commit(self, batch: Sequence[_Ticket]) -> None:
        works = [ticket.work for ticket in batch]
        try:
            if self.broken is not None:
                raise Failure(self.broken)
            verdicts = await patiently(
                self.host, self.location, transaction.commit_work, self.connection, works, self.guard
            )
        except Exception as error:
            await self._failed(batch, error)
            return
        for ticket, verdict in zip(batch, verdicts, strict=True):
            if isinstance(verdict, Refused):
                ticket.error = verdict.error
            else:
                ticket.events = verdict.events
        self._announce([event for ticket in batch for event in ticket.events])
        for ticket in batch:
            ticket.done.set()

    async def _failed(self, batch: Sequence[_Ticket], error: Exception) -> None:
        """A batch was rolled back: end everything, or find the one unit that SQLite will not take."""
        if len(batch) > 1 and not self._concerns_all(error):
            for ticket in batch:
                await self._commit([ticket])
            return
        reason = await self._explain(error)
        for ticket in batch:
            ticket.error = reason
            ticket.done.set()

    async def _run_errand(self, errand: _Errand) -> None:
        async def work() -> Any:
            return await errand.run(self.connection, self.guard)

        try:
            if self.broken is not None:
                raise Failure(self.broken)
            errand.value = await patiently(self.host, self.location, work)
        except Exception as error:
            errand.error = await self._explain(error)
        errand.done.set()

    def _concerns_all(self, error: Exception) -> bool:
        return isinstance(error, Failure | StoreGone | OSError) or primary_code(error) in _FATAL

    async def _explain(self, error: Exception) -> ToolError:
        """The error value of a failed transaction; from a fatal one on, the writer is broken."""
        if isinstance(error, Failure):
            return error.error
        if self._concerns_all(error):
            saved = await self._salvage()
            self.broken = write_failed(self.location, str(error), saved)
            log.error("%s", self.broken.message)
            return self.broken
        log.error("a transaction was refused", exc_info=error)
        return ToolError(
            code=ErrorCode.STORE_WRITE_FAILED,
            message=f"The store {self.location} did not take an entry ({type(error).__name__}: {error}); "
            "look into the log for its traceback.",
            details={"path": self.location, "reason": str(error)},
        )

    async def _salvage(self) -> str | None:
        """Save what the open connection still holds to a new file; its path, or None where that fails."""
        for target in salvage_targets(self.guard.path, Path(tempfile.gettempdir())):
            try:
                await self.host.call(self._vacuum_into, str(target))
            except Exception as error:
                log.warning("could not save the store to %s: %s", target, error)
                target.unlink(missing_ok=True)
            else:
                return str(target)
        return None

    async def _vacuum_into(self, target: str) -> None:
        await self.connection.execute("vacuum into ?", (target,))

    def _announce(self, events: Sequence[Event]) -> None:
        if not events:
            return
        for listener in self.listeners:
            try:
                listener(events)
            except Exception:  # a listener's bug must not cost the others their acknowledgement
                log.exception("a commit listener raised")
