"""One transaction of the SQLite store, as one coroutine on the asyncio side, with rollback.

Nothing here spans two calls from trio: whatever ends a coroutine early, a cancellation too, the connection is
left without an open transaction.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

import aiosqlite
import attrs
import msgspec

from agents.errors import Failure
from agents.events import Event
from orchestrator.store import leases, queries
from orchestrator.store.codec import EncodedEvent, decode_event, encode_json
from orchestrator.store.files import FileGuard
from orchestrator.store.mail import ANSWER, Letter, MailFacts, decode_letter, kind_of, refusal
from orchestrator.store.projection import PROJECTED, project
from orchestrator.store.schema import FileFacts, plan_upgrade
from orchestrator.store.units import Refused, StatementPlan, Stored, Verdict, Work

REPLAY_CHUNK = 500

_INSERT_EVENT = (
    "insert into events (session_id, seq, type, ts, turn_id, task_id, trace_id, body, span)"
    " values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


@attrs.define
class _Head:
    """A session inside a transaction, where nobody else can write."""

    last_seq: int
    epoch: int | None
    holder: str | None


@contextlib.asynccontextmanager
async def transaction(connection: aiosqlite.Connection, guard: FileGuard | None) -> AsyncIterator[None]:
    """BEGIN IMMEDIATE to COMMIT around the block; any exception rolls back.

    Raises `StoreGone` before the commit, and after it (then nobody is told that it happened), when the file
    at the path is not the one that is written to.
    """
    try:
        await connection.execute("begin immediate")
        yield
        if guard is not None:
            guard.check()
        await connection.execute("commit")
        if guard is not None:
            guard.check()
    except BaseException:
        await connection.rollback()
        raise


async def commit_work(
    connection: aiosqlite.Connection, works: Sequence[Work], guard: FileGuard
) -> list[Verdict]:
    """Store every unit whose leases hold, and say of each what became of it."""
    async with transaction(connection, guard):
        sessions = dict.fromkeys(session for work in works for session in work.epochs)
        heads = await _read_heads(connection, tuple(sessions))
        plan = StatementPlan()
        event_rows: list[tuple[Any, ...]] = []
        verdicts: list[Verdict] = []
        for work in works:
            refused = _refusal(work, heads)
            if refused is None:
                verdicts.append(_lay_out(work, heads, event_rows, plan))
            else:
                verdicts.append(refused)
        if event_rows:
            await connection.executemany(_INSERT_EVENT, event_rows)
        for sql, rows in plan.statements():
            await connection.executemany(sql, rows)
    return verdicts


def _lay_out(
    work: Work, heads: dict[str, _Head], event_rows: list[tuple[Any, ...]], plan: StatementPlan
) -> Stored:
    stored = []
    for encoded in work.events:
        head = heads[encoded.event.session_id]
        head.last_seq += 1
        event: Event = msgspec.structs.replace(encoded.event, seq=head.last_seq)
        event_rows.append(_event_row(event, encoded))
        for change in project(event):
            plan.add(change)
        stored.append(event)
    for change in work.changes:
        plan.add(change)
    return Stored(tuple(stored))


def _event_row(event: Event, encoded: EncodedEvent) -> tuple[Any, ...]:
    return (
        event.session_id,
        event.seq,
        event.type,
        event.ts,
        event.turn_id,
        event.task_id,
        event.trace_id,
        encoded.body,
        encoded.span,
    )


async def _read_heads(connection: aiosqlite.Connection, sessions: tuple[str, ...]) -> dict[str, _Head]:
    if not sessions:
        return {}
    places = ", ".join(["(?)"] * len(sessions))
    rows = await connection.execute_fetchall(
        f"with wanted (id) as (values {places})"
        " select id, (select max(seq) from events where session_id = id) as seq, epoch, holder"
        " from wanted left join leases on leases.session_id = id",
        sessions,
    )
    return {row["id"]: _Head(row["seq"] or 0, row["epoch"], row["holder"]) for row in rows}


def _refusal(work: Work, heads: dict[str, _Head]) -> Refused | None:
    """A session that is held takes writes under the current epoch alone."""
    for session_id, epoch in work.epochs.items():
        head = heads[session_id]
        holder = leases.decode_holder(head.holder) if head.holder is not None else None
        if epoch is None and head.holder is not None:
            return Refused(leases.locked(session_id, holder).error)
        if epoch is not None and (head.epoch != epoch or head.holder is None):
            return Refused(leases.lost(session_id, holder).error)
    return None


async def take_lease(
    connection: aiosqlite.Connection,
    guard: FileGuard,
    session_id: str,
    seen: leases.LeaseRecord | None,
    holder: leases.Holder,
) -> int | None:
    """The new epoch, or None where the row is no longer as `seen`."""
    text = leases.encode_holder(holder)
    epoch = 1 if seen is None else seen.epoch + 1
    async with transaction(connection, guard):
        if seen is None:
            cursor = await connection.execute(
                "insert into leases (session_id, epoch, holder, beat) values (?, ?, ?, 0)"
                " on conflict (session_id) do nothing",
                (session_id, epoch, text),
            )
        else:
            cursor = await connection.execute(
                "update leases set epoch = ?, holder = ?, beat = 0"
                " where session_id = ? and epoch = ? and beat = ?",
                (epoch, text, session_id, seen.epoch, seen.beat),
            )
        taken = cursor.rowcount == 1
        if taken:  # letters to an earlier holder were about what ended with it
            await connection.execute(queries.DROP_MAIL, (session_id,))
    return epoch if taken else None


async def post_letter(
    connection: aiosqlite.Connection, guard: FileGuard, letter: Letter, me: leases.Holder, posted: str
) -> None:
    """Keep a letter, or raise `Failure` CONFLICT and keep nothing: one transaction decides both."""
    row = {
        "session_id": letter.session_id,
        "kind": kind_of(letter),
        "target": letter.target,
        "body": encode_json(letter),
        "posted": posted,
    }
    async with transaction(connection, guard):
        refused = refusal(letter, await _mail_facts(connection, row, me))
        if refused is not None:
            raise Failure(refused)
        await connection.execute(queries.KEEP_LETTER, row)


async def _mail_facts(connection: aiosqlite.Connection, row: dict[str, str], me: leases.Holder) -> MailFacts:
    lease = await _first(connection, queries.LEASE, (row["session_id"],))
    holder = None if lease is None else leases.decode_holder(lease["holder"])
    state = await _first(connection, queries.STATE_OF[row["kind"]], row)
    way = await _first(connection, queries.ANSWER_ON_ITS_WAY, (row["session_id"], row["target"]))
    return MailFacts(
        held=holder is not None and leases.may_live(holder, me),
        known=state is not None,
        open=state is not None and bool(state["open"]),
        answered=row["kind"] == ANSWER and way is not None,
    )


async def take_letters(
    connection: aiosqlite.Connection, guard: FileGuard, session_id: str, epoch: int
) -> tuple[Letter, ...]:
    """The letters nobody has taken yet; none, and `Failure` STORE_WRITE_FAILED, where the epoch is over."""
    async with transaction(connection, guard):
        lease = await _first(connection, queries.LEASE, (session_id,))
        if lease is None or lease["epoch"] != epoch or lease["holder"] is None:
            holder = None if lease is None else leases.decode_holder(lease["holder"])
            raise leases.lost(session_id, holder)
        rows = list(await connection.execute_fetchall(queries.MAIL, (session_id,)))
        if rows:
            await connection.execute(queries.TAKE_LETTERS, (session_id, rows[-1]["position"]))
    return tuple(decode_letter(row["body"]) for row in rows)


async def _first(connection: aiosqlite.Connection, sql: str, values: Any) -> Any:
    return next(iter(await connection.execute_fetchall(sql, values)), None)


async def change_lease(
    connection: aiosqlite.Connection, guard: FileGuard, sql: str, held: Sequence[tuple[str, int]]
) -> None:
    """A heartbeat or a release of `(session_id, epoch)` pairs; pairs whose epoch is over are left alone."""
    async with transaction(connection, guard):
        await connection.executemany(sql, held)


BEAT = "update leases set beat = beat + 1 where session_id = ? and epoch = ? and holder is not null"
RELEASE = "update leases set holder = null where session_id = ? and epoch = ?"


async def prepare_schema(connection: aiosqlite.Connection, location: str) -> None:
    """Bring the file to the current version, or raise `Failure` and leave it alone."""
    if await _pending(connection, location):
        async with transaction(connection, None):
            # Again, now that nobody else can write: another process may have done it meanwhile.
            for sql in await _pending(connection, location):
                await connection.execute(sql)


async def _pending(connection: aiosqlite.Connection, location: str) -> tuple[str, ...]:
    facts = FileFacts(
        application_id=await scalar(connection, "pragma application_id"),
        user_version=await scalar(connection, "pragma user_version"),
        tables=await scalar(connection, "select count(*) from sqlite_master"),
    )
    plan = plan_upgrade(facts, location)
    if isinstance(plan, tuple):
        return plan
    raise Failure(plan)


async def replay(connection: aiosqlite.Connection, guard: FileGuard) -> int:
    """Build the projected tables anew from the events, in one transaction; the number of events replayed."""
    count = 0
    after: tuple[str, int] = ("", 0)
    async with transaction(connection, guard):
        for table in PROJECTED:
            await connection.execute(f"delete from {table}")
        while True:
            rows: Iterable[Any] = await connection.execute_fetchall(
                "select * from events where (session_id, seq) > (?, ?) order by session_id, seq limit ?",
                (*after, REPLAY_CHUNK),
            )
            plan = StatementPlan()
            chunk = 0
            for row in rows:
                chunk += 1
                after = (row["session_id"], row["seq"])
                event = decode_event(row)
                for change in () if event is None else project(event):
                    plan.add(change)
            for sql, values in plan.statements():
                await connection.executemany(sql, values)
            count += chunk
            if chunk < REPLAY_CHUNK:
                return count


async def scalar(connection: aiosqlite.Connection, sql: str) -> Any:
    """The one value of a one-row query."""
    (row,) = await connection.execute_fetchall(sql)
    return row[0]
