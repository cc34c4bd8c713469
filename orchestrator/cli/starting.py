"""Signals until the command has begun its work: there is nothing to settle yet, so the first one ends it."""

from __future__ import annotations

import os
import signal
from types import FrameType

STOPPED = 130
"""`Status.STOPPED`; its module is not imported yet when this one is."""


def leave_on_signals() -> None:
    """From here to `begin`, Ctrl-C and SIGTERM end the process at once; what ignores them is left alone."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _interrupt)


def begin() -> None:
    """Ctrl-C is a `KeyboardInterrupt` again, which trio delivers where it harms nothing."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(STOPPED)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """SIGTERM is a Ctrl-C, and still ends what was started with Ctrl-C ignored (in the background)."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        os._exit(STOPPED)
    signal.raise_signal(signal.SIGINT)
