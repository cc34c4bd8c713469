"""`sessions`, `tasks`, `agents`, `show`: what is stored and what is defined."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import click
import msgspec
import trio

from agents.definitions import Definitions
from agents.errors import ErrorCode
from agents.events import Event, timestamp, to_wire
from agents.rules.preview import visible
from agents.tools.registry import native_tools
from orchestrator.cli.changes import stored_diffs
from orchestrator.cli.hints import hints_of
from orchestrator.cli.listing import at_home, say, say_json, table
from orchestrator.cli.lookup import existing_store, find, store_path
from orchestrator.cli.options import environment, store_options, workspace_of
from orchestrator.cli.transcript import Transcript
from orchestrator.cli.words import elapsed, seconds
from orchestrator.cli.wrapping import all_wrapped, terminal_width
from orchestrator.config import load_settings
from orchestrator.interruption import INTERRUPTED
from orchestrator.premises import find_definitions
from orchestrator.store.base import Found, SessionRow, Store, TaskRow
from orchestrator.task import RUNNING


@click.command("sessions")
@store_options
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True)
def sessions(store: str | None, as_json: bool, limit: int) -> None:
    """List the stored sessions, newest first."""

    async def read(path: Path) -> tuple[SessionRow, ...]:
        async with existing_store(path) as opened:
            return tuple([await _as_it_is(opened, row) for row in await opened.sessions(limit)])

    path = store_path({"store": store})
    rows = trio.run(read, path) if path.exists() else ()
    if as_json:
        say_json(_plain(row) for row in rows)
        return
    names = ("SESSION", "UPDATED", "STATUS", "TURNS", "MODEL", "WORKSPACE", "TITLE")
    say(
        table(
            names,
            (
                (r.session_id, r.updated, r.status, r.turns, r.model, at_home(r.workspace), r.title[:60])
                for r in rows
            ),
            width=terminal_width(),
            drop=("MODEL", "TURNS", "UPDATED"),
            cut=("TITLE", "WORKSPACE"),
        )
    )


async def _as_it_is(store: Store, row: SessionRow) -> SessionRow:
    """A session that says `running` though nobody works on it is what the next start will call it."""
    if row.status == RUNNING and await store.holder(row.session_id) is None:
        return attrs.evolve(row, status=INTERRUPTED)
    return row


@click.command("tasks")
@click.argument("session", required=False)
@store_options
@click.option("--limit", type=click.IntRange(min=1), default=200, show_default=True)
def tasks(session: str | None, store: str | None, as_json: bool, limit: int) -> None:
    """List the delegates' tasks: of SESSION in order of start, or of all sessions, newest first."""

    async def read(path: Path) -> tuple[TaskRow, ...]:
        async with existing_store(path) as opened:
            if session is None:
                return await opened.tasks(limit=limit)
            found = await find(opened, session, ErrorCode.NOT_FOUND)
            return await opened.tasks(found.session_id, limit)

    path = store_path({"store": store})
    rows = trio.run(read, path) if session is not None or path.exists() else ()
    if as_json:
        say_json(_task_facts(row) for row in rows)
        return
    names = ("TASK", "LABEL", "AGENT", "STATUS", "CODE", "ELAPSED", "SESSION", "DESCRIPTION")
    say(
        table(
            names,
            (_task_cells(row) for row in rows),
            width=terminal_width(),
            drop=("AGENT", "SESSION", "ELAPSED"),
            cut=("DESCRIPTION", "CODE"),
        )
    )


def _task_cells(row: TaskRow) -> Sequence[Any]:
    now = timestamp(time.time_ns())
    took = (
        elapsed(row.started, row.finished or now) if row.result is None else seconds(row.result.duration_ms)
    )
    facts = (
        row.task_id,
        row.label,
        row.agent_name,
        row.status,
        _code(row),
        took,
    )
    return (*facts, row.session_id, row.description[:60])


def _code(row: TaskRow) -> str:
    return "" if row.result is None or row.result.error is None else row.result.error.code.value


def _task_facts(row: TaskRow) -> dict[str, Any]:
    return {**_plain(row), "errorCode": _code(row) or None}


def _plain(row: Any) -> dict[str, Any]:
    """A stored row with the names of the wire."""
    names = [field.name for field in attrs.fields(type(row))]
    return {
        first + "".join(word.title() for word in rest): msgspec.to_builtins(getattr(row, name))
        for name in names
        for first, *rest in [name.split("_")]
    }


@click.command("agents")
@click.option("-C", "--workspace", metavar="DIR", help="Whose definitions to list beside your own.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
def agents(workspace: str | None, as_json: bool) -> None:
    """List the agent definitions: where each comes from, its tools, its model, and what is wrong with any."""
    settings = load_settings({}, environment(), workspace_of(workspace)).settings
    found = find_definitions(settings, tuple(native_tools()))
    if as_json:
        say_json(_definition_facts(found))
        return
    say(
        table(
            ("AGENT", "MODEL", "TOOLS", "SOURCE", "DESCRIPTION"),
            (
                (name, spec.model or "inherit", ", ".join(spec.tools), at_home(spec.source), spec.description)
                for name, spec in found.specs.items()
            ),
            width=terminal_width(),
            drop=("MODEL",),
            cut=("DESCRIPTION", "SOURCE"),
        )
    )
    if found.diagnostics:
        told = (visible(f"{one.severity}: {one.path}: {one.message}") for one in found.diagnostics)
        say(["", *all_wrapped(told, terminal_width())])


def _definition_facts(found: Definitions) -> list[dict[str, Any]]:
    defined = [
        {"name": name, **_without(_plain(spec), "name", "prompt")} for name, spec in found.specs.items()
    ]
    return [*defined, *({"diagnostic": _plain(one)} for one in found.diagnostics)]


def _without(values: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}


@click.command("show")
@click.argument("name", metavar="ID")
@store_options
@click.option("--full", is_flag=True, help="Whole diffs, and all that failed commands wrote.")
def show(name: str, store: str | None, as_json: bool, full: bool) -> None:
    """Show what happened in a session, a turn or a task: messages, tool calls, changes, decisions, results."""

    async def read(path: Path) -> tuple[Found, list[Event], dict[str, list[str]]]:
        async with existing_store(path) as opened:
            found = await find(opened, name, ErrorCode.NOT_FOUND, Path.cwd())
            changes = {} if as_json else await stored_diffs(opened, found.session_id)
            return found, await _events_of(opened, found), changes

    found, events, changes = trio.run(read, store_path({"store": store}))
    if as_json:
        say_json(to_wire(event) for event in events)
        return
    transcript = Transcript(
        changes=changes, full=full, width=terminal_width(), hints=hints_of({"store": store})
    )
    say(transcript.lines(events) or [f"{found.id} has no stored events."])


async def _events_of(store: Store, found: Found) -> list[Event]:
    """The stored events that `found` is about, in order."""
    events = await store.events(found.session_id)
    match found.kind:
        case "session":
            return list(events)
        case "turn":
            return [event for event in events if event.turn_id == found.id]
        case _:
            rows = await store.tasks(found.session_id)
            chosen = {row.task_id for row in rows if found.id in (row.task_id, row.run_id, row.chain_id)}
            return [event for event in events if event.task_id in chosen]
