"""The rows of a Grep: what one file adds, and what still fits into the answer."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import msgspec

from agents.rules.binary import HEAD_BYTES, is_unprintable
from agents.rules.edits import digest_of
from agents.rules.paths import ResolvedPath
from agents.snapshots import MAX_KEPT_BYTES
from agents.tools.search.files import shown_below
from agents.tools.search.lines import Lines, Text, count_matches, has_match, matching_lines
from agents.tools.search.patterns import Pattern
from agents.tools.search.query import Mode
from agents.tools.search.worker import OutOfTime

ROW_BYTES = 40
"""What a row costs in a result beside its path and text."""


class NotText(Exception):
    """The file is binary after all."""


@attrs.define
class FileHits:
    """The hits of one file."""

    path: str
    """As results show it."""
    count: int = 0
    """Matching lines; 1 for any number of them where only files are asked for."""
    numbers: list[int] = attrs.field(factory=list)
    """Of the matching lines; they and the texts as `Lines` has them."""
    texts: list[str] = attrs.field(factory=list)
    clipped: list[int] = attrs.field(factory=list)
    """The numbers of those that are cut."""
    digest: str = ""
    """SHA-256 hex of the file that has these lines."""
    data: bytes | None = attrs.field(default=None, repr=False)
    """Its content, until it is recorded; None where it is too large to keep."""
    tag: str = ""
    mtime_ns: int = 0
    partial: bool = False
    """Whether the time was over within this file."""

    def add(self, lines: Lines, taken: int) -> None:
        """Add the first lines of some."""
        self.count += taken
        self.numbers += lines.numbers[:taken]
        self.texts += lines.texts[:taken]
        self.clipped += [number for number in lines.clipped if taken and number <= self.numbers[-1]]

    def cut(self, taken: int) -> None:
        """Keep only the first lines."""
        self.count = taken
        self.numbers = self.numbers[:taken]
        self.texts = self.texts[:taken]
        self.clipped = [number for number in self.clipped if taken and number <= self.numbers[-1]]

    def seen(self) -> list[int]:
        """The numbers of the lines that are shown whole."""
        cut = set(self.clipped)
        return [number for number in self.numbers if number not in cut] if cut else self.numbers


Hit = tuple[str, int, int, FileHits | None]
"""Path below the root, modification time in ns, matching lines, and where they were asked for the lines. A tuple:
many thousands may go from one process to another.
"""


@attrs.define
class Room:
    """What still fits into the result."""

    rows: int
    bytes: int
    full: bool = False

    def take(self, size: int) -> bool:
        """Whether one more row fits; the first that does not makes the result full."""
        if self.full or self.rows < 1 or self.bytes < size:
            self.full = True
            return False
        self.rows -= 1
        self.bytes -= size
        return True

    def take_tag(self, path: str) -> None:
        """The tag of a file with lines."""
        self.bytes -= size_of(path) + ROW_BYTES

    def take_lines(self, path: str, texts: list[str]) -> int:
        """How many lines of a file fit."""
        # Quotes and control characters grow when a row is written as JSON.
        encode = msgspec.json.encode
        each = size_of(path) + ROW_BYTES
        size = len(texts) * each + len(encode(texts))
        if len(texts) <= self.rows and size <= self.bytes:
            self.rows -= len(texts)
            self.bytes -= size
            return len(texts)
        for taken, text in enumerate(texts):
            if not self.take(each + len(encode(text))):
                return taken
        return len(texts)


def size_of(path: str) -> int:
    """Of a path in a result, in bytes."""
    return len(path.encode("utf-8", "replace"))


def look(
    root: ResolvedPath, text: Text, pattern: Pattern, mode: Mode, room: Room, check: Callable[[], None]
) -> Hit | None:
    """What of one file belongs into the answer. Raises `NotText`, and what `check` raises."""
    if mode == "content":
        lines = _lines_of(root, text, pattern, room, check)
        return None if lines is None else (text.path, text.mtime_ns, lines.count, lines)
    count = _count_in(text, pattern, mode, check)
    return (text.path, text.mtime_ns, count, None) if count else None


def _count_in(text: Text, pattern: Pattern, mode: Mode, check: Callable[[], None]) -> int:
    """How many lines match; 1 for any number of them where only files are asked for."""
    if mode == "count":
        count = count_matches(pattern, text, check)
    else:
        count = int(text.matches or has_match(pattern, text, check))
    if count:
        _check_text(text)
    return count


def _lines_of(
    root: ResolvedPath, text: Text, pattern: Pattern, room: Room, check: Callable[[], None]
) -> FileHits | None:
    """The matching lines, as far as there is room. Does not raise for the end of the time after a first line."""
    hits: FileHits | None = None
    try:
        for lines in matching_lines(pattern, text, check):
            if hits is None:
                _check_text(text)
                hits = FileHits(shown_below(root, text.path), mtime_ns=text.mtime_ns)
                room.take_tag(hits.path)
            hits.add(lines, room.take_lines(hits.path, lines.texts))
            if room.full:
                break
    except OutOfTime:
        if hits is None:
            raise
        hits.partial = True
    if hits is None or not hits.count:
        return None
    data = text.data()
    hits.digest = digest_of(data)
    hits.data = data if len(data) <= MAX_KEPT_BYTES else None
    return hits


def _check_text(text: Text) -> None:
    """Raises `NotText` for content that only a closer look tells from text, which is taken at a hit."""
    if is_unprintable(text.head(HEAD_BYTES)):
        raise NotText
