"""Clean-up that must happen although the work around it was cancelled, and must not hang for ever."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from agents.errors import ErrorCode, failure

RECORD_SECONDS = 30.0
"""How long storing a result or a settlement may take."""


@contextmanager
def shielded(what: str, seconds: float = RECORD_SECONDS) -> Iterator[None]:
    """Run the block to its end although the surroundings are cancelled, at most `seconds` long.

    Raises `Failure` STORE_WRITE_FAILED, naming `what`, when the time is up.
    """
    with trio.CancelScope(shield=True, deadline=trio.current_time() + seconds) as scope:
        yield
    if scope.cancelled_caught:
        raise failure(
            ErrorCode.STORE_WRITE_FAILED,
            f"{what} could not be stored within {seconds:g} s. Check the disk that holds the store, then resume.",
            retriable=True,
        )
