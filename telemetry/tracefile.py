"""Trace files: OTLP-JSON lines, one `{"resourceSpans": […]}` object each, as collectors write.

Ids are lower-case hex, times decimal strings of nanoseconds since the epoch, kinds and status codes the
numbers of OTLP. `read_trace_file` reads what others write as well: names instead of numbers, base64 ids.
"""

from __future__ import annotations

import base64
import json
import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import msgspec

from telemetry.attributes import SERVICE_INSTANCE, SERVICE_NAME
from telemetry.records import (
    SERVICE,
    AttributeValue,
    SpanEvent,
    SpanKind,
    SpanLink,
    SpanRecord,
    SpanStatus,
    clean_record,
)

SCOPE = "orchestrator"
MODE = 0o600
START = b'{"resourceSpans"'
KIND_NUMBERS: dict[SpanKind, int] = {"INTERNAL": 1, "CLIENT": 3}
STATUS_NUMBERS: dict[SpanStatus, int] = {"UNSET": 0, "OK": 1, "ERROR": 2}
OUTGOING_KINDS = (3, 4, "SPAN_KIND_CLIENT", "SPAN_KIND_PRODUCER")


class TraceFileError(Exception):
    """A trace file cannot be written or read; the message says what to do."""


def encode_line(
    records: Sequence[SpanRecord], resource_of: Callable[[SpanRecord], Mapping[str, str]]
) -> bytes:
    """One line with its newline: the records grouped by their resource."""
    groups: dict[tuple[tuple[str, str], ...], list[SpanRecord]] = {}
    for record in records:
        groups.setdefault(tuple(resource_of(record).items()), []).append(record)
    line = {
        "resourceSpans": [
            {
                "resource": {"attributes": _encode_attributes(dict(resource))},
                "scopeSpans": [{"scope": {"name": SCOPE}, "spans": [_encode_span(span) for span in spans]}],
            }
            for resource, spans in groups.items()
        ]
    }
    return msgspec.json.encode(line) + b"\n"


def decode_trace(trace: Mapping[str, Any]) -> tuple[SpanRecord, ...]:
    """The spans of one object with `resourceSpans`. ValueError, TypeError, KeyError or AttributeError."""
    found: list[SpanRecord] = []
    for group in trace["resourceSpans"]:
        resource = _decode_attributes(group.get("resource", {}).get("attributes", ()))
        for scope in group.get("scopeSpans", ()):
            found.extend(_decode_span(span, resource) for span in scope.get("spans", ()))
    return tuple(found)


