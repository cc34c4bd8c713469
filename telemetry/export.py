"""The export of ended spans: `open_export` and what it opens. Beside `metrics` the only user of the OTel SDK.

Never in the way: `SpanExport.export` costs an append to a queue; a thread of our own sends. Leaving
`open_export` waits at most `CLOSE_SECONDS` for the rest, then a collector that hangs is left to its daemon
thread, and one line says what did not arrive. The SDK is imported there, when the first span is sent; a run
without an endpoint never loads it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import attrs
import msgspec
import trio
from opentelemetry import trace as otel_trace

from telemetry.metrics import LAST_REQUEST_SECONDS, REQUEST_SECONDS, UNREACHABLE, MetricsSink
from telemetry.quiet import quiet
from telemetry.records import SpanRecord, clean_record
from telemetry.settings import TelemetrySettings, file_target, without_credentials
from telemetry.tracefile import SCOPE, TraceFileError, TraceFileSink, open_trace_file
from telemetry.worker import ExportWorker

__all__ = ["SpanExport", "TelemetrySettings", "TraceFileError", "open_export"]

CLOSE_SECONDS = 0.9
"""How long the end of a run may wait for the last spans, in real time."""
REQUEST_BYTES = 3 * 1024 * 1024
"""Largest request: gRPC gateways and small collectors refuse above 4 MiB."""


@attrs.define(eq=False)
class SpanExport:
    """Takes ended spans. Without a target it does nothing at all."""

    settings: TelemetrySettings = attrs.field(factory=TelemetrySettings)
    _workers: tuple[ExportWorker, ...] = ()
    _metrics: ExportWorker | None = None
    active_agents: int = attrs.field(default=0, init=False)
    """How many agents run now, for the metric of that name; whoever starts and ends them counts."""

    @property
    def active(self) -> bool:
        """Whether spans go anywhere."""
        return bool(self._workers)

    @property
    def target(self) -> str | None:
        """Where they go, as it is shown: an endpoint, `file:PATH`, or None."""
        return self.settings.target

    @property
    def targets(self) -> tuple[str, ...]:
        """Every place they go to."""
        return tuple(worker.target for worker in self._workers)

    @property
    def acknowledged(self) -> int:
        """How many of the records handed in, counted from the first, arrived everywhere without a gap."""
        return min((worker.acknowledged for worker in self._workers), default=0)

    @property
    def dropped(self) -> int:
        """How many records were given up so far, all targets together."""
        return sum(worker.dropped for worker in self._workers)

    def acknowledged_by(self, target: str) -> int:
        """How many of the records handed in for `target`, counted from the first, arrived without a gap."""
        return next((worker.acknowledged for worker in self._workers if worker.target == target), 0)

    def export(self, records: Sequence[SpanRecord]) -> None:
        """Hand over records whose events are committed, in their order. Never raises or blocks."""
        for worker in (*self._workers, *(() if self._metrics is None else (self._metrics,))):
            _put(worker, records)

    def send_again(self, records: Sequence[SpanRecord], target: str) -> None:
        """Hand over records of an earlier process to one target. Never raises or blocks."""
        for worker in self._workers:
            if worker.target == target:
                _put(worker, records)


def _put(worker: ExportWorker, records: Sequence[SpanRecord]) -> None:
    # what can fail is the start of a thread; the records then count as lost
    with contextlib.suppress(Exception):
        worker.put(records)


@contextlib.asynccontextmanager
async def open_export(
    settings: TelemetrySettings, *, warn: Callable[[str], None]
) -> AsyncIterator[SpanExport]:
    """Export to the targets of `settings` for the block, then flush and shut down within 1 s.

    `warn` is called at most once, after the shutdown, with one line if something did not arrive.
    Raises `TraceFileError` when the trace file cannot be written.
    """
    workers: list[ExportWorker] = []
    if settings.traces_url is not None:
        sink = OtlpSink(settings, settings.traces_url)
        workers.append(ExportWorker(sink, without_credentials(settings.traces_url)))
    if settings.trace_file is not None:
        fd = await trio.to_thread.run_sync(open_trace_file, settings.trace_file)
        sink_to_file = TraceFileSink(fd, settings.resource_of)
        workers.append(ExportWorker(sink_to_file, file_target(settings.trace_file)))
    export = SpanExport(settings, tuple(workers))
    if settings.metrics_url is not None:
        counting = MetricsSink(
            settings, dropped=lambda: export.dropped, active_agents=lambda: export.active_agents
        )
        export._metrics = ExportWorker(counting)
        workers.append(export._metrics)
    try:
        yield export
    finally:
        if workers:
            await _close(workers)
            _tell(workers, warn)


async def _close(workers: Sequence[ExportWorker]) -> None:
    deadline = time.monotonic() + CLOSE_SECONDS
    for worker in workers:
        worker.stop(deadline)
    with trio.CancelScope(shield=True):
        # no trio deadline: the joins are bounded in real time, which a test's clock does not jump over
        await trio.to_thread.run_sync(_join, workers, deadline, limiter=trio.CapacityLimiter(1))


def _join(workers: Sequence[ExportWorker], deadline: float) -> None:
    for worker in workers:
        worker.sink.hurry(deadline)
    for worker in workers:
        worker.join()


def _tell(workers: Sequence[ExportWorker], warn: Callable[[str], None]) -> None:
    losses = [loss for worker in workers if (loss := worker.sink.loss(worker.lost, worker.handed))]
    if losses:
        with contextlib.suppress(Exception):
            warn("telemetry: " + "; ".join(losses))


@attrs.define(eq=False)
class OtlpSink:
    """A sink that posts OTLP/HTTP with the SDK's exporter."""

    settings: TelemetrySettings
    url: str
    reason: str = ""
    _exporter: Any = None
    _last_exporter: Any = None
    _deadline: float | None = None
    _resources: dict[tuple[str, str], Any] = attrs.field(factory=dict)

    def send(self, batch: Sequence[SpanRecord]) -> int:
        with quiet(self):
            spans = [found for record in batch if (found := self._readable(record)) is not None]
            return sum(self._send_request(request) for request in _requests(spans, REQUEST_BYTES))

    def hurry(self, deadline: float) -> None:
        # `_normal_exporter` reads the two the other way round, so one side always sees the other
        self._deadline = deadline
        if self._exporter is not None:
            with quiet(self):
                self._exporter.shutdown()  # wakes it from a pause before a retry

    def close(self) -> None:
        if self._last_exporter is not None:
            self._last_exporter.shutdown()
        self._resources.clear()

    def loss(self, lost: int, handed: int) -> str | None:
        if not lost:
            return None
        return (
            f"{lost} of {handed} spans did not reach {without_credentials(self.url)} "
            f"({self.reason or UNREACHABLE}); "
            "start a collector there or unset OTEL_EXPORTER_OTLP_ENDPOINT"
        )

    def _send_request(self, spans: Sequence[Any]) -> int:
        exporter = self._normal_exporter()
        if exporter is not None and _succeeded(exporter.export(spans)):
            return len(spans)
        exporter = self._hasty_exporter()
        if exporter is not None and _succeeded(exporter.export(spans)):
            return len(spans)
        return 0

    def _normal_exporter(self) -> Any:
        """The exporter of a run that is going on; None while closing."""
        if self._deadline is None and self._exporter is None:
            self._exporter = self._new_exporter(REQUEST_SECONDS)
        return self._exporter if self._deadline is None else None

    def _hasty_exporter(self) -> Any:
        """The exporter of a run that is closing, as long as there is time; None before that."""
        if self._deadline is None or time.monotonic() >= self._deadline:
            return None
        if self._last_exporter is None:
            self._last_exporter = self._new_exporter(LAST_REQUEST_SECONDS)
        return self._last_exporter

    def _new_exporter(self, timeout: float) -> Any:
        # imported here: 0.1 s that only an export has to pay, on its own thread
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        return OTLPSpanExporter(endpoint=self.url, headers=dict(self.settings.headers), timeout=timeout)

    def _readable(self, record: SpanRecord) -> tuple[Any, int] | None:
        """The SDK's form of a record and about its size; None for one with broken ids."""
        try:
            cleaned = clean_record(record)
            return readable_span(cleaned, self._resource(record)), len(msgspec.json.encode(cleaned))
        except Exception as error:  # one bad record must not take its neighbours along
            self.reason = f"a span could not be encoded: {type(error).__name__}"
            return None

    def _resource(self, record: SpanRecord) -> Any:
        from opentelemetry.sdk.resources import Resource  # see `_new_exporter`

        key = (self.settings.service(record), record.instance_id)
        if key not in self._resources:
            self._resources[key] = Resource(self.settings.resource_of(record))
        return self._resources[key]


