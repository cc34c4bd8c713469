"""The queue between the run and what sends."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import attrs

from telemetry.records import SpanRecord
from telemetry.worker import BATCH, ExportWorker
from tests.telemetry.spans import burst


@attrs.define(eq=False)
class SlowSink:
    """Keeps batches; sends nothing before it is let go."""

    go: threading.Event = attrs.field(factory=threading.Event)
    batches: list[list[SpanRecord]] = attrs.field(factory=list)
    closed: bool = False
    reason: str = ""

    def send(self, batch: Sequence[SpanRecord]) -> int:
        self.go.wait(5)
        self.batches.append(list(batch))
        return len(batch)

    def hurry(self, deadline: float) -> None:
        """Waits for nothing but `go`."""

    def close(self) -> None:
        self.closed = True

    def records(self) -> list[SpanRecord]:
        return [record for batch in self.batches for record in batch]


class RaisingSink(SlowSink):
    def send(self, batch: Sequence[SpanRecord]) -> int:
        raise RuntimeError("exporter broke")


def finish(worker: ExportWorker, seconds: float = 5.0) -> bool:
    worker.stop(time.monotonic() + seconds)
    return worker.join()


def test_records_leave_in_order_in_batches() -> None:
    sink = SlowSink()
    sink.go.set()
    worker = ExportWorker(sink)
    records = burst(1300)
    worker.put(records)
    assert finish(worker)
    assert records == sink.records()
    assert all(len(batch) <= BATCH for batch in sink.batches)
    assert sink.closed


def test_a_full_queue_lets_the_oldest_go_and_counts_them() -> None:
    sink = SlowSink()
    worker = ExportWorker(sink, capacity=100)
    records = burst(500)
    worker.put(records)
    sink.go.set()
    assert finish(worker)
    assert records[400:] == sink.records()
    assert (worker.lost, worker.acknowledged) == (400, 0)


def test_a_raising_sink_loses_its_batches_and_nothing_else_happens() -> None:
    sink = RaisingSink()
    worker = ExportWorker(sink)
    worker.put(burst(600))
    assert finish(worker)
    assert (worker.lost, sink.reason) == (600, "RuntimeError: exporter broke")
    assert sink.closed


def test_a_stuck_sink_is_left_behind_at_the_deadline() -> None:
    sink = SlowSink()
    worker = ExportWorker(sink)
    worker.put(burst(5))
    time.sleep(0.05)
    assert not finish(worker, 0.1)
    assert worker.lost == 5
    sink.go.set()
    assert worker._thread is not None
    worker._thread.join(5)
    assert sink.closed


def test_acknowledged_stops_at_the_first_gap() -> None:
    class Picky(SlowSink):
        def send(self, batch: Sequence[SpanRecord]) -> int:
            self.batches.append(list(batch))
            return len(batch) - 1 if len(self.batches) == 2 else len(batch)

    worker = ExportWorker(Picky())
    worker.put(burst(3 * BATCH))
    assert finish(worker)
    assert (worker.acknowledged, worker.lost) == (BATCH, 1)
