"""Trace files: what is written is OTLP-JSON, private, and reads back identical."""

from __future__ import annotations

import base64
import json
import os
import stat
from pathlib import Path

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from telemetry.export import TelemetrySettings, open_export
from telemetry.records import SpanRecord
from telemetry.tracefile import (
    TraceFileError,
    decode_trace,
    encode_line,
    open_trace_file,
    read_trace_file,
)
from tests.telemetry.spans import burst, span_records

resource_of = TelemetrySettings().resource_of


async def write(file: Path, records: list[SpanRecord]) -> list[str]:
    warnings: list[str] = []
    async with open_export(TelemetrySettings(trace_file=file), warn=warnings.append) as export:
        export.export(records)
    return warnings


@given(st.lists(span_records, min_size=1, max_size=3))
def test_every_record_reads_back_identical(records: list[SpanRecord]) -> None:
    decoded = decode_trace(json.loads(encode_line(records, resource_of)))
    assert sorted(map(repr, records)) == sorted(map(repr, decoded))


@given(span_records)
def test_a_line_opens_as_the_otlp_message_it_claims_to_be(record: SpanRecord) -> None:
    line = json.loads(encode_line([record], resource_of))
    span = line["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    assert (record.trace_id, record.span_id) == (span["traceId"], span["spanId"])
    # OTLP writes ids in hex where protobuf's own JSON has base64; all else is read by protobuf as it stands
    for holder in (span, *span.get("links", ())):
        for key in ("traceId", "spanId", "parentSpanId"):
            if key in holder:
                holder[key] = base64.b64encode(bytes.fromhex(holder[key])).decode()
    message = json_format.ParseDict(line, TracesData()).resource_spans[0].scope_spans[0].spans[0]
    assert (record.name, record.trace_id, record.span_id, record.parent_span_id or "") == (
        message.name,
        message.trace_id.hex(),
        message.span_id.hex(),
        message.parent_span_id.hex(),
    )
    assert (record.start_ns, record.end_ns) == (message.start_time_unix_nano, message.end_time_unix_nano)
    assert (len(record.events), len(record.links)) == (len(message.events), len(message.links))


async def test_a_run_appends_lines_that_only_its_owner_may_read(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    first, second = burst(700), burst(2)
    old_mask = os.umask(0)
    try:
        assert await write(file, first) == []
    finally:
        os.umask(old_mask)
    await write(file, second)
    assert [*first, *second] == list(read_trace_file(file))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for line in file.read_text().splitlines():
        assert list(json.loads(line)) == ["resourceSpans"]


async def test_an_earlier_trace_file_is_closed_to_others(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    await write(file, burst(1))
    file.chmod(0o644)
    await write(file, burst(1))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_a_line_that_a_killed_process_left_does_not_spoil_the_next_one(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    await write(file, burst(1))
    file.write_bytes(file.read_bytes()[:-20])
    records = burst(2)
    await write(file, records)
    with pytest.raises(TraceFileError, match=r"line 1: no OTLP-JSON trace .* delete that line"):
        read_trace_file(file)
    file.write_bytes(file.read_bytes().partition(b"\n")[2])
    assert records == list(read_trace_file(file))


def test_a_file_that_is_no_trace_is_not_touched(tmp_path: Path) -> None:
    file = tmp_path / "README.md"
    file.write_text("# mine")
    file.chmod(0o644)
    with pytest.raises(TraceFileError, match="exists and is no trace file; name a new file"):
        open_trace_file(file)
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("# mine", 0o644)


def test_a_directory_or_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (tmp_path, pipe):
        with pytest.raises(TraceFileError, match="cannot write the trace file"):
            open_trace_file(path)


def test_a_missing_file_is_told_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(TraceFileError, match=r"cannot read the trace file .*none.jsonl"):
        read_trace_file(tmp_path / "none.jsonl")


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        "3",
        "{}",
        '{"resourceSpans": 3}',
        '{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "no ids"}]}]}]}',
        '{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "x", "spanId": "y"}]}]}]}',
    ],
)
def test_a_broken_line_is_told_with_its_number(tmp_path: Path, line: str) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_bytes(encode_line(burst(1), resource_of) + b"\n" + line.encode() + b"\n")
    with pytest.raises(TraceFileError, match="line 3: no OTLP-JSON trace"):
        read_trace_file(file)


def test_other_writers_names_and_base64_ids_are_read_as_well() -> None:
    trace_id, span_id = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    (record,) = decode_trace(
        {
            "resourceSpans": [
                {
                    "scopeSpans": [
                        {
                            "spans": [
                                {
                                    "traceId": base64.b64encode(bytes.fromhex(trace_id)).decode(),
                                    "spanId": span_id.upper(),
                                    "name": "x",
                                    "kind": "SPAN_KIND_CLIENT",
                                    "startTimeUnixNano": 5,
                                    "endTimeUnixNano": "6",
                                    "status": {"code": "STATUS_CODE_ERROR"},
                                    "attributes": [{"key": "map", "value": {"kvlistValue": {"values": []}}}],
                                }
                            ]
                        }
                    ]
                }
            ]
        }
    )
    assert (trace_id, span_id, "CLIENT", 5, 6, "ERROR") == (
        record.trace_id,
        record.span_id,
        record.kind,
        record.start_ns,
        record.end_ns,
        record.status,
    )
