"""What the file on disk lives through: other processes, kills, deletion, damage, other versions."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiosqlite
import pytest
import trio

from agents.errors import ErrorCode, Failure
from orchestrator.store import transaction
from orchestrator.store.files import blob_folder
from orchestrator.store.projection import PROJECTED
from orchestrator.store.schema import VERSION
from orchestrator.store.sqlite import SqliteStore, open_sqlite_store
from tests.orchestrator.store.stories import bare, intent, said, story

ROOT = Path(__file__).parents[3]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite3"


@contextlib.asynccontextmanager
async def worker(*words: str | Path) -> AsyncIterator[trio.Process]:
    """Another process; killed at the end of the block if it still lives."""
    command = [sys.executable, "-m", "tests.orchestrator.store.worker", *map(str, words)]
    process = await trio.lowlevel.open_process(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        yield process
    finally:
        with trio.CancelScope(shield=True):
            if process.returncode is None:
                process.kill()
            await process.wait()
            for stream in (process.stdout, process.stderr):
                assert stream is not None
                await stream.aclose()


async def lines(process: trio.Process) -> AsyncIterator[str]:
    assert process.stdout is not None
    rest = b""
    async for chunk in process.stdout:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.decode()


async def line(process: trio.Process) -> str:
    """The next line; for a worker that says little at a time."""
    async with contextlib.aclosing(lines(process)) as said_lines:
        async for one in said_lines:
            return one
    raise AssertionError("the worker ended without a word")


@contextlib.contextmanager
def plain(path: Path) -> Iterator[sqlite3.Connection]:
    """The file as anybody opens it."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def content(path: Path, tables: tuple[str, ...] = PROJECTED) -> dict[str, list[Any]]:
    with plain(path) as connection:
        return {table: sorted(connection.execute(f"select * from {table}"), key=repr) for table in tables}


def threads() -> set[str]:
    """Running threads, without trio's cache of idle ones."""
    return {thread.name for thread in threading.enumerate() if not thread.name.startswith("Trio thread")}


async def test_a_kill_in_the_middle_of_a_storm_loses_nothing_that_was_acknowledged(path: Path) -> None:
    acknowledged: list[int] = []
    async with worker("storm", path, "s1") as process:
        async with contextlib.aclosing(lines(process)) as reported:
            async for one in reported:
                acknowledged.append(int(one.split()[1]))
                if len(acknowledged) == 500:
                    process.kill()
    async with open_sqlite_store(path) as store:
        stored = [event.seq for event in await store.events("s1")]
        assert len(acknowledged) >= 500
        assert stored == list(range(1, len(stored) + 1))
        assert set(acknowledged) <= set(stored)
        assert len(stored) % 2 == 0, "each group of two is whole"
        assert len(await store.messages("s1", None)) * 2 == len(stored)
    with plain(path) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]


async def test_two_processes_write_to_different_sessions_at_once(path: Path) -> None:
    async def run(session: str) -> None:
        async with worker("append", path, session, "500") as process:
            assert await line(process) == "done"
            assert await process.wait() == 0

    async with trio.open_nursery() as nursery:
        for session in ("s1", "s2"):
            nursery.start_soon(run, session)
    async with open_sqlite_store(path) as store:
        for session in ("s1", "s2"):
            assert [event.seq for event in await store.events(session)] == list(range(1, 501))


async def test_a_write_lock_of_somebody_else_for_two_seconds_loses_nothing(path: Path) -> None:
    def occupy(seconds: float) -> None:
        with plain(path) as connection:
            connection.execute("begin immediate")
            locked.set()
            time.sleep(seconds)
            connection.execute("rollback")

    locked = threading.Event()
    async with open_sqlite_store(path) as store, trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, occupy, 2.0)
        await trio.to_thread.run_sync(locked.wait)
        begun = time.monotonic()
        for number in range(20):
            nursery.start_soon(store.append, (bare(number),))
        await store.append((bare(),))
        assert time.monotonic() - begun > 1.5, "it was really locked"
        assert await store.events("s2") == (), "a reader is not held up"
    async with open_sqlite_store(path) as store:
        assert len(await store.events("s1")) == 21


