"""Prompts, arguments and results as span attributes: off by default, redacted and cut when on. Pure."""

from __future__ import annotations

import re
from typing import Any

import msgspec

MAX_STRING_CHARS = 1024
MAX_JSON_CHARS = 4000
MAX_ITEMS = 50
MAX_DEPTH = 8
READ_CHARS = 8 * MAX_STRING_CHARS
"""How much of a text is looked at: masking shortens it, and what lies behind is cut anyway."""

_SECRET = re.compile(
    r"(?i)(sk-[a-z0-9_-]{8,}|gh[pousr]_[a-z0-9]{16,}|xox[a-z]-[a-z0-9-]{8,}|AKIA[0-9A-Z]{12,}"
    r"|eyJ[a-z0-9_-]{10,}\.[a-z0-9_-]+\.[a-z0-9_-]+"
    r"|-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^-]*(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?)"
)
_NAME = r"[a-z0-9_-]{0,64}(?:api[_-]?key|token|secret|passwd|password|authorization)[a-z0-9_-]{0,64}"
_ASSIGNED = re.compile(rf"(?i)\b({_NAME}\s{{0,8}}[=:]\s{{0,8}})(?:bearer\s+)?([^\s'\",;&]{{4,}})")
_NAMED = re.compile(rf"(?i){_NAME}")
REDACTED = "[redacted]"


def redact(text: str) -> str:
    """`text` with key-like values masked."""
    return _ASSIGNED.sub(rf"\1{REDACTED}", _SECRET.sub(REDACTED, text))


def captured(value: Any, capture: bool) -> str | None:
    """`value` as valid JSON, secrets masked and long parts cut; None when capture is off or it is None.

    Never raises: content that cannot be written is told by its type.
    """
    if not capture or value is None:
        return None
    try:
        return _encoded(value)
    except Exception:  # whatever a program's own value does: telemetry must not change a call's result
        return msgspec.json.encode({"unreadable": type(value).__name__}).decode("utf-8")


def _encoded(value: Any) -> str:
    plain = _cut(msgspec.to_builtins(value, enc_hook=str), MAX_DEPTH)
    encoded = msgspec.json.encode(plain).decode("utf-8")
    if len(encoded) <= MAX_JSON_CHARS:
        return encoded
    shortened = {"cut": True, "characters": len(encoded), "start": encoded[:1000]}
    return msgspec.json.encode(shortened).decode("utf-8")


def _cut(value: Any, depth: int) -> Any:
    if depth == 0 and isinstance(value, dict | list | tuple):
        return "…"
    match value:
        case str():
            return _cut_text(value)
        case dict():
            return {
                _cut_text(str(key)): _cut_named(str(key), item, depth - 1)
                for key, item in list(value.items())[:MAX_ITEMS]
            }
        case list() | tuple():
            return [_cut(item, depth - 1) for item in value[:MAX_ITEMS]]
        case _:
            return value


def _cut_named(name: str, value: Any, depth: int) -> Any:
    """A text under a name that says what it is needs no further sign of a secret."""
    return REDACTED if isinstance(value, str) and _NAMED.fullmatch(name) else _cut(value, depth)


def _cut_text(text: str) -> str:
    safe = redact(text[:READ_CHARS].encode("utf-8", "replace").decode("utf-8"))
    if len(text) <= READ_CHARS and len(safe) <= MAX_STRING_CHARS:
        return safe
    return f"{safe[:MAX_STRING_CHARS]}… [{len(text)} characters]"
