"""What a person is shown before answering: nothing invisible, no secret, and a cut that says so. Pure.

Masking here is narrower than for telemetry: it hides literal values only, never anything that a shell would
run, because the person decides on what stands here.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

import msgspec

MAX_PREVIEW_BYTES = 2048
MAX_DIFF_BYTES = 64 * 1024
MAX_COMMAND_BYTES = 32 * 1024
"""Of a command that does not fit into the preview, for surfaces that have room."""
MAX_LINE_BYTES = 400
"""For one-line facts: a reason, a path."""

MAX_VALUE_BYTES = MAX_PREVIEW_BYTES - 400
"""Of one argument: the short ones beside a long one stay readable."""

REDACTED = "[redacted]"

_WINDOW = 64 * 1024

_SAFE = r"[A-Za-z0-9_+/=.~-]"
_TOKENS = re.compile(
    r"\b(?:sk|pk|rk)-[A-Za-z0-9_-]{12,}"
    r"|\bgh[pousr]_[A-Za-z0-9]{16,}|\bgithub_pat_[A-Za-z0-9_]{20,}|\bglpat-[A-Za-z0-9_-]{16,}"
    r"|\bxox[abeoprs]-[A-Za-z0-9-]{10,}"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[A-Za-z0-9_-]{30,}"
    r"|\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*"
)
_NAMED = re.compile(
    r"(?i)((?<![a-z0-9])[a-z0-9_-]{0,40}(?:api[_-]?key|access[_-]?key|token|secret|passwd|password)[\"']?\s{0,3}[=:]\s{0,3}[\"']?"
    r"|\bauthorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:bearer|basic|token)\s+)"
    rf"({_SAFE}{{8,}})(?![A-Za-z0-9_+/=.~$(`\[-])"
)
_URL_PASSWORD = re.compile(rf"(://[A-Za-z0-9_.~-]{{1,64}}:){_SAFE}{{3,}}(?=@)")
_KEY_BLOCK = re.compile(r"(-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----)[A-Za-z0-9+/=\s]{16,}?(?=-----END)")
_BLANK_LINES = re.compile(r"\n(?:[ \t]*\n){4,}")
_BLANKS = re.compile(r"[ \t]{24,}")

# Characters with a general category of letters, marks or symbols that nevertheless draw nothing.
_DRAWS_NOTHING = frozenset({0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0})


class _Escapes(dict[int, str]):
    """Translation table, filled as characters are met."""

    def __missing__(self, code: int) -> str:
        shown = chr(code) if _is_plain(code) else _escape(code)
        self[code] = shown
        return shown


def _is_plain(code: int) -> bool:
    if code in (0x0A, 0x09, 0x20):
        return True
    if code in _DRAWS_NOTHING or 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF:
        return False
    return unicodedata.category(chr(code)) not in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"}


def _escape(code: int) -> str:
    short = {0x0D: "\\r", 0x08: "\\b", 0x0C: "\\f", 0x0B: "\\v"}.get(code)
    if short is not None:
        return short
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_ESCAPES = _Escapes()


def visible(text: str) -> str:
    """`text` with every character that a terminal would not draw, or would act on, as an escape.

    Newlines and tabs stay; carriage returns, other controls, directional and zero-width marks, odd blanks and
    undecodable bytes do not.
    """
    return text.translate(_ESCAPES)


def one_line(text: str) -> str:
    """A path or another short fact on one line, visible and cut."""
    return cut(visible(text).replace("\n", "\\n").replace("\t", "\\t"), MAX_LINE_BYTES)


def masked(text: str) -> str:
    """`text` with key-like literals replaced. What a shell would expand or run is never replaced."""
    text = _KEY_BLOCK.sub(rf"\1{REDACTED}", text)
    text = _TOKENS.sub(REDACTED, text)
    text = _NAMED.sub(lambda found: found[1] + REDACTED if _looks_secret(found[2]) else found[0], text)
    return _URL_PASSWORD.sub(rf"\1{REDACTED}", text)


def _looks_secret(value: str) -> bool:
    """A name such as `get_password` is code that the person must see; keys mix letters and digits."""
    return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)


def cut(text: str, limit: int, *, lines_gone: int = 0, chars_gone: int = 0) -> str:
    """At most `limit` bytes of UTF-8, from both ends; the mark between them says how much is hidden.

    `lines_gone`, `chars_gone`: what was taken out of the middle of `text` before.
    """
    data = text.encode("utf-8", "replace")
    if len(data) <= limit and not chars_gone:
        return text
    room = max(0, min(limit, len(data)) - 64)
    head = data[: room * 2 // 3].decode("utf-8", "ignore")
    tail = data[len(data) - room // 3 :].decode("utf-8", "ignore") if room else ""
    hidden = text[len(head) : len(text) - len(tail)]
    lines, chars = hidden.count("\n") + lines_gone, len(hidden) + chars_gone
    return f"{head}⟨{f'{lines} lines, ' if lines else ''}{chars} characters hidden⟩{tail}"


def shown(text: str, limit: int) -> str:
    """`text` visible, masked and cut. Of a huge text only the ends are looked at, and the rest counted."""
    if len(text) <= 4 * _WINDOW:
        return cut(masked(visible(text)), limit)
    middle = text[_WINDOW:-_WINDOW]
    ends = masked(visible(text[:_WINDOW])) + masked(visible(text[-_WINDOW:]))
    return cut(ends, min(limit, _WINDOW), lines_gone=middle.count("\n"), chars_gone=len(middle))


def shown_command(command: str, limit: int) -> str:
    """A command line: hidden characters visible, secrets masked, long runs of nothing counted."""
    text = _BLANK_LINES.sub(lambda found: f"\n⟨{found[0].count(chr(10)) - 1} empty lines⟩\n", command)
    text = _BLANKS.sub(lambda found: f" ⟨{len(found[0])} blanks⟩ ", text)
    return shown(text, limit)


def preview_of(arguments: msgspec.Struct) -> str:
    """What would run, at most `MAX_PREVIEW_BYTES`: the command alone, or one line per argument."""
    plain: dict[str, Any] = msgspec.to_builtins(arguments, enc_hook=str)
    command = plain.get("command")
    if isinstance(command, str):
        return shown_command(command, MAX_PREVIEW_BYTES)
    lines = [f"{name}: {_value(value)}" for name, value in plain.items() if value is not None]
    return cut("\n".join(lines), MAX_PREVIEW_BYTES)


def shown_diff(diff: str) -> str:
    """A unified diff for a request: visible, masked, cut."""
    return shown(diff, MAX_DIFF_BYTES)


def _value(value: Any) -> str:
    match value:
        case str():
            return shown(value, MAX_VALUE_BYTES)
        case [dict(), *_]:
            return cut("".join(f"\n  {_json(item)}" for item in value), MAX_VALUE_BYTES)
        case _:
            return cut(_json(value), MAX_VALUE_BYTES)


def _json(value: Any) -> str:
    return shown(msgspec.json.encode(_encodable(value), enc_hook=str).decode("utf-8"), MAX_VALUE_BYTES)


def _encodable(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode("utf-8")
        case dict():
            return {str(key): _encodable(item) for key, item in value.items()}
        case list() | tuple():
            return [_encodable(item) for item in value]
        case _:
            return value