async def test_a_lock_that_never_ends_is_store_busy_and_the_store_lives_on(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.store.writer.BUSY_SECONDS", 0.1)
    async with open_sqlite_store(path) as store:
        with plain(path) as connection:
            connection.execute("begin immediate")
            with pytest.raises(Failure) as caught:
                await store.append((bare(),))
            connection.execute("rollback")
        assert caught.value.error.code is ErrorCode.STORE_BUSY
        assert "database is locked" not in caught.value.error.message
        (stored,) = await store.append((bare(),))
        assert stored.seq == 1


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
async def test_after_the_file_is_deleted_nothing_is_acknowledged_and_the_rest_is_saved(
    path: Path, suffix: str
) -> None:
    heard: list[int] = []
    async with open_sqlite_store(path) as store:
        store.listen(lambda events: heard.extend(event.seq for event in events))
        await store.append(story())
        Path(f"{path}{suffix}").unlink()
        codes = []
        for _ in range(3):
            with pytest.raises(Failure) as caught:
                await store.append((bare(),))
            codes.append(caught.value.error.code)
        with pytest.raises(Failure):
            await store.intend(intent())
        saved = Path(caught.value.error.details["saved"])
        assert str(saved) in caught.value.error.message
    assert codes == [ErrorCode.STORE_WRITE_FAILED] * 3
    assert heard == list(range(1, len(story()) + 1))
    assert saved.parent == path.parent
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    async with open_sqlite_store(saved) as store:
        assert len(await store.events("s1")) == len(story())


async def test_a_file_that_was_replaced_is_left_alone(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.sqlite3"
    async with open_sqlite_store(other):
        pass
    async with open_sqlite_store(path) as store:
        await store.append((bare(),))
        other.replace(path)
        before = path.read_bytes()
        with pytest.raises(Failure, match="replaced by another file"):
            await store.append((bare(),))
        assert path.read_bytes() == before


async def test_a_full_disk_ends_the_store_and_keeps_what_was_acknowledged(path: Path) -> None:
    async with worker("fill", path, "s1") as process:
        async with contextlib.aclosing(lines(process)) as reported:
            told = [one async for one in reported]
        assert await process.wait() == 0
    last = int(told[0].removeprefix("stored "))
    assert last > 10
    assert told[1:] == ["failed STORE_WRITE_FAILED", "again STORE_WRITE_FAILED"]
    async with open_sqlite_store(path) as store:
        assert [event.seq for event in await store.events("s1")] == list(range(1, last + 1))


async def test_a_place_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "file" / "store.sqlite3", Path("/proc/orchestrator/store.sqlite3")):
        with pytest.raises(Failure, match="--store PATH") as caught:
            async with open_sqlite_store(place):
                pytest.fail("opened")
        assert caught.value.error.code is ErrorCode.STORE_WRITE_FAILED


async def refused(path: Path) -> Failure:
    """Opening fails and changes nothing."""
    before = path.read_bytes()
    with pytest.raises(Failure) as caught:
        async with open_sqlite_store(path):
            pytest.fail("opened")
    assert path.read_bytes() == before
    assert sorted(entry.name for entry in path.parent.iterdir()) == [path.name]
    return caught.value


async def test_a_newer_file_is_refused_untouched(path: Path) -> None:
    async with open_sqlite_store(path) as store:
        await store.append(story())
    with plain(path) as connection:
        connection.execute(f"pragma user_version = {VERSION + 1}")
    error = (await refused(path)).error
    assert error.code is ErrorCode.STORE_TOO_NEW
    assert "update orchestrator" in error.message


async def test_a_file_that_is_no_database_is_refused_untouched(path: Path) -> None:
    path.write_bytes(b"This is a letter, and not a database at all. " * 100)
    error = (await refused(path)).error
    assert error.code is ErrorCode.STORE_UNREADABLE
    assert "orchestrator doctor" in error.message


async def test_a_database_of_another_program_is_refused_untouched(path: Path) -> None:
    with plain(path) as connection:
        connection.execute("create table cookies (name)")
    assert (await refused(path)).error.code is ErrorCode.STORE_UNREADABLE


async def test_a_damaged_file_is_refused_untouched(path: Path) -> None:
    async with open_sqlite_store(path) as store:
        for number in range(20):
            await store.append(story(f"s{number}", f"{number}-"))
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:8192] + b"\xff" * 4096 + whole[12288:]):
        path.write_bytes(damaged)
        assert (await refused(path)).error.code is ErrorCode.STORE_UNREADABLE


async def test_an_empty_file_is_a_new_store_unless_a_store_s_companions_stand_beside_it(path: Path) -> None:
    path.touch()
    async with open_sqlite_store(path) as store:
        await store.intend(intent())
    path.write_bytes(b"")
    with pytest.raises(Failure, match="it is empty although"):
        async with open_sqlite_store(path):
            pytest.fail("opened")
    assert path.read_bytes() == b""


async def test_all_files_are_the_user_s_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "store.sqlite3"
    old = os.umask(0o022)
    try:
        async with open_sqlite_store(path) as store:
            await store.intend(intent(image=b"secret"))
            files = [entry for entry in path.parent.rglob("*") if entry.is_file()]
            assert {entry.name for entry in files} >= {
                "store.sqlite3",
                "store.sqlite3-wal",
                "store.sqlite3-shm",
            }
            assert {stat.S_IMODE(entry.stat().st_mode) for entry in files} == {0o600}
            folders = [path.parent, path.parent.parent, blob_folder(path)]
            assert {stat.S_IMODE(entry.stat().st_mode) for entry in folders} == {0o700}
    finally:
        os.umask(old)


