"""`doctor`: how the store is, and what a damaged one still holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import click
import trio

from agents.rules.preview import visible
from orchestrator.cli.leaving import Leave, Status
from orchestrator.cli.listing import say, say_json
from orchestrator.cli.lookup import store_path
from orchestrator.doctor import Report, Salvaged, examine, salvage


@click.command("doctor")
@click.option("--store", metavar="PATH", help="The store's file.")
@click.option("--salvage", "new", metavar="NEW", help="Save what can be read into a new store.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def doctor(store: str | None, new: str | None, as_json: bool) -> None:
    """Examine the store: damage, versions, sessions in work, what a crash left open, lost before-images.

    Nothing in it is changed, not by --salvage either. Exit status 1 where something should be done.
    """
    path = store_path({"store": store})
    if new is not None:
        saved = trio.run(salvage, path, Path(new).expanduser().absolute())
        say_json([_plain(saved)]) if as_json else say(_saved(saved))
        return
    report = trio.run(examine, path)
    say_json([{**_plain(report), "problems": report.problems}]) if as_json else say(_told(report))
    if report.problems:
        raise Leave(Status.FAILED)


def _plain(value: Any) -> Any:
    """A value of the doctor's with the names of the wire."""
    if attrs.has(type(value)):
        named = attrs.asdict(value, recurse=False)
        return {_camel(name): _plain(item) for name, item in named.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


def _told(report: Report) -> Iterator[str]:
    yield visible(f"store     {report.path} · {report.size:,} bytes · version {report.version}")
    yield f"holds     {report.sessions} sessions, {report.events.rows:,} events"
    for one in report.held:
        state = "works on" if one.alive else "died while it worked on"
        yield visible(f"held      process {one.pid} {state} {one.session_id} since {one.since}")
    for run in report.open_runs:
        yield visible(f"open      {run}: the next resume closes it")
    if report.open_effects:
        yield f"open      {report.open_effects} effects without a result: the next resume compares them"
    if report.unnamed_images:
        yield f"unused    {len(report.unnamed_images)} before-images that nothing names"
    for line in report.damage:
        yield visible(f"damage    {line}")
    for problem in report.problems:
        yield visible(f"problem   {problem}")
    if not report.problems:
        yield "health    nothing is wrong with it"


def _saved(saved: Salvaged) -> Iterator[str]:
    yield visible(f"saved     {saved.path} · use it with --store")
    yield f"holds     {saved.sessions} sessions, {saved.events.rows - saved.events.undecodable:,} events"
    lost = saved.events.lost + saved.events.undecodable
    if lost or saved.effects.lost:
        yield f"lost      {lost} events and {saved.effects.lost} entries of the journal could not be read"
    if saved.missing_images:
        yield f"lost      {len(saved.missing_images)} before-images are missing or altered"
