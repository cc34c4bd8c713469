"""Two process attributes that Linux has and Python does not reach. Elsewhere they do nothing."""

from __future__ import annotations

import ctypes
import sys

_SET_DUMPABLE = 4
_SET_CHILD_SUBREAPER = 36


def make_unreadable() -> bool:
    """Keep other processes of the same user out of our memory, environment and descriptors; True if done.

    Call it once, at start. Children start readable again (an exec resets it), so they can still be found.
    Our own `/proc/self` stays usable to ourselves although it then belongs to root (`stat`, `fd` and the
    spawning of children were tried as an ordinary user). No core file is written.
    """
    return _prctl(_SET_DUMPABLE, 0)


def become_subreaper() -> bool:
    """Make orphaned descendants our children, so that they can be reaped; True if done."""
    return _prctl(_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> bool:
    if sys.platform != "linux":
        return False
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        return bool(libc.prctl(option, value, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False
