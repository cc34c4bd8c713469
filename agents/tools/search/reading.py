"""Reading the text files of a walk, small ones many at a time. Blocking."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator

from agents import descriptors
from agents.rules.binary import has_binary_name, has_binary_sign
from agents.tools.search.lines import Text
from agents.tools.search.sieve import SMALL_BYTES, Sieve
from agents.tools.search.walk import Tally, TooManyEntries, Walk

MAX_FILE_BYTES = 10 << 20
"""A larger file of a tree is passed over."""
AHEAD_FILES = 64
"""How many files are held open ahead of the one that is read, where reading waits for the disk."""
AHEAD_SHARE = 16
"""But no more than one of so many descriptors that this process may have."""
_SLOW_SECONDS = 0.002
"""Shorter waits may have any reason."""
_FIRST_READ = 256 << 10
"""A larger file is only read on once its beginning has proved to be text."""

_Opened = tuple[int, os.stat_result, str, str]
"""Descriptor, facts, directory, name."""


Own = Callable[[str, list[str]], list[str]]
"""(directory, names of neighbouring files) → those of them that are to be read."""


def read_texts(
    walk: Walk, sieve: Sieve, tally: Tally, own: Own
) -> Generator[tuple[int, Text | None], None, None]:
    """The files of a walk that may match, in its order, each with the number of files before it that do not.

    Files that are passed over go into `tally`. Raises what `walk.runs` raises.
    """
    try:
        yield from _read(walk, sieve, tally, own)
    except TooManyEntries:  # what was read before is searched all the same
        yield from sieve.sifted()
        raise
    yield from sieve.sifted()


def _read(walk: Walk, sieve: Sieve, tally: Tally, own: Own) -> Generator[tuple[int, Text | None], None, None]:
    """The same without the last batch, which stays in the sieve."""
    pace = _Pace()
    add = sieve.add
    with contextlib.closing(_opened(walk, tally, own, pace)) as files:
        for descriptor, facts, prefix, name in files:
            size, large = facts.st_size, None
            try:
                if size <= SMALL_BYTES and os.readv(descriptor, (sieve.room,)) == size:
                    if not add(prefix, name, size, facts.st_mtime_ns):
                        tally.binary += 1
                else:
                    os.lseek(descriptor, 0, os.SEEK_SET)
                    large = read_text(descriptor, size, MAX_FILE_BYTES, tally)
            except OSError:
                tally.unreadable += 1
                continue
            finally:
                os.close(descriptor)
            if sieve.is_full or large is not None:
                walk.clock.check()
                pace.look()
                yield from sieve.sifted()
                if large is not None:
                    yield 0, Text.of(prefix + name, large, facts.st_mtime_ns)
                pace.go_on()


def read_text(descriptor: int, size: int, limit: int, tally: Tally) -> bytes | None:
    """The bytes of one text file of about `size`; None for one that is binary or has more than `limit` bytes."""
    first = min(size or _FIRST_READ, _FIRST_READ) + 1  # what the system makes up has no size
    data = os.read(descriptor, first)
    if has_binary_sign(data):
        tally.binary += 1
        return None
    if size and len(data) == size < first:
        return data
    data += descriptors.read_all(descriptor, limit - len(data) + 1)
    if len(data) > limit:
        tally.too_large += 1
        return None
    return data


class _Pace:
    """Whether reading waits for the disk more than it works."""

    def __init__(self) -> None:
        self.slow = False
        self._busy = self._waited = 0.0
        self.go_on()

    def go_on(self) -> None:
        """From here on files are read."""
        self._begun, self._busy_before = time.monotonic(), time.thread_time()

    def look(self) -> None:
        """Up to here. Once slow, it stays so: what was fetched ahead is no longer waited for."""
        busy = time.thread_time() - self._busy_before
        self._busy += busy
        self._waited += time.monotonic() - self._begun - busy
        self.slow = self.slow or self._waited > max(self._busy, _SLOW_SECONDS)


def _opened(walk: Walk, tally: Tally, own: Own, pace: _Pace) -> Generator[_Opened, None, None]:
    """The files of a walk, opened; the caller closes them.

    Where reading is slow, the system is told of files well before they are read, and fetches many at once. More
    threads that read would do the same, at the price of their fight for the interpreter.
    """
    check, open_listed = walk.clock.check, descriptors.open_listed
    waiting: deque[_Opened] = deque()
    ahead = min(AHEAD_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // AHEAD_SHARE)
    try:
        with contextlib.closing(walk.runs()) as runs:
            for run in runs:
                parent, prefix = run.parent, run.prefix
                for name in own(prefix, run.names):
                    if pace.slow:
                        check()
                    if has_binary_name(name):
                        tally.binary += 1
                        continue
                    try:
                        opened = open_listed(parent, name)
                    except OSError as error:
                        if error.errno not in (errno.EMFILE, errno.ENFILE) or not waiting:
                            tally.unreadable += 1
                            continue
                        yield from _drained(waiting)  # they hold what is missing
                        opened = _opened_again(parent, name)
                    if opened is None:
                        tally.special += 1
                        continue
                    if not pace.slow:
                        yield *opened, prefix, name
                        continue
                    _fetch(opened[0])
                    waiting.append((*opened, prefix, name))
                    if len(waiting) > ahead:
                        yield waiting.popleft()
        yield from _drained(waiting)
    except TooManyEntries:
        yield from _drained(waiting)
        raise
    finally:
        for descriptor, *_ in waiting:
            os.close(descriptor)


def _drained(waiting: deque[_Opened]) -> Iterator[_Opened]:
    while waiting:
        yield waiting.popleft()


def _opened_again(parent: int, name: str) -> tuple[int, os.stat_result] | None:
    try:
        return descriptors.open_listed(parent, name)
    except OSError:
        return None


def _fetch(descriptor: int) -> None:
    """Ask the system to read a file into its cache; returns at once."""
    if hasattr(os, "posix_fadvise"):
        with contextlib.suppress(OSError):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_WILLNEED)
