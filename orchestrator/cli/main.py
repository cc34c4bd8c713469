"""The command. Nothing heavy is imported until a signal can end it quietly."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn, TextIO

from orchestrator.cli.starting import leave_on_signals


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command and exit: every end is a `Status`, its reason the last line on standard error."""
    leave_on_signals()
    from orchestrator.cli.command import ended  # the signals' handlers stand before what takes its time

    _tolerate_odd_characters()
    status, line = ended(list(sys.argv[1:] if arguments is None else arguments))
    if line:
        with contextlib.suppress(OSError, ValueError):
            print(line, file=sys.stderr, flush=True)
    _leave_quietly()
    sys.exit(int(status))


def _tolerate_odd_characters() -> None:
    """Output never fails for a character that the terminal's encoding does not have."""
    streams: tuple[Any, ...] = (sys.stdout, sys.stderr)
    for stream in streams:
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _leave_quietly() -> None:
    """Nobody may read the standard streams any more: the interpreter's own flush must not complain about it."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            _flush_or_drop(stream)


def _flush_or_drop(stream: TextIO) -> None:
    try:
        stream.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            devnull = os.open(os.devnull, os.O_WRONLY)
            os.dup2(devnull, stream.fileno())
            os.close(devnull)
