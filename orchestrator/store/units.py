"""What a store commits as a whole, and how the changes of many units become few statements. Pure."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from agents.errors import ToolError
from agents.events import Event
from orchestrator.store.codec import EncodedEvent
from orchestrator.store.projection import KEYS, Change, Insert


@attrs.frozen
class Work:
    """One atomic group: all of it is stored, or nothing."""

    epochs: Mapping[str, int | None]
    """The sessions it writes to, with the epoch under which this store holds each; None: it does not."""
    events: tuple[EncodedEvent, ...] = ()
    changes: tuple[Change, ...] = ()
    """Beside what the events project: effects."""


@attrs.frozen
class Stored:
    """It is on disk."""

    events: tuple[Event, ...]
    """With their `seq`."""


@attrs.frozen
class Refused:
    """None of it is on disk, and others are not concerned."""

    error: ToolError


Verdict = Stored | Refused


@attrs.define
class _Statement:
    sql: str
    rows: list[tuple[Any, ...]] = attrs.field(factory=list)


@attrs.define
class StatementPlan:
    """Groups changes by statement. Per row the order is kept, across rows it does not matter."""

    _tables: dict[str, list[_Statement]] = attrs.field(factory=dict)
    _last: dict[tuple[str, tuple[Any, ...]], int] = attrs.field(factory=dict)

    def add(self, change: Change) -> None:
        """Put it into the first statement of its kind that does not run before the row's last change."""
        sql, values = _statement_of(change)
        statements = self._tables.setdefault(change.table, [])
        row = (change.table, change.key)
        earliest = self._last.get(row, 0)
        for index in range(earliest, len(statements)):
            if statements[index].sql == sql:
                break
        else:
            index = len(statements)
            statements.append(_Statement(sql))
        statements[index].rows.append(values)
        self._last[row] = index

    def statements(self) -> Iterable[tuple[str, Sequence[tuple[Any, ...]]]]:
        """Each statement once, with all its rows."""
        for statements in self._tables.values():
            for statement in statements:
                yield statement.sql, statement.rows


def _statement_of(change: Change) -> tuple[str, tuple[Any, ...]]:
    if isinstance(change, Insert):
        return insert_sql(change.table, tuple(change.values)), tuple(change.values.values())
    return update_sql(change.table, tuple(change.values)), (*change.values.values(), *change.key)


@functools.cache
def insert_sql(table: str, columns: tuple[str, ...]) -> str:
    """Names come from our own code alone; a finite number of them."""
    marks = ", ".join("?" * len(columns))
    key = ", ".join(KEYS[table])
    return f"insert into {table} ({', '.join(columns)}) values ({marks}) on conflict ({key}) do nothing"


@functools.cache
def update_sql(table: str, columns: tuple[str, ...]) -> str:
    """Names come from our own code alone; a finite number of them."""
    sets = ", ".join(f"{column} = ?" for column in columns)
    where = " and ".join(f"{column} = ?" for column in KEYS[table])
    return f"update {table} set {sets} where {where}"