def read_trace_file(path: Path) -> tuple[SpanRecord, ...]:
    """Every span of a trace file, in its order; the same span written twice comes twice. `TraceFileError`."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise TraceFileError(
            f"cannot read the trace file {path}: {_cause(error)}; name a file written with --trace-file"
        ) from error
    found: list[SpanRecord] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            found.extend(decode_trace(msgspec.json.decode(line)))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise TraceFileError(
                f"{path}, line {number}: no OTLP-JSON trace ({type(error).__name__}: {error}); "
                "a process that was killed leaves a broken line: delete that line and try again"
            ) from error
    return tuple(found)


def open_trace_file(path: Path) -> int:
    """A descriptor to append to `path`, which only its owner may read. Blocks. `TraceFileError`.

    An existing file must be a trace file or empty, so that a slip of the hand ruins nothing.
    """
    try:
        # without O_NONBLOCK a pipe without a reader would hold us here
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, MODE)
    except OSError as error:
        raise TraceFileError(
            f"cannot write the trace file {path}: {_cause(error)}; "
            "name a file in a directory that exists and that you may write to"
        ) from error
    try:
        _take_over(fd, path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _take_over(fd: int, path: Path) -> None:
    """Check that the open file is ours to append to, close it to others, begin on a line of its own."""
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise TraceFileError(f"cannot write the trace file {path}: not a regular file; name another path")
    if status.st_size and os.pread(fd, len(START), 0) != START:
        raise TraceFileError(f"{path} exists and is no trace file; name a new file or an earlier trace file")
    try:
        os.fchmod(fd, MODE)
        if status.st_size and os.pread(fd, 1, status.st_size - 1) != b"\n":
            os.write(fd, b"\n")
    except OSError as error:
        raise TraceFileError(
            f"cannot write the trace file {path}: {_cause(error)}; name a file that belongs to you"
        ) from error


@attrs.define(eq=False)
class TraceFileSink:
    """A sink that appends to an open trace file, one line per batch. After an error it writes no more."""

    fd: int
    resource_of: Callable[[SpanRecord], Mapping[str, str]]
    reason: str = ""

    def send(self, batch: Sequence[SpanRecord]) -> int:
        if self.reason:
            return 0
        try:
            rest = memoryview(encode_line([clean_record(record) for record in batch], self.resource_of))
            while rest:
                rest = rest[os.write(self.fd, rest) :]
        except OSError as error:
            self.reason = _cause(error)
            return 0
        return len(batch)

    def hurry(self, deadline: float) -> None:
        """Nothing is ever retried here."""

    def close(self) -> None:
        os.close(self.fd)

    def loss(self, lost: int, handed: int) -> str | None:
        if not lost:
            return None
        reason = self.reason or "the disk is too slow"
        return (
            f"{lost} of {handed} spans were not written to the trace file ({reason}); "
            "name another --trace-file"
        )


def _encode_span(span: SpanRecord) -> dict[str, Any]:
    encoded: dict[str, Any] = {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "name": span.name,
        "kind": KIND_NUMBERS[span.kind],
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.end_ns),
        "attributes": _encode_attributes(span.attributes),
        "status": {"code": STATUS_NUMBERS[span.status]},
    }
    if span.parent_span_id is not None:
        encoded["parentSpanId"] = span.parent_span_id
    if span.status_description:
        encoded["status"]["message"] = span.status_description
    if span.events:
        encoded["events"] = [
            {
                "name": event.name,
                "timeUnixNano": str(event.time_ns),
                "attributes": _encode_attributes(event.attributes),
            }
            for event in span.events
        ]
    if span.links:
        encoded["links"] = [
            {
                "traceId": link.trace_id,
                "spanId": link.span_id,
                "attributes": _encode_attributes(link.attributes),
            }
            for link in span.links
        ]
    return encoded


def _encode_attributes(attributes: Mapping[str, AttributeValue]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _encode_value(value)} for key, value in attributes.items()]


def _encode_value(value: AttributeValue) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}  # a string: JSON readers elsewhere have doubles only
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": value}
        case _:
            return {"arrayValue": {"values": [_encode_value(item) for item in value]}}


def _decode_span(span: Mapping[str, Any], resource: Mapping[str, AttributeValue]) -> SpanRecord:
    status = span.get("status", {})
    return SpanRecord(
        service=str(resource.get(SERVICE_NAME, SERVICE)),
        name=str(span.get("name", "")),
        kind="CLIENT" if span.get("kind") in OUTGOING_KINDS else "INTERNAL",
        trace_id=_hex_id(span["traceId"], 32),
        span_id=_hex_id(span["spanId"], 16),
        parent_span_id=_hex_id(span["parentSpanId"], 16) if span.get("parentSpanId") else None,
        start_ns=int(span.get("startTimeUnixNano", 0)),
        end_ns=int(span.get("endTimeUnixNano", 0)),
        attributes=_decode_attributes(span.get("attributes", ())),
        events=tuple(
            SpanEvent(
                name=str(event.get("name", "")),
                time_ns=int(event.get("timeUnixNano", 0)),
                attributes=_decode_attributes(event.get("attributes", ())),
            )
            for event in span.get("events", ())
        ),
        links=tuple(
            SpanLink(
                trace_id=_hex_id(link["traceId"], 32),
                span_id=_hex_id(link["spanId"], 16),
                attributes=_decode_attributes(link.get("attributes", ())),
            )
            for link in span.get("links", ())
        ),
        status=_decode_status(status.get("code", 0)),
        status_description=str(status.get("message", "")),
        instance_id=str(resource.get(SERVICE_INSTANCE, "")),
    )


def _decode_status(code: Any) -> SpanStatus:
    for status, number in STATUS_NUMBERS.items():
        if code in (number, f"STATUS_CODE_{status}"):
            return status
    raise ValueError(f"status code {code!r} is none of 0, 1, 2")


def _decode_attributes(attributes: Iterable[Mapping[str, Any]]) -> dict[str, AttributeValue]:
    return {str(item["key"]): _decode_value(item.get("value", {})) for item in attributes}


def _decode_value(value: Mapping[str, Any]) -> AttributeValue:
    match dict(value):
        case {"stringValue": str(text)}:
            return text
        case {"boolValue": bool(flag)}:
            return flag
        case {"intValue": number}:
            return int(number)
        case {"doubleValue": number}:
            return float(number)
        case {"arrayValue": array}:
            return [_decode_value(item) for item in array.get("values", ())]
        case other:  # maps and bytes, which we never write
            return json.dumps(other, sort_keys=True) if other else ""


def _hex_id(text: str, digits: int) -> str:
    """An id as lower-case hex; the other form of protobuf's JSON is base64."""
    found = text.lower() if len(text) == digits else base64.b64decode(text, validate=True).hex()
    if len(found) != digits:
        raise ValueError(f"{text!r} is no id of {digits} hex digits")
    int(found, 16)
    return found


def _cause(error: OSError) -> str:
    return error.strerror or type(error).__name__
