"""The closed error vocabulary: what the program reads is the code, what the model reads is the text.

Pure. Codes are immutable once published; a new one may be added, none is renamed or removed.
"""

from __future__ import annotations

import enum
from typing import Any

import msgspec


class ErrorCode(enum.StrEnum):
    """Every way in which a call, a run, a delegation, a model or the store can fail."""

    # tools
    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    NOT_FOUND = "NOT_FOUND"
    TOOL_NOT_FOUND = "TOOL_NOT_FOUND"
    TOOL_NOT_ACTIVE = "TOOL_NOT_ACTIVE"
    TOOL_DENIED = "TOOL_DENIED"
    TOOL_TIMEOUT = "TOOL_TIMEOUT"
    TOOL_FAILED = "TOOL_FAILED"
    TOOL_ABORTED = "TOOL_ABORTED"
    TOOL_BINARY_CONTENT = "TOOL_BINARY_CONTENT"
    WRITE_STALE = "WRITE_STALE"
    CONFLICT = "CONFLICT"
    PROCESS_RESOURCE_EXHAUSTED = "PROCESS_RESOURCE_EXHAUSTED"
    SHELL_NOT_FOUND = "SHELL_NOT_FOUND"
    # plan mode
    WRITE_DISABLED_IN_PLAN = "WRITE_DISABLED_IN_PLAN"
    EDIT_DISABLED_IN_PLAN = "EDIT_DISABLED_IN_PLAN"
    PLUGIN_DISABLED_IN_PLAN = "PLUGIN_DISABLED_IN_PLAN"
    TOOL_DISABLED_IN_PLAN = "TOOL_DISABLED_IN_PLAN"
    # edit
    EDIT_TAG_REQUIRED = "EDIT_TAG_REQUIRED"
    EDIT_TAG_UNKNOWN = "EDIT_TAG_UNKNOWN"
    EDIT_TAG_MISMATCH = "EDIT_TAG_MISMATCH"
    EDIT_LINES_UNSEEN = "EDIT_LINES_UNSEEN"
    EDIT_PARSE_FAILED = "EDIT_PARSE_FAILED"
    EDIT_RANGE_INVALID = "EDIT_RANGE_INVALID"
    EDIT_BLOCK_UNRESOLVED = "EDIT_BLOCK_UNRESOLVED"
    EDIT_NO_CHANGE = "EDIT_NO_CHANGE"
    # what ends a run
    MUTATION_RETRY_BUDGET_EXHAUSTED = "MUTATION_RETRY_BUDGET_EXHAUSTED"
    EMPTY_RESULT = "EMPTY_RESULT"
    TURN_LIMIT = "TURN_LIMIT"
    TIME_LIMIT = "TIME_LIMIT"
    BUDGET_LIMIT = "BUDGET_LIMIT"
    CONTEXT_OVERFLOW = "CONTEXT_OVERFLOW"
    INTERRUPTED = "INTERRUPTED"
    INTERNAL = "INTERNAL"
    # delegation
    DELEGATION_LIMIT = "DELEGATION_LIMIT"
    DELEGATION_DEPTH = "DELEGATION_DEPTH"
    AGENT_UNKNOWN = "AGENT_UNKNOWN"
    MODEL_UNRESOLVED = "MODEL_UNRESOLVED"
    TASK_UNKNOWN = "TASK_UNKNOWN"
    TASK_RUNNING = "TASK_RUNNING"
    TASK_NOT_RESUMABLE = "TASK_NOT_RESUMABLE"
    CHAIN_LOCKED = "CHAIN_LOCKED"
    # model
    MODEL_NOT_CONFIGURED = "MODEL_NOT_CONFIGURED"
    PROVIDER_UNAUTHORIZED = "PROVIDER_UNAUTHORIZED"
    PROVIDER_RATE_LIMITED = "PROVIDER_RATE_LIMITED"
    PROVIDER_ERROR = "PROVIDER_ERROR"
    STREAM_FAILED = "STREAM_FAILED"
    NETWORK_ERROR = "NETWORK_ERROR"
    EMPTY_MODEL_RESPONSE = "EMPTY_MODEL_RESPONSE"
    # store
    STORE_UNREADABLE = "STORE_UNREADABLE"
    STORE_BUSY = "STORE_BUSY"
    STORE_TOO_NEW = "STORE_TOO_NEW"
    STORE_WRITE_FAILED = "STORE_WRITE_FAILED"


class ToolError(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One failure as a value. It never crosses the agent loop as an exception."""

    code: ErrorCode
    """What the program decides on."""
    message: str
    """English, for the model and the person; names one concrete next step."""
    details: dict[str, Any] = {}
    """Data beside the message: `attempt`, `limit`, `hint`, `reason`, `suggestedTool`, `suggestedArgs` …"""
    retriable: bool = False
    """Whether the same goal may be tried again (not: whether the same bytes may be sent again)."""
    terminate: bool = False
    """Whether the agent's run ends after this batch."""


class Failure(Exception):
    """Carries a `ToolError` out of nested code up to the one place that turns it into a result."""

    def __init__(self, error: ToolError) -> None:
        super().__init__(f"{error.code}: {error.message}")
        self.error = error


def failure(
    code: ErrorCode, message: str, /, *, retriable: bool = False, details: dict[str, Any] | None = None
) -> Failure:
    """Build the exception in one call: `raise failure(ErrorCode.NOT_FOUND, "…")`."""
    return Failure(ToolError(code=code, message=message, details=details or {}, retriable=retriable))
