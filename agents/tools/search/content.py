"""The search of Grep: matching lines, files with matches, or counts, over one file or a tree."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator
from typing import Literal

import attrs
import msgspec

from agents.rules.binary import HEAD_BYTES, has_binary_name, is_unprintable
from agents.rules.hidden import Hidden
from agents.rules.paths import PathKind, ResolvedPath
from agents.tools.search.files import shown_below, why_stopped
from agents.tools.search.lines import Lines, Text, count_matches, has_match, matching_lines, rules_out
from agents.tools.search.patterns import Pattern
from agents.tools.search.reading import read_text, read_texts
from agents.tools.search.sieve import Sieve
from agents.tools.search.walk import Tally, TooManyEntries, Walk
from agents.tools.search.worker import Clock, OutOfTime
from agents.workspace import Workspace

MAX_NAMED_BYTES = 64 << 20
"""A larger file that was named as the path is passed over."""
_ROW_BYTES = 40
"""What a row costs in a result beside its path and text."""

Mode = Literal["content", "filesWithMatches", "count"]
Recorder = Callable[[str, bytes, list[int]], str]
"""`record(canonical, data, lines shown in full)`: notes what the agent sees, and gives the tag."""


@attrs.frozen
class Query:
    """What is searched for, and how much of it is wanted."""

    pattern: Pattern
    mode: Mode
    limit: int
    max_bytes: int
    """Of all rows together."""
    include: Callable[[str], bool] | None = None
    hidden: Hidden | None = None
    """What deny rules hide from a walk."""


@attrs.define
class FileHits:
    """The hits of one file."""

    path: str
    """As results show it."""
    count: int = 0
    numbers: list[int] = attrs.field(factory=list)
    """Of the matching lines; they and the texts as `Lines` has them."""
    texts: list[str] = attrs.field(factory=list)
    clipped: list[int] = attrs.field(factory=list)
    """The numbers of those that are cut."""
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

    def seen(self) -> list[int]:
        """The numbers of the lines that are shown whole."""
        cut = set(self.clipped)
        return [number for number in self.numbers if number not in cut] if cut else self.numbers


@attrs.define
class Found:
    """What a Grep found, up to its limits."""

    hits: list[FileHits] = attrs.field(factory=list)
    total: int = 0
    """Files with matches, before the cut of `filesWithMatches`."""
    searched: int = 0
    tally: Tally = attrs.field(factory=Tally)
    excluded: bool = False
    """Whether the one named file was left out by `include`."""
    full: bool = False
    """Whether a limit was reached and there is more."""
    stopped: str | None = None
    """Why the search ended early otherwise, in words."""
    timed_out: bool = False


class _NotText(Exception):
    """The file is binary after all."""


def grep(workspace: Workspace, root: ResolvedPath, query: Query, *, clock: Clock, record: Recorder) -> Found:
    """Search one file or a tree. Raises `Failure` where `root` cannot be opened. Blocking."""
    found = Found()
    room = _Room(query.limit, query.max_bytes)
    try:
        with contextlib.closing(_candidates(workspace, root, query, found, clock)) as texts:
            for text in texts:
                try:
                    hits = _hits(root, text, query, room, clock, record)
                except _NotText:
                    found.searched -= 1
                    found.tally.binary += 1
                    continue
                if hits is not None:
                    found.hits.append(hits)
                    if hits.partial:
                        raise OutOfTime
                if room.full:
                    found.full = True
                    break
    except (OutOfTime, TooManyEntries) as early:
        found.stopped = why_stopped(early)
        found.timed_out = isinstance(early, OutOfTime)
    found.total = len(found.hits)
    if query.mode == "filesWithMatches":
        _cut_newest(found, query)
    return found


def _candidates(
    workspace: Workspace, root: ResolvedPath, query: Query, found: Found, clock: Clock
) -> Generator[Text, None, None]:
    """The files in which something may match; the others are only counted."""
    if root.kind is not PathKind.DIRECTORY:
        text = _named(workspace, root, query, found)
        if text is not None:
            yield text
        return
    walk = Walk(workspace, root, clock, found.tally, wants=query.include, hidden=query.hidden)
    with contextlib.closing(read_texts(walk, Sieve(query.pattern))) as texts:
        for passed, text in texts:
            found.searched += passed
            if text is not None:
                found.searched += 1
                yield text


def _named(workspace: Workspace, root: ResolvedPath, query: Query, found: Found) -> Text | None:
    """The file that was named as the path, if something in it may match."""
    name = os.path.basename(root.canonical)
    with workspace.open(root) as descriptor:
        if query.include is not None and not query.include(name):
            found.excluded = True
            return None
        if has_binary_name(name):
            found.tally.binary += 1
            return None
        data = read_text(descriptor, os.fstat(descriptor).st_size, MAX_NAMED_BYTES, found.tally)
    if data is None:
        return None
    found.searched += 1
    return None if rules_out(query.pattern, data) else Text.of("", data)


@attrs.define
class _Room:
    """What still fits into the result."""

    rows: int
    bytes: int
    full: bool = False

    def take(self, size: int) -> bool:
        """Whether one more row fits; the first that does not makes the result full."""
        if self.rows < 1 or self.bytes < size:
            self.full = True
            return False
        self.rows -= 1
        self.bytes -= size
        return True

    def take_lines(self, texts: list[str], each: int) -> int:
        """How many of the lines fit, where each costs so much beside its text."""
        # Quotes and control characters grow when a row is written as JSON.
        encode = msgspec.json.encode
        size = len(texts) * each + len(encode(texts))
        if len(texts) <= self.rows and size <= self.bytes:
            self.rows -= len(texts)
            self.bytes -= size
            return len(texts)
        for taken, text in enumerate(texts):
            if not self.take(each + len(encode(text))):
                return taken
        return len(texts)


def _hits(
    root: ResolvedPath, text: Text, query: Query, room: _Room, clock: Clock, record: Recorder
) -> FileHits | None:
    pattern = query.pattern
    if query.mode == "content":
        return _content(root, text, pattern, room, clock, record)
    if query.mode == "count":
        count = count_matches(pattern, text, clock.check)
    else:
        count = int(text.matches or has_match(pattern, text, clock.check))
    if not count:
        return None
    _check_text(text)
    path = _shown(root, text)
    if query.mode == "count" and not room.take(_size(path) + _ROW_BYTES):
        return None
    return FileHits(path, count, mtime_ns=text.mtime_ns)


def _content(
    root: ResolvedPath, text: Text, pattern: Pattern, room: _Room, clock: Clock, record: Recorder
) -> FileHits | None:
    hits: FileHits | None = None
    each = 0
    try:
        for lines in matching_lines(pattern, text, clock.check):
            if hits is None:
                _check_text(text)
                hits = FileHits(_shown(root, text))
                each = _size(hits.path) + _ROW_BYTES
                room.bytes -= each  # the tag
            hits.add(lines, room.take_lines(lines.texts, each))
            if room.full:
                break
    except OutOfTime:
        if hits is None:
            raise
        hits.partial = True
    if hits is None or not hits.count:
        return None
    canonical = f"{root.canonical.rstrip('/')}/{text.path}" if text.path else root.canonical
    hits.tag = record(canonical, text.data(), hits.seen())
    return hits


def _check_text(text: Text) -> None:
    """Raises `_NotText` for content that only a closer look tells from text, which is taken at a hit."""
    if is_unprintable(text.head(HEAD_BYTES)):
        raise _NotText


def _shown(root: ResolvedPath, text: Text) -> str:
    """A file's path as results show it."""
    return shown_below(root, text.path) if text.path else root.display


def _size(path: str) -> int:
    return len(path.encode("utf-8", "replace"))


def _cut_newest(found: Found, query: Query) -> None:
    """Newest first, ties by path, sorted before the cut."""
    found.hits.sort(key=lambda hit: (-hit.mtime_ns, hit.path))
    room = _Room(query.limit, query.max_bytes)
    kept = [hit for hit in found.hits if not room.full and room.take(_size(hit.path) + 4)]
    found.full = room.full
    found.hits = kept
