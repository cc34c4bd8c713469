"""`SqliteStore`: one file, many agents, several processes; opened by `open_sqlite_store`."""

from __future__ import annotations

import contextlib
import functools
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import aiosqlite
import attrs
import msgspec
import trio

from agents.errors import ErrorCode, Failure, failure
from agents.events import Event, MessageAppended, timestamp
from agents.messages import Message
from agents.rules.effects import EffectIntent, EffectResult
from agents.rules.effects import Verdict as EffectVerdict
from orchestrator.store import leases, queries, rows, transaction
from orchestrator.store.asyncio_host import AsyncioHost, open_asyncio_host
from orchestrator.store.base import (
    TASKS_LISTED,
    CallRow,
    CommitListener,
    EffectRow,
    Found,
    Lease,
    RequestRow,
    SessionRow,
    TaskRow,
    TurnRow,
)
from orchestrator.store.callers import refuse_tool_processes
from orchestrator.store.codec import decode_event, decode_span, encode_event
from orchestrator.store.files import (
    FileGuard,
    blob_folder,
    load_blob,
    make_private,
    not_writable,
    prepare_file,
    save_blob,
    write_failed,
)
from orchestrator.store.holders import Holder
from orchestrator.store.mail import Letter
from orchestrator.store.projection import Insert, Update, watermark_changes
from orchestrator.store.schema import unreadable
from orchestrator.store.units import Work
from orchestrator.store.writer import Writer, patiently, primary_code
from telemetry.records import SpanRecord

BUSY_TIMEOUT_MS = 250
"""One wait inside SQLite. It polls more rarely the longer it waits: many short waits are fairer than one."""
CHECKED_BYTES = 4 * 1024 * 1024
"""Files up to this size are checked page by page on opening (measured: about 10 ms)."""
RELEASE_SECONDS = 10.0
FIND_LIMIT = 20
_MAX_CHARACTER = "\U0010ffff"

V = TypeVar("V")


