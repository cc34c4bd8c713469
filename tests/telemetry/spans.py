"""Span records for the tests of telemetry and of the trace view."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from hypothesis import strategies as st

from telemetry.records import SERVICE, SpanEvent, SpanKind, SpanLink, SpanRecord, clean_attributes
from telemetry.spans import Span, start_span

EPOCH_NS = 1_700_000_000_000_000_000
MILLISECOND = 1_000_000


@attrs.define
class Trace:
    """Builds the ended spans of one trace; times are milliseconds after `EPOCH_NS`."""

    records: list[SpanRecord] = attrs.field(factory=list)

    def span(
        self,
        parent: Span | None,
        name: str,
        start: float,
        end: float,
        attributes: Mapping[str, Any] | None = None,
        *,
        service: str = SERVICE,
        kind: SpanKind = "INTERNAL",
        error: str | None = None,
    ) -> Span:
        span = start_span(
            name,
            attributes,
            parent=parent.ref if parent else None,
            service=service,
            kind=kind,
            start_ns=EPOCH_NS + round(start * MILLISECOND),
        )
        if error is not None:
            span.set_error(error)
        self.records.append(span.end(EPOCH_NS + round(end * MILLISECOND)))
        return span

    def names(self, span_ids: tuple[str, ...]) -> list[str]:
        by_id = {record.span_id: record.name for record in self.records}
        return [by_id[span_id] for span_id in span_ids]


def burst(count: int) -> list[SpanRecord]:
    """A turn with `count` spans in all, children first."""
    trace = Trace()
    root = start_span("invoke_workflow turn", parent=None, start_ns=EPOCH_NS)
    for number in range(count - 1):
        trace.span(root, "step", number, number + 1, {"number": number})
    return [*trace.records, root.end(EPOCH_NS + count * MILLISECOND)]


def _hex(digits: int) -> st.SearchStrategy[str]:
    return st.integers(1, 16**digits - 1).map(lambda number: f"{number:0{digits}x}")


_times = st.integers(1, 2**62)
_attributes = st.dictionaries(
    st.text(max_size=12),
    st.one_of(
        st.text(st.characters(), max_size=20),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.lists(st.integers(), max_size=3),
        st.lists(st.one_of(st.text(max_size=4), st.booleans(), st.floats()), max_size=3),
    ),
    max_size=4,
).map(clean_attributes)
_name = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)

span_records = st.builds(
    SpanRecord,
    service=_name.filter(bool),
    name=_name,
    kind=st.sampled_from(["INTERNAL", "CLIENT"]),
    trace_id=_hex(32),
    span_id=_hex(16),
    parent_span_id=st.none() | _hex(16),
    start_ns=_times,
    end_ns=_times,
    attributes=_attributes,
    events=st.lists(st.builds(SpanEvent, name=_name, time_ns=_times, attributes=_attributes), max_size=2).map(
        tuple
    ),
    links=st.lists(
        st.builds(SpanLink, trace_id=_hex(32), span_id=_hex(16), attributes=_attributes), max_size=2
    ).map(tuple),
    status=st.sampled_from(["UNSET", "OK", "ERROR"]),
    status_description=_name,
    instance_id=_hex(16),
)
