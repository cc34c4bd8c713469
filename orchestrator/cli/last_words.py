"""What a command that failed said last: the line that tells most, and the end of its output. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agents.errors import ErrorCode
from agents.events import ToolFinished

MAX_CHARS = 160
_TELLING = (
    re.compile(r"^\s*(?:E\s+)?[\w.]*(?:Error|Exception|Interrupt)\b.*"),
    re.compile(r"^\s*(?:error|fatal|panic|FAILED)\b.*|.*\berror:.*", re.IGNORECASE),
)
"""How the line begins with which a program says why: exceptions first, then compilers, git, test runners."""


def last_words(finished: ToolFinished) -> str | None:
    """Of a command that ended by itself, and badly: its status and its telling line; None for anything else."""
    result = finished.result
    if finished.error is None or finished.error.code is not ErrorCode.TOOL_FAILED:
        return None
    if not isinstance(result, Mapping) or not isinstance(result.get("exitCode"), int):
        return None
    line = _telling_line(result)
    return f"exit {result['exitCode']}" + (f" · {line}" if line else "")


def output_end(finished: ToolFinished, limit: int | None) -> list[str]:
    """The last `limit` lines (None: all) that a failed command wrote, with a mark for those before."""
    result = finished.result
    if finished.error is None or not isinstance(result, Mapping):
        return []
    lines = [line for name in ("stdout", "stderr") for line in str(result.get(name) or "").splitlines()]
    hidden = 0 if limit is None else len(lines) - limit
    if hidden <= 0:
        return lines
    return [f"⟨{hidden} lines before; --full shows them⟩", *lines[hidden:]]


def _telling_line(result: Mapping[str, Any]) -> str:
    streams = [str(result.get(name) or "").splitlines() for name in ("stderr", "stdout")]
    for telling in _TELLING:
        for lines in streams:
            for line in reversed(lines):
                if telling.match(line):
                    return _short(line)
    said = (line for lines in streams for line in reversed(lines) if any(char.isalnum() for char in line))
    return _short(next(said, ""))


def _short(line: str) -> str:
    text = " ".join(line.split())
    return text if len(text) <= MAX_CHARS else f"{text[: MAX_CHARS - 1]}…"
