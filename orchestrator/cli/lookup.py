"""What a person means by an id: ids, unique prefixes and labels; and the store's file, if there is one."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from agents.errors import ErrorCode, Failure, failure
from orchestrator.cli.options import environment
from orchestrator.config import load_settings
from orchestrator.store.base import Found, SessionRow, Store
from orchestrator.store.sqlite import open_sqlite_store


@asynccontextmanager
async def existing_store(path: Path, code: ErrorCode = ErrorCode.NOT_FOUND) -> AsyncIterator[Store]:
    """The store of an earlier run. Nothing is created: `Failure` with `code` where there is none."""
    if not await trio.Path(path).exists():
        raise failure(
            code,
            f"There is no store at {path} yet. Work on something with `orchestrator run`, or name "
            "another file with --store.",
        )
    async with open_sqlite_store(path) as store:
        yield store


def store_path(flags: Mapping[str, Any]) -> Path:
    """The store that the command line, the environment or the user's file names."""
    given = {"store": flags.get("store")}
    return load_settings(given, environment(), None).settings.store_path


async def find(store: Store, name: str, code: ErrorCode, workspace: Path | None = None) -> Found:
    """The one thing that `name` is an id, a unique prefix or a label of.

    A label is looked for in the newest session of `workspace`, or the newest one of all. Raises `Failure`:
    `code` for an unknown name, INVALID_ARGUMENT for an ambiguous one, with its candidates.
    """
    found = await store.find(name)
    if not found and "#" in name:
        labelled = await _labelled(store, name, workspace)
        found = () if labelled is None else (labelled,)
    if not found:
        raise failure(code, f"Nothing stored in {store.location} has the id {name!r}. {await _known(store)}")
    if len(found) > 1:
        listed = ", ".join(f"{one.id} ({one.kind})" for one in found)
        raise failure(ErrorCode.INVALID_ARGUMENT, f"{name!r} may be any of: {listed}. Give more of the id.")
    return found[0]


async def newest_session(store: Store, workspace: Path) -> SessionRow | None:
    """The session that was used last on this workspace."""
    rows = await store.sessions(limit=1000)
    return next((row for row in rows if same_folder(row.workspace, workspace)), None)


def same_folder(one: str | Path, other: str | Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


async def session_row(store: Store, session_id: str) -> SessionRow:
    row = await store.session(session_id)
    if row is None:  # deleted between the two questions
        raise Failure(failure(ErrorCode.NOT_FOUND, f"The session {session_id} is gone. Try again.").error)
    return row


async def _labelled(store: Store, label: str, workspace: Path | None) -> Found | None:
    row = None if workspace is None else await newest_session(store, workspace)
    if row is None:
        newest = await store.sessions(limit=1)
        row = newest[0] if newest else None
    if row is None:
        return None
    task = await store.find_label(label, row.session_id)
    return None if task is None else Found("task", task.task_id, task.session_id)


async def _known(store: Store) -> str:
    rows = await store.sessions(limit=3)
    if not rows:
        return "Nothing is stored yet: work on something with `orchestrator run`."
    return (
        f"The newest sessions are {', '.join(row.session_id for row in rows)}; see `orchestrator sessions`."
    )
