"""`trace_lines`: stored spans as the lines of a trace file, whenever they were recorded. Pure.

Whoever ran without an endpoint and without `--trace-file` can still put a trace into Jaeger's upload box.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from telemetry.records import SpanRecord, clean_record
from telemetry.settings import TelemetrySettings
from telemetry.tracefile import encode_line


def trace_lines(spans: Iterable[SpanRecord], settings: TelemetrySettings) -> Iterator[bytes]:
    """One OTLP-JSON line per trace, in the order in which the traces began; each ends with its newline.

    `settings` says which resource a span belongs to.
    """
    traces: dict[str, list[SpanRecord]] = {}
    for span in spans:
        traces.setdefault(span.trace_id, []).append(clean_record(span))
    for records in traces.values():
        yield encode_line(records, settings.resource_of)
