"""Bytes to a standard stream, without holding up the agents, and quietly when nobody reads them any more."""

from __future__ import annotations

import contextlib
import math
import os
import select
import sys
from collections.abc import Callable
from typing import Any, TextIO

import attrs
import msgspec
import trio

LAST_SECONDS = 0.5
"""How long a reader that does not read is waited for once the person wants to stop."""


@attrs.define(eq=False)
class Output:
    """A standard stream. A slow reader slows only the printing: writes happen in a worker thread."""

    on_closed: Callable[[], None] = lambda: None
    """Called once when the reader has gone (`| head`)."""
    stream: TextIO | None = attrs.field(factory=lambda: sys.stdout)
    """Standard output, or standard error. None: the command was started with it closed."""
    closed: bool = attrs.field(init=False)
    given_up: bool = attrs.field(init=False, default=False)
    """Nobody read what was left when the person wanted to stop: it was not written."""
    _descriptor: int = attrs.field(init=False, default=-1)
    _hurried: bool = attrs.field(init=False, default=False)
    _writing: set[trio.CancelScope] = attrs.field(init=False, factory=set)

    def __attrs_post_init__(self) -> None:
        try:
            self._descriptor = -1 if self.stream is None else self.stream.fileno()
            self.closed = self._descriptor < 0
        except (OSError, ValueError):
            self.closed = True

    async def lines(self, texts: list[str]) -> None:
        """Write lines of text."""
        await self.write("".join(f"{text}\n" for text in texts).encode("utf-8", "backslashreplace"))

    async def objects(self, values: list[Any]) -> None:
        """Write one line of JSON per value."""
        await self.write(b"".join(msgspec.json.encode(value) + b"\n" for value in values))

    async def write(self, data: bytes) -> None:
        """Write all of `data`, or nothing once the reader has gone; what a stop gives up stays unwritten."""
        if self.closed or not data:
            return
        scope = trio.CancelScope(deadline=self._last_moment(), shield=True)  # no half lines
        self._writing.add(scope)
        try:
            with scope:  # a thread that nobody reads from is left behind: it ends with the process
                await trio.to_thread.run_sync(_write_all, self._descriptor, data, abandon_on_cancel=True)
            if scope.cancelled_caught:
                self.closed = self.given_up = True
        except OSError as error:
            self.closed = True
            if not isinstance(error, BrokenPipeError) and self.stream is not sys.stderr:
                with contextlib.suppress(OSError, ValueError):  # the same closed terminal, perhaps
                    print(f"Standard output cannot be written ({error.strerror}).", file=sys.stderr)
            self.on_closed()
        finally:
            self._writing.discard(scope)

    def hurry(self) -> None:
        """The person wants to stop: from now on a reader that does not read is not waited for."""
        self._hurried = True
        for scope in self._writing:
            scope.deadline = min(scope.deadline, self._last_moment())

    def _last_moment(self) -> float:
        return trio.current_time() + LAST_SECONDS if self._hurried else math.inf


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:  # whoever started us made the pipe non-blocking
            select.select([], [descriptor], [])
