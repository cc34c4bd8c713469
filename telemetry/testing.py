"""For tests: `RecordedSpans`, an export that keeps its spans, and `OtlpReceiver`, a small real collector."""

from __future__ import annotations

import gzip
import threading
import zlib
from collections.abc import Iterable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal

import attrs
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from telemetry.attributes import SERVICE_INSTANCE, SERVICE_NAME
from telemetry.export import SpanExport
from telemetry.records import AttributeValue, SpanEvent, SpanKind, SpanLink, SpanRecord, SpanStatus

Mode = Literal["ok", "hang", "refuse", "too_large"]
ANSWERS: dict[str, int] = {"ok": 200, "refuse": 503, "too_large": 413}
STATUSES: dict[int, SpanStatus] = {
    Status.STATUS_CODE_UNSET: "UNSET",
    Status.STATUS_CODE_OK: "OK",
    Status.STATUS_CODE_ERROR: "ERROR",
}
KINDS: dict[int, SpanKind] = {Span.SPAN_KIND_INTERNAL: "INTERNAL", Span.SPAN_KIND_CLIENT: "CLIENT"}


@attrs.define(eq=False)
class RecordedSpans(SpanExport):
    """An export into memory; hand it to whatever takes a `SpanExport`."""

    records: list[SpanRecord] = attrs.field(factory=list)

    @property
    def active(self) -> bool:
        return True

    @property
    def acknowledged(self) -> int:
        return len(self.records)

    def export(self, records: Sequence[SpanRecord]) -> None:
        self.records.extend(records)

    def named(self, name: str) -> tuple[SpanRecord, ...]:
        """The recorded spans of that name, in order."""
        return tuple(record for record in self.records if record.name == name)


@attrs.frozen
class ReceivedRequest:
    """One POST to `/v1/traces`, accepted or not."""

    headers: dict[str, str]
    """Names in lower case."""
    size: int
    """Bytes of the decoded body."""
    resources: tuple[dict[str, AttributeValue], ...]
    spans: tuple[SpanRecord, ...]


@attrs.frozen
class ReceivedPoint:
    """One data point of a metric."""

    name: str
    attributes: dict[str, AttributeValue]
    value: float
    """A counter's value, a histogram's sum."""
    count: int = 1
    """How many measurements a histogram's point sums up."""


class OtlpReceiver:
    """A collector on loopback, on threads of its own; a context manager.

    Modes: `ok` accepts; `refuse` answers 503; `too_large` answers 413 to requests larger than `limit` bytes;
    `hang` never answers. Every request is recorded, only accepted ones count in `spans`.
    """

    def __init__(self, mode: Mode = "ok", *, limit: int = 0) -> None:
        self.mode: Mode = mode
        self.limit = limit
        self.requests: list[ReceivedRequest] = []
        self.metrics: list[ReceivedPoint] = []
        """Every point of every accepted request to `/v1/metrics`, in order of arrival."""
        self._spans: list[SpanRecord] = []
        self._arrived = threading.Condition()
        self._released = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.receiver = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name="otlp-receiver")

    def __enter__(self) -> OtlpReceiver:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def endpoint(self) -> str:
        """Base URL, as for `OTEL_EXPORTER_OTLP_ENDPOINT`."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def spans(self) -> tuple[SpanRecord, ...]:
        """Spans of accepted requests, in order of arrival."""
        with self._arrived:
            return tuple(self._spans)

    def wait_for(self, count: int, timeout: float = 5.0) -> tuple[SpanRecord, ...]:
        """Block until `count` spans have arrived or `timeout` seconds are over; what there is then."""
        with self._arrived:
            self._arrived.wait_for(lambda: len(self._spans) >= count, timeout)
            return tuple(self._spans)

    def wait_for_requests(self, count: int, timeout: float = 5.0) -> int:
        """Block until `count` requests have come, accepted or not, or `timeout` seconds are over."""
        with self._arrived:
            self._arrived.wait_for(lambda: len(self.requests) >= count, timeout)
            return len(self.requests)

    def wait_for_metrics(self, timeout: float = 5.0) -> None:
        """Block until a data point has arrived or `timeout` seconds are over."""
        with self._arrived:
            self._arrived.wait_for(lambda: self.metrics, timeout)

    def handle(self, headers: dict[str, str], body: bytes) -> int | None:
        """Record one request; the status to answer, None for no answer at all."""
        request = decode_request(headers, body)
        accepted = self.mode == "ok" or (self.mode == "too_large" and request.size <= self.limit)
        with self._arrived:
            self.requests.append(request)
            if accepted:
                self._spans.extend(request.spans)
            self._arrived.notify_all()
        if self.mode == "hang":
            self._released.wait()
            return None
        return 200 if accepted else ANSWERS[self.mode]

    def handle_metrics(self, headers: dict[str, str], body: bytes) -> int | None:
        """The same for a POST to `/v1/metrics`."""
        points = decode_metrics(headers, body)
        with self._arrived:
            if self.mode == "ok":
                self.metrics.extend(points)
            self._arrived.notify_all()
        if self.mode == "hang":
            self._released.wait()
            return None
        return 200 if self.mode == "ok" else ANSWERS[self.mode]


def decode_metrics(headers: dict[str, str], body: bytes) -> list[ReceivedPoint]:
    """The data points of an OTLP/HTTP protobuf body. Raises protobuf's DecodeError for anything else."""
    message = ExportMetricsServiceRequest.FromString(_decompressed(headers, body))
    points: list[ReceivedPoint] = []
    for group in message.resource_metrics:
        for metric in (metric for scope in group.scope_metrics for metric in scope.metrics):
            for bar in metric.histogram.data_points:
                points.append(ReceivedPoint(metric.name, _attributes(bar.attributes), bar.sum, bar.count))
            for number in (*metric.sum.data_points, *metric.gauge.data_points):
                value = number.as_int if number.WhichOneof("value") == "as_int" else number.as_double
                points.append(ReceivedPoint(metric.name, _attributes(number.attributes), value))
    return points


