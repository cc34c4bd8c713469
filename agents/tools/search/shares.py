"""A large search in shares: what a helper is asked, what it answers, and how it works on it. Blocking.

A helper looks through its files as if nobody else did; what comes together is cut by who asked. Whose a file is
can be told from its path alone, so it stays the same while the tree changes.
"""

from __future__ import annotations

import contextlib
import os
import time
import zlib
from collections.abc import Generator

import attrs

from agents.rules.hidden import Hidden
from agents.rules.paths import ResolvedPath
from agents.tools.search.globs import parse_include
from agents.tools.search.patterns import parse_pattern
from agents.tools.search.query import Mode
from agents.tools.search.reading import read_texts
from agents.tools.search.rows import Hit, NotText, Room, look
from agents.tools.search.sieve import Sieve
from agents.tools.search.walk import Tally, TooManyEntries, Walk
from agents.tools.search.worker import Clock, OutOfTime
from agents.workspace import Workspace

REPORT_SECONDS = 0.002
"""A report tells how far the search has come, so that nobody waits for the next file that matches."""


@attrs.frozen
class Part:
    """One share of the files of a search: place `at` of so many, by their paths."""

    at: int
    places: int

    def names(self, prefix: str, names: list[str]) -> list[str]:
        """Those names in a directory whose files belong to it."""
        above = zlib.crc32(os.fsencode(prefix))
        return [name for name in names if zlib.crc32(os.fsencode(name), above) % self.places == self.at]


@attrs.frozen
class Job:
    """What a helper is asked for."""

    workspace: Workspace
    root: ResolvedPath
    mode: Mode
    pattern: str
    ignore_case: bool
    limit: int
    max_bytes: int
    include: str | None
    hidden: Hidden | None
    since: str
    """The first path that is of interest."""
    part: Part
    deadline: float
    """Of `time.monotonic`, which is the same for all processes."""


@attrs.frozen
class Report:
    """How far it is."""

    reached: str
    """Every hit up to this path has been told."""
    hits: list[Hit]
    """Since the last report, in path order."""


@attrs.frozen
class Ending:
    """It is done."""

    searched: int
    tally: Tally
    """Of the files alone: the directories are counted by who asked."""
    out_of_time: bool = False
    cut_at: str | None = None
    """The file with the first line for which there would be no room, even if all other lines were its own."""


def work(job: Job, clock: Clock) -> Generator[Report | Ending, None, None]:
    """Search one share. Raises what `clock.check` raises, but for the end of its time."""
    pattern = parse_pattern(job.pattern, ignore_case=job.ignore_case)
    wants = None if job.include is None else parse_include(job.include).matches
    walk = Walk(job.workspace, job.root, clock, Tally(), wants=wants, hidden=job.hidden, since=job.since)
    sieve, room, tally = Sieve(pattern), Room(job.limit, job.max_bytes), Tally()
    searched, hits, told = 0, list[Hit](), time.monotonic()
    out_of_time, cut_at = False, None
    try:
        own = read_texts(walk, sieve, tally, job.part.names)
        with contextlib.closing(own) as texts:
            for passed, text in texts:
                searched += passed
                if text is not None:
                    try:
                        hit = look(job.root, text, pattern, job.mode, room, clock.check)
                    except NotText:
                        tally.binary += 1
                    else:
                        searched += 1
                        if hit is not None:
                            hits.append(hit)
                    if room.full:
                        cut_at = text.path
                        break
                now = time.monotonic()
                if now > told + REPORT_SECONDS:
                    yield Report(sieve.reached if text is None else text.path, hits)
                    hits, told = [], now
    except OutOfTime:
        out_of_time = True
    except TooManyEntries:  # so it is for who asked
        pass
    if hits:
        yield Report(hits[-1][0], hits)
    yield Ending(searched, tally, out_of_time, cut_at)
