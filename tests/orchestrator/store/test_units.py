"""Grouping changes by statement changes nothing about what they do."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from agents.errors import ErrorCode, ToolError
from orchestrator.store.projection import Change, Insert, Update
from orchestrator.store.schema import APPLICATION_ID, MIGRATIONS, VERSION, FileFacts, plan_upgrade
from orchestrator.store.units import StatementPlan, insert_sql, update_sql

names = st.sampled_from(["a", "b", "c"])
inserts = st.builds(
    lambda key, number: Insert(
        "calls",
        {
            "call_id": key,
            "session_id": "s",
            "seq": number,
            "owner": "o",
            "tool": "t",
            "ok": None,
            "started": "x",
        },
    ),
    names,
    st.integers(0, 9),
)
endings = st.builds(
    lambda key, ok: Update("calls", (key,), {"ok": ok, "finished": "y"}), names, st.integers(0, 1)
)
codes = st.builds(lambda key, code: Update("calls", (key,), {"error_code": code, "ok": 0}), names, names)
grants = st.builds(
    lambda key: Insert(
        "grants", {"request_id": key, "session_id": "s", "seq": 1, "source": "x", "granted": "y"}
    ),
    names,
)


def database() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for migration in MIGRATIONS:
        for sql in migration:
            connection.execute(sql)
    return connection


def content(connection: sqlite3.Connection) -> list[list[tuple[object, ...]]]:
    tables = [connection.execute(f"select * from {table}").fetchall() for table in ("calls", "grants")]
    connection.close()
    return tables


def one_by_one(changes: Sequence[Change]) -> list[list[tuple[object, ...]]]:
    connection = database()
    for change in changes:
        if isinstance(change, Insert):
            connection.execute(insert_sql(change.table, tuple(change.values)), tuple(change.values.values()))
        else:
            sql = update_sql(change.table, tuple(change.values))
            connection.execute(sql, (*change.values.values(), *change.key))
    return content(connection)


@given(st.lists(st.one_of(inserts, endings, codes, grants), max_size=30))
def test_grouped_changes_do_what_they_do_one_by_one(changes: list[Change]) -> None:
    plan = StatementPlan()
    for change in changes:
        plan.add(change)
    connection = database()
    for sql, rows in plan.statements():
        connection.executemany(sql, rows)
    assert content(connection) == one_by_one(changes)


def test_fifty_calls_that_begin_and_end_in_turn_are_two_statements() -> None:
    plan = StatementPlan()
    for number in range(50):
        plan.add(Insert("calls", {"call_id": str(number)}))
        plan.add(Update("calls", (str(number),), {"ok": 1}))
    assert [len(rows) for _, rows in plan.statements()] == [50, 50]


def test_an_empty_file_gets_every_migration_and_a_current_one_none() -> None:
    steps = plan_upgrade(FileFacts(0, 0, 0), "x")
    assert isinstance(steps, tuple)
    assert len(steps) == sum(map(len, MIGRATIONS)) + 2
    assert plan_upgrade(FileFacts(APPLICATION_ID, VERSION, 12), "x") == ()


@given(st.integers(0, 2**31), st.integers(0, 2**31), st.integers(0, 99))
def test_no_foreign_and_no_newer_file_is_ever_planned_for(
    application: int, version: int, tables: int
) -> None:
    plan = plan_upgrade(FileFacts(application, version, tables), "x")
    ours = application == APPLICATION_ID and version <= VERSION
    assert isinstance(plan, tuple) == (ours or (application, version, tables) == (0, 0, 0))
    if isinstance(plan, ToolError):
        assert plan.code in (ErrorCode.STORE_UNREADABLE, ErrorCode.STORE_TOO_NEW)
