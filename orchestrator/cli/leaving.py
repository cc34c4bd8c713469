"""Exit statuses, and the exception with which a verb ends with one of them."""

from __future__ import annotations

import enum

from agents.errors import ErrorCode, ToolError


class Status(enum.IntEnum):
    """What the command's exit status means."""

    COMPLETED = 0
    FAILED = 1
    """The turn failed or was truncated."""
    USAGE = 2
    """Usage or configuration."""
    DENIED = 3
    """Completed, but a permission was denied in a headless run."""
    REFUSED = 4
    """A resume was refused; of other verbs: a conflict, or an answer that is not the caller's to give."""
    STOPPED = 130
    """Stopped, aborted or interrupted by the person."""


class Leave(Exception):
    """End the command with this status; `line` is the last one on standard error."""

    def __init__(self, status: Status, line: str = "") -> None:
        super().__init__(line)
        self.status = status
        self.line = line


_USAGE = frozenset(
    {
        ErrorCode.INVALID_ARGUMENT,
        ErrorCode.NOT_FOUND,
        ErrorCode.MODEL_NOT_CONFIGURED,
        ErrorCode.MODEL_UNRESOLVED,
        ErrorCode.AGENT_UNKNOWN,
    }
)
_REFUSED = frozenset(
    {
        ErrorCode.TASK_UNKNOWN,
        ErrorCode.TASK_RUNNING,
        ErrorCode.TASK_NOT_RESUMABLE,
        ErrorCode.CHAIN_LOCKED,
    }
)


def status_of(code: ErrorCode) -> Status:
    """The exit status of a failure that no turn reports."""
    if code in _USAGE:
        return Status.USAGE
    return Status.REFUSED if code in _REFUSED else Status.FAILED


def status_of_turn(status: str, *, denied: bool, headless: bool) -> Status:
    """The exit status of a turn that ended with `status`."""
    match status:
        case "completed":
            return Status.DENIED if denied and headless else Status.COMPLETED
        case "failed" | "truncated":
            return Status.FAILED
        case _:
            return Status.STOPPED


def error_line(error: ToolError) -> str:
    """`CODE: message` on one line."""
    return f"{error.code.value}: {' '.join(error.message.split())}"
