"""`schema`: the JSON Schemas of events and results, made from the classes themselves."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from agents import results
from agents.events import AgentRef, AnyPayload, TurnFinished
from agents.results import Result
from orchestrator.cli.listing import say

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class Envelope(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What every event has beside its payload."""

    v: int
    ts: str
    session_id: str
    turn_id: str | None
    agent: AgentRef | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    parent_span_id: str | None


@click.command("schema")
@click.argument("what", type=click.Choice(["events", "results", "all"]), default="all")
def schema(what: str) -> None:
    """Print the JSON Schemas of events (`stream-json`, `json`) and of tool and task results."""
    made: dict[str, Any] = {"events": event_schema, "results": result_schema}
    chosen = {name: make() for name, make in made.items() if what in (name, "all")}
    value = chosen if what == "all" else chosen[what]
    say([msgspec.json.format(msgspec.json.encode(value), indent=2).decode("utf-8")])


def event_schema() -> dict[str, Any]:
    """One event: the envelope with one payload, told apart by `type`. Unknown types must be ignored."""
    payloads = AnyPayload.__args__
    schemas, components = msgspec.json.schema_components([Envelope, *payloads], ref_template="#/$defs/{name}")
    variants = schemas[1:]
    for payload in payloads:
        _add_envelope(components[payload.__name__], components["Envelope"], ephemeral=payload.EPHEMERAL)
    # `json` prints this one alone
    only = variants[payloads.index(TurnFinished)]
    return {
        "$schema": DIALECT,
        "title": "Event",
        "anyOf": variants,
        "$comment": f"json: {only['$ref']}",
        "$defs": components,
    }


def _add_envelope(payload: dict[str, Any], envelope: dict[str, Any], *, ephemeral: bool) -> None:
    """The payload's own keys win where both have one (`taskId`)."""
    payload["properties"] = {**envelope["properties"], **payload["properties"]}
    required = [*envelope["required"], *payload.get("required", [])]
    if not ephemeral:
        payload["properties"]["seq"] = {"type": "integer", "minimum": 1}
        required.append("seq")
    payload["required"] = sorted(set(required))


def result_schema() -> dict[str, Any]:
    """Results by class name: what `tool.finished.result` and `task.finished.result` hold."""
    classes = [
        value
        for value in vars(results).values()
        if isinstance(value, type) and issubclass(value, Result) and value is not Result
    ]
    schemas, components = msgspec.json.schema_components(classes, ref_template="#/$defs/{name}")
    return {"$schema": DIALECT, "title": "Results", "anyOf": list(schemas), "$defs": components}
