"""One word of a shell line: what it is after quote removal, or that only the run can tell. Pure."""

from __future__ import annotations

import re
from typing import Any

import attrs

HOLE = "\ue000"
"""Stands for a part that is only known when the line runs (a private-use character)."""
VARIABLE = re.compile("\ue001([A-Za-z_][A-Za-z0-9_]*)\ue002")
"""The same for the whole value of a variable, with its name."""

Node = Any
"""A tree-sitter node; the library is loaded at the first parse only, so its types are not named here."""

_DYNAMIC = frozenset(
    {
        "simple_expansion",
        "expansion",
        "command_substitution",
        "process_substitution",
        "arithmetic_expansion",
        "brace_expression",
        "translated_string",
        "array",
        "subscript",
    }
)
_ANSI = re.compile(
    r"\\(?:(?P<simple>[abeEfnrtv\\'\"?])|x(?P<hex>[0-9A-Fa-f]{1,2})|u(?P<u>[0-9A-Fa-f]{1,4})"
    r"|U(?P<U>[0-9A-Fa-f]{1,8})|c(?P<control>.)|(?P<octal>[0-7]{1,3}))",
    re.DOTALL,
)
_ANSI_SIMPLE = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
_UNQUOTED_ESCAPE = re.compile(r"\\(\n|.)", re.DOTALL)
_STRING_ESCAPE = re.compile(r"\\([$`\"\\\n])")
_PATTERN = re.compile(r"(?<!\\)(?:\\\\)*[*?\[]")
_PLAIN_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")
_BRACE = re.compile(r"(?<!\\)(?:\\\\)*[{]")


@attrs.frozen
class Word:
    """One word of a simple command."""

    source: str
    """As it stands in the line."""
    text: str | None
    """After quote removal; None where (a part of) the value is only known when the line runs."""
    pattern: bool = False
    """Whether unquoted `*`, `?` or `[` make it a file name pattern; `text` is then the pattern itself."""
    tilde: bool = False
    """Whether it begins with an unquoted `~`."""
    sketch: str = ""
    """The text with `HOLE` for each part that only the run can tell."""
    spelt: str = ""
    """The sketch with a `VARIABLE` instead of the hole where the part is the value of one."""

    @property
    def name(self) -> str | None:
        """The base name, as for a command; None where unknown."""
        return None if self.text is None or self.pattern else self.text.rpartition("/")[2]


UNKNOWN = Word(source="…", text=None, sketch=HOLE, spelt=HOLE)
"""A word nothing is known of."""


def plain(text: str) -> Word:
    """A literal word."""
    return Word(source=text, text=text, sketch=text, spelt=text)


def made_of(source: str, spelt: str, *, pattern: bool = False, tilde: bool = False) -> Word:
    """A word from its sketch, in which variables may be named."""
    sketch = VARIABLE.sub(HOLE, spelt)
    text = None if HOLE in sketch else sketch
    return Word(source=source, text=text, pattern=pattern, tilde=tilde, sketch=sketch, spelt=spelt)


def word_of(node: Node, source: bytes) -> Word:
    """Evaluate one literal node of the parse (word, string, concatenation, expansion …)."""
    text = slice_of(source, node.start_byte, node.end_byte)
    spelt, bare = _evaluate(node, source)
    brace = text != "{}" and bool(_BRACE.search(bare)) and ("," in text or ".." in text)
    return made_of(
        text,
        spelt.partition("{")[0] + HOLE if brace else spelt,
        pattern=bool(_PATTERN.search(bare)),
        tilde=text.startswith("~"),
    )


def assignment_of(node: Node, source: bytes) -> Word:
    """`NAME=value` of an assignment node, as one word."""
    text = slice_of(source, node.start_byte, node.end_byte)
    value = node.child_by_field_name("value")
    name = node.child_by_field_name("name")
    if name is None or name.type != "variable_name":
        return made_of(text, HOLE)
    if value is None:
        return made_of(text, text)
    head = slice_of(source, node.start_byte, value.start_byte)
    return made_of(text, head + _evaluate(value, source)[0])


def slice_of(source: bytes, start: int, end: int) -> str:
    """A part of the line as text."""
    return source[start:end].decode("utf-8", "replace")


def _evaluate(node: Node, source: bytes) -> tuple[str, str]:
    """The spelt sketch, and those parts of the source that stand outside quotes."""
    text = slice_of(source, node.start_byte, node.end_byte)
    kind = node.type
    if kind in _DYNAMIC:
        return _hole(text), ""
    if kind == "``":
        return "", ""
    if kind == "string":
        return _string(node, source), ""
    if kind == "raw_string":
        return text[1:-1], ""
    if kind == "ansi_c_string":
        return _ansi(text[2:-1]), ""
    if node.child_count:
        parts = [_evaluate(child, source) for child in node.children]
        return "".join(part[0] for part in parts), "".join(part[1] or "." for part in parts)
    return _UNQUOTED_ESCAPE.sub(lambda m: "" if m[1] == "\n" else m[1], text), text


def _hole(expansion: str) -> str:
    named = _PLAIN_VARIABLE.fullmatch(expansion)
    return HOLE if named is None else f"\ue001{named[1] or named[2]}\ue002"


def _string(node: Node, source: bytes) -> str:
    """A double-quoted string; the blanks between its pieces belong to it though no node covers them."""
    pieces: list[str] = []
    position = node.start_byte + 1
    for child in node.children:
        if child.type in _DYNAMIC:
            pieces.append(_STRING_ESCAPE.sub(_string_escape, slice_of(source, position, child.start_byte)))
            pieces.append(_hole(slice_of(source, child.start_byte, child.end_byte)))
            position = child.end_byte
    pieces.append(_STRING_ESCAPE.sub(_string_escape, slice_of(source, position, node.end_byte - 1)))
    return "".join(pieces)


def _string_escape(match: re.Match[str]) -> str:
    return "" if match[1] == "\n" else match[1]


def _ansi(text: str) -> str:
    """`$'…'` decoded; a NUL or a byte above ASCII (its meaning hangs on the locale) makes it unknown."""
    decoded = _ANSI.sub(_ansi_escape, text)
    return HOLE if HOLE in decoded or "\0" in decoded else decoded


def _ansi_escape(match: re.Match[str]) -> str:
    if simple := match["simple"]:
        return _ANSI_SIMPLE.get(simple, simple)
    if match["control"]:
        return chr(ord(match["control"]) & 0x1F) if match["control"].isascii() else HOLE
    if digits := match["u"] or match["U"]:
        value = int(digits, 16)
        return chr(value) if value < 0x110000 and not 0xD800 <= value < 0xE000 else HOLE
    value = int(match["hex"], 16) if match["hex"] else int(match["octal"], 8) & 0xFF
    return chr(value) if 0 < value < 0x80 else HOLE