@attrs.define(eq=False)
class SqliteStore:
    """The `Store` on SQLite. Made by `open_sqlite_store` alone; all methods are called from trio."""

    _host: AsyncioHost
    _reader: aiosqlite.Connection
    _writer: Writer
    _me: leases.Holder
    _held: dict[str, int] = attrs.field(factory=dict)
    _effects: dict[str, str] = attrs.field(factory=dict)
    """Session of every effect that this process began and has not finished."""

    @property
    def location(self) -> str:
        return self._writer.location

    def listen(self, listener: CommitListener) -> None:
        self._writer.listeners.append(listener)

    async def append(self, events: Sequence[Event]) -> tuple[Event, ...]:
        if not events:
            return ()
        encoded = tuple(encode_event(event) for event in events)
        return await self._writer.write(
            Work(self._epochs(*(one.event.session_id for one in encoded)), events=encoded)
        )

    async def intend(self, intent: EffectIntent) -> None:
        image = None
        if intent.before_image is not None:
            image = await self._save_image(intent.before_image)
        values = rows.intent_values(intent, image, _now())
        await self._writer.write(Work(self._epochs(intent.session_id), changes=(Insert("effects", values),)))
        self._effects[intent.effect_id] = intent.session_id

    async def finish(self, result: EffectResult) -> None:
        await self._change_effect(result.effect_id, rows.result_values(result, _now()))
        self._effects.pop(result.effect_id, None)

    async def judge(self, effect_id: str, verdict: EffectVerdict) -> None:
        await self._change_effect(effect_id, {"verdict": verdict.value})

    async def before_image(self, effect_id: str) -> bytes | None:
        found = await self._fetch(queries.IMAGE_OF_EFFECT, (effect_id,))
        digest = found[0]["image"] if found else None
        if digest is None:
            return None
        return await trio.to_thread.run_sync(load_blob, self._blobs, digest)

    @contextlib.asynccontextmanager
    async def lease(
        self, session_id: str, *, patience: float = leases.PATIENCE_SECONDS
    ) -> AsyncIterator[Lease]:
        epoch = await leases.acquire(self, session_id, self._me, patience)
        try:
            yield Lease(session_id, epoch)
        finally:
            with trio.CancelScope(shield=True), trio.move_on_after(RELEASE_SECONDS):
                # A broken store cannot give it back; then it ends with this process.
                with contextlib.suppress(Failure):
                    await self._writer.do(_lease_change(transaction.RELEASE, ((session_id, epoch),)))
            self._held.pop(session_id, None)

    async def rebuild(self) -> int:
        """Build every projected table anew from the events; the number of events replayed."""
        return await self._writer.do(transaction.replay)

    async def sessions(self, limit: int = 50) -> tuple[SessionRow, ...]:
        return await self._each(rows.session_row, queries.NEWEST_SESSIONS, (limit,))

    async def session(self, session_id: str) -> SessionRow | None:
        return await self._first(rows.session_row, queries.ONE_SESSION, (session_id,))

    async def turns(self, session_id: str) -> tuple[TurnRow, ...]:
        return await self._each(rows.turn_row, queries.TURNS, (session_id,))

    async def tasks(self, session_id: str | None = None, limit: int | None = None) -> tuple[TaskRow, ...]:
        if session_id is None:
            return await self._each(
                rows.task_row, queries.NEWEST_TASKS, (TASKS_LISTED if limit is None else limit,)
            )
        no_limit = -1
        return await self._each(
            rows.task_row, queries.TASKS_OF_SESSION, (session_id, no_limit if limit is None else limit)
        )

    async def task(self, task_id: str) -> TaskRow | None:
        return await self._first(rows.task_row, queries.ONE_TASK, (task_id,))

    async def chain(self, chain_id: str) -> tuple[TaskRow, ...]:
        return await self._each(rows.task_row, queries.CHAIN, (chain_id,))

    async def find(self, prefix: str) -> tuple[Found, ...]:
        if not prefix:
            return ()
        wanted = {"id": prefix, "end": prefix + _MAX_CHARACTER, "limit": FIND_LIMIT}
        found = await self._fetch(queries.FIND_EXACT, wanted) or await self._fetch(
            queries.FIND_PREFIX, wanted
        )
        return tuple(Found(kind=row["kind"], id=row["id"], session_id=row["session_id"]) for row in found)

    async def find_label(self, label: str, session_id: str) -> TaskRow | None:
        return await self._first(rows.task_row, queries.LABELLED, (session_id, label))

    async def events(self, session_id: str, after: int = 0) -> tuple[Event, ...]:
        found = await self._fetch(queries.EVENTS, (session_id, after))
        return tuple(event for row in found if (event := decode_event(row)) is not None)

    async def messages(self, session_id: str, task_ids: Sequence[str] | None) -> tuple[Message, ...]:
        if task_ids is None:
            found = await self._fetch(queries.MAIN_MESSAGES, (session_id,))
        else:
            places = ", ".join("?" * len(task_ids))
            found = await self._fetch(queries.TASK_MESSAGES.format(places=places), (session_id, *task_ids))
        events = (decode_event(row) for row in found)
        return tuple(
            event.payload.message
            for event in events
            if event is not None and isinstance(event.payload, MessageAppended)
        )

    async def spans(self, session_id: str, trace_id: str | None = None) -> tuple[SpanRecord, ...]:
        spans = await self._each(lambda row: decode_span(row["span"]), queries.SPANS, (session_id,))
        return tuple(span for span in spans if trace_id is None or span.trace_id == trace_id)

    async def watermark(self, session_id: str, target: str) -> int:
        found = await self._fetch(queries.WATERMARK, (session_id, target))
        return found[0]["seq"] if found else 0

    async def acknowledge(self, session_id: str, target: str, seq: int) -> None:
        changes = watermark_changes(session_id, target, seq)
        await self._writer.write(Work(self._epochs(session_id), changes=changes))

    async def requests(
        self, session_id: str | None = None, *, only_open: bool = False
    ) -> tuple[RequestRow, ...]:
        if session_id is None:
            sql = queries.ALL_OPEN_REQUESTS if only_open else queries.ALL_REQUESTS
            return await self._each(rows.request_row, sql, ())
        sql = queries.OPEN_REQUESTS if only_open else queries.REQUESTS
        return await self._each(rows.request_row, sql, (session_id,))

    async def calls(self, session_id: str) -> tuple[CallRow, ...]:
        return await self._each(rows.call_row, queries.CALLS, (session_id,))

    async def effects(self, session_id: str, *, only_open: bool = False) -> tuple[EffectRow, ...]:
        sql = queries.OPEN_EFFECTS if only_open else queries.EFFECTS
        return await self._each(rows.effect_row, sql, (session_id,))

    async def read_lease(self, session_id: str) -> leases.LeaseRecord | None:
        """The session's lease as stored."""
        found = await self._fetch(queries.LEASE, (session_id,))
        if not found:
            return None
        row = found[0]
        return leases.LeaseRecord(row["epoch"], leases.decode_holder(row["holder"]), row["beat"])

    async def take_lease(
        self, session_id: str, seen: leases.LeaseRecord | None, holder: leases.Holder
    ) -> int | None:
        """Compare and set; on success this store writes under the new epoch."""

        async def take(connection: aiosqlite.Connection, guard: FileGuard) -> int | None:
            return await transaction.take_lease(connection, guard, session_id, seen, holder)

        epoch = await self._writer.do(take)
        if epoch is not None:
            self._held[session_id] = epoch
        return epoch

    async def beat(self, scope: trio.CancelScope) -> None:
        """Show the observers of every held session that this process lives, until `scope` is cancelled.

        Shielded: a session that settles while it is being cancelled is still alive.
        """
        scope.shield = True
        with scope:
            while True:
                await trio.sleep(leases.HEARTBEAT_SECONDS)
                if self._held:
                    with contextlib.suppress(Failure):  # whoever writes next is told
                        await self._writer.do(_lease_change(transaction.BEAT, tuple(self._held.items())))

    async def unsettled(self) -> tuple[str, ...]:
        return tuple(row["session_id"] for row in await self._fetch(queries.UNSETTLED, ()))

    async def holder(self, session_id: str) -> Holder | None:
        record = await self.read_lease(session_id)
        if record is None or record.holder is None or not leases.may_live(record.holder, self._me):
            return None
        return record.holder

    async def post(self, letter: Letter) -> None:
        found = await self._fetch(queries.HOLDERS, ())
        holders = [leases.decode_holder(row["holder"]) for row in found]
        await trio.to_thread.run_sync(refuse_tool_processes, [one for one in holders if one is not None])

        async def post(connection: aiosqlite.Connection, guard: FileGuard) -> None:
            await transaction.post_letter(connection, guard, letter, self._me, _now())

        await self._writer.do(post)

    async def take(self, session_id: str, patience: float = 0.0) -> tuple[Letter, ...]:
        epoch = self._held.get(session_id)
        if epoch is None:
            return ()
        waiting = await self._fetch(queries.MAIL, (session_id,))
        if not waiting and patience:  # another process's commit wakes nobody here
            await self._host.sleep(patience)
            waiting = await self._fetch(queries.MAIL, (session_id,))
        if not waiting:
            return ()

        async def take(connection: aiosqlite.Connection, guard: FileGuard) -> tuple[Letter, ...]:
            return await transaction.take_letters(connection, guard, session_id, epoch)

        return await self._writer.do(take)

    @property
    def _blobs(self) -> Path:
        return blob_folder(self._writer.guard.path)

    def _epochs(self, *sessions: str) -> Mapping[str, int | None]:
        return {session: self._held.get(session) for session in sessions}

    async def _save_image(self, content: bytes) -> str:
        try:
            return await trio.to_thread.run_sync(save_blob, self._blobs, content)
        except OSError as error:
            raise Failure(write_failed(self.location, f"a before-image was not kept ({error})")) from error

    async def _change_effect(self, effect_id: str, values: Mapping[str, Any]) -> None:
        session_id = self._effects.get(effect_id)
        if session_id is None:
            found = await self._fetch(queries.SESSION_OF_EFFECT, (effect_id,))
            if not found:
                raise failure(
                    ErrorCode.STORE_WRITE_FAILED,
                    f"No effect {effect_id} is journalled; journal its intent first.",
                    details={"effectId": effect_id},
                )
            session_id = found[0]["session_id"]
        change = Update("effects", (effect_id,), values)
        await self._writer.write(Work(self._epochs(session_id), changes=(change,)))

    async def _fetch(self, sql: str, values: Sequence[Any] | Mapping[str, Any]) -> list[sqlite3.Row]:
        try:
            return await patiently(self._host, self.location, _fetch_all, self._reader, sql, values)
        except sqlite3.Error as error:
            raise Failure(unreadable(self.location, str(error))) from error

    async def _each(
        self,
        convert: Callable[[sqlite3.Row], V],
        sql: str,
        values: Sequence[Any] | Mapping[str, Any],
    ) -> tuple[V, ...]:
        found = await self._fetch(sql, values)
        try:
            return tuple(convert(row) for row in found)
        except msgspec.MsgspecError as error:
            raise Failure(unreadable(self.location, f"a row is damaged ({error})")) from error

    async def _first(
        self,
        convert: Callable[[sqlite3.Row], V],
        sql: str,
        values: Sequence[Any] | Mapping[str, Any],
    ) -> V | None:
        found = await self._each(convert, sql, values)
        return found[0] if found else None


