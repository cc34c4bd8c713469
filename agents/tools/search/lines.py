"""Finding lines in a file's bytes. Pure.

Lines are numbered as Read numbers them: they end at `\\n` or `\\r\\n` and nowhere else.
"""

from __future__ import annotations

import codecs
import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from agents.rules.text import MAX_LINE_CHARS, REPLACEMENT, marked
from agents.tools.search.patterns import BLOCK_BYTES, Pattern

LINES_AT_ONCE = 256
"""How many lines are found before they are handed on."""

_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_BEFORE_HIT = MAX_LINE_CHARS // 4
CUT = "…"


Buffer = bytes | bytearray


@attrs.define
class Text:
    """A text file that is searched: `buffer[start:end]`, UTF-8 without a mark, its lines ending in `\\n`."""

    path: str
    """Below the root of the search; empty where the root is the file."""
    buffer: Buffer
    start: int
    end: int
    original: bytes | None = None
    """The file's content, where it is not just that."""
    mtime_ns: int = 0
    matches: bool = False
    """Whether it is known already that a line matches."""

    @classmethod
    def of(cls, path: str, data: bytes, mtime_ns: int = 0) -> Text:
        """From the content of a file."""
        text = searchable(data)
        return cls(path, text, 0, len(text), data, mtime_ns)

    def data(self) -> bytes:
        """The file's content."""
        return bytes(self.buffer[self.start : self.end]) if self.original is None else self.original

    def head(self, size: int) -> bytes:
        """The first bytes of its content."""
        if self.original is not None:
            return self.original[:size]
        return bytes(self.buffer[self.start : min(self.end, self.start + size)])


@attrs.define
class Lines:
    """Some matching lines."""

    numbers: list[int]
    """1-based."""
    texts: list[str]
    """At most `MAX_LINE_CHARS` characters around the first match, with `…` where something is cut off."""
    clipped: list[int]
    """The numbers of those that are cut."""


def searchable(data: bytes) -> bytes:
    """The bytes that are searched: UTF-8 without a mark, lines ending in `\\n`. What is no UTF-8 is searched as Read
    shows it, with replacement marks: an expression would not get across other bytes.
    """
    if data.startswith(_UTF_16):
        with contextlib.suppress(UnicodeDecodeError):
            data = data.decode("utf-16").encode("utf-8", "replace")
    elif data.startswith(codecs.BOM_UTF8):
        data = data[len(codecs.BOM_UTF8) :]
    if not is_utf8(data):
        data = marked(data.decode("utf-8", "surrogateescape")).encode()
    # Looking for one byte first is several times faster than looking for two.
    return data.replace(b"\r\n", b"\n") if b"\r" in data and b"\r\n" in data else data


def is_utf8(data: Buffer) -> bool:
    """Whether all of it is."""
    if data.isascii():
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def rules_out(pattern: Pattern, data: bytes) -> bool:
    """Whether no line of a file can match, told from its bytes as they are."""
    needle = pattern.required if pattern.literal is None else None if pattern.ignore_case else pattern.literal
    if needle is None or needle in data or data.startswith(_UTF_16):
        return False
    return REPLACEMENT.encode() not in needle


def matching_lines(pattern: Pattern, text: Text, check: Callable[[], None]) -> Iterator[Lines]:
    """The matching lines in order, some at a time. `check` is called in between and may raise."""
    number, counted = 1, text.start
    count, find_start = text.buffer.count, text.buffer.rfind
    for hits, ends in _spans(pattern, text, check):
        starts = []
        numbers = []
        for hit in hits:
            start = find_start(b"\n", counted, hit) + 1 or counted
            number += count(b"\n", counted, start)
            counted = start
            starts.append(start)
            numbers.append(number)
        yield _lines(text.buffer, numbers, starts, ends, hits)


def has_match(pattern: Pattern, text: Text, check: Callable[[], None]) -> bool:
    """Whether any line matches."""
    return next(_spans(pattern, text, check, at_once=1), None) is not None


def count_matches(pattern: Pattern, text: Text, check: Callable[[], None]) -> int:
    """How many lines match."""
    return sum(len(hits) for hits, _ in _spans(pattern, text, check))


