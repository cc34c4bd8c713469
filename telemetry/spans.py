"""Spans as our own values: made in every run, stored with the event that ends them, exported afterwards.

Ids are random W3C ids that we draw ourselves, so that the stored events can rebuild the trace of a process
that died. Only the OTel API is used here (the current span is visible to instrumented user code); the SDK is
in `telemetry.export`.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import msgspec
from opentelemetry import context as otel_context
from opentelemetry import trace as otel_trace

from telemetry.attributes import ERROR_TYPE, INTERRUPTED, PROCESS_DIED
from telemetry.records import (
    MAX_ATTRIBUTES,
    MAX_DESCRIPTION_CHARS,
    MAX_EVENT_ATTRIBUTES,
    MAX_EVENTS,
    MAX_LINKS,
    MAX_NAME_CHARS,
    SERVICE,
    AttributeValue,
    SpanEvent,
    SpanKind,
    SpanLink,
    SpanRecord,
    SpanRef,
    SpanStatus,
    clean_attributes,
    clean_key,
    clean_text,
    clean_value,
)

_random = random.Random(secrets.randbits(256))
"""Ours: nobody's `random.seed` makes ids come twice. They are no secrets, and a system call each is dear."""


def new_trace_id() -> str:
    """A random W3C trace id: 32 hex digits, not all zero."""
    return f"{_random.getrandbits(128) or 1:032x}"


def new_span_id() -> str:
    """A random W3C span id: 16 hex digits, not all zero."""
    return f"{_random.getrandbits(64) or 1:016x}"


@functools.cache
def instance_id() -> str:
    """`service.instance.id` of this process: random, the same in all its spans."""
    return secrets.token_hex(8)


def _anew_in_a_fork() -> None:
    """A forked process draws ids of its own, not those that its parent draws next."""
    _random.seed(secrets.randbits(256))
    instance_id.cache_clear()


if hasattr(os, "register_at_fork"):  # where there is no fork there is none to follow
    os.register_at_fork(after_in_child=_anew_in_a_fork)


@attrs.define(eq=False)
class Span:
    """A span that is still open. Not current by itself; `use` makes it so for a block."""

    name: str
    service: str
    kind: SpanKind
    ref: SpanRef
    parent_span_id: str | None
    start_ns: int
    attributes: dict[str, AttributeValue] = attrs.field(factory=dict)
    _events: list[SpanEvent] = attrs.field(factory=list)
    _links: list[SpanLink] = attrs.field(factory=list)
    _status: SpanStatus = "UNSET"
    _description: str = ""
    _ended: SpanRecord | None = None

    @property
    def trace_id(self) -> str:
        return self.ref.trace_id

    @property
    def span_id(self) -> str:
        return self.ref.span_id

    def child(
        self,
        name: str,
        attributes: Mapping[str, Any] | None = None,
        *,
        service: str | None = None,
        kind: SpanKind = "INTERNAL",
        start_ns: int | None = None,
    ) -> Span:
        """Open a span below this one, of this span's service unless another is named."""
        return start_span(
            name, attributes, parent=self.ref, service=service or self.service, kind=kind, start_ns=start_ns
        )

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Set attributes; None values are left out, odd ones turned into text, long ones cut."""
        mine = self.attributes
        for key, value in attributes.items():
            if value is not None:
                name = clean_key(key)
                if len(mine) < MAX_ATTRIBUTES or name in mine:
                    mine[name] = clean_value(value)

    def add_event(
        self, name: str, attributes: Mapping[str, Any] | None = None, *, at_ns: int | None = None
    ) -> None:
        """Note an instant. Beyond `MAX_EVENTS` the oldest stay and later ones are dropped."""
        if len(self._events) < MAX_EVENTS:
            self._events.append(
                SpanEvent(
                    name=clean_text(name, MAX_NAME_CHARS),
                    time_ns=time.time_ns() if at_ns is None else at_ns,
                    attributes=clean_attributes(attributes or {}, MAX_EVENT_ATTRIBUTES),
                )
            )

    def add_link(self, target: SpanRef, attributes: Mapping[str, Any] | None = None) -> None:
        """Refer to another span; links beyond `MAX_LINKS` are dropped."""
        if len(self._links) < MAX_LINKS:
            cleaned = clean_attributes(attributes or {}, MAX_EVENT_ATTRIBUTES)
            self._links.append(SpanLink(trace_id=target.trace_id, span_id=target.span_id, attributes=cleaned))

    def set_error(self, error_type: str, description: str = "") -> None:
        """Mark the span ERROR with `error.type`. The description must hold no content (no path, no text)."""
        self.attributes[ERROR_TYPE] = clean_value(error_type)
        self._status = "ERROR"
        self._description = clean_text(description or error_type, MAX_DESCRIPTION_CHARS)

    def end(self, at_ns: int | None = None) -> SpanRecord:
        """Close the span, once; a second call returns the first record."""
        if self._ended is None:
            self._ended = SpanRecord(
                service=clean_text(self.service, MAX_NAME_CHARS),
                name=clean_text(self.name, MAX_NAME_CHARS),
                kind=self.kind,
                trace_id=self.ref.trace_id,
                span_id=self.ref.span_id,
                parent_span_id=self.parent_span_id,
                start_ns=self.start_ns,
                end_ns=max(self.start_ns, at_ns if at_ns is not None else time.time_ns()),
                attributes=dict(self.attributes),
                events=tuple(self._events),
                links=tuple(self._links),
                status=self._status,
                status_description=self._description,
                instance_id=instance_id(),
            )
        return self._ended


def start_span(
    name: str,
    attributes: Mapping[str, Any] | None = None,
    *,
    parent: SpanRef | None,
    service: str = SERVICE,
    kind: SpanKind = "INTERNAL",
    start_ns: int | None = None,
) -> Span:
    """Open a span. The parent is always named: a long-lived nursery's task would inherit the wrong one."""
    span = Span(
        name=name,
        service=service,
        kind=kind,
        ref=SpanRef(parent.trace_id if parent else new_trace_id(), new_span_id()),
        parent_span_id=parent.span_id if parent else None,
        start_ns=time.time_ns() if start_ns is None else start_ns,
    )
    span.set_attributes(attributes or {})
    return span


