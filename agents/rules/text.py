"""Bytes to lines and back: the one splitter of Read, Grep and Edit. Pure.

A line ends at `\\n` or `\\r\\n` and nowhere else: form feeds, `U+2028`, `U+0085` and a lone `\\r`
are content.
Whatever the bytes are, `decode(data).encode() == data`.
"""

from __future__ import annotations

import codecs
import functools
import re
from typing import Literal

import attrs

Encoding = Literal["utf-8", "utf-16-le", "utf-16-be", "unknown-8bit"]
Newline = Literal["\n", "\r\n", "mixed", "none"]

REPLACEMENT = "\ufffd"

_MARKS: dict[Encoding, bytes] = {
    "utf-8": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
}
_ESCAPED = re.compile("[\udc80-\udcff]")


MAX_LINE_CHARS = 2000
"""Of one line that is shown; a longer one is cut, and does not count as seen."""


def marked(text: str) -> str:
    """What was decoded with `surrogateescape` as it is shown: each byte that is no UTF-8 as one mark."""
    return _ESCAPED.sub(REPLACEMENT, text)


@attrs.frozen
class TextFile:
    """A text file as lines, with everything that is needed to write it back unchanged."""

    lines: tuple[str, ...]
    """Without their endings. Bytes that are not UTF-8 are lone surrogates in them: show `shown_lines`."""
    endings: tuple[str, ...]
    """One per line: `\\n`, `\\r\\n`, or empty for a last line without a newline."""
    encoding: Encoding
    bom: bool
    """Whether the bytes start with a byte order mark (never part of `lines`)."""

    @property
    def newline(self) -> Newline:
        """The one ending all lines share, `mixed`, or `none` where no line has an ending."""
        kinds = set(self.endings) - {""}
        if not kinds:
            return "none"
        if len(kinds) > 1:
            return "mixed"
        return "\r\n" if "\r\n" in kinds else "\n"

    @property
    def final_newline(self) -> bool:
        """Whether the last line has an ending; False for an empty file."""
        return bool(self.endings) and self.endings[-1] != ""

    @functools.cached_property
    def shown_lines(self) -> tuple[str, ...]:
        """The lines as they may be shown: each undecodable byte as one replacement mark."""
        if self.encoding != "unknown-8bit":
            return self.lines
        return tuple(map(marked, self.lines))

    def encode(self) -> bytes:
        """The bytes of the file. Raises `UnicodeEncodeError` for text the encoding cannot hold."""
        text = "".join([part for pair in zip(self.lines, self.endings, strict=True) for part in pair])
        return (_MARKS[self.encoding] if self.bom else b"") + encode_text(text, self.encoding)

    def refusal(self, text: str) -> str | None:
        """Why `text` cannot be put into this file, in words; None where it can."""
        return refusal(text, self.encoding)


def decode(data: bytes) -> TextFile:
    """Decode any bytes: UTF-8 (with or without a mark), UTF-16 by its mark, else `unknown-8bit`."""
    encoding, bom, text = _decode_text(data)
    lines, endings = split_lines(text)
    return TextFile(lines=lines, endings=endings, encoding=encoding, bom=bom)


def split_lines(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Lines and their endings; text that ends in a newline has no empty line after it."""
    pieces = text.split("\n")
    rest = pieces.pop()
    if "\r\n" in text:
        endings = ["\r\n" if piece.endswith("\r") else "\n" for piece in pieces]
        pieces = [piece[:-1] if piece.endswith("\r") else piece for piece in pieces]
    else:
        endings = ["\n"] * len(pieces)
    if rest:
        pieces.append(rest)
        endings.append("")
    return tuple(pieces), tuple(endings)


def encode_text(text: str, encoding: Encoding) -> bytes:
    """Encode without a mark. Raises `UnicodeEncodeError`."""
    if encoding == "unknown-8bit":
        return text.encode("utf-8", "surrogateescape")
    return text.encode(encoding)


def refusal(text: str, encoding: Encoding) -> str | None:
    """Why `text` cannot be written in `encoding`, naming the first character; None where it can."""
    try:
        text.encode("ascii" if encoding == "unknown-8bit" else encoding)
    except UnicodeEncodeError as error:
        where = f"character U+{ord(text[error.start]):04X} at offset {error.start} of the new text"
        if encoding == "unknown-8bit":
            return (
                f"the file is neither UTF-8 nor UTF-16, so only ASCII text may be put in, but {where} is not"
            )
        return f"{where} cannot be written as {encoding}"
    return None


def _decode_text(data: bytes) -> tuple[Encoding, bool, str]:
    for encoding, mark in _MARKS.items():
        if data.startswith(mark):
            try:
                return encoding, True, data[len(mark) :].decode(encoding)
            except UnicodeDecodeError:
                break
    try:
        return "utf-8", False, data.decode("utf-8")
    except UnicodeDecodeError:
        return "unknown-8bit", False, data.decode("utf-8", "surrogateescape")