def _spans(
    pattern: Pattern, text: Text, check: Callable[[], None], at_once: int = LINES_AT_ONCE
) -> Iterator[tuple[list[int], list[int]]]:
    """Where matching lines have their first match, and where they end; never none of them."""
    find = _finder(pattern, text)
    block, last = text.start, text.end
    find_end = text.buffer.find
    block_bytes = min(BLOCK_BYTES, pattern.block_bytes)
    while block < last:
        cut = find_end(b"\n", block + block_bytes, last)
        end_of_block = last if cut < 0 else cut + 1
        at = block
        while at < end_of_block:
            check()
            hits: list[int] = []
            ends: list[int] = []
            while at < end_of_block and len(hits) < at_once:
                hit = find(at, end_of_block)
                # An empty match behind the last line break belongs to no line.
                if hit < 0 or (hit == end_of_block and text.buffer.endswith(b"\n", 0, end_of_block)):
                    at = end_of_block
                    break
                end = find_end(b"\n", hit, last)
                end = last if end < 0 else end
                hits.append(hit)
                ends.append(end)
                at = end + 1
            if hits:
                yield hits, ends
        block = end_of_block
        check()  # a long line may have taken all the time


def _lines(buffer: Buffer, numbers: list[int], starts: list[int], ends: list[int], hits: list[int]) -> Lines:
    spans = zip(starts, ends, strict=True)
    # Decoded in one call: one for each line would take longer than finding them.
    lines = [buffer[start:end] if end - start <= MAX_LINE_CHARS else b"" for start, end in spans]
    texts = b"\n".join(lines).decode("utf-8", "replace").split("\n")
    clipped = []
    for at, line in enumerate(lines):
        if not line and ends[at] > starts[at]:
            start = starts[at]
            texts[at], cut = _shown(bytes(buffer[start : ends[at]]), hits[at] - start)
            if cut:
                clipped.append(numbers[at])
    return Lines(numbers, texts, clipped)


def _finder(pattern: Pattern, text: Text) -> Callable[[int, int], int]:
    """A function from a start and an end to the place of the next match, or -1."""
    literal, buffer = pattern.literal, text.buffer
    if literal is not None and not pattern.ignore_case:
        return functools.partial(buffer.find, literal)
    if literal is not None and buffer.isascii():
        return functools.partial(buffer.lower().find, literal)
    if len(pattern.regexes) == 1:
        return functools.partial(_place, pattern.regexes[0], buffer)
    return _Earliest(pattern.regexes, buffer).find


def _place(regex: Any, buffer: Buffer, start: int, end: int) -> int:
    found = regex.search(buffer, start, end)
    return -1 if found is None else int(found.start())


class _Earliest:
    """The first match of several expressions; each goes on from its own last one. `start` only ever grows."""

    def __init__(self, regexes: tuple[Any, ...], buffer: Buffer) -> None:
        self._regexes = regexes
        self._buffer = buffer
        self._next = [0] * len(regexes)
        """Where each matches next at the earliest."""
        self._sure: list[bool] = [False] * len(regexes)
        """Whether it does match there."""

    def find(self, start: int, end: int) -> int:
        for at, regex in enumerate(self._regexes):
            if self._next[at] < start or (self._next[at] < end and not self._sure[at]):
                place = _place(regex, self._buffer, max(start, self._next[at]), end)
                self._sure[at] = place >= 0
                self._next[at] = place if place >= 0 else end
        sure = [self._next[at] for at, known in enumerate(self._sure) if known and self._next[at] < end]
        return min(sure, default=-1)


def _shown(line: bytes, hit: int) -> tuple[str, bool]:
    """The part of a long line around its match, and whether anything is cut off."""
    text = line.decode("utf-8", "replace")
    if len(text) <= MAX_LINE_CHARS:
        return text, False
    at = len(line[:hit].decode("utf-8", "replace"))
    start = max(0, min(at - _BEFORE_HIT, len(text) - MAX_LINE_CHARS))
    end = start + MAX_LINE_CHARS
    # The marks take the place of characters, so that the line stays within its limit.
    shown = text[start + (start > 0) : end - (end < len(text))]
    return (CUT if start else "") + shown + (CUT if end < len(text) else ""), True