async def _fetch_all(
    connection: aiosqlite.Connection, sql: str, values: Sequence[Any] | Mapping[str, Any]
) -> list[sqlite3.Row]:
    return list(await connection.execute_fetchall(sql, values))


def _lease_change(
    sql: str, held: Sequence[tuple[str, int]]
) -> Callable[[aiosqlite.Connection, FileGuard], Awaitable[None]]:
    async def change(connection: aiosqlite.Connection, guard: FileGuard) -> None:
        await transaction.change_lease(connection, guard, sql, held)

    return change


def _now() -> str:
    return timestamp(time.time_ns())


@contextlib.asynccontextmanager
async def open_sqlite_store(path: Path) -> AsyncIterator[SqliteStore]:
    """Open (or create) the store at `path` for the block. On exit everything handed over is committed and no
    thread is left. An exception of the block leaves as it is.

    Raises `Failure`: STORE_UNREADABLE or STORE_TOO_NEW (the file stays untouched), STORE_WRITE_FAILED,
    STORE_BUSY.
    """
    real = prepare_file(path)
    async with open_asyncio_host() as host, _connections(host, real) as (writing, reading):
        guard = FileGuard(real)
        guard.remember()
        writer = Writer(host, writing, guard)
        store = SqliteStore(host, reading, writer, leases.current_holder())
        heartbeat = trio.CancelScope()
        ended: BaseException | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writer.run)
            nursery.start_soon(store.beat, heartbeat)
            try:
                yield store
            except BaseException as error:  # raised again below: a nursery would wrap it in a group
                ended = error
            finally:
                writer.close()
                heartbeat.cancel()
        try:
            if ended is not None:
                raise ended
        finally:
            del ended  # its traceback holds this frame


