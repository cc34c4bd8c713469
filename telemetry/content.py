"""Prompts, arguments and results as span attributes: off by default, redacted and cut when on. Pure."""

from __future__ import annotations

import re
from typing import Any

import msgspec

MAX_STRING_CHARS = 1024
MAX_JSON_CHARS = 4000
MAX_ITEMS = 50

_SECRET = re.compile(
    r"(?i)(sk-[a-z0-9_-]{8,}|gh[pousr]_[a-z0-9]{16,}|xox[a-z]-[a-z0-9-]{8,}|AKIA[0-9A-Z]{12,}"
    r"|eyJ[a-z0-9_-]{10,}\.[a-z0-9_-]+\.[a-z0-9_-]+)"
)
_ASSIGNED = re.compile(
    r"(?i)\b([a-z0-9_-]*(?:api[_-]?key|token|secret|passwd|password|authorization)[a-z0-9_-]*\s*[=:]\s*)"
    r"(?:bearer\s+)?([^\s'\",;&]{4,})"
)
REDACTED = "[redacted]"


def redact(text: str) -> str:
    """`text` with key-like values masked."""
    return _ASSIGNED.sub(rf"\1{REDACTED}", _SECRET.sub(REDACTED, text))


def captured(value: Any, capture: bool) -> str | None:
    """`value` as valid JSON, secrets masked and long parts cut; None when capture is off or it is None."""
    if not capture or value is None:
        return None
    plain = _cut(msgspec.to_builtins(value, enc_hook=str))
    encoded = msgspec.json.encode(plain).decode("utf-8")
    if len(encoded) <= MAX_JSON_CHARS:
        return encoded
    return msgspec.json.encode({"cut": True, "characters": len(encoded), "start": encoded[:1000]}).decode(
        "utf-8"
    )


def _cut(value: Any) -> Any:
    match value:
        case str():
            safe = redact(value.encode("utf-8", "replace").decode("utf-8"))
            return (
                safe
                if len(safe) <= MAX_STRING_CHARS
                else f"{safe[:MAX_STRING_CHARS]}… [{len(safe)} characters]"
            )
        case dict():
            return {str(key): _cut(item) for key, item in list(value.items())[:MAX_ITEMS]}
        case list() | tuple():
            return [_cut(item) for item in value[:MAX_ITEMS]]
        case _:
            return value
