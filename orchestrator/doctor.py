"""`examine` a store and say what is wrong with it; `salvage` what a damaged one still holds into a new one.

The original is never changed: it is examined read-only, and salvaged from a copy.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import trio

from agents.errors import ErrorCode, Failure, failure
from orchestrator.store.files import blob_folder, prepare_file, save_blob
from orchestrator.store.holders import Holder
from orchestrator.store.inspection import (
    CHUNK_ROWS,
    Reading,
    Row,
    columns,
    damage,
    every_row,
    is_ours,
    number,
    plain_rows,
    readable,
    reading,
)
from orchestrator.store.leases import current_holder, decode_holder, may_live
from orchestrator.store.schema import VERSION, unreadable
from orchestrator.store.sqlite import open_sqlite_store

COMPANIONS = ("", "-wal")
"""The files that hold a store's content; `-shm` is only an index over the second."""


@attrs.frozen
class HeldSession:
    """A session that some process holds, or held when it died."""

    session_id: str
    pid: int
    since: str
    alive: bool
    """Whether that process may still live."""


@attrs.frozen
class Report:
    """What a store's file and what stands beside it look like."""

    path: Path
    size: int
    """Bytes, the write-ahead log included."""
    version: int
    known_version: int
    damage: tuple[str, ...]
    """What SQLite's check finds; empty for a sound file."""
    sessions: int
    events: Reading
    held: tuple[HeldSession, ...]
    open_runs: tuple[str, ...]
    """Turns and tasks that say `running` in sessions that nobody alive holds: the next resume closes them."""
    open_effects: int
    """Effects without a result in such sessions: the next resume compares them."""
    missing_images: tuple[str, ...]
    """Before-images that the journal names and that are gone or altered: no rollback to them."""
    unnamed_images: tuple[str, ...]
    """Files in the folder of before-images that the journal does not name."""
    readable_by_others: tuple[str, ...]
    """Files and folders that other users may read."""

    @property
    def salvageable(self) -> bool:
        """Whether the store refuses or loses something that `salvage` would save."""
        return bool(self.damage or self.events.lost or self.events.undecodable)

    @property
    def problems(self) -> tuple[str, ...]:
        """What a person should do something about, each with what to do; empty for a store in good health."""
        return tuple(_problems(self))


@attrs.frozen
class Salvaged:
    """What was brought over into a new store."""

    path: Path
    sessions: int
    events: Reading
    effects: Reading
    images: int
    missing_images: tuple[str, ...]


async def examine(path: Path) -> Report:
    """Look at the store at `path`; nothing is changed.

    Raises `Failure`: NOT_FOUND, STORE_UNREADABLE (no database at all, or another program's).
    """
    return await trio.to_thread.run_sync(_examine, path)


async def salvage(path: Path, to: Path) -> Salvaged:
    """Bring everything readable of the store at `path` into a new one at `to`: the events first, from which
    all tables are built anew, then the journal of effects with its before-images.

    Raises `Failure`: NOT_FOUND, INVALID_ARGUMENT (`to` exists), CHAIN_LOCKED (a living process works on it),
    STORE_UNREADABLE (nothing can be read), STORE_WRITE_FAILED.
    """
    await trio.to_thread.run_sync(_check_places, path, to)
    async with open_sqlite_store(to):
        pass  # an empty store of the current version
    try:
        saved = await trio.to_thread.run_sync(_copy_over, path, to)
        async with open_sqlite_store(to) as store:
            await store.rebuild()
            sessions = len(await store.sessions(limit=-1))
    except BaseException:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(_remove_store, to)
        raise
    return attrs.evolve(saved, sessions=sessions)


# ── examining ──────────────────────────────────────────────────────────────────────────────────────────


def _examine(path: Path) -> Report:
    _check_exists(path)
    try:
        with reading(path) as connection:
            if not is_ours(connection):
                raise Failure(unreadable(str(path), "it is a database of another program, or empty"))
            return _look_around(path, connection)
    except sqlite3.Error as error:
        raise Failure(unreadable(str(path), str(error))) from error