@contextlib.contextmanager
def use(span: Span) -> Iterator[Span]:
    """Make `span` the current OTel span for the block, so that instrumented user code hangs below it.

    Never hold this across a `yield` of an async generator.
    """
    context = otel_trace.SpanContext(
        int(span.trace_id, 16),
        int(span.span_id, 16),
        False,
        otel_trace.TraceFlags(otel_trace.TraceFlags.SAMPLED),
    )
    token = otel_context.attach(otel_trace.set_span_in_context(otel_trace.NonRecordingSpan(context)))
    try:
        yield span
    finally:
        otel_context.detach(token)


def current_ref() -> SpanRef | None:
    """The span that `use` made current here, or an instrumented program's own; None outside of any."""
    context = otel_trace.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return SpanRef(f"{context.trace_id:032x}", f"{context.span_id:016x}")


def traceparent(ref: SpanRef) -> str:
    """The W3C header value that names `ref` as the parent."""
    return f"00-{ref.trace_id}-{ref.span_id}-01"


_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?")


def parse_traceparent(header: str | None) -> SpanRef | None:
    """The parent that a W3C `TRACEPARENT` names; None for a missing or malformed one.

    As the standard asks, version `ff` and all-zero ids are malformed; a later version may have more fields.
    """
    found = _TRACEPARENT.fullmatch((header or "").strip())
    if found is None:
        return None
    version, trace_id, span_id, more = found.groups()
    if version == "ff" or (version == "00" and more) or not int(trace_id, 16) or not int(span_id, 16):
        return None
    return SpanRef(trace_id, span_id)


def reopened_span(
    name: str,
    attributes: Mapping[str, Any] | None = None,
    *,
    ref: SpanRef,
    parent_span_id: str | None,
    start_ns: int,
    service: str = SERVICE,
    kind: SpanKind = "INTERNAL",
) -> Span:
    """A span of a process that died, open again under its own ids; end it with `end_interrupted`."""
    span = Span(
        name=name, service=service, kind=kind, ref=ref, parent_span_id=parent_span_id, start_ns=start_ns
    )
    span.set_attributes(attributes or {})
    return span


def end_interrupted(span: Span, end_ns: int, instance: str | None = None) -> SpanRecord:
    """End it as its process could not: ERROR `INTERRUPTED`, "process died".

    `instance` is the `service.instance.id` of that process; None where it is not known.
    """
    span.set_error(INTERRUPTED, PROCESS_DIED)
    return msgspec.structs.replace(span.end(end_ns), instance_id=instance or "")


def leaf_exceptions(error: BaseException) -> Iterator[BaseException]:
    """The exceptions inside nested groups, leaves only."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaf_exceptions(inner)
    else:
        yield error