async def test_a_file_with_other_people_s_rights_loses_them(path: Path) -> None:
    async with open_sqlite_store(path):
        pass
    path.chmod(0o644)
    async with open_sqlite_store(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_an_altered_before_image_is_not_given_out(path: Path) -> None:
    async with open_sqlite_store(path) as store:
        await store.intend(intent(image=b"secret"))
        (blob,) = [entry for entry in blob_folder(path).rglob("*") if entry.is_file()]
        blob.write_bytes(b"forged")
        with pytest.raises(Failure, match="does not match its name"):
            await store.before_image("e1")


async def test_cancelled_appends_leave_no_open_transaction(path: Path) -> None:
    async with open_sqlite_store(path) as store:
        for delay in range(20):
            with trio.move_on_after(delay / 5000):
                async with trio.open_nursery() as nursery:
                    for number in range(10):
                        nursery.start_soon(store.append, (bare(number),))
        await store.append((bare(),))
        with plain(path) as connection:
            connection.execute("pragma busy_timeout = 0")
            connection.execute("begin immediate")
            connection.execute("rollback")
    async with open_sqlite_store(path) as store:
        stored = [event.seq for event in await store.events("s1")]
        assert stored == list(range(1, len(stored) + 1))


async def test_a_transaction_that_is_cancelled_inside_is_rolled_back(path: Path) -> None:
    async with open_sqlite_store(path) as store:

        async def stuck(connection: aiosqlite.Connection) -> None:
            async with transaction.transaction(connection, None):
                await connection.execute("insert into leases values ('x', 1, null, 0)")
                await connection.execute_fetchall(
                    "with recursive n (i) as (select 1 union all select i + 1 from n where i < 300000)"
                    " select count(*) from n"
                )

        with trio.move_on_after(0.02) as scope:
            await store._host.call(stuck, store._writer.connection)
        assert scope.cancelled_caught
        assert not store._writer.connection.in_transaction
        assert await store.read_lease("x") is None


async def test_closing_commits_what_was_handed_over(path: Path) -> None:
    async with open_sqlite_store(path) as store, trio.open_nursery() as nursery:
        for number in range(300):
            nursery.start_soon(store.append, (said(str(number)),))
        await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    async with open_sqlite_store(path) as store:
        assert len(await store.events("s1")) == 300


async def test_a_closed_store_refuses_and_says_why(path: Path) -> None:
    async with open_sqlite_store(path) as store:
        pass
    with pytest.raises(Failure, match="it was closed") as caught:
        await store.append((bare(),))
    assert caught.value.error.code is ErrorCode.STORE_WRITE_FAILED


async def test_no_thread_is_left_after_a_close_a_crash_a_cancel_or_a_refusal(path: Path) -> None:
    before = threads()
    async with open_sqlite_store(path) as store:
        await store.append((bare(),))
        assert len(threads()) == len(before) + 3
    assert threads() == before
    with pytest.raises(ValueError, match="body"):
        async with open_sqlite_store(path):
            raise ValueError("body")
    assert threads() == before
    for delay in (0.0, 0.001, 0.003, 0.01):
        with trio.move_on_after(delay):
            async with open_sqlite_store(path):
                await trio.sleep_forever()
        assert threads() == before
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(Failure):
        async with open_sqlite_store(path):
            pytest.fail("opened")
    assert threads() == before


async def test_a_process_that_crashes_inside_the_block_ends(path: Path) -> None:
    async with worker("crash", path, "s1") as process:
        with trio.fail_after(20):
            assert await process.wait() == 1
        assert process.stderr is not None
        assert b"ValueError: crash" in await process.stderr.receive_some()
    async with open_sqlite_store(path) as store:
        assert len(await store.events("s1")) == 1


async def test_a_session_of_another_process_is_locked_until_that_one_is_killed(path: Path) -> None:
    async with open_sqlite_store(path) as store, worker("hold", path, "s1") as process:
        assert await line(process) == "held 1"
        with pytest.raises(Failure) as caught:
            async with store.lease("s1"):
                pytest.fail("two holders")
        assert caught.value.error.code is ErrorCode.CHAIN_LOCKED
        assert caught.value.error.details["pid"] == process.pid
        assert str(process.pid) in caught.value.error.message
        with pytest.raises(Failure) as caught:
            await store.append((bare(),))
        assert caught.value.error.code is ErrorCode.CHAIN_LOCKED, (
            "nor may anybody write into it without a lease"
        )
        process.send_signal(19)
        with pytest.raises(Failure):
            async with store.lease("s1"):
                pytest.fail("a stopped process lives")
        process.kill()  # a zombie until it is waited for, and gone all the same
        with trio.fail_after(10):
            while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                await trio.sleep(0.01)
        async with store.lease("s1") as lease:
            assert lease.epoch == 2
            (stored,) = await store.append((bare(),))
            assert stored.seq == 2


async def test_a_holder_that_lost_its_lease_stores_nothing_more(path: Path) -> None:
    async with open_sqlite_store(path) as store:
        async with store.lease("s1"):
            await store.append((bare(),))
            with plain(path) as connection:
                connection.execute("update leases set epoch = epoch + 1")
            outcomes: dict[str, object] = {}

            async def append(session: str) -> None:
                try:
                    (stored,) = await store.append((bare(0, session),))
                    outcomes[session] = stored.seq
                except Failure as error:
                    outcomes[session] = error.error.code

            async with trio.open_nursery() as nursery:
                nursery.start_soon(append, "s1")
                nursery.start_soon(append, "s2")
            assert outcomes == {"s1": ErrorCode.STORE_WRITE_FAILED, "s2": 1}
        record = await store.read_lease("s1")
        assert record is not None
        assert record.holder is not None, "the new holder's lease is not given back by the old one"


async def test_one_entry_that_sqlite_refuses_does_not_cost_the_others_of_its_batch(path: Path) -> None:
    async with open_sqlite_store(path) as store:
        with plain(path) as connection:
            connection.execute(
                "create trigger no before insert on messages when new.message_id = 'm-bad'"
                " begin select raise(abort, 'not this one'); end"
            )
        outcomes: dict[str, object] = {}

        async def append(text: str) -> None:
            try:
                await store.append((bare(), said(text)))
                outcomes[text] = "stored"
            except Failure as error:
                outcomes[text] = error.error.code

        async with trio.open_nursery() as nursery:
            for text in ("a", "b", "bad", "c"):
                nursery.start_soon(append, text)
        assert outcomes == dict.fromkeys("abc", "stored") | {"bad": ErrorCode.STORE_WRITE_FAILED}
        stored = await store.events("s1")
        assert [event.seq for event in stored] == [1, 2, 3, 4, 5, 6], (
            "nothing of the refused group, and no gap"
        )


async def test_projections_built_anew_from_the_events_equal_the_stored_ones(path: Path) -> None:
    async with open_sqlite_store(path) as store:
        for number in range(60):
            await store.append(story(f"s{number}", f"{number}-"))
        before = content(path)
        assert all(before.values()), "every table has rows"
        with plain(path) as connection:
            for table in PROJECTED:
                connection.execute(f"delete from {table}")
        assert await store.rebuild() == 60 * len(story())
        assert content(path) == before


async def test_events_of_types_that_this_version_does_not_know_are_left_out(path: Path) -> None:
    async with open_sqlite_store(path) as store:
        await store.append((bare(1), bare(2), bare(3)))
        with plain(path) as connection:
            connection.execute("update events set type = 'future.thing', body = '{\"v\": 9}' where seq = 2")
        assert [event.seq for event in await store.events("s1")] == [1, 3]


async def test_a_damaged_row_is_named_and_costs_the_other_sessions_nothing(path: Path) -> None:
    async with open_sqlite_store(path) as store:
        await store.append(story("s1"))
        await store.append(story("s2", "x-"))
        with plain(path) as connection:
            connection.execute("update events set body = '{' where session_id = 's1' and seq = 3")
            connection.execute("update tasks set result = '{' where session_id = 's1'")
        for question in (store.events("s1"), store.tasks("s1")):
            with pytest.raises(Failure, match="orchestrator doctor") as caught:
                await question
            assert caught.value.error.code is ErrorCode.STORE_UNREADABLE
        assert len(await store.events("s2")) == len(story())


async def test_two_stores_in_one_process_see_each_other_s_commits(path: Path) -> None:
    async with open_sqlite_store(path) as one, open_sqlite_store(path) as two:
        await one.append((bare(),))
        (stored,) = await two.append((bare(),))
        assert stored.seq == 2
        assert len(await one.events("s1")) == 2


async def test_ten_first_openings_at_once_make_one_store(path: Path) -> None:
    async def open_and_append(number: int) -> None:
        async with open_sqlite_store(path) as store:
            await store.append((bare(number),))

    async with trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(open_and_append, number)
    async with open_sqlite_store(path) as store:
        assert len(await store.events("s1")) == 10


async def test_the_heartbeat_of_a_held_session_moves(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.store.leases.HEARTBEAT_SECONDS", 0.01)
    async with open_sqlite_store(path) as store, store.lease("s1"):
        with trio.fail_after(5):
            while (await beat_of(store)) < 3:
                await trio.sleep(0.01)


async def beat_of(store: SqliteStore) -> int:
    record = await store.read_lease("s1")
    assert record is not None
    return record.beat
