"""`rollback`: undo what a call, task, turn or session did to the workspace's files."""

from __future__ import annotations

from pathlib import Path

import attrs
import click
import trio

from agents.errors import ErrorCode, Failure
from agents.workspace import Workspace
from orchestrator.cli.approvals import refuse
from orchestrator.cli.listing import say
from orchestrator.cli.lookup import existing_store, find, session_row
from orchestrator.cli.options import environment
from orchestrator.config import load_settings
from orchestrator.premises import workspace_for
from orchestrator.rollback import (
    RolledBack,
    Scope,
    planned,
    roll_back,
    scope_of_call,
    scope_of_found,
    stored_reviews,
)
from orchestrator.settings import Settings
from orchestrator.store.base import Store

CALL_PREFIXES = ("call-", "rollback-")


@click.command("rollback")
@click.argument("name", metavar="ID")
@click.option("--dry-run", is_flag=True, help="Print what it would come to; change nothing.")
@click.option("--store", metavar="PATH", help="The store's file.")
def rollback(name: str, dry_run: bool, store: str | None) -> None:
    """Undo what ID did to the workspace's files, if nobody changed them since.

    ID is a call, task, run, chain, turn or session; of a task its delegates' changes are undone as well. A
    file that was changed later is a CONFLICT (exit status 4), and then nothing is touched. A rollback prints
    an id of its own, with which it can be rolled back.
    """

    settings = load_settings({"store": store}, environment(), None).settings

    async def work() -> None:
        async with existing_store(settings.store_path) as opened:
            scope = await _scope(opened, name)
            if dry_run:
                await _foretell(opened, scope, settings)
            else:
                say(_told(await _undone(opened, scope, settings)))

    try:
        trio.run(work)
    except Failure as refused:
        refuse(refused.error)


async def _scope(store: Store, name: str) -> Scope:
    if name.startswith(CALL_PREFIXES):
        sessions = [row.session_id for row in await store.sessions(limit=1000)]
        return await scope_of_call(store, name, sessions)
    return await scope_of_found(store, await find(store, name, ErrorCode.NOT_FOUND, Path.cwd()))


async def _foretell(store: Store, scope: Scope, settings: Settings) -> None:
    """What was changed, then what cannot be undone. Raises `Failure` where the rollback itself would."""
    reviews = await stored_reviews(store, scope)
    say(f"{review.change:<9} {review.path}  {review.call_id}" for review in reviews)
    plan = await planned(store, scope, await _workspace(store, scope, settings))
    say(f"not undone: {words}" for words in plan.left)


async def _workspace(store: Store, scope: Scope, settings: Settings) -> Workspace:
    """That of the session."""
    row = await session_row(store, scope.session_id)
    return workspace_for(attrs.evolve(settings, workspace=Path(row.workspace)), scope.session_id)


async def _undone(store: Store, scope: Scope, settings: Settings) -> RolledBack:
    """Hold the session, so that nobody works on it meanwhile, and undo."""
    workspace = await _workspace(store, scope, settings)
    async with store.lease(scope.session_id, patience=0):
        return await roll_back(store, scope, workspace=workspace)


def _told(done: RolledBack) -> list[str]:
    lines = [f"{change.change:<9} {change.path}" for change in done.changes]
    lines += [f"not undone: {words}" for words in done.left]
    if not done.changes:
        return [*lines, "Nothing was changed: the files are as they were before already."]
    return [*lines, f"Rolled back. `orchestrator rollback {done.call_id}` brings it back."]
