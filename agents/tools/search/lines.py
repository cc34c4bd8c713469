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

from agents.tools.search.patterns import Pattern

MAX_LINE_CHARS = 2000
BLOCK_BYTES = 1 << 20
"""How much is searched between two looks at the clock."""

_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_BEFORE_HIT = MAX_LINE_CHARS // 4
CUT = "…"


@attrs.define  # not frozen, which costs three times as much: one is made for every hit
class Line:
    """One matching line, 1-based."""

    number: int
    text: str
    """At most `MAX_LINE_CHARS` characters around the first match, with `…` where something is cut off."""
    clipped: bool


def searchable(data: bytes) -> bytes:
    """The bytes that are searched: UTF-8 without a mark, lines ending in `\\n`."""
    if data.startswith(_UTF_16):
        with contextlib.suppress(UnicodeDecodeError):
            data = data.decode("utf-16").encode("utf-8", "replace")
    elif data.startswith(codecs.BOM_UTF8):
        data = data[len(codecs.BOM_UTF8) :]
    # Looking for one byte first is several times faster than looking for two.
    return data.replace(b"\r\n", b"\n") if b"\r" in data and b"\r\n" in data else data


def rules_out(pattern: Pattern, data: bytes) -> bool:
    """Whether no line of a file can match, told from its bytes as they are."""
    needle = pattern.required if pattern.literal is None else None if pattern.ignore_case else pattern.literal
    return needle is not None and needle not in data and not data.startswith(_UTF_16)


def matching_lines(pattern: Pattern, text: bytes, check: Callable[[], None]) -> Iterator[Line]:
    """The matching lines of `searchable` bytes, in order. `check` is called between blocks and may raise."""
    number, counted = 1, 0
    count = text.count
    for start, end, hit in _spans(pattern, text, check):
        number += count(b"\n", counted, start)
        counted = start
        if end - start <= MAX_LINE_CHARS:
            yield Line(number, text[start:end].decode("utf-8", "replace"), False)
        else:
            yield _shown(number, text[start:end], hit - start)


def has_match(pattern: Pattern, text: bytes, check: Callable[[], None]) -> bool:
    """Whether any line matches."""
    return next(_spans(pattern, text, check), None) is not None


def count_matches(pattern: Pattern, text: bytes, check: Callable[[], None]) -> int:
    """How many lines match."""
    return sum(1 for _ in _spans(pattern, text, check))


def _spans(pattern: Pattern, text: bytes, check: Callable[[], None]) -> Iterator[tuple[int, int, int]]:
    """Start and end of each matching line, and where in the text its first match lies."""
    find = _finder(pattern, text)
    if find is None:
        return
    block, size = 0, len(text)
    find_end, find_start = text.find, text.rfind
    while block < size:
        check()
        cut = find_end(b"\n", block + BLOCK_BYTES)
        end_of_block = size if cut < 0 else cut + 1
        at = block
        while at < end_of_block:
            hit = find(at, end_of_block)
            # An empty match behind the last line break belongs to no line.
            if hit < 0 or (hit == end_of_block and text.endswith(b"\n", 0, end_of_block)):
                break
            start = find_start(b"\n", at, hit) + 1 or at
            end = find_end(b"\n", hit)
            end = size if end < 0 else end
            yield start, end, hit
            at = end + 1
        block = end_of_block


def _finder(pattern: Pattern, text: bytes) -> Callable[[int, int], int] | None:
    """A function from a start and an end to the place of the next match, or -1; None: there is none."""
    literal = pattern.literal
    if literal is not None and (not pattern.ignore_case or text.isascii()):
        haystack = text.lower() if pattern.ignore_case else text
        if literal not in haystack:
            return None
        return functools.partial(haystack.find, literal)
    if len(pattern.regexes) == 1:
        return functools.partial(_place, pattern.regexes[0], text)
    return _Earliest(pattern.regexes, text).find


def _place(regex: Any, text: bytes, start: int, end: int) -> int:
    found = regex.search(text, start, end)
    return -1 if found is None else int(found.start())


class _Earliest:
    """The first match of several expressions; each goes on from its own last one. `start` only ever grows."""

    def __init__(self, regexes: tuple[Any, ...], text: bytes) -> None:
        self._regexes = regexes
        self._text = text
        self._next = [0] * len(regexes)
        """Where each matches next at the earliest."""
        self._sure: list[bool] = [False] * len(regexes)
        """Whether it does match there."""

    def find(self, start: int, end: int) -> int:
        for at, regex in enumerate(self._regexes):
            if self._next[at] < start or (self._next[at] < end and not self._sure[at]):
                place = _place(regex, self._text, max(start, self._next[at]), end)
                self._sure[at] = place >= 0
                self._next[at] = place if place >= 0 else end
        sure = [self._next[at] for at, known in enumerate(self._sure) if known and self._next[at] < end]
        return min(sure, default=-1)


def _shown(number: int, line: bytes, hit: int) -> Line:
    text = line.decode("utf-8", "replace")
    if len(text) <= MAX_LINE_CHARS:
        return Line(number, text, False)
    at = len(line[:hit].decode("utf-8", "replace"))
    start = max(0, min(at - _BEFORE_HIT, len(text) - MAX_LINE_CHARS))
    end = start + MAX_LINE_CHARS
    # The marks take the place of characters, so that the line stays within its limit.
    shown = text[start + (start > 0) : end - (end < len(text))]
    return Line(number, (CUT if start else "") + shown + (CUT if end < len(text) else ""), clipped=True)
