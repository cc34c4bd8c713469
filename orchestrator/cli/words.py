"""Facts of events in a person's words: durations, counts, tokens, decisions, what a call is about. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from agents.errors import ToolError
from agents.messages import Usage
from agents.results import Waits

SUBJECTS = ("command", "pattern", "path", "subagent_type", "taskIds")
"""The argument that says most about a call, in order of preference."""
MAX_SUBJECT = 90
DECISIONS = {
    "allow-once": "allowed once",
    "allow-session": "allowed for the session",
    "deny": "denied",
    "timeout": "denied: nobody answered in time",
    "cancelled": "withdrawn",
    "no-approver": "denied: nobody to ask",
}
_SCOPED = {
    "commands": "allowed for the session: just these commands",
    "session": "allowed for the session: every such call",
}
"""What `allow-session` covered, by the value of `PERMISSION_SCOPE`."""


def decided(decision: str, scope: object = None) -> str:
    """How a request was closed; `scope` is the attribute of its span, where that is known."""
    if decision == "allow-session" and isinstance(scope, str) and scope in _SCOPED:
        return _SCOPED[scope]
    return DECISIONS.get(decision, decision)


def subject_of(arguments: Any) -> str:
    """What a call is about, in a few words."""
    if not isinstance(arguments, Mapping):
        return ""
    named = next((arguments[name] for name in SUBJECTS if arguments.get(name)), "")
    text = " ".join(str(named).split())
    return text if len(text) <= MAX_SUBJECT else f"{text[: MAX_SUBJECT - 1]}…"


def told(error: ToolError) -> str:
    return f"{error.code.value}: {error.message}"


def tokens(usage: Usage) -> str:
    cached = f" ({usage.cache_read_tokens:,} cached)" if usage.cache_read_tokens else ""
    return f"{usage.input_tokens:,} in{cached}, {usage.output_tokens:,} out"


def split(waits: Waits) -> str:
    """Where an agent's time went."""
    parts = (("model", waits.model), ("tools", waits.tool), ("you", waits.permission), ("locks", waits.lock))
    return ", ".join(f"{name} {seconds(value)}" for name, value in parts)


def seconds(milliseconds: float) -> str:
    if milliseconds < 1000:
        return f"{round(milliseconds)} ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1000:.1f} s"
    minutes, rest = divmod(round(milliseconds / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} m" if hours else f"{minutes} m {rest:02} s"


def elapsed(start: str, end: str | None) -> str:
    """Between two RFC 3339 times; empty where there is no end."""
    if end is None:
        return ""
    begun, ended = (datetime.datetime.fromisoformat(text) for text in (start, end))
    return seconds((ended - begun).total_seconds() * 1000)


def counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
