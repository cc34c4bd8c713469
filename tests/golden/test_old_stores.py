"""Store files of every published version still load. A file here is never made anew, only added."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from orchestrator.store.schema import VERSION
from orchestrator.store.sqlite import open_sqlite_store

HERE = Path(__file__).parent
PUBLISHED = sorted(HERE.glob("store-v*.sqlite3"))


@pytest.fixture(params=PUBLISHED, ids=lambda path: path.stem)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of an old file with what stands beside it."""
    golden: Path = request.param
    shutil.copy(golden, tmp_path / golden.name)
    blobs = golden.with_name(f"{golden.name}.blobs")
    if blobs.exists():
        shutil.copytree(blobs, tmp_path / blobs.name)
    return tmp_path / golden.name


def expected(old: Path) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table, as the version that wrote the file saw it."""
    tables: dict[str, list[dict[str, Any]]] = json.loads((HERE / f"{old.stem}.json").read_text())
    return tables


def tables_of(path: Path) -> dict[str, list[dict[str, Any]]]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        names = [row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")]
        return {
            name: [dict(row) for row in connection.execute(f"select * from {name} order by 1, 2")]
            for name in names
        }


def test_there_is_a_file_of_every_version_before_this_one() -> None:
    assert {path.stem for path in PUBLISHED} >= {f"store-v{number}" for number in range(1, VERSION)}


async def test_an_old_file_is_migrated_and_keeps_every_row(old: Path) -> None:
    async with open_sqlite_store(old):
        pass
    now = tables_of(old)
    for table, rows in expected(old).items():
        kept = [
            {column: row[column] for column in before} for before, row in zip(rows, now[table], strict=True)
        ]
        assert kept == rows, table
    with contextlib.closing(sqlite3.connect(old)) as connection:
        assert connection.execute("pragma user_version").fetchone() == (VERSION,)


async def test_an_old_file_is_read_whole(old: Path) -> None:
    async with open_sqlite_store(old) as store:
        sessions = await store.sessions()
        assert {row.session_id for row in sessions} == {"s1", "s2"}
        for row in sessions:
            events = await store.events(row.session_id)
            assert len(events) == row.last_seq
            await store.tasks(row.session_id)
            await store.messages(row.session_id, None)
            await store.spans(row.session_id)
            await store.calls(row.session_id)
        assert await store.before_image("e1") == b"before"
        waiting, answered = await store.requests()
        assert (answered.request.id, answered.decision, waiting.decision) == ("q1", "allow-session", None)


async def test_a_migrated_file_says_what_a_new_one_would(old: Path) -> None:
    """What the migration fills in is what replaying the events gives."""
    async with open_sqlite_store(old) as store:
        migrated = await store.requests()
        assert migrated[1].closed == "2026-01-01T00:00:08.000Z"
        await store.rebuild()
        assert await store.requests() == migrated


async def test_an_old_file_takes_new_work(old: Path) -> None:
    async with open_sqlite_store(old) as store, store.lease("s2") as lease:
        assert lease.epoch >= 1
        assert await store.take("s2") == ()