def _decompressed(headers: dict[str, str], body: bytes) -> bytes:
    match headers.get("content-encoding"):
        case "gzip":
            return gzip.decompress(body)
        case "deflate":
            return zlib.decompress(body)
    return body


def decode_request(headers: dict[str, str], body: bytes) -> ReceivedRequest:
    """Decode an OTLP/HTTP protobuf body, gzip or deflate. Raises protobuf's DecodeError for anything else."""
    body = _decompressed(headers, body)
    message = ExportTraceServiceRequest.FromString(body)
    resources: list[dict[str, AttributeValue]] = []
    spans: list[SpanRecord] = []
    for group in message.resource_spans:
        resource = _attributes(group.resource.attributes)
        resources.append(resource)
        spans.extend(_span(span, resource) for scope in group.scope_spans for span in scope.spans)
    return ReceivedRequest(headers, len(body), tuple(resources), tuple(spans))


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    """Joined by `server_close`, so that a test leaves no thread behind."""
    receiver: OtlpReceiver

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is what some tests are about; nothing to report."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = 5

    def do_POST(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length", "0")))
        receiver = self.server.receiver
        status: int | None = 404
        if self.path == "/v1/traces":
            status = receiver.handle(headers, body)
        elif self.path == "/v1/metrics":
            status = receiver.handle_metrics(headers, body)
        if status is None:
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""


def _span(span: Span, resource: dict[str, AttributeValue]) -> SpanRecord:
    return SpanRecord(
        service=str(resource.get(SERVICE_NAME, "")),
        name=span.name,
        kind=KINDS[span.kind],
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_span_id=span.parent_span_id.hex() or None,
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        attributes=_attributes(span.attributes),
        events=tuple(
            SpanEvent(name=event.name, time_ns=event.time_unix_nano, attributes=_attributes(event.attributes))
            for event in span.events
        ),
        links=tuple(
            SpanLink(
                trace_id=link.trace_id.hex(),
                span_id=link.span_id.hex(),
                attributes=_attributes(link.attributes),
            )
            for link in span.links
        ),
        status=STATUSES[span.status.code],
        status_description=span.status.message,
        instance_id=str(resource.get(SERVICE_INSTANCE, "")),
    )


def _attributes(attributes: Iterable[KeyValue]) -> dict[str, AttributeValue]:
    return {item.key: _value(item.value) for item in attributes}


def _value(value: AnyValue) -> AttributeValue:
    match value.WhichOneof("value"):
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
        case "int_value":
            return value.int_value
        case "double_value":
            return value.double_value
        case "array_value":
            return [_value(item) for item in value.array_value.values]
        case _:
            return str(value)
