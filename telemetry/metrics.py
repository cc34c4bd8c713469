"""`MetricsSink`: the metrics, all derived from ended spans, in one place.

It is a sink of an `ExportWorker`, so measuring costs the run an append to a queue. The SDK is imported on
that thread with the first span. Metrics are sent at most every `metrics_interval` seconds, when spans end,
and at the end of the run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from telemetry import attributes as names
from telemetry.quiet import quiet
from telemetry.records import SERVICE, SpanRecord
from telemetry.settings import TelemetrySettings, without_credentials
from telemetry.spans import instance_id

REQUEST_SECONDS = 5.0
"""Patience with one request of a running export, its retries included."""
LAST_REQUEST_SECONDS = 0.7
"""The same while closing. Below the SDK's shortest pause before a retry (0.8 s), so that it never pauses."""
UNREACHABLE = "it could not be reached, refused, or did not answer in time"

SECONDS = [0.01 * 2**n for n in range(14)]
"""Bucket borders that the conventions advise for durations: 0.01 s to 81.92 s."""
AGENT_SECONDS = [0.1 * 2**n for n in range(13)]
TOKENS = [4.0**n for n in range(14)]
RECOVERY_EVENTS = frozenset(
    {names.RECOVERY_GRACE, names.RECOVERY_COUNTED, names.RECOVERY_EXHAUSTED, names.RECOVERY_RELEASED}
)
TOKEN_TYPES = (("input", names.INPUT_TOKENS), ("output", names.OUTPUT_TOKENS))


@attrs.define(eq=False)
class MetricsSink:
    """Counts and measures what its worker hands it, and posts that as OTLP/HTTP."""

    settings: TelemetrySettings
    dropped: Callable[[], int]
    """How many spans the export has given up so far."""
    active_agents: Callable[[], int]
    """How many agents run now."""
    reason: str = ""
    _meters: Any = None
    _exporter: Any = None
    _deadline: float | None = None
    _sent_at: float = attrs.field(factory=time.monotonic)
    _failed: bool = False
    _closed: bool = False

    @property
    def url(self) -> str:
        return self.settings.metrics_url or ""

    def send(self, batch: Sequence[SpanRecord]) -> int:
        with quiet(self):
            if self._meters is None:
                self._meters = _Meters(self)
            for record in batch:
                self._meters.measure(record)
            if self._deadline is None and time.monotonic() - self._sent_at >= self.settings.metrics_interval:
                self._exporter = self._exporter or self._new_exporter(REQUEST_SECONDS)
                self._post(self._exporter)
        return len(batch)

    def hurry(self, deadline: float) -> None:
        self._deadline = deadline
        if self._exporter is not None:
            with quiet(self):
                self._exporter.shutdown()  # wakes it from a pause before a retry

    def close(self) -> None:
        """Send what was measured since the last time."""
        in_time = self._deadline is None or time.monotonic() < self._deadline
        if self._meters is not None and in_time:
            with quiet(self):
                self._post(self._new_exporter(LAST_REQUEST_SECONDS))
        self._closed = True

    def loss(self, lost: int, handed: int) -> str | None:
        if not handed or (self._closed and not self._failed and not lost):
            return None
        return (
            f"the metrics did not reach {without_credentials(self.url)} ({self.reason or UNREACHABLE}); "
            "start a collector there or unset OTEL_EXPORTER_OTLP_METRICS_ENDPOINT and OTEL_METRICS_EXPORTER"
        )

    def _post(self, exporter: Any) -> None:
        assert self._meters is not None
        self._sent_at = time.monotonic()
        found = self._meters.reader.get_metrics_data()
        self._failed = found is not None and exporter.export(found).name != "SUCCESS"

    def _new_exporter(self, timeout: float) -> Any:
        # imported here: a run that sends no metrics never loads it
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

        headers = dict(self.settings.metrics_headers)
        return OTLPMetricExporter(endpoint=self.url, headers=headers, timeout=timeout)


class _Meters:
    """The instruments, and which span counts for which."""

    def __init__(self, sink: MetricsSink) -> None:
        # imported here: see `MetricsSink._new_exporter`
        from opentelemetry.metrics import Observation
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader
        from opentelemetry.sdk.resources import Resource

        self.reader = InMemoryMetricReader()
        resource = Resource(sink.settings.metrics_resource(instance_id()))
        provider = MeterProvider([self.reader], resource=resource, shutdown_on_exit=False)
        meter = provider.get_meter(SERVICE)

        def histogram(name: str, unit: str, borders: list[float]) -> Any:
            return meter.create_histogram(name, unit, explicit_bucket_boundaries_advisory=borders)

        self.tokens = histogram(names.TOKEN_USAGE, "{token}", TOKENS)
        self.chats = histogram(names.OPERATION_DURATION, "s", SECONDS)
        self.tools = histogram(names.TOOL_DURATION, "s", SECONDS)
        self.agents = histogram(names.AGENT_DURATION, "s", AGENT_SECONDS)
        self.permissions = histogram(names.PERMISSION_WAIT_DURATION, "s", AGENT_SECONDS)
        self.recovery = meter.create_counter(names.RECOVERY_EVENT_COUNT, "{event}")
        meter.create_observable_up_down_counter(
            names.AGENTS_ACTIVE, [lambda _: [Observation(sink.active_agents())]], "{agent}"
        )
        meter.create_observable_counter(
            names.DROPPED_SPANS, [lambda _: [Observation(sink.dropped())]], "{span}"
        )

    def measure(self, span: SpanRecord) -> None:
        """Take one ended span into account."""
        seconds = max(0, span.end_ns - span.start_ns) / 1e9
        if span.name.startswith(names.CHAT_PREFIX):
            about = _those(span, names.OPERATION, names.PROVIDER, names.REQUEST_MODEL, names.RESPONSE_MODEL)
            for kind, key in TOKEN_TYPES:
                if key in span.attributes:
                    self.tokens.record(span.attributes[key], {**about, names.TOKEN_TYPE: kind})
            self.chats.record(seconds, about | _those(span, names.ERROR_TYPE))
        elif span.name.startswith(names.AGENT_PREFIX):
            self.agents.record(seconds, _those(span, names.AGENT_NAME, names.PROVIDER, names.ERROR_TYPE))
            for event in span.events:
                if event.name in RECOVERY_EVENTS:
                    which: dict[str, Any] = {names.RECOVERY_EVENT: event.name.rpartition(".")[2]}
                    if names.RECOVERY_KIND in event.attributes:
                        which[names.RECOVERY_KIND] = event.attributes[names.RECOVERY_KIND]
                    self.recovery.add(1, which)
        elif span.name.startswith(names.TOOL_PREFIX):
            self.tools.record(seconds, _those(span, names.TOOL_NAME, names.TOOL_TYPE, names.ERROR_TYPE))
        elif span.name == names.PERMISSION_SPAN:
            self.permissions.record(seconds, _those(span, names.PERMISSION_TOOL, names.PERMISSION_DECISION))


def _those(span: SpanRecord, *keys: str) -> dict[str, Any]:
    return {key: span.attributes[key] for key in keys if key in span.attributes}
