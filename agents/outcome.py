"""How one agent's loop ended, before settlement judges it. Pure."""

from __future__ import annotations

import enum

import attrs

from agents.errors import ToolError
from agents.messages import Usage
from agents.requests import Denial
from agents.results import FileChange, Waits
from telemetry.records import SpanRef


class Ending(enum.Enum):
    """Why the loop left."""

    FINISHED = "finished"
    """The model's last turn ended normally, without a tool call."""
    TERMINAL = "terminal"
    """A terminal tool error: the mutation budget was exhausted."""
    LIMIT = "limit"
    """Turns, time or tokens ran out."""
    ERROR = "error"
    """Provider failure, context overflow, or something nobody foresaw."""
    STOPPED = "stopped"
    """TaskStop, or the person."""
    ABORTED = "aborted"
    """The parent was cancelled."""


@attrs.frozen
class AgentOutcome:
    """What a run has to show for itself, in every ending."""

    ending: Ending
    text: str = ""
    """The last visible text of the conversation, whatever the ending."""
    error: ToolError | None = None
    turns: int = 0
    tool_calls: int = 0
    usage: Usage = attrs.field(factory=Usage)
    waits: Waits = attrs.field(factory=Waits)
    files_changed: tuple[FileChange, ...] = ()
    denials: tuple[Denial, ...] = ()
    error_span: SpanRef | None = None
    """The tool span in which the terminal error arose."""
