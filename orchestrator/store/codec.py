"""Events and spans as the JSON of their rows, and back. Pure.

A body is `{"v": 1, "agent": …, "spanId": …, "parentSpanId": …, "payload": {"type": …, …}}`; what is a column
(session, seq, type, time, turn, task, trace) is not repeated in it. Fields unknown to this version are
ignored, types unknown to it are left out on reading.
"""

from __future__ import annotations

from typing import Any, Protocol

import attrs
import msgspec

from agents.errors import ErrorCode, failure
from agents.events import KNOWN_TYPES, AgentRef, AnyPayload, Event
from telemetry.records import SpanRecord

BODY_VERSION = 1


class Row(Protocol):
    """One row of a table, by column name."""

    def __getitem__(self, column: str, /) -> Any: ...


class _Body(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    v: int
    agent: AgentRef | None = None
    span_id: str | None = None
    parent_span_id: str | None = None
    payload: AnyPayload


class _Version(msgspec.Struct, frozen=True):
    v: int


@attrs.frozen
class EncodedEvent:
    """An event ready for its row; only the `seq` is missing."""

    event: Event
    body: str
    span: str | None


_encoder = msgspec.json.Encoder()
_bodies = msgspec.json.Decoder(_Body)
_versions = msgspec.json.Decoder(_Version)
_spans = msgspec.json.Decoder(SpanRecord)


def encode_json(value: Any) -> str:
    """Any value of ours as JSON text; a lone surrogate becomes `?`, as SQLite and every reader want UTF-8."""
    try:
        return _encoder.encode(value).decode("utf-8")
    except UnicodeEncodeError:
        return _encoder.encode(_clean(msgspec.to_builtins(value))).decode("utf-8")


def encode_event(event: Event) -> EncodedEvent:
    """Body and span of an event. An event with a lone surrogate in it is replaced by its clean form.

    Raises `ValueError` for an ephemeral event, which has no row.
    """
    if event.payload.EPHEMERAL:
        raise ValueError(f"{event.type} is never stored; pass it to show()")
    body = _Body(
        v=BODY_VERSION,
        agent=event.agent,
        span_id=event.span_id,
        parent_span_id=event.parent_span_id,
        payload=event.payload,
    )
    try:
        text = _encoder.encode(body).decode("utf-8")
        span = None if event.span is None else _encoder.encode(event.span).decode("utf-8")
    except UnicodeEncodeError:
        return encode_event(msgspec.convert(_clean(msgspec.to_builtins(event)), Event))
    return EncodedEvent(event, text, span)


def decode_event(row: Row) -> Event | None:
    """The event of a row of `events`; None for a type that this version does not know."""
    if row["type"] not in KNOWN_TYPES:
        return None
    where = f"event {row['seq']} of session {row['session_id']}"
    try:
        version = _versions.decode(row["body"]).v
        if version > BODY_VERSION:
            raise failure(
                ErrorCode.STORE_TOO_NEW,
                f"The store's {where} was written by a newer version; update orchestrator to read it.",
            )
        body = _bodies.decode(row["body"])
        span = None if row["span"] is None else _spans.decode(row["span"])
    except msgspec.MsgspecError as error:
        raise failure(
            ErrorCode.STORE_UNREADABLE,
            f"The store's {where} cannot be read ({error}); run `orchestrator doctor` to salvage the store.",
        ) from error
    return Event(
        session_id=row["session_id"],
        turn_id=row["turn_id"],
        agent=body.agent,
        task_id=row["task_id"],
        payload=body.payload,
        ts=row["ts"],
        seq=row["seq"],
        trace_id=row["trace_id"],
        span_id=body.span_id,
        parent_span_id=body.parent_span_id,
        span=span,
    )


def decode_span(text: str) -> SpanRecord:
    """The span of a row's `span` column."""
    return _spans.decode(text)


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    return value
