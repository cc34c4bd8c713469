"""What the events of one turn say about its end, beside the turn's own result. Pure."""

from __future__ import annotations

import attrs

from agents.errors import ToolError
from agents.events import (
    AgentFinished,
    Event,
    PermissionRequested,
    TaskFinished,
    ToolFinished,
    ToolStarted,
    TurnStarted,
)
from agents.requests import PermissionRequest
from agents.results import TaskResult
from orchestrator.cli.words import subject_of
from telemetry.attributes import PERMISSION_RULE


@attrs.define
class Tally:
    """Collected from a turn's events, in order; the next turn begins it anew."""

    results: dict[str, TaskResult] = attrs.field(factory=dict)
    """The newest result of each chain that was worked on, by chain id."""
    subjects: dict[str, str] = attrs.field(factory=dict)
    """What a call is about, by call id."""
    requests: dict[str, PermissionRequest] = attrs.field(factory=dict)
    """By request id."""
    rules: dict[str, str] = attrs.field(factory=dict)
    """The rule that decided a call, by call id."""
    shown_error: ToolError | None = None
    """How the main agent ended, where that was by error: its own row tells it."""

    def take(self, event: Event) -> None:
        """Count one event in."""
        payload = event.payload
        match payload:
            case TurnStarted():
                self._clear()
            case ToolStarted():
                self.subjects[payload.call_id] = subject_of(payload.arguments)
            case ToolFinished() if event.span is not None and PERMISSION_RULE in event.span.attributes:
                self.rules[payload.call_id] = str(event.span.attributes[PERMISSION_RULE])
            case PermissionRequested(request=request):
                self.requests[request.id] = request
            case TaskFinished():
                self.results[payload.chain_id] = payload.result
            case AgentFinished() if event.agent is not None and event.agent.depth == 0:
                self.shown_error = payload.error
            case _:
                pass

    def _clear(self) -> None:
        for known in (self.results, self.subjects, self.requests, self.rules):
            known.clear()
        self.shown_error = None
