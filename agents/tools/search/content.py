"""The search of Grep: matching lines, files with matches, or counts, over one file or a tree."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator
from typing import Literal

import attrs
import msgspec

from agents import descriptors
from agents.rules.binary import HEAD_BYTES, has_binary_sign, is_unprintable
from agents.rules.hidden import Hidden
from agents.rules.paths import PathKind, ResolvedPath
from agents.tools.search.files import shown_below, why_stopped
from agents.tools.search.lines import Line, count_matches, has_match, matching_lines, rules_out, searchable
from agents.tools.search.patterns import Pattern
from agents.tools.search.sieve import sift
from agents.tools.search.walk import Entry, Tally, TooManyEntries, Walk
from agents.tools.search.worker import Clock, OutOfTime
from agents.workspace import Workspace

MAX_FILE_BYTES = 10 << 20
"""A larger file of a tree is passed over."""
MAX_NAMED_BYTES = 64 << 20
"""The same for a file that was named as the path."""
_FIRST_READ = 256 << 10
"""A larger file is only read on once its beginning has proved to be text."""
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


@attrs.frozen
class FileHits:
    """The hits of one file."""

    path: str
    """As results show it."""
    count: int
    lines: tuple[Line, ...] = ()
    tag: str = ""
    mtime_ns: int = 0
    partial: bool = False
    """Whether the time was over within this file."""


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


@attrs.define
class _File:
    """A text file that is searched. Its names are made when it has a hit."""

    root: ResolvedPath
    below: str
    """Its path below the root; empty where the root is the file."""
    data: bytes
    mtime_ns: int

    @property
    def path(self) -> str:
        """As results show it."""
        return shown_below(self.root, self.below) if self.below else self.root.display

    def check_text(self) -> None:
        """Raises `_NotText` for content that only a closer look tells from text, which is taken at a hit."""
        if is_unprintable(self.data[:HEAD_BYTES]):
            raise _NotText

    @property
    def canonical(self) -> str:
        return f"{self.root.canonical.rstrip('/')}/{self.below}" if self.below else self.root.canonical


def grep(workspace: Workspace, root: ResolvedPath, query: Query, *, clock: Clock, record: Recorder) -> Found:
    """Search one file or a tree. Raises `Failure` where `root` cannot be opened. Blocking."""
    found = Found()
    room = _Room(query.limit, query.max_bytes)
    try:
        with contextlib.closing(_candidates(workspace, root, query, found, clock)) as files:
            for file in files:
                try:
                    hits = _hits(file, query, room, clock, record)
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
) -> Generator[_File, None, None]:
    """The files in which something may match; the others are only counted."""
    tree = root.kind is PathKind.DIRECTORY
    files = _files(workspace, root, query, found, clock) if tree else _named(workspace, root, query, found)
    pattern = query.pattern
    with contextlib.closing(files):
        if tree and pattern.joinable and not pattern.quick:
            for passed, file in sift(files, pattern, lambda file: file.data, clock.check):
                found.searched += passed
                if file is not None:
                    found.searched += 1
                    yield file
            return
        for file in files:
            found.searched += 1
            if not rules_out(pattern, file.data):
                yield file


def _named(
    workspace: Workspace, root: ResolvedPath, query: Query, found: Found
) -> Generator[_File, None, None]:
    with workspace.open(root) as descriptor:
        name, size = os.path.basename(root.canonical), os.fstat(descriptor).st_size
        if query.include is not None and not query.include(name):
            found.excluded = True
            return
        data = _text_of(descriptor, name, size, MAX_NAMED_BYTES, found.tally)
        if data is not None:
            yield _File(root, "", data, 0)


def _files(
    workspace: Workspace, root: ResolvedPath, query: Query, found: Found, clock: Clock
) -> Generator[_File, None, None]:
    walk = Walk(workspace, root, clock, found.tally, wants=query.include, hidden=query.hidden)
    with contextlib.closing(walk.files()) as entries:
        for entry in entries:
            clock.check()
            read = _read_entry(entry, found.tally)
            if read is not None:
                yield _File(root, entry.path, *read)


def _read_entry(entry: Entry, tally: Tally) -> tuple[bytes, int] | None:
    """Content and modification time of a text file; None for one that is passed over."""
    try:
        opened = descriptors.open_listed(entry.parent, entry.name)
        if opened is None:
            tally.special += 1
            return None
        descriptor, facts = opened
        try:
            data = _text_of(descriptor, entry.name, facts.st_size, MAX_FILE_BYTES, tally)
            return None if data is None else (data, facts.st_mtime_ns)
        finally:
            os.close(descriptor)
    except OSError:
        tally.unreadable += 1
        return None


def _text_of(descriptor: int, name: str, size: int, limit: int, tally: Tally) -> bytes | None:
    """The bytes of a text file; None for one that is passed over. A small file costs one read."""
    first = min(size, _FIRST_READ) + 1
    data = os.read(descriptor, first)
    if has_binary_sign(data, name):
        tally.binary += 1
        return None
    if size and len(data) == size < first:
        return data
    data += descriptors.read_all(descriptor, limit - len(data) + 1)
    if len(data) > limit:
        tally.too_large += 1
        return None
    return data


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


def _hits(file: _File, query: Query, room: _Room, clock: Clock, record: Recorder) -> FileHits | None:
    text = searchable(file.data)
    pattern = query.pattern
    if query.mode == "filesWithMatches":
        if not has_match(pattern, text, clock.check):
            return None
        file.check_text()
        return FileHits(file.path, 1, mtime_ns=file.mtime_ns)
    if query.mode == "count":
        count = count_matches(pattern, text, clock.check)
        if count:
            file.check_text()
        if count and room.take(_size(file.path) + _ROW_BYTES):
            return FileHits(file.path, count)
        return None
    return _content(file, pattern, text, room, clock, record)


def _content(
    file: _File, pattern: Pattern, text: bytes, room: _Room, clock: Clock, record: Recorder
) -> FileHits | None:
    lines: list[Line] = []
    seen: list[int] = []
    partial = False
    path_bytes = tag_bytes = 0
    take, append, encode = room.take, lines.append, msgspec.json.encode
    try:
        for line in matching_lines(pattern, text, clock.check):
            if not lines:
                file.check_text()
                path_bytes = _size(file.path) + _ROW_BYTES
                tag_bytes = path_bytes
            # Quotes and control characters grow when the row is written as JSON.
            if not take(path_bytes + len(encode(line.text)) + tag_bytes):
                break
            tag_bytes = 0
            append(line)
            if not line.clipped:
                seen.append(line.number)
    except OutOfTime:
        if not lines:
            raise
        partial = True
    if not lines:
        return None
    tag = record(file.canonical, file.data, seen)
    return FileHits(file.path, len(lines), tuple(lines), tag, partial=partial)


def _size(path: str) -> int:
    return len(path.encode("utf-8", "replace"))


def _cut_newest(found: Found, query: Query) -> None:
    """Newest first, ties by path, sorted before the cut."""
    found.hits.sort(key=lambda hit: (-hit.mtime_ns, hit.path))
    room = _Room(query.limit, query.max_bytes)
    kept = [hit for hit in found.hits if not room.full and room.take(_size(hit.path) + 4)]
    found.full = room.full
    found.hits = kept
