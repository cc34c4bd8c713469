"""A number that every process of one command carries, whatever it does to its session and its environment.

It is the soft limit of the processor time of real-time threads: inherited over fork and exec, kept by
`setsid` and by an emptied environment, and, as the number is one that nobody reaches or would set, without
any effect of its own. Linux only. A program that sets this limit anew loses the brand.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

if sys.platform == "linux":
    import resource

_CALL_BITS = 28
_SESSION_BITS = 33
_BASE = 1 << (_CALL_BITS + _SESSION_BITS)
"""More microseconds than a machine lives, and less than 2**63: it never bites."""


def new_brand(session: str, scratch: str) -> int:
    """A number for one call of a session; `branded_by` knows it again."""
    return _session_part(session, scratch) | secrets.randbits(_CALL_BITS)


def branded_by(brand: int | None, session: str, scratch: str) -> bool:
    """Whether a brand is one of this session's calls."""
    return brand is not None and brand >> _CALL_BITS == _session_part(session, scratch) >> _CALL_BITS


def branding(argv: Sequence[str], brand: int) -> list[str]:
    """`argv` so that bash brands itself before it runs a word of it; as it is for another program.

    Whoever brands a process from outside comes too late for what it starts first. An older bash, which does
    not know the limit, goes on without.
    """
    if sys.platform != "linux" or os.path.basename(argv[0]) != "bash":
        return list(argv)
    return [argv[0], "-c", 'ulimit -S -R "$0" 2>/dev/null; exec "$@"', str(brand), *argv]


def put_brand(pid: int, brand: int) -> None:
    """Brand a process that we have just started; what it starts from now on is branded, too.

    Nothing happens where that is not possible (another system, a hard limit that somebody set).
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, ValueError):
            _, hard = resource.prlimit(pid, resource.RLIMIT_RTTIME)
            if hard == resource.RLIM_INFINITY:
                resource.prlimit(pid, resource.RLIMIT_RTTIME, (brand, hard))
                for child in _children(pid):  # it was faster than we
                    put_brand(child, brand)


def brand_of(pid: int) -> int | None:
    """The brand of a process; None where it has none, or where that cannot be read."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, ValueError):
            soft, _ = resource.prlimit(pid, resource.RLIMIT_RTTIME)
            return soft if soft >= _BASE else None
    return None


def _children(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for listed in Path(f"/proc/{pid}/task").glob("*/children"):
            yield from (int(child) for child in listed.read_text().split())


def _session_part(session: str, scratch: str) -> int:
    digest = hashlib.blake2b(
        f"{session}\0{scratch}".encode("utf-8", "surrogateescape"), digest_size=8
    ).digest()
    return _BASE | (int.from_bytes(digest) % (1 << _SESSION_BITS)) << _CALL_BITS
