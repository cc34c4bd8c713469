"""`trace`: one turn's trace as text, as lines for a trace viewer, and the check of a trace."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

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
from orchestrator.opening import VERSION
from orchestrator.settings import Settings
from orchestrator.store.base import Store, TaskRow
from orchestrator.trace_export import trace_lines
from orchestrator.trace_view import render_trace
from telemetry.check import check_trace
from telemetry.jaeger import JaegerError, page_url, read_jaeger_trace
from telemetry.records import SpanRecord
from telemetry.settings import TelemetrySettings
from telemetry.tracefile import TraceFileError, open_trace_file, read_trace_file

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
@click.argument("name", metavar="ID|check|export")
@click.argument("what", required=False, metavar="[FILE|URL|ID]")
@click.argument("file", required=False, metavar="[FILE]")
@store_options
@click.option("--jaeger-url", metavar="URL", help="Where Jaeger's page is.")
@click.option("--open", "in_browser", is_flag=True, help="Open the trace on Jaeger's page.")
def trace(
    name: str,
    what: str | None,
    file: str | None,
    store: str | None,
    as_json: bool,
    jaeger_url: str | None,
    in_browser: bool,
) -> None:
    """Draw the trace of a session's newest turn, of a turn, of a task, or the one with the given trace id.

    `trace check FILE` verifies a trace file, `trace check URL` a trace on a Jaeger's page: no orphans,
    everything ended, the status rules hold. `trace export ID [FILE]` writes OTLP-JSON lines, which Jaeger's
    upload box reads.
    """
    if name == "check":
        _check(what)
        return
    if name != "export" and what is not None:
        raise click.UsageError("Give one ID, or: trace check FILE|URL, trace export ID [FILE].")
    loaded = load_settings({"store": store, "jaeger_url": jaeger_url}, environment(), None)
    if name == "export":
        _export(loaded.settings, what, file)
        return
    found = trio.run(_read, loaded.settings.store_path, name)
    page = page_url(loaded.values["jaeger_url"], found.trace_id)
    if as_json:
        say_json(msgspec.to_builtins(span) for span in found.spans)
    else:
        _draw(found, page)
    if in_browser:
        _open(page)


def _draw(found: _Trace, page: str) -> None:
    say([render_trace(found.spans, width=min(shutil.get_terminal_size().columns, 160)), ""])
    say([f"Jaeger   {page}"])
    say([f"session  {found.session_id}   orchestrator resume {found.session_id}"])
    say(f"task     {task.task_id}  {task.label}  {task.status}" for task in found.tasks)
    if found.others:
        say([f"also     {', '.join(found.others)}"])


def _open(page: str) -> None:
    if click.launch(page) != 0:
        raise failure(ErrorCode.INVALID_ARGUMENT, f"No browser could be started. Open {page} yourself.")


def _export(settings: Settings, name: str | None, file: str | None) -> None:
    if name is None:
        raise click.UsageError("Name what to export: orchestrator trace export ID [FILE].")
    found = trio.run(_read, settings.store_path, name)
    telemetry = TelemetrySettings.from_environment(
        settings.environment, services=settings.trace_services, service_version=VERSION
    )
    lines = list(trace_lines(found.spans, telemetry))
    if file is None:
        say(line.decode("utf-8").rstrip("\n") for line in lines)
        return
    try:
        descriptor = open_trace_file(Path(file).absolute())
    except TraceFileError as unusable:
        raise failure(ErrorCode.INVALID_ARGUMENT, str(unusable)) from None
    with os.fdopen(descriptor, "ab") as opened:
        opened.writelines(lines)
    say([f"{file}: {len(found.spans)} spans of trace {found.trace_id}."])


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


def _check(where: str | None) -> None:
    if where is None:
        raise click.UsageError("Name the trace: orchestrator trace check FILE|URL.")
    try:
        if where.startswith(("http://", "https://")):
            records = read_jaeger_trace(where)
        else:
            records = read_trace_file(Path(where))
    except (TraceFileError, JaegerError, OSError) as unreadable:
        raise failure(ErrorCode.INVALID_ARGUMENT, f"{where} cannot be checked: {unreadable}") from None
    problems = check_trace(records)
    say(problems or [f"{where}: {len(records)} spans, all in order."])
    if problems:
        raise Leave(
            Status.FAILED, f"TOOL_FAILED: {where} has {len(problems)} problems; they are listed above."
        )