def _look_around(path: Path, connection: sqlite3.Connection) -> Report:
    found = damage(connection)
    events = Reading()
    sessions = {row["session_id"] for row in every_row(connection, "events", events) if readable(row, events)}
    held = tuple(_held(connection))
    busy = {one.session_id for one in held if one.alive}
    effects = list(every_row(connection, "effects", Reading()))
    named = {row["image"] for row in effects if row["image"] is not None}
    present, altered = _images(path)
    return Report(
        path=path,
        size=sum(_size(path, suffix) for suffix in COMPANIONS),
        version=number(connection, "pragma user_version"),
        known_version=VERSION,
        damage=found,
        sessions=len(sessions),
        events=events,
        held=held,
        open_runs=tuple(_open_runs(connection, busy)),
        open_effects=sum(_is_open(row) and row["session_id"] not in busy for row in effects),
        missing_images=tuple(sorted(named - (present - altered))),
        unnamed_images=tuple(sorted(present - named)),
        readable_by_others=tuple(_readable_by_others(path)),
    )


def _is_open(effect: Row) -> bool:
    return effect["ok"] is None and effect["verdict"] is None


def _held(connection: sqlite3.Connection) -> Iterator[HeldSession]:
    me = current_holder()
    for row in plain_rows(connection, "leases", Reading()):
        holder = _holder(row["holder"])
        if holder is not None:
            yield HeldSession(row["session_id"], holder.pid, holder.since, may_live(holder, me))


def _holder(text: str | None) -> Holder | None:
    try:
        return decode_holder(text)
    except ValueError:  # a damaged entry holds nothing
        return None


def _open_runs(connection: sqlite3.Connection, busy: set[str]) -> Iterator[str]:
    for table, name in (("turns", "turn_id"), ("tasks", "task_id")):
        for row in plain_rows(connection, table, Reading()):
            if row["status"] == "running" and row["session_id"] not in busy:
                yield f"{row[name]} of {row['session_id']}"


def _images(path: Path) -> tuple[set[str], set[str]]:
    """The before-images that are there, and those of them whose content does not match their name."""
    present: set[str] = set()
    altered: set[str] = set()
    for file in _files_below(blob_folder(path)):
        present.add(file.name)
        try:
            if hashlib.sha256(file.read_bytes()).hexdigest() != file.name:
                altered.add(file.name)
        except OSError:
            altered.add(file.name)
    return present, altered


def _files_below(folder: Path) -> Iterator[Path]:
    for file in sorted(folder.rglob("*")) if folder.is_dir() else ():
        if file.is_file() and not file.is_symlink():
            yield file


def _readable_by_others(path: Path) -> Iterator[str]:
    places = [path.with_name(f"{path.name}{suffix}") for suffix in ("", "-wal", "-shm")]
    for place in (*places, blob_folder(path)):
        with contextlib.suppress(OSError):
            if stat.S_IMODE(place.stat().st_mode) & 0o077:
                yield f"{place} (mode {stat.S_IMODE(place.stat().st_mode):04o})"


def _size(path: Path, suffix: str) -> int:
    try:
        return path.with_name(f"{path.name}{suffix}").stat().st_size
    except OSError:
        return 0


def _problems(report: Report) -> Iterator[str]:
    if report.version > report.known_version:
        yield (
            f"The store has version {report.version}, this program knows {report.known_version}: "
            "update orchestrator."
        )
    if report.salvageable:
        lost = report.events.lost + report.events.undecodable
        first = report.damage[0] if report.damage else f"{lost} entries cannot be read"
        yield (
            f"The store is damaged ({first}): save what can be read with "
            "`orchestrator doctor --salvage NEW`, and go on with --store NEW."
        )
    if report.missing_images:
        yield (
            f"{len(report.missing_images)} before-images are missing or altered: "
            "those changes cannot be rolled back; use your version control for them."
        )
    for place in report.readable_by_others:
        yield f"Others may read {place}: take that from them with `chmod go= …`."


# ── salvaging ──────────────────────────────────────────────────────────────────────────────────────────


