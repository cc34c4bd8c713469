"""What a person can do about a store: see what is wrong with it, and save what a damaged one still holds."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import attrs
import pytest
import trio

from agents.errors import ErrorCode, Failure
from orchestrator.doctor import examine, salvage
from orchestrator.store.files import blob_folder
from orchestrator.store.schema import VERSION
from orchestrator.store.sqlite import open_sqlite_store
from tests.harness import call, calls, edit, say, scripted, session_on

TEN_LINES = "".join(f"line {n}\n" for n in range(1, 11))


async def make_store(root: Path, turns: int = 1) -> Path:
    """A store with one session in which a delegate has changed a file."""
    (root / "repo").mkdir()
    (root / "repo/a.txt").write_text(TEN_LINES)
    fixer = [
        calls(call("Read", path="a.txt")),
        calls(edit("a.txt", {"op": "replace", "start": 2, "text": "LINE 2"})),
        say("Done. " + "x" * 4000),
    ]
    main = [calls(call("Task", subagent_type="fixer", prompt="Do it")), calls(call("TaskWait")), say("Good.")]
    more = [say(f"Again {number}. " + "y" * 4000) for number in range(turns - 1)]
    async with session_on(root, scripted({"main": [*main, *more], "fixer": fixer})) as session:
        for number in range(turns):
            await session.run(f"Prompt {number}")
        return Path(session.store.location)


def contents(path: Path) -> dict[str, tuple[str, int]]:
    """Every file of a store with its hash and its time of change."""
    files = [*path.parent.glob(f"{path.name}*"), *blob_folder(path).rglob("*")]
    return {
        str(file): (hashlib.sha256(file.read_bytes()).hexdigest(), file.stat().st_mtime_ns)
        for file in files
        if file.is_file() and not file.name.endswith("-shm")
    }


def damage_a_page(path: Path, table: str) -> None:
    """Overwrite a leaf page of a table in the middle of the file with nonsense."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma wal_checkpoint(truncate)")
        size = connection.execute("pragma page_size").fetchone()[0]
        try:
            pages = connection.execute(
                "select pageno from dbstat where name = ? and pagetype = 'leaf'", (table,)
            )
            leaves = [row[0] for row in pages]
        except sqlite3.OperationalError:  # this SQLite has no dbstat: take pages that hold events
            data = path.read_bytes()
            leaves = [
                at // size + 1
                for at in range(size, len(data), size)
                if data[at] == 13 and b"message.appended" in data[at : at + size]
            ]
    with path.open("r+b") as file:
        file.seek((leaves[len(leaves) // 2] - 1) * size)
        file.write(b"\x55" * size)


async def test_a_store_in_good_health_has_no_problem(tmp_path: Path) -> None:
    report = await examine(await make_store(tmp_path))
    assert report.problems == ()
    assert not report.salvageable
    assert (report.version, report.known_version) == (VERSION, VERSION)
    assert report.sessions == 1
    assert report.events.rows > 20
    assert report.held == ()
    assert report.open_runs == ()


async def test_examining_changes_nothing(tmp_path: Path) -> None:
    path = await make_store(tmp_path)
    before = contents(path)
    await examine(path)
    assert contents(path) == before


async def test_what_others_may_read_is_named(tmp_path: Path) -> None:
    path = await make_store(tmp_path)
    path.chmod(0o644)
    report = await examine(path)
    assert report.readable_by_others == (f"{path} (mode 0644)",)
    assert any("chmod" in problem for problem in report.problems)


async def test_missing_altered_and_unnamed_before_images_are_told_apart(tmp_path: Path) -> None:
    path = await make_store(tmp_path)
    (image,) = [file for file in blob_folder(path).rglob("*") if file.is_file()]
    (image.parent / "unnamed").write_bytes(b"x")
    image.write_bytes(b"altered")
    report = await examine(path)
    assert report.missing_images == (image.name,)
    assert report.unnamed_images == ("unnamed",)
    image.unlink()
    assert (await examine(path)).missing_images == (image.name,)


async def test_a_held_session_is_named_with_its_living_process(tmp_path: Path) -> None:
    path = await make_store(tmp_path)
    async with open_sqlite_store(path) as store, store.lease("ses-held"):
        (held,) = (await examine(path)).held
        assert (held.session_id, held.pid, held.alive) == ("ses-held", os.getpid(), True)


async def test_what_a_dead_process_left_open_is_named(tmp_path: Path) -> None:
    path = await make_store(tmp_path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("update turns set status = 'running'")
        connection.execute("update effects set ok = null")
    report = await examine(path)
    assert len(report.open_runs) == 1
    assert report.open_effects == 1
    assert report.problems == ()  # the next resume closes both


async def test_what_is_no_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    with pytest.raises(Failure) as missing:
        await examine(tmp_path / "none.sqlite3")
    assert missing.value.error.code is ErrorCode.NOT_FOUND
    text = tmp_path / "text.sqlite3"
    text.write_text("This is not a database, and long enough to be looked at as one.")
    with pytest.raises(Failure) as wrong:
        await examine(text)
    assert wrong.value.error.code is ErrorCode.STORE_UNREADABLE
    other = tmp_path / "other.sqlite3"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("create table t (x)")
    with pytest.raises(Failure) as foreign:
        await examine(other)
    assert "another program" in foreign.value.error.message


async def test_salvage_of_a_sound_store_gives_an_equal_one(tmp_path: Path) -> None:
    path = await make_store(tmp_path)
    to = tmp_path / "new" / "store.sqlite3"
    before = contents(path)
    saved = await salvage(path, to)
    assert contents(path) == before
    assert (saved.sessions, saved.events.lost, saved.events.undecodable, saved.missing_images) == (
        1,
        0,
        0,
        (),
    )
    assert saved.images == 1
    async with open_sqlite_store(path) as old, open_sqlite_store(to) as new:
        (row,) = await old.sessions()
        assert await new.sessions() == (row,)
        assert await new.events(row.session_id) == await old.events(row.session_id)
        assert await new.tasks(row.session_id) == await old.tasks(row.session_id)
        assert await new.effects(row.session_id) == await old.effects(row.session_id)
        (effect,) = await new.effects(row.session_id)
        assert await new.before_image(effect.intent.effect_id) == TEN_LINES.encode()
    assert to.stat().st_mode & 0o777 == 0o600
    assert not list(to.parent.glob(".salvage-*"))


async def test_salvage_saves_everything_but_the_damaged_page(tmp_path: Path) -> None:
    path = await make_store(tmp_path, turns=12)
    whole = (await examine(path)).events.rows
    damage_a_page(path, "events")
    before = contents(path)
    report = await examine(path)
    assert report.damage
    assert "--salvage" in report.problems[0]
    saved = await salvage(path, tmp_path / "new.sqlite3")
    assert contents(path) == before
    assert whole * 0.8 < saved.events.rows < whole
    async with open_sqlite_store(tmp_path / "new.sqlite3") as store:
        (row,) = await store.sessions()
        assert row.turns > 0
        assert await store.messages(row.session_id, None)
    assert (await examine(tmp_path / "new.sqlite3")).problems == ()


async def test_an_entry_that_is_no_entry_of_ours_is_left_behind(tmp_path: Path) -> None:
    path = await make_store(tmp_path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute('update events set body = \'{"v":1,"payload":{}}\' where seq = 5')
    report = await examine(path)
    assert (report.damage, report.events.undecodable) == ((), 1)
    assert report.salvageable
    saved = await salvage(path, tmp_path / "new.sqlite3")
    assert saved.events.undecodable == 1
    assert (await examine(tmp_path / "new.sqlite3")).problems == ()


async def test_salvage_never_writes_over_anything(tmp_path: Path) -> None:
    path = await make_store(tmp_path)
    taken = tmp_path / "taken.sqlite3"
    taken.write_text("mine")
    with pytest.raises(Failure) as refused:
        await salvage(path, taken)
    assert refused.value.error.code is ErrorCode.INVALID_ARGUMENT
    assert taken.read_text() == "mine"


async def test_a_store_that_somebody_works_on_is_not_salvaged(tmp_path: Path) -> None:
    path = await make_store(tmp_path)
    async with open_sqlite_store(path) as store, store.lease("ses-held"):
        with pytest.raises(Failure) as refused:
            await salvage(path, tmp_path / "new.sqlite3")
    assert refused.value.error.code is ErrorCode.CHAIN_LOCKED
    assert not (tmp_path / "new.sqlite3").exists()


async def test_where_nothing_can_be_read_nothing_is_left_behind(tmp_path: Path) -> None:
    path = await make_store(tmp_path)
    size = path.stat().st_size
    path.write_bytes(b"\x55" * size)
    with pytest.raises(Failure) as refused:
        await salvage(path, tmp_path / "new.sqlite3")
    assert refused.value.error.code is ErrorCode.STORE_UNREADABLE
    assert path.read_bytes() == b"\x55" * size
    assert [name for name in os.listdir(tmp_path) if name.startswith("new")] == []


async def test_what_only_the_write_ahead_log_holds_is_saved_too(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite3"
    program = (
        "import os, sys, trio\n"
        "from pathlib import Path\n"
        "from orchestrator.store.sqlite import open_sqlite_store\n"
        "from tests.orchestrator.store.stories import bare\n"
        "async def main():\n"
        "    async with open_sqlite_store(Path(sys.argv[1])) as store:\n"
        "        await store.append([bare(n, 's1') for n in range(50)])\n"
        "        os._exit(0)\n"
        "trio.run(main)\n"
    )
    root = Path(__file__).parents[2]
    await trio.run_process([sys.executable, "-c", program, str(path)], cwd=root)
    assert path.with_name(f"{path.name}-wal").stat().st_size > 0
    saved = await salvage(path, tmp_path / "new.sqlite3")
    assert saved.events.rows == 50


async def test_a_newer_store_is_a_problem_that_names_the_way_out(tmp_path: Path) -> None:
    report = await examine(await make_store(tmp_path))
    (problem,) = attrs.evolve(report, version=VERSION + 1).problems
    assert "update orchestrator" in problem
