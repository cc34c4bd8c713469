"""The audit of a stretch of events: who or what decided each call, when, and how long that took. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from agents.events import Event, PermissionRequested, PermissionResolved, ToolFinished
from orchestrator.cli.words import decided, seconds
from telemetry import attributes as names

COLUMNS = ("WHEN", "AGENT", "TOOL", "DECISION", "BY", "WAITED", "REQUEST")

_UNASKED = {
    "rule": "allowed",
    "grant": "allowed",
    "deny-rule": "denied",
    "deny-list": "denied",
    "plan": "denied",
}
"""What was decided without asking and not by the mode's own row; by the value of `PERMISSION_WHY`."""

Row = tuple[str, str, str, str, str, str, str]


def decisions(events: Iterable[Event]) -> list[Row]:
    """One row per request that was closed, and per call that a rule, a grant or plan mode decided."""
    tools: dict[str, str] = {}
    rows: list[Row] = []
    for event in events:
        label = "session" if event.agent is None else event.agent.label
        match event.payload:
            case PermissionRequested(request=request):
                tools[request.id] = request.tool
            case PermissionResolved() as closed:
                by = closed.source if closed.by is None else f"{closed.source}, {closed.by}"
                scope = None if event.span is None else event.span.attributes.get(names.PERMISSION_SCOPE)
                how = decided(closed.decision, scope)
                tool, waited = tools.get(closed.request_id, ""), seconds(closed.wait_ms)
                rows.append((event.ts, label, tool, how, by, waited, closed.request_id))
            case ToolFinished(tool=tool) if event.span is not None:
                why = str(event.span.attributes.get(names.PERMISSION_WHY, ""))
                if why in _UNASKED:
                    rule = event.span.attributes.get(names.PERMISSION_RULE)
                    by = why if rule is None else f"{why} {rule}"
                    rows.append((event.ts, label, tool, _UNASKED[why], by, "-", "-"))
            case _:
                pass
    return rows