def _check_exists(path: Path) -> None:
    if not path.is_file():
        raise failure(ErrorCode.NOT_FOUND, f"There is no store at {path}. Name its file with --store PATH.")


def _check_places(path: Path, to: Path) -> None:
    _check_exists(path)
    taken = [
        place
        for place in (to, *(to.with_name(f"{to.name}{end}") for end in ("-wal", ".blobs")))
        if place.exists()
    ]
    if taken:
        raise failure(
            ErrorCode.INVALID_ARGUMENT, f"{taken[0]} exists. Name a file that does not, to salvage into."
        )
    with contextlib.suppress(sqlite3.Error), reading(path) as connection:
        version = number(connection, "pragma user_version")
        if version > VERSION:
            raise failure(
                ErrorCode.STORE_TOO_NEW,
                f"The store {path} has version {version}, this program knows {VERSION}; update orchestrator.",
            )
        for one in _held(connection):
            if one.alive:
                raise failure(
                    ErrorCode.CHAIN_LOCKED,
                    f"Process {one.pid} works on session {one.session_id} of this store since {one.since}; "
                    "wait until it ends, or stop it, then salvage.",
                    retriable=True,
                )


def _copy_over(path: Path, to: Path) -> Salvaged:
    """Fill the new, empty store at `to`. The tables of what the events say are left to be rebuilt."""
    with tempfile.TemporaryDirectory(prefix=".salvage-", dir=prepare_file(to).parent) as folder:
        copy = Path(folder) / "copy.sqlite3"
        for suffix in COMPANIONS:
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(path.with_name(f"{path.name}{suffix}"), f"{copy}{suffix}")
        try:
            with reading(copy) as source, contextlib.closing(sqlite3.connect(to)) as target:
                return _transfer(path, source, to, target)
        except sqlite3.Error as error:
            raise failure(
                ErrorCode.STORE_UNREADABLE,
                f"Nothing can be read of the store {path} ({error}); it was left untouched. "
                "Restore it from a backup, or move it away to start with a new one.",
                details={"path": str(path), "reason": str(error)},
            ) from error


def _transfer(path: Path, source: sqlite3.Connection, to: Path, target: sqlite3.Connection) -> Salvaged:
    if not columns(source, "events"):
        raise sqlite3.DatabaseError("it has no table of events")
    events, effects = Reading(), Reading()
    with target:
        _insert(
            target, "events", (row for row in every_row(source, "events", events) if readable(row, events))
        )
        journal = list(every_row(source, "effects", effects)) if columns(source, "effects") else []
        _insert(target, "effects", iter(journal))
        if columns(source, "exports"):
            _insert(target, "exports", plain_rows(source, "exports", Reading()))
    named = sorted({row["image"] for row in journal if row["image"] is not None})
    missing = [image for image in named if not _copy_image(path, to, image)]
    return Salvaged(
        path=to,
        sessions=0,
        events=events,
        effects=effects,
        images=len(named) - len(missing),
        missing_images=tuple(missing),
    )


def _insert(target: sqlite3.Connection, table: str, rows: Iterator[Row]) -> None:
    known = columns(target, table)
    batch: list[Row] = []
    for row in rows:
        batch.append({name: value for name, value in row.items() if name in known})
        if len(batch) == CHUNK_ROWS:
            _put(target, table, batch)
            batch = []
    _put(target, table, batch)


def _put(target: sqlite3.Connection, table: str, rows: Sequence[Row]) -> None:
    for row in rows:
        names = tuple(row)
        marks = ", ".join("?" * len(names))
        target.execute(
            f"insert or ignore into {table} ({', '.join(names)}) values ({marks})", tuple(row.values())
        )


def _copy_image(path: Path, to: Path, image: str) -> bool:
    try:
        content = (blob_folder(path) / image[:2] / image).read_bytes()
    except OSError:
        return False
    if hashlib.sha256(content).hexdigest() != image:
        return False
    save_blob(blob_folder(to), content)
    return True


def _remove_store(to: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        to.with_name(f"{to.name}{suffix}").unlink(missing_ok=True)
    shutil.rmtree(blob_folder(to), ignore_errors=True)
