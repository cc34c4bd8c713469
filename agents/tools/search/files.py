"""The search of Glob: the files whose path matches, newest first."""

from __future__ import annotations

import contextlib
import heapq
import os

import attrs

from agents.rules.hidden import Hidden
from agents.rules.paths import ResolvedPath, printable, spelled_out
from agents.tools.search.globs import PathGlob
from agents.tools.search.walk import Tally, TooManyEntries, Walk
from agents.tools.search.worker import Clock, OutOfTime
from agents.workspace import Workspace


@attrs.frozen
class FoundFiles:
    """What a Glob found."""

    paths: tuple[str, ...]
    """As results show them; newest first, ties by path; at most the limit."""
    total: int
    """How many matched."""
    tally: Tally
    stopped: str | None
    """Why the walk ended early, in words; None: it saw everything."""
    timed_out: bool = False


def find_files(
    workspace: Workspace,
    root: ResolvedPath,
    glob: PathGlob,
    *,
    limit: int,
    clock: Clock,
    hidden: Hidden | None = None,
) -> FoundFiles:
    """Walk the tree below `root`, past what is `hidden`. Raises `Failure` where `root` cannot be walked. Blocking."""
    tally = Tally()
    found: list[tuple[int, str]] = []
    walk = Walk(workspace, root, clock, tally, wants=glob.may_be_called, enters=glob.may_hold, hidden=hidden)
    matches = glob.matches
    stopped, timed_out = None, False
    try:
        with contextlib.closing(walk.runs()) as runs:
            for run in runs:
                for name in run.names:
                    path = run.prefix + name
                    if matches(printable(path)):
                        try:
                            facts = os.stat(name, dir_fd=run.parent, follow_symlinks=False)
                        except FileNotFoundError:  # gone since its directory was listed
                            continue
                        except OSError:  # its directory may be listed, but not entered
                            tally.unreadable += 1
                            continue
                        found.append((-facts.st_mtime_ns, path))
    except (OutOfTime, TooManyEntries) as early:
        stopped, timed_out = why_stopped(early), isinstance(early, OutOfTime)
    best = heapq.nsmallest(limit, found)
    return FoundFiles(
        tuple(shown_below(root, path) for _, path in best), len(found), tally, stopped, timed_out
    )


def shown_below(root: ResolvedPath, path: str) -> str:
    """A path below the root of a search as results show it; an empty one is the root."""
    if not path:
        return root.display
    if root.display == ".":
        return spelled_out(printable(path))
    return f"{root.display.rstrip('/')}/{printable(path)}"


def why_stopped(early: Exception) -> str:
    """In words for a notice."""
    if isinstance(early, OutOfTime):
        return "The time for one search (10 s) was over before everything was looked at"
    return "The tree holds more entries than one search looks at (200,000)"
