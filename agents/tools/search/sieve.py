"""Leaving out files without a match many at a time.

Calling a regular expression costs more than searching a small file with it: so the files are searched joined
to one text, and only those in which something was found are looked at one by one. (A second thread that reads
ahead was measured too: the interpreter's lock takes away what it gains.)
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, TypeVar

from agents.tools.search.lines import searchable
from agents.tools.search.patterns import Pattern

FIRST_FILES = 8
MOST_FILES = 128
MOST_BYTES = 512 << 10
"""Of a batch, and of a file that is joined with others: between two looks at the clock no more is searched."""

T = TypeVar("T")


def sift(
    files: Iterable[T], pattern: Pattern, data: Callable[[T], bytes], check: Callable[[], None]
) -> Generator[tuple[int, T | None], None, None]:
    """The files that may match, in their order, each with the number of files before it that do not.

    After the last of a batch comes None. `check` is called before each search and may raise.
    """
    for batch in _batches(files, data):
        check()
        if len(data(batch[0])) > MOST_BYTES:
            yield 0, batch[0]
        else:
            yield from _sifted(batch, pattern, data)


def _batches(files: Iterable[T], data: Callable[[T], bytes]) -> Iterator[list[T]]:
    """Neighbours that fit together; a file that is too large for it is alone."""
    batch: list[T] = []
    wanted, size = FIRST_FILES, 0
    for file in files:
        own = len(data(file))
        if batch and (len(batch) >= wanted or size + own > MOST_BYTES):
            yield batch
            batch, size = [], 0
            wanted = min(MOST_FILES, wanted * 2)  # a search that is cut early reads little in vain
        batch.append(file)
        size += own
    if batch:
        yield batch


def _sifted(files: list[T], pattern: Pattern, data: Callable[[T], bytes]) -> Iterator[tuple[int, T | None]]:
    texts = [searchable(data(file)) for file in files]
    starts = [0]
    for text in texts:
        starts.append(starts[-1] + len(text) + 1)
    joined = b"\n".join(texts)
    hit: set[int] = set()
    for regex in pattern.regexes:
        hit |= _hit(regex, joined, starts, hit)
    passed = 0
    for at, file in enumerate(files):
        if at in hit:
            yield passed, file
            passed = 0
        else:
            passed += 1
    if passed:
        yield passed, None


def _hit(regex: Any, joined: bytes, starts: list[int], known: set[int]) -> set[int]:
    """Which of the joined texts the expression matches somewhere; of `known` ones it may be left open."""
    hit: set[int] = set()
    count = len(starts) - 1
    at = 0
    while at < count:
        if at in known:
            at += 1
            continue
        found = regex.search(joined, starts[at])
        if found is None:
            break
        place = min(bisect.bisect_right(starts, found.start()), count) - 1
        hit.add(place)
        at = place + 1
    return hit
