"""The search of Grep: matching lines, files with matches, or counts, over one file or a tree."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Iterator

import attrs

from agents.rules.binary import has_binary_name
from agents.rules.paths import PathKind, ResolvedPath
from agents.tools.search.files import shown_below, why_stopped
from agents.tools.search.helpers import SearchHelpers
from agents.tools.search.lines import Text, rules_out
from agents.tools.search.query import Query
from agents.tools.search.reading import read_text, read_texts
from agents.tools.search.rows import ROW_BYTES, FileHits, Hit, NotText, Room, look, size_of
from agents.tools.search.shares import Job, Part
from agents.tools.search.sharing import Sharing
from agents.tools.search.sieve import Sieve
from agents.tools.search.walk import Tally, TooManyEntries, Walk
from agents.tools.search.worker import Clock, OutOfTime
from agents.workspace import Workspace

MAX_NAMED_BYTES = 64 << 20
"""A larger file that was named as the path is passed over."""

Recorder = Callable[[str, FileHits], str]
"""`record(canonical path, hits)`: notes what the agent sees of a file, and gives the tag."""


@attrs.define
class Found:
    """What a Grep found, up to its limits."""

    hits: list[FileHits] = attrs.field(factory=list)
    total: int = 0
    """Files with matches, whether they are shown or not; not known for `content`."""
    lines: int = 0
    """Matching lines in all of them, where they were counted."""
    searched: int = 0
    tally: Tally = attrs.field(factory=Tally)
    excluded: bool = False
    """Whether the one named file was left out by `include`."""
    full: bool = False
    """Whether a limit was reached and there is more."""
    full_of_rows: bool = False
    """Whether that limit is the number of rows; else it is their size."""
    stopped: str | None = None
    """Why the search ended early otherwise, in words."""
    timed_out: bool = False


def grep(
    workspace: Workspace,
    root: ResolvedPath,
    query: Query,
    *,
    clock: Clock,
    record: Recorder,
    helpers: SearchHelpers | None = None,
) -> Found:
    """Search one file or a tree. Raises `Failure` where `root` cannot be opened. Blocking."""
    return _Grep(workspace, root, query, clock, record, helpers).run()


@attrs.define
class _Grep:
    """One search under way."""

    workspace: Workspace
    root: ResolvedPath
    query: Query
    clock: Clock
    record: Recorder
    helpers: SearchHelpers | None
    found: Found = attrs.field(factory=Found)
    room: Room = attrs.field(init=False)

    def run(self) -> Found:
        found = self.found
        self.room = Room(self.query.limit, self.query.max_bytes)
        search = self._tree() if self.root.kind is PathKind.DIRECTORY else self._named()
        try:
            with contextlib.closing(search) as files:
                for hits in files:
                    found.hits.append(hits)
                    if hits.partial:
                        raise OutOfTime
                    if self._is_enough():
                        break
        except (OutOfTime, TooManyEntries) as early:
            found.stopped = why_stopped(early)
            found.timed_out = isinstance(early, OutOfTime)
        found.full, found.full_of_rows = self.room.full, self.room.rows < 1
        if self.query.mode == "filesWithMatches":
            _cut_newest(found, self.query)
        return found

    def _is_enough(self) -> bool:
        """Whether what comes later would not be told: a sum is of everything, however few rows of it are shown."""
        return self.room.full and self.query.mode == "content"

    def _named(self) -> Generator[FileHits, None, None]:
        """The file that was named as the path."""
        query, found = self.query, self.found
        name = os.path.basename(self.root.canonical)
        with self.workspace.open(self.root) as descriptor:
            if query.include is not None and not query.include.matches(name):
                found.excluded = True
                return
            if has_binary_name(name):
                found.tally.binary += 1
                return
            data = read_text(descriptor, os.fstat(descriptor).st_size, MAX_NAMED_BYTES, found.tally)
        if data is None:
            return
        if rules_out(query.pattern, data):
            found.searched += 1
            return
        yield from self._looked_at(Text.of("", data))

    def _tree(self) -> Generator[FileHits, None, None]:
        """All files, some of which helpers look through."""
        query, found = self.query, self.found
        wants = None if query.include is None else query.include.matches
        walk = Walk(self.workspace, self.root, self.clock, found.tally, wants=wants, hidden=query.hidden)
        with (
            contextlib.closing(Sharing(self.helpers, self._job, self.clock)) as sharing,
            contextlib.closing(read_texts(walk, Sieve(query.pattern), found.tally, sharing.own)) as texts,
        ):
            try:
                for passed, text in texts:
                    found.searched += passed
                    if text is not None:
                        yield from self._from_others(sharing.before(text.path), sharing)
                        if self._is_enough():
                            return
                        if sharing.is_cut_before(text.path):
                            break
                        yield from self._looked_at(text)
                        if self._is_enough():
                            return
                else:
                    yield from self._from_others(sharing.rest(), sharing)
            except OutOfTime:
                yield from self._from_others(sharing.known(), sharing)
                raise
            except TooManyEntries:  # helpers come to the same end, and have found something before it
                yield from self._from_others(sharing.rest(), sharing)
                raise
            finally:
                for ending in sharing.endings():
                    found.searched += ending.searched
                    found.tally.add(ending.tally)
            self.room.full = self.room.full or sharing.is_cut_before(None)

    def _job(self, since: str, part: Part) -> Job:
        query = self.query
        return Job(
            workspace=self.workspace,
            root=self.root,
            mode=query.mode,
            pattern=query.pattern.source,
            ignore_case=query.pattern.ignore_case,
            limit=query.limit,
            max_bytes=query.max_bytes,
            include=None if query.include is None else query.include.source,
            hidden=query.hidden,
            since=since,
            part=part,
            deadline=self.clock.deadline,
        )

    def _from_others(self, told: Iterator[Hit], sharing: Sharing) -> Iterator[FileHits]:
        for path, mtime_ns, count, hits in told:
            if sharing.is_cut_before(path):
                self.room.full = True
                return
            if hits is None:
                yield from self._counted(path, mtime_ns, count)
            elif self.room.full:
                return
            else:
                self.room.take_tag(hits.path)
                hits.cut(self.room.take_lines(hits.path, hits.texts))
                if hits.count:
                    yield self._recorded(path, hits)

    def _looked_at(self, text: Text) -> Iterator[FileHits]:
        query, found = self.query, self.found
        found.searched += 1
        try:
            hit = look(self.root, text, query.pattern, query.mode, self.room, self.clock.check)
        except NotText:
            found.searched -= 1
            found.tally.binary += 1
            return
        if hit is None:
            return
        path, mtime_ns, count, hits = hit
        if hits is None:
            yield from self._counted(path, mtime_ns, count)
        else:
            yield self._recorded(path, hits)

    def _counted(self, path: str, mtime_ns: int, count: int) -> Iterator[FileHits]:
        shown = shown_below(self.root, path)
        self.found.lines += count
        self.found.total += 1
        if self.query.mode == "filesWithMatches" or self.room.take(size_of(shown) + ROW_BYTES):
            yield FileHits(shown, count, mtime_ns=mtime_ns)

    def _recorded(self, path: str, hits: FileHits) -> FileHits:
        root = self.root.canonical
        hits.tag = self.record(f"{root.rstrip('/')}/{path}" if path else root, hits)
        hits.data = None  # the answer has no use for it
        return hits


def _cut_newest(found: Found, query: Query) -> None:
    """Newest first, ties by path, sorted before the cut."""
    found.hits.sort(key=lambda hit: (-hit.mtime_ns, hit.path))
    room = Room(query.limit, query.max_bytes)
    kept = [hit for hit in found.hits if not room.full and room.take(size_of(hit.path) + 4)]
    found.full, found.full_of_rows = room.full, room.rows < 1
    found.hits = kept
