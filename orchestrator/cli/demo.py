"""`demo`: three delegates at once; one fails, is reported truthfully, is resumed, and repairs its module."""

from __future__ import annotations

import os
import shlex
import time
from pathlib import Path
from typing import Any

import attrs
import click
import trio

from orchestrator.cli.hints import hints_of
from orchestrator.cli.leaving import Leave, Status
from orchestrator.cli.listing import say, say_json, table
from orchestrator.cli.logs import open_log
from orchestrator.cli.playing import Job, played
from orchestrator.cli.program import program
from orchestrator.cli.words import seconds
from orchestrator.demo.checks import FAILED, Facts, most_at_once, problems
from orchestrator.demo.stage import Stage, set_up
from orchestrator.session import Session
from orchestrator.store.base import Store, TaskRow
from orchestrator.store.sqlite import open_sqlite_store
from orchestrator.trace_view import time_split
from orchestrator.turn import TurnOutcome
from telemetry.attributes import AGENT_PREFIX
from telemetry.check import check_trace
from telemetry.records import PERSON, SERVICE, SpanRecord
from telemetry.tracefile import read_trace_file

PROMPT = "Three modules of this project have failing tests. Have each repaired by a fixer of its own."
INVOICES = "stockroom/invoices.py"


@click.command("demo")
@click.option(
    "--keep", metavar="DIR", help="Make the demo in DIR (new or empty) instead of a temporary folder."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def demo(keep: str | None, as_json: bool) -> None:
    """Three delegates repair three modules at once. One fails, says so, is resumed, and the tests pass.

    Offline, with a scripted model and real files, processes and commits, in a folder of its own.
    """
    begun = time.monotonic()
    stage = set_up(None if keep is None else Path(keep).expanduser().absolute())
    open_log(stage.data)
    told = _Told(stage, as_json)
    told.say("The demo's folder:", f"  {stage.folder}", "", "Three fixers at once", "")
    result = trio.run(_play, told)
    wrong = problems(result.facts)
    if as_json:
        say_json([_as_object(result, wrong)])
    else:
        say(_summary(result, time.monotonic() - begun))
    if wrong:
        raise Leave(Status.FAILED, f"INTERNAL: The demo did not end as it should. {' '.join(wrong)}")
    told.say("", "Everything ended as described above.")


@attrs.frozen
class _Told:
    """Where the demo is told."""

    stage: Stage
    as_json: bool

    def say(self, *lines: str) -> None:
        if not self.as_json:
            say(lines)

    @property
    def output_format(self) -> str:
        return "quiet" if self.as_json else "story"


@attrs.frozen(kw_only=True)
class _Result:
    """What came of it."""

    stage: Stage
    facts: Facts
    session_id: str
    failed_task: str
    tasks: tuple[TaskRow, ...]
    traces: tuple[tuple[str, tuple[SpanRecord, ...]], ...]
    """Trace id and spans of each turn."""


async def _play(told: _Told) -> _Result:
    stage = told.stage
    settings = stage.settings(os.environ)
    job_facts: dict[str, Any] = {"settings": settings, "output_format": told.output_format, "prompts": "none"}
    job_facts["hints"] = hints_of({"store": settings.store_path})
    async with open_sqlite_store(settings.store_path) as store:
        first = _there(await played(Job(store=store, work=lambda session: session.run(PROMPT), **job_facts)))
        rows = await store.tasks(first.session_id)
        untouched = await trio.to_thread.run_sync((stage.project / INVOICES).read_bytes) == stage.original(
            INVOICES
        )
        await _commit(stage, rows)
        failed = next((row for row in rows if row.label == FAILED), None)
        if failed is None:
            said = first.error.message if first.error is not None else first.text
            raise Leave(
                Status.FAILED,
                f"INTERNAL: The demo did not end as it should: there is no {FAILED}. The parent said: {said}",
            )
        task_id = failed.task_id

        async def again(session: Session) -> TurnOutcome:
            return await session.resume_task(task_id)

        told.say("", f"{FAILED} is resumed, with its own transcript, in a session that is opened anew", "")
        after = (await store.events(first.session_id))[-1].seq
        resume = Job(store=store, work=again, resume=first.session_id, after=after, **job_facts)
        second = _there(await played(resume))
        chain = await store.chain(failed.chain_id)
        await _commit(stage, chain[1:])
        told.say("", "The whole suite of the project", "")
        passes, said = await stage.run_tests()
        told.say(*(f"  {line}" for line in said.split("\n") if line.strip()))
        facts = await _facts(stage, store, first, second, rows, chain, untouched, passes, said)
        return _Result(
            stage=stage,
            facts=facts,
            session_id=first.session_id,
            failed_task=task_id,
            tasks=await store.tasks(first.session_id),
            traces=tuple(
                [
                    (turn.trace_id or "", await store.spans(first.session_id, turn.trace_id))
                    for turn in (first, second)
                ]
            ),
        )


def _there(outcome: TurnOutcome | None) -> TurnOutcome:
    if outcome is None or outcome.status in ("stopped", "aborted"):
        raise Leave(Status.STOPPED)
    return outcome


async def _commit(stage: Stage, rows: tuple[TaskRow, ...]) -> None:
    """One commit per completed task, named after the delegate."""
    for row in rows:
        if row.result is not None and row.status == "completed" and row.result.files_changed:
            message = f"{row.label}: {row.description}\n\n{row.result.report.strip()}"
            await trio.to_thread.run_sync(
                stage.commit, message, *(change.path for change in row.result.files_changed)
            )


async def _facts(
    stage: Stage,
    store: Store,
    first: TurnOutcome,
    second: TurnOutcome,
    rows: tuple[TaskRow, ...],
    chain: tuple[TaskRow, ...],
    untouched: bool,
    passes: bool,
    said: str,
) -> Facts:
    spans = await store.spans(first.session_id, first.trace_id)
    ours = (SERVICE, PERSON)
    delegates = [span for span in spans if span.name.startswith(AGENT_PREFIX) and span.service not in ours]
    exported = await trio.to_thread.run_sync(read_trace_file, stage.trace_file)
    return Facts(
        first_status=first.status,
        first_text=first.text,
        first_runs=tuple((row.label, row.status, _code(row)) for row in rows),
        side_by_side=most_at_once([(span.start_ns, span.end_ns) for span in delegates]),
        failed_file_untouched=untouched,
        resumed_status=second.status,
        resumed_runs=tuple(row.status for row in chain),
        tests_pass=passes,
        tests_said=said,
        spans=len(exported),
        trace_problems=check_trace(exported),
    )


def _code(row: TaskRow) -> str:
    return "" if row.result is None or row.result.error is None else row.result.error.code.value


def _summary(result: _Result, took: float) -> list[str]:
    outcome = table(
        ("task", "label", "status", "code", "files"),
        ((row.task_id, row.label, row.status, _code(row), _files(row)) for row in result.tasks),
    )
    times = table(
        ("agent", "total", "model", "tools", "waiting for you", "locks", "delegates"),
        (
            (row.label, *(seconds(value) for value in values))
            for _, spans in result.traces
            for row in time_split(spans)
            for values in [
                (row.total_ms, row.model_ms, row.tool_ms, row.permission_ms, row.lock_ms, row.delegates_ms)
            ]
        ),
    )
    return [
        "",
        f"What came of it, after {took:.1f} s",
        "",
        *(f"  {line}" for line in outcome),
        "",
        "Where the time went (the model is a script and answers at once)",
        "",
        *(f"  {line}" for line in times),
        "",
        *_further(result),
    ]


def _files(row: TaskRow) -> str:
    return "" if row.result is None else ", ".join(change.path for change in row.result.files_changed)


def _further(result: _Result) -> list[str]:
    """Where everything is, and how to look at it."""
    stage = result.stage
    store = shlex.quote(str(stage.settings({}).store_path))
    trace = shlex.quote(str(stage.trace_file))
    command, session_id = program(), result.session_id
    looks = [
        ("The whole conversation, with every diff:", f"show {session_id} --store {store}"),
        (f"What {FAILED} did, until its edits were used up:", f"show {result.failed_task} --store {store}"),
        *(
            (f"Where the time of turn {index} went:", f"trace {trace_id} --store {store}")
            for index, (trace_id, _) in enumerate(result.traces)
        ),
        ("The delegates, and how each ended:", f"tasks {session_id} --store {store}"),
        ("What a resume would do:", f'resume {session_id} "Check it all" --dry-run --store {store}'),
        ("Whether the trace file is in order:", f"trace check {trace}"),
    ]
    return [
        "Where it is",
        "",
        f"  project     {stage.project}",
        f"  store       {stage.settings({}).store_path}",
        f"  trace file  {stage.trace_file} ({result.facts.spans} spans)",
        "",
        "Look further",
        "",
        *(line for why, arguments in looks for line in (f"  {why}", f"    {command} {arguments}")),
        "  What the delegates committed:",
        f"    git -C {shlex.quote(str(stage.project))} log -p",
    ]


def _as_object(result: _Result, wrong: tuple[str, ...]) -> dict[str, Any]:
    return {
        "ok": not wrong,
        "problems": wrong,
        "folder": str(result.stage.folder),
        "project": str(result.stage.project),
        "store": str(result.stage.settings({}).store_path),
        "traceFile": str(result.stage.trace_file),
        "sessionId": result.session_id,
        "traceIds": [trace_id for trace_id, _ in result.traces],
        "tasks": [
            {"taskId": row.task_id, "label": row.label, "status": row.status, "code": _code(row) or None}
            for row in result.tasks
        ],
        "report": result.facts.first_text,
        "tests": result.facts.tests_said,
    }
