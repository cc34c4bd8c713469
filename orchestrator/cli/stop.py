"""`stop`: end what another process works on: a session's open turns, or one task."""

from __future__ import annotations

from pathlib import Path

import click
import trio

from agents.errors import ErrorCode, Failure, ToolError
from orchestrator.cli.approvals import refuse
from orchestrator.cli.listing import say
from orchestrator.cli.lookup import existing_store, find, store_path
from orchestrator.store.base import RUNNING, Found, Store, TaskRow
from orchestrator.store.mail import Letter, StopSession, StopTask

SETTLED_SECONDS = 30.0
"""How long the end is waited for: processes get a grace, and what ran is settled."""


@click.command("stop")
@click.argument("name", metavar="ID")
@click.option("--store", metavar="PATH", help="The store's file.")
def stop(name: str, store: str | None) -> None:
    """End what ID names and wait until it has settled.

    A session or turn: its open turns become `stopped`, their delegates `aborted`. A task, run, chain or
    label: that task becomes `stopped`, with all that runs below it; the rest goes on. A unique prefix of an
    id is enough.
    """

    async def work(path: Path) -> None:
        async with existing_store(path) as opened:
            found = await find(opened, name, ErrorCode.NOT_FOUND, Path.cwd())
            if found.kind in ("session", "turn"):
                await _stop_session(opened, found)
            else:
                await _stop_task(opened, found)

    trio.run(work, store_path({"store": store}))


async def _stop_session(store: Store, found: Found) -> None:
    running = [turn.turn_id for turn in await store.turns(found.session_id) if turn.status == RUNNING]
    if found.kind == "turn" and found.id not in running:
        refuse(_conflict(f"The turn {found.id} has ended already."))
    await _post(store, StopSession(session_id=found.session_id))
    with trio.move_on_after(SETTLED_SECONDS):
        while await store.holder(found.session_id) is not None:
            turns = {turn.turn_id: turn.status for turn in await store.turns(found.session_id)}
            if all(turns[one] != RUNNING for one in running):
                break
            await trio.sleep(0.05)
    turns = {turn.turn_id: turn.status for turn in await store.turns(found.session_id)}
    say(f"{one}: {_ended(turns[one])}" for one in running)


async def _stop_task(store: Store, found: Found) -> None:
    rows = await store.tasks(found.session_id)
    named = [row for row in rows if found.id in (row.task_id, row.run_id, row.chain_id)]
    row = next((row for row in named if row.status == RUNNING), named[-1])
    await _post(store, StopTask(session_id=row.session_id, task_id=row.task_id))
    with trio.move_on_after(SETTLED_SECONDS):
        while await store.holder(row.session_id) is not None:
            now = await store.task(row.task_id)
            if now is None or now.status != RUNNING:
                break
            await trio.sleep(0.05)
    now = await store.task(row.task_id)
    say([_told(row, RUNNING if now is None else now.status)])


async def _post(store: Store, letter: Letter) -> None:
    try:
        await store.post(letter)
    except Failure as refused:
        refuse(refused.error)


def _told(row: TaskRow, status: str) -> str:
    return f"{row.label} ({row.task_id}): {_ended(status)}"


def _ended(status: str) -> str:
    return "told to stop, and has not ended yet" if status == RUNNING else status


def _conflict(text: str) -> ToolError:
    return ToolError(
        code=ErrorCode.CONFLICT, message=f"{text} Nothing was changed; see `orchestrator sessions`."
    )
