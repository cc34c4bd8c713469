"""`trace`: one turn's trace as text, and the check of a trace file."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import attrs
import click
import msgspec
import trio

from agents.errors import ErrorCode, failure
from orchestrator.cli.leaving import Leave, Status
from orchestrator.cli.listing import say, say_json
from orchestrator.cli.lookup import existing_store, find
from orchestrator.cli.options import environment, store_options
from orchestrator.config import load_settings
from orchestrator.store.base import Store, TaskRow
from orchestrator.trace_view import render_trace
from telemetry.check import check_trace
from telemetry.records import SpanRecord
from telemetry.tracefile import TraceFileError, read_trace_file

HEX = frozenset("0123456789abcdef")
LONGEST_TRACE_ID = 32
SEARCHED_SESSIONS = 1000


@attrs.frozen
class _Trace:
    """One stored trace and what belongs to it."""

    trace_id: str
    session_id: str
    spans: tuple[SpanRecord, ...]
    tasks: tuple[TaskRow, ...]
    others: tuple[str, ...]
    """Further traces of what was asked for, oldest first."""


@click.command("trace")
@click.argument("name", metavar="ID|check")
@click.argument("file", required=False)
@store_options
@click.option("--jaeger-url", metavar="URL", help="Where Jaeger's page is.")
def trace(name: str, file: str | None, store: str | None, as_json: bool, jaeger_url: str | None) -> None:
    """Draw the trace of a session's newest turn, of a turn, of a task, or the one with the given trace id.

    `trace check FILE` verifies a trace file: no orphans, everything ended, the status rules hold.
    """
    if name == "check":
        _check(file)
        return
    loaded = load_settings({"store": store, "jaeger_url": jaeger_url}, environment(), None)
    found = trio.run(_read, loaded.settings.store_path, name)
    if as_json:
        say_json(msgspec.to_builtins(span) for span in found.spans)
        return
    say([render_trace(found.spans, width=min(shutil.get_terminal_size().columns, 160)), ""])
    say([f"Jaeger   {loaded.values['jaeger_url'].rstrip('/')}/trace/{found.trace_id}"])
    say([f"session  {found.session_id}   orchestrator resume {found.session_id}"])
    say(f"task     {task.task_id}  {task.label}  {task.status}" for task in found.tasks)
    if found.others:
        say([f"also     {', '.join(found.others)}"])


async def _read(path: Path, name: str) -> _Trace:
    async with existing_store(path) as store:
        session_id, trace_ids = await _trace_ids(store, name)
        if not trace_ids:
            raise failure(
                ErrorCode.NOT_FOUND,
                f"{name!r} has no trace yet. Give it a prompt with `orchestrator resume`.",
            )
        newest = trace_ids[-1]
        tasks = [row for row in await store.tasks(session_id) if row.trace_id == newest]
        spans = await store.spans(session_id, newest)
        return _Trace(newest, session_id, spans, tuple(tasks), trace_ids[:-1])


async def _trace_ids(store: Store, name: str) -> tuple[str, tuple[str, ...]]:
    """The session and the traces, in order, of what `name` names."""
    by_id = await _by_trace_id(store, name)
    if by_id is not None:
        return by_id
    found = await find(store, name, ErrorCode.NOT_FOUND, Path.cwd())
    turns = await store.turns(found.session_id)
    if found.kind == "session":
        ids = [turn.trace_id for turn in turns]
    elif found.kind == "turn":
        ids = [turn.trace_id for turn in turns if turn.turn_id == found.id]
    else:
        rows = await store.tasks(found.session_id)
        ids = [row.trace_id for row in rows if found.id in (row.task_id, row.run_id, row.chain_id)]
    return found.session_id, tuple(dict.fromkeys(one for one in ids if one is not None))


async def _by_trace_id(store: Store, name: str) -> tuple[str, tuple[str, ...]] | None:
    if len(name) < 6 or len(name) > LONGEST_TRACE_ID or not set(name) <= HEX:
        return None
    for session in await store.sessions(SEARCHED_SESSIONS):
        for turn in await store.turns(session.session_id):
            if turn.trace_id is not None and turn.trace_id.startswith(name):
                return session.session_id, (turn.trace_id,)
    return None


def _check(file: str | None) -> None:
    if file is None:
        raise click.UsageError("Name the trace file: orchestrator trace check FILE.")
    try:
        records: Any = read_trace_file(Path(file))
    except (TraceFileError, OSError) as unreadable:
        raise failure(ErrorCode.INVALID_ARGUMENT, f"{file} cannot be checked: {unreadable}") from None
    problems = check_trace(records)
    say(problems or [f"{file}: {len(records)} spans, all in order."])
    if problems:
        raise Leave(
            Status.FAILED, f"TOOL_FAILED: {file} has {len(problems)} problems; they are listed above."
        )
