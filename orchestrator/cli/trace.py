"""`trace`: one turn's trace as text, as lines for a trace viewer, and the check of a trace."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import attrs
import click
import msgspec
import trio

from agents.errors import ErrorCode, ToolError, failure
from agents.events import AgentFinished, Event, ToolFinished, ToolStarted, TurnStarted
from agents.rules.preview import visible
from orchestrator.cli.card import CONTINUABLE, GO_ON, Hints
from orchestrator.cli.hints import hints_of
from orchestrator.cli.leaving import Leave, Status
from orchestrator.cli.listing import say, say_json
from orchestrator.cli.lookup import existing_store, find
from orchestrator.cli.options import environment, store_options
from orchestrator.cli.printers import card_lines
from orchestrator.cli.words import subject_of
from orchestrator.cli.wrapping import terminal_width
from orchestrator.config import load_settings
from orchestrator.opening import VERSION
from orchestrator.settings import Settings
from orchestrator.store.base import RUNNING, Store, TaskRow
from orchestrator.trace_export import trace_lines
from orchestrator.trace_view import Known, render_trace
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
    broken: tuple[TaskRow, ...]
    """Of `tasks`, those whose chains still wait for somebody to continue them."""
    others: tuple[tuple[str, int], ...]
    """Further traces of what was asked for, oldest first, with the index of the turn of each."""
    known: Known
    """What the events say of its spans."""
    targets: tuple[str, ...]
    """Where its spans go to; empty: they are not exported."""
    status: str
    """Of its turn."""


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
        _draw(found, page, hints_of({"store": store}))
    if in_browser:
        _open(page)


def _draw(found: _Trace, page: str, hints: Hints) -> None:
    width = min(shutil.get_terminal_size().columns, 160)
    say([render_trace(found.spans, width=width, known=found.known), ""])
    rows = [
        ("Jaeger", _jaeger(found, page, hints)),
        ("session", found.session_id),
        *(("task", f"{task.task_id}  {task.label}  {task.status}") for task in found.tasks),
        *_go_on(found, hints),
    ]
    if found.others:
        earlier = ", ".join(f"{trace_id} (turn {index})" for trace_id, index in found.others)
        rows.append(("earlier turns", earlier))
    say(card_lines([(name, visible(value)) for name, value in rows], terminal_width()))


def _jaeger(found: _Trace, page: str, hints: Hints) -> str:
    """Where the trace can be looked at; nothing is there unless it was sent there."""
    if any(not target.startswith("file:") for target in found.targets):
        return page
    files = [target.removeprefix("file:") for target in found.targets]
    if files:
        return f"not sent; upload {', '.join(files)} on Jaeger's page, it would be {page}"
    export = " ".join([hints.program, "trace", "export", found.trace_id, "FILE", *hints.options])
    return f"not exported; {export} writes a file that Jaeger's upload box reads"


def _go_on(found: _Trace, hints: Hints) -> list[tuple[str, str]]:
    """Only what a resume would not refuse."""
    if found.status == RUNNING:
        return []
    if found.status != "completed":
        return [(GO_ON, hints.resume(found.session_id))]
    if found.broken:
        return [(GO_ON, hints.resume(task.task_id)) for task in found.broken]
    return [(GO_ON, hints.resume(found.session_id, "PROMPT"))]


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
        turns = {turn.trace_id: turn for turn in await store.turns(session_id)}
        events = [event for event in await store.events(session_id) if event.trace_id == newest]
        rows = await store.tasks(session_id)
        tasks = tuple(row for row in rows if row.trace_id == newest)
        last = {row.chain_id: row for row in rows}
        return _Trace(
            trace_id=newest,
            session_id=session_id,
            spans=await store.spans(session_id, newest),
            tasks=tasks,
            broken=tuple(row for row in tasks if last[row.chain_id] is row and row.status in CONTINUABLE),
            others=tuple((one, turns[one].index) for one in trace_ids[:-1] if one in turns),
            known=known_of(events),
            targets=next((e.payload.trace_targets for e in events if isinstance(e.payload, TurnStarted)), ()),
            status=turns[newest].status if newest in turns else RUNNING,
        )


def known_of(events: Iterable[Event]) -> Known:
    """What a trace's events say of its spans: the subjects of calls, the messages of errors."""
    subjects: dict[str, str] = {}
    reasons: dict[str, str] = {}
    for event in events:
        payload, span_id = event.payload, event.span_id or ""
        match payload:
            case ToolStarted():
                subjects[span_id] = subject_of(payload.arguments)
            case ToolFinished(error=ToolError(message=message)):
                reasons[span_id] = message
            case AgentFinished(error=ToolError(message=message)):
                reasons[span_id] = message
            case _:
                pass
    return Known(subjects, reasons)


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
