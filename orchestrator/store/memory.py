"""`MemoryStore`: the same interface over dict tables, for tests and for sessions that leave nothing behind.

It keeps what the SQLite store keeps (encoded bodies, the same projections), so that what would not survive
the disk does not survive here either. No thread, no clock: under a mock clock it is deterministic.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import attrs
import msgspec
import trio

from agents.errors import ErrorCode, Failure, failure
from agents.events import Event, MessageAppended, timestamp
from agents.messages import Message
from agents.rules.effects import EffectIntent, EffectResult, Verdict
from orchestrator.store import leases, rows
from orchestrator.store.base import (
    RUNNING,
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
from orchestrator.store.codec import EncodedEvent, decode_event, decode_span, encode_event
from orchestrator.store.holders import Holder
from orchestrator.store.mail import ANSWER, Letter, MailFacts, kind_of, refusal
from orchestrator.store.projection import KEYS, Change, Insert, Update, project, watermark_changes
from telemetry.records import SpanRecord

FIND_LIMIT = 20

Record = dict[str, Any]
V = TypeVar("V")
log = logging.getLogger(__name__)

_FOUND: tuple[tuple[Literal["session", "turn", "task", "run", "chain"], str, str], ...] = (
    ("session", "sessions", "session_id"),
    ("turn", "turns", "turn_id"),
    ("task", "tasks", "task_id"),
    ("run", "tasks", "run_id"),
    ("chain", "tasks", "chain_id"),
)


_ABOUT = {
    "answer": ("requests", "request_id"),
    "stop-task": ("tasks", "task_id"),
    "stop-session": ("sessions", "session_id"),
}
"""By a letter's kind: the table that knows what it is about, and that table's key."""


@attrs.define(eq=False)
class MemoryStore:
    """The `Store` in this process's memory."""

    _events: dict[str, list[Record]] = attrs.field(factory=dict)
    _tables: dict[str, dict[tuple[Any, ...], Record]] = attrs.field(
        factory=lambda: {table: {} for table in KEYS}
    )
    _images: dict[str, bytes] = attrs.field(factory=dict)
    _leases: dict[str, leases.LeaseRecord] = attrs.field(factory=dict)
    _mail: dict[str, list[Letter]] = attrs.field(factory=dict)
    _posted: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot)
    _taken: dict[str, int] = attrs.field(factory=dict)
    """By session: how many letters of its box were given out."""
    _me: leases.Holder = attrs.field(factory=leases.current_holder)
    _listeners: list[CommitListener] = attrs.field(factory=list)

    @property
    def location(self) -> str:
        return "memory"

    def listen(self, listener: CommitListener) -> None:
        self._listeners.append(listener)

    async def append(self, events: Sequence[Event]) -> tuple[Event, ...]:
        encoded = tuple(encode_event(event) for event in events)
        stored = tuple(self._store(one) for one in encoded)
        for event in stored:
            for change in project(event):
                self._apply(change)
        self._announce(stored)
        await trio.lowlevel.checkpoint()
        return stored

    async def intend(self, intent: EffectIntent) -> None:
        image = None
        if intent.before_image is not None:
            image = hashlib.sha256(intent.before_image).hexdigest()
            self._images[image] = intent.before_image
        self._apply(Insert("effects", rows.intent_values(intent, image, _now())))
        await trio.lowlevel.checkpoint()

    async def finish(self, result: EffectResult) -> None:
        self._change_effect(result.effect_id, rows.result_values(result, _now()))
        await trio.lowlevel.checkpoint()

    async def judge(self, effect_id: str, verdict: Verdict) -> None:
        self._change_effect(effect_id, {"verdict": verdict.value})
        await trio.lowlevel.checkpoint()

    async def before_image(self, effect_id: str) -> bytes | None:
        await trio.lowlevel.checkpoint()
        effect = self._tables["effects"].get((effect_id,))
        return None if effect is None or effect["image"] is None else self._images[effect["image"]]

    @contextlib.asynccontextmanager
    async def lease(
        self, session_id: str, *, patience: float = leases.PATIENCE_SECONDS
    ) -> AsyncIterator[Lease]:
        epoch = await leases.acquire(self, session_id, self._me, patience)
        try:
            yield Lease(session_id, epoch)
        finally:
            self._leases[session_id] = leases.LeaseRecord(epoch, None, 0)

    async def read_lease(self, session_id: str) -> leases.LeaseRecord | None:
        """The session's lease as it stands."""
        await trio.lowlevel.checkpoint()
        return self._leases.get(session_id)

    async def take_lease(
        self, session_id: str, seen: leases.LeaseRecord | None, holder: leases.Holder
    ) -> int | None:
        """Compare and set. Nobody else can see this store, so the lease needs no heartbeat."""
        await trio.lowlevel.checkpoint()
        if self._leases.get(session_id) != seen:
            return None
        epoch = 1 if seen is None else seen.epoch + 1
        self._leases[session_id] = leases.LeaseRecord(epoch, holder, 0)
        self._mail.pop(session_id, None)
        self._taken.pop(session_id, None)  # letters to an earlier holder were about what ended with it
        return epoch

    async def holder(self, session_id: str) -> Holder | None:
        await trio.lowlevel.checkpoint()
        record = self._leases.get(session_id)
        return None if record is None else record.holder

    async def post(self, letter: Letter) -> None:
        await trio.lowlevel.checkpoint()
        refuse_tool_processes()
        refused = refusal(letter, self._mail_facts(letter))
        if refused is not None:
            raise Failure(refused)
        self._mail.setdefault(letter.session_id, []).append(letter)
        self._posted.unpark_all()

    async def take(self, session_id: str, patience: float = 0.0) -> tuple[Letter, ...]:
        await trio.lowlevel.checkpoint()
        record = self._leases.get(session_id)
        if record is None or record.holder is None:
            return ()
        if patience and len(self._mail.get(session_id, [])) == self._taken.get(session_id, 0):
            await self._posted.park()  # nobody outside this process can post: no clock is needed
        box = self._mail.get(session_id, [])
        taken = self._taken.get(session_id, 0)
        self._taken[session_id] = len(box)
        return tuple(box[taken:])

    async def sessions(self, limit: int = 50) -> tuple[SessionRow, ...]:
        found = [self._session(row) for row in self._rows("sessions")]
        found.sort(key=lambda row: (row["updated"], row["created"], row["session_id"]), reverse=True)
        return await _answer(rows.session_row, found[:limit])

    async def unsettled(self) -> tuple[str, ...]:
        running = {
            row["session_id"]
            for table in ("turns", "tasks")
            for row in self._rows(table)
            if row["status"] == RUNNING
        }
        found = [row for row in self._rows("sessions") if row["session_id"] in running]
        found.sort(key=lambda row: (row["created"], row["session_id"]))
        await trio.lowlevel.checkpoint()
        return tuple(row["session_id"] for row in found)

    async def session(self, session_id: str) -> SessionRow | None:
        found = (self._session(row) for row in self._of("sessions", session_id))
        return _first(await _answer(rows.session_row, found))

    async def turns(self, session_id: str) -> tuple[TurnRow, ...]:
        found = sorted(self._of("turns", session_id), key=lambda row: (row["idx"], row["started"]))
        return await _answer(rows.turn_row, found)

    async def tasks(self, session_id: str | None = None, limit: int | None = None) -> tuple[TaskRow, ...]:
        if session_id is not None:
            found = _by_seq(self._of("tasks", session_id))
            first = 0 if limit is None else max(0, len(found) - limit)
            return await _answer(rows.task_row, found[first:])
        newest = sorted(
            self._rows("tasks"), key=lambda row: (row["started"], row["session_id"], row["seq"]), reverse=True
        )
        return await _answer(rows.task_row, newest[: TASKS_LISTED if limit is None else limit])

    async def task(self, task_id: str) -> TaskRow | None:
        found = self._tables["tasks"].get((task_id,))
        return _first(await _answer(rows.task_row, () if found is None else (found,)))

    async def chain(self, chain_id: str) -> tuple[TaskRow, ...]:
        found = _by_seq(row for row in self._rows("tasks") if row["chain_id"] == chain_id)
        return await _answer(rows.task_row, found)

    async def find(self, prefix: str) -> tuple[Found, ...]:
        await trio.lowlevel.checkpoint()
        if not prefix:
            return ()
        return self._find(lambda value: value == prefix) or self._find(lambda value: value.startswith(prefix))

    async def find_label(self, label: str, session_id: str) -> TaskRow | None:
        found = _by_seq(row for row in self._of("tasks", session_id) if row["label"] == label)
        return _first(await _answer(rows.task_row, found[-1:]))

    async def events(self, session_id: str, after: int = 0) -> tuple[Event, ...]:
        found = self._events.get(session_id, [])[after:]
        return tuple(event for event in await _answer(decode_event, found) if event is not None)

    async def messages(self, session_id: str, task_ids: Sequence[str] | None) -> tuple[Message, ...]:
        wanted = (None,) if task_ids is None else tuple(task_ids)
        appended = _by_seq(row for row in self._of("messages", session_id) if row["task_id"] in wanted)
        bodies = [self._events[session_id][row["seq"] - 1] for row in appended]
        return tuple(
            event.payload.message
            for event in await _answer(decode_event, bodies)
            if event is not None and isinstance(event.payload, MessageAppended)
        )

    async def spans(self, session_id: str, trace_id: str | None = None) -> tuple[SpanRecord, ...]:
        stored = [row["span"] for row in self._events.get(session_id, []) if row["span"] is not None]
        spans = await _answer(decode_span, stored)
        return tuple(span for span in spans if trace_id is None or span.trace_id == trace_id)

    async def watermark(self, session_id: str, target: str) -> int:
        await trio.lowlevel.checkpoint()
        row = self._tables["exports"].get((session_id, target))
        return 0 if row is None else row["seq"]

    async def acknowledge(self, session_id: str, target: str, seq: int) -> None:
        for change in watermark_changes(session_id, target, seq):
            self._apply(change)
        await trio.lowlevel.checkpoint()

    async def requests(
        self, session_id: str | None = None, *, only_open: bool = False
    ) -> tuple[RequestRow, ...]:
        found = self._rows("requests") if session_id is None else self._of("requests", session_id)
        arrived = sorted(found, key=lambda row: (self._time_of(row), row["session_id"], row["seq"]))
        if session_id is not None:
            arrived = _by_seq(arrived)
        return await _answer(
            rows.request_row, (row for row in arrived if not only_open or row["decision"] is None)
        )

    async def calls(self, session_id: str) -> tuple[CallRow, ...]:
        return await _answer(rows.call_row, _by_seq(self._of("calls", session_id)))

    async def effects(self, session_id: str, *, only_open: bool = False) -> tuple[EffectRow, ...]:
        found = (
            row
            for row in self._of("effects", session_id)
            if not only_open or (row["ok"] is None and row["verdict"] is None)
        )
        return await _answer(rows.effect_row, found)

    def _mail_facts(self, letter: Letter) -> MailFacts:
        record = self._leases.get(letter.session_id)
        table, column = _ABOUT[kind_of(letter)]
        key = letter.target
        about = [row for row in self._of(table, letter.session_id) if row[column] == key]
        match kind_of(letter):
            case "answer":
                is_open = any(row["decision"] is None for row in about)
            case "stop-task":
                is_open = any(row["status"] == RUNNING for row in about)
            case _:
                is_open = any(turn["status"] == RUNNING for turn in self._of("turns", key))
        box = self._mail.get(letter.session_id, [])
        return MailFacts(
            held=record is not None and record.holder is not None,
            known=bool(about),
            open=is_open,
            answered=kind_of(letter) == ANSWER
            and any(kind_of(one) == ANSWER and one.target == key for one in box),
        )

    def _store(self, encoded: EncodedEvent) -> Event:
        history = self._events.setdefault(encoded.event.session_id, [])
        event: Event = msgspec.structs.replace(encoded.event, seq=len(history) + 1)
        history.append(
            {
                "session_id": event.session_id,
                "seq": event.seq,
                "type": event.type,
                "ts": event.ts,
                "turn_id": event.turn_id,
                "task_id": event.task_id,
                "trace_id": event.trace_id,
                "body": encoded.body,
                "span": encoded.span,
            }
        )
        return event

    def _apply(self, change: Change) -> None:
        table = self._tables[change.table]
        if isinstance(change, Insert):
            table.setdefault(change.key, dict(change.values))
        elif change.key in table:
            table[change.key].update(change.values)

    def _change_effect(self, effect_id: str, values: Mapping[str, Any]) -> None:
        if (effect_id,) not in self._tables["effects"]:
            raise failure(
                ErrorCode.STORE_WRITE_FAILED,
                f"No effect {effect_id} is journalled; journal its intent first.",
                details={"effectId": effect_id},
            )
        self._apply(Update("effects", (effect_id,), values))

    def _announce(self, events: Sequence[Event]) -> None:
        for listener in self._listeners if events else ():
            try:
                listener(events)
            except Exception:  # a listener's bug must not cost the caller its acknowledgement
                log.exception("a commit listener raised")

    def _rows(self, table: str) -> Iterable[Record]:
        return self._tables[table].values()

    def _of(self, table: str, session_id: str) -> Iterable[Record]:
        return (row for row in self._rows(table) if row["session_id"] == session_id)

    def _session(self, row: Record) -> Record:
        turns = sorted(self._of("turns", row["session_id"]), key=lambda turn: turn["idx"])
        history = self._events[row["session_id"]]
        return {
            **row,
            "first_prompt": turns[0]["prompt"] if turns else None,
            "updated": history[-1]["ts"],
            "turns": len(turns),
            "status": turns[-1]["status"] if turns else RUNNING,
            "last_seq": len(history),
        }

    def _time_of(self, row: Record) -> str:
        moment: str = self._events[row["session_id"]][row["seq"] - 1]["ts"]
        return moment

    def _find(self, matches: Callable[[str], bool]) -> tuple[Found, ...]:
        found: list[Found] = []
        for kind, table, column in _FOUND:
            ids = {(row[column], row["session_id"]) for row in self._rows(table) if matches(row[column])}
            found += [Found(kind=kind, id=one, session_id=session) for one, session in sorted(ids)]
        return tuple(found[:FIND_LIMIT])


async def _answer(convert: Callable[[Any], V], found: Iterable[Any]) -> tuple[V, ...]:
    answer = tuple(convert(row) for row in found)
    await trio.lowlevel.checkpoint()
    return answer


def _first(found: Sequence[V]) -> V | None:
    return found[0] if found else None


def _by_seq(found: Iterable[Record]) -> list[Record]:
    return sorted(found, key=lambda row: row["seq"])


def _now() -> str:
    return timestamp(time.time_ns())


@contextlib.asynccontextmanager
async def open_memory_store() -> AsyncIterator[MemoryStore]:
    """A new, empty store for the block."""
    await trio.lowlevel.checkpoint()
    yield MemoryStore()
