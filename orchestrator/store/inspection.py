"""A store's file read as it is, damaged or not: by plain SQLite, row by row, changing nothing. Blocking.

The store proper refuses a damaged file. Here every row that can be read is read, and those that cannot are
counted.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import attrs

from agents.errors import Failure
from orchestrator.store.codec import decode_event
from orchestrator.store.schema import APPLICATION_ID

CHUNK_ROWS = 1000
MOST_BYTES_PER_ROW = 20
"""No row is smaller: bounds the row numbers of a file whose own count cannot be read."""

Row = dict[str, Any]


@attrs.define
class Reading:
    """What became of reading one table."""

    rows: int = 0
    lost: int = 0
    """Row numbers that lie on damaged pages; there may have been no row at some of them."""
    undecodable: int = 0
    """Rows that were read and whose content is no entry of ours."""


@contextlib.contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that cannot write. Raises `sqlite3.Error` for what is no database at all."""
    # Without a log nobody has it open: then not even an empty log is made beside it.
    alone = "" if path.with_name(f"{path.name}-wal").exists() else "&immutable=1"
    connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro{alone}", uri=True, timeout=10.0)
    try:
        connection.row_factory = sqlite3.Row
        # Bytes that are no text become something that no entry of ours holds, instead of ending the read.
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        connection.execute("pragma query_only = on")
        yield connection
    finally:
        connection.close()


def is_ours(connection: sqlite3.Connection) -> bool:
    """Whether the header names our program."""
    return bool(number(connection, "pragma application_id") == APPLICATION_ID)


def number(connection: sqlite3.Connection, sql: str) -> int:
    """The one number of a one-row query."""
    (row,) = connection.execute(sql)
    return int(row[0] or 0)


def columns(connection: sqlite3.Connection, table: str) -> tuple[str, ...]:
    """The table's columns; empty where there is no such table."""
    return tuple(row[1] for row in connection.execute(f"pragma table_info({table})"))


def damage(connection: sqlite3.Connection, most: int = 20) -> tuple[str, ...]:
    """What SQLite's own check finds, at most that many lines; empty for a sound file."""
    try:
        found = [str(row[0]) for row in connection.execute(f"pragma integrity_check({most})")]
    except sqlite3.DatabaseError as error:
        return (str(error),)
    return () if found == ["ok"] else tuple(found)


def every_row(connection: sqlite3.Connection, table: str, tally: Reading) -> Iterator[Row]:
    """The readable rows of a table with row numbers, in their order."""
    last = _last_number(connection, table)
    for first in range(1, last + 1, CHUNK_ROWS):
        yield from _rows_between(connection, table, first, min(last, first + CHUNK_ROWS - 1), tally)


def plain_rows(connection: sqlite3.Connection, table: str, tally: Reading) -> Iterator[Row]:
    """The rows of a table without row numbers, up to the first damaged page."""
    try:
        for row in connection.execute(f"select * from {table}"):
            tally.rows += 1
            yield dict(row)
    except sqlite3.DatabaseError:
        tally.lost += 1


def readable(row: Row, tally: Reading) -> bool:
    """Whether a row of `events` can be decoded. One of a type of a later version can."""
    try:
        decode_event(row)
    except (Failure, KeyError, TypeError, ValueError):
        tally.undecodable += 1
        return False
    return True


def _rows_between(
    connection: sqlite3.Connection, table: str, first: int, last: int, tally: Reading
) -> Iterator[Row]:
    """Halve a range that cannot be read as a whole, until only the damaged numbers are left out."""
    try:
        found = connection.execute(
            f"select * from {table} where rowid between ? and ? order by rowid", (first, last)
        ).fetchall()
    except sqlite3.DatabaseError:
        if first == last:
            tally.lost += 1
            return
        middle = (first + last) // 2
        yield from _rows_between(connection, table, first, middle, tally)
        yield from _rows_between(connection, table, middle + 1, last, tally)
        return
    tally.rows += len(found)
    yield from (dict(row) for row in found)


def _last_number(connection: sqlite3.Connection, table: str) -> int:
    with contextlib.suppress(sqlite3.DatabaseError):
        return number(connection, f"select max(rowid) from {table}")
    size = number(connection, "pragma page_count") * number(connection, "pragma page_size")
    return size // MOST_BYTES_PER_ROW