@contextlib.asynccontextmanager
async def _connections(
    host: AsyncioHost, path: Path
) -> AsyncIterator[tuple[aiosqlite.Connection, aiosqlite.Connection]]:
    """The write and the read connection, the file checked and brought to the current version before."""
    async with _connection(host, path, "rw") as writing:
        await _opening(host, path, _check, writing, path)
        await _opening(host, path, transaction.prepare_schema, writing, str(path))
        await _opening(host, path, _tune, writing, path)
        make_private(path)
        async with _connection(host, path, "ro") as reading:
            await _opening(host, path, _fetch_all, reading, "select count(*) from sqlite_master", ())
            yield writing, reading


@contextlib.asynccontextmanager
async def _connection(host: AsyncioHost, path: Path, mode: str) -> AsyncIterator[aiosqlite.Connection]:
    uri = f"file:{quote(str(path))}?mode={mode}"  # `rw` never makes a new file where one was deleted
    with trio.CancelScope(shield=True):
        connection = await _opening(host, path, _connect, uri)
    try:
        yield connection
    finally:
        with trio.CancelScope(shield=True):
            await host.call(_disconnect, connection)


async def _opening(host: AsyncioHost, path: Path, afn: Callable[..., Awaitable[V]], *values: Any) -> V:
    try:
        return await patiently(host, str(path), functools.partial(afn, *values))
    except sqlite3.Error as error:
        if primary_code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise Failure(unreadable(str(path), str(error))) from error
        raise not_writable(path, error) from error


async def _connect(uri: str) -> aiosqlite.Connection:
    connection = aiosqlite.connect(uri, uri=True, isolation_level=None)
    # aiosqlite's thread is no daemon: a connection that something keeps alive would hang the exit.
    connection._thread.daemon = True
    await connection
    try:
        connection.row_factory = sqlite3.Row
        await connection.execute(f"pragma busy_timeout = {BUSY_TIMEOUT_MS}")
    except BaseException:
        await _disconnect(connection)
        raise
    return connection


async def _disconnect(connection: aiosqlite.Connection) -> None:
    try:
        await connection.close()
    finally:
        connection._thread.join(timeout=1.0)  # its last act was to answer `close`: microseconds


async def _check(connection: aiosqlite.Connection, path: Path) -> None:
    """Raise for a file with damaged pages; large files are left to the read that meets the damage."""
    pages = await transaction.scalar(connection, "pragma page_count")
    if pages * await transaction.scalar(connection, "pragma page_size") > CHECKED_BYTES:
        return
    verdict = await transaction.scalar(connection, "pragma quick_check(1)")
    if verdict != "ok":
        raise Failure(unreadable(str(path), str(verdict)))


async def _tune(connection: aiosqlite.Connection, path: Path) -> None:
    if await transaction.scalar(connection, "pragma journal_mode = wal") != "wal":
        raise Failure(write_failed(str(path), "its file system has no shared memory for write-ahead logging"))
    await connection.execute("pragma synchronous = full")