def readable_span(record: SpanRecord, resource: Any) -> Any:
    """The SDK's `ReadableSpan` of a clean record, under our ids. ValueError for an id that is not hex."""
    from opentelemetry.sdk.trace import Event, ReadableSpan  # see `OtlpSink._new_exporter`
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    return ReadableSpan(
        name=record.name,
        context=_context(record.trace_id, record.span_id),
        parent=_context(record.trace_id, record.parent_span_id) if record.parent_span_id else None,
        resource=resource,
        attributes=record.attributes,
        events=[Event(event.name, event.attributes, event.time_ns) for event in record.events],
        links=[
            otel_trace.Link(_context(link.trace_id, link.span_id), link.attributes) for link in record.links
        ],
        kind=otel_trace.SpanKind[record.kind],
        status=_status(record),
        start_time=record.start_ns,
        end_time=record.end_ns,
        instrumentation_scope=InstrumentationScope(SCOPE),
    )


def _context(trace_id: str, span_id: str) -> otel_trace.SpanContext:
    flags = otel_trace.TraceFlags(otel_trace.TraceFlags.SAMPLED)
    return otel_trace.SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=flags)


def _status(record: SpanRecord) -> otel_trace.Status:
    code = otel_trace.StatusCode[record.status]
    # the API takes a description with ERROR alone and logs a warning for any other
    is_error = code is otel_trace.StatusCode.ERROR
    return otel_trace.Status(code, (record.status_description or None) if is_error else None)


def _requests(spans: Sequence[tuple[Any, int]], limit: int) -> Iterator[list[Any]]:
    """The spans in order, in groups of at most `limit` bytes; one larger span goes alone."""
    group: list[Any] = []
    size = 0
    for span, span_size in spans:
        if group and size + span_size > limit:
            yield group
            group, size = [], 0
        group.append(span)
        size += span_size
    if group:
        yield group


def _succeeded(result: Any) -> bool:
    return bool(result.name == "SUCCESS")
