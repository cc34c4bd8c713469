"""`ExportWorker`: a bounded queue and the one thread that empties it into a sink.

`put` costs a lock and an append, whatever the sink does. When the queue is full the oldest record goes: spans
are handed over in the order in which they end, a child before its parent, so what stays keeps its parents.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Protocol

import attrs

from telemetry.records import SpanRecord

THREAD_NAME = "telemetry-export"
CAPACITY = 32_768
"""Spans waiting at most: more than any turn that a trace viewer can still show."""
BATCH = 512
DELAY_SECONDS = 1.0
"""How long the first span of a batch waits for company."""


class Sink(Protocol):
    """Where batches go. Called on the worker's thread, except for `hurry`."""

    reason: str
    """Why the last batch failed, for a person."""

    def send(self, batch: Sequence[SpanRecord]) -> int:
        """How many of the batch arrived. May block; what it raises counts as nothing arrived."""
        ...

    def hurry(self, deadline: float) -> None:
        """Retry nothing more, be done by `deadline` (`time.monotonic`). Called on another thread."""
        ...

    def close(self) -> None:
        """Let go of what the sink holds."""
        ...

    def loss(self, lost: int, handed: int) -> str | None:
        """After the end, in words for a person: that `lost` of `handed` records did not arrive, and what to
        do; None where nothing was lost."""
        ...


@attrs.define(eq=False)
class ExportWorker:
    """One sink, its queue and its thread. The thread starts with the first record."""

    sink: Sink
    target: str = ""
    """Where the sink leads to, by the name under which it is stored."""
    handed: int = attrs.field(default=0, init=False)
    """Records put so far."""
    delivered: int = attrs.field(default=0, init=False)
    """Records that arrived."""
    acknowledged: int = attrs.field(default=0, init=False)
    """How many records, counted from the first, arrived without a gap."""
    dropped: int = attrs.field(default=0, init=False)
    """Records given up so far: the queue was full, or the sink did not get them through."""
    _capacity: int = CAPACITY
    _queue: deque[SpanRecord] = attrs.field(factory=deque, init=False)
    _changed: threading.Condition = attrs.field(factory=threading.Condition, init=False)
    _thread: threading.Thread | None = attrs.field(default=None, init=False)
    _deadline: float | None = attrs.field(default=None, init=False)
    _gap: bool = attrs.field(default=False, init=False)

    @property
    def lost(self) -> int:
        """Records that did not arrive, after `join`."""
        return self.handed - self.delivered

    def put(self, records: Sequence[SpanRecord]) -> None:
        """Hand records over. After `stop` they are ignored."""
        with self._changed:
            if self._deadline is not None or not records:
                return
            was_empty = not self._queue
            self._queue.extend(records)
            self.handed += len(records)
            while len(self._queue) > self._capacity:
                self._queue.popleft()
                self._gap = True
                self.dropped += 1
            if was_empty or len(self._queue) >= BATCH:
                self._changed.notify()
        if self._thread is None:
            # a daemon: a collector that hangs must not hold the process
            self._thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)
            self._thread.start()

    def stop(self, deadline: float) -> None:
        """Take no more, send the rest by `deadline` (`time.monotonic`)."""
        with self._changed:
            self._deadline = deadline
            self._changed.notify()

    def join(self) -> bool:
        """After `stop`: wait for the thread until the deadline; whether it has ended. Blocks."""
        if self._thread is None:
            self.sink.close()
            return True
        self._thread.join(0.0 if self._deadline is None else max(0.0, self._deadline - time.monotonic()))
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while batch := self._take():
                self._deliver(batch)
        finally:
            self.sink.close()

    def _take(self) -> list[SpanRecord]:
        """The next batch; empty when it is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._deadline is not None)
            self._changed.wait_for(
                lambda: len(self._queue) >= BATCH or self._deadline is not None, timeout=DELAY_SECONDS
            )
            if self._deadline is not None and time.monotonic() >= self._deadline:
                return []
            return [self._queue.popleft() for _ in range(min(BATCH, len(self._queue)))]

    def _deliver(self, batch: list[SpanRecord]) -> None:
        try:
            arrived = self.sink.send(batch)
        except Exception as error:  # an exporter's fault is told at the end and never reaches the run
            self.sink.reason = f"{type(error).__name__}: {error}"
            arrived = 0
        self.delivered += arrived
        self.dropped += len(batch) - arrived
        self._gap = self._gap or arrived < len(batch)
        if not self._gap:
            self.acknowledged += arrived
