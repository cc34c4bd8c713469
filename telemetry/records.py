"""What a span is, as values: records, events, links, references, and the cleaning of their fields. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import attrs
import msgspec

AttributeValue = str | bool | int | float | list[Any]
"""A list holds one of the four plain types throughout; `clean_value` sees to it. (One list type only: the
JSON decoder takes no union of several.)"""
SpanKind = Literal["INTERNAL", "CLIENT"]
SpanStatus = Literal["UNSET", "OK", "ERROR"]

SERVICE = "orchestrator"
"""Service of turn, main agent, Task and settle spans."""
PERSON = "person"
"""Service of permission waits."""

MAX_VALUE_CHARS = 4096
MAX_DESCRIPTION_CHARS = 256
MAX_NAME_CHARS = 120
MAX_EVENTS = 256
MAX_ATTRIBUTES = 100
MAX_EVENT_ATTRIBUTES = 32
MAX_LINKS = 128
MAX_LIST_ITEMS = 100


class SpanEvent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Something that happened inside a span at one instant."""

    name: str
    time_ns: int
    attributes: dict[str, AttributeValue] = {}


class SpanLink(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A reference to another span, of this trace or another one."""

    trace_id: str
    span_id: str
    attributes: dict[str, AttributeValue] = {}


class SpanRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One ended span, whole: everything an exporter needs."""

    service: str
    name: str
    kind: SpanKind
    trace_id: str
    """32 hex digits."""
    span_id: str
    """16 hex digits."""
    parent_span_id: str | None
    start_ns: int
    end_ns: int
    attributes: dict[str, AttributeValue]
    events: tuple[SpanEvent, ...] = ()
    links: tuple[SpanLink, ...] = ()
    status: SpanStatus = "UNSET"
    status_description: str = ""
    instance_id: str = ""
    """The process that made the span, as `service.instance.id`: a span that a later process sends again stays
    the same span."""


@attrs.frozen
class SpanRef:
    """The ids of a span, enough to be a parent or a link target."""

    trace_id: str
    span_id: str


def clean_text(text: str, limit: int) -> str:
    """Valid UTF-8, at most `limit` characters; a cut says how long the text was."""
    if type(text) is str and len(text) <= limit and text.isascii():  # nearly every one
        return text
    safe = text.encode("utf-8", "replace").decode("utf-8")
    if len(safe) <= limit:
        return safe
    mark = f"… [{len(safe)} characters]"
    return safe[: max(0, limit - len(mark))] + mark


def clean_value(value: Any) -> AttributeValue:
    """A value that every exporter takes and JSON keeps: text cut, integers in 64 bits, anything else as text.

    Never raises, whatever the value's own methods do.
    """
    kind = type(value)
    if kind is str and len(value) <= MAX_VALUE_CHARS and value.isascii():  # nearly every one
        return str(value)
    if kind is bool:
        return bool(value)
    try:
        return _plain(value)
    except Exception:  # a value's own __str__, __iter__ or __float__ may raise; telemetry must not
        return clean_text(f"<{type(value).__name__}>", MAX_VALUE_CHARS)


def clean_attributes(attributes: Mapping[str, Any], limit: int = MAX_ATTRIBUTES) -> dict[str, AttributeValue]:
    """The first `limit` attributes with clean keys and values; None values are left out."""
    cleaned: dict[str, AttributeValue] = {}
    for key, value in attributes.items():
        if len(cleaned) >= limit:
            break
        if value is not None:
            cleaned[clean_key(key)] = clean_value(value)
    return cleaned


def clean_key(key: Any) -> str:
    """An attribute's name as valid, short text."""
    if type(key) is str and len(key) <= MAX_NAME_CHARS and key.isascii():
        return key
    return clean_text(key if isinstance(key, str) else repr(key), MAX_NAME_CHARS)


def clean_record(record: SpanRecord) -> SpanRecord:
    """The record within all limits, whoever built it; a clean one comes back equal."""
    return msgspec.structs.replace(
        record,
        service=clean_text(record.service or SERVICE, MAX_NAME_CHARS),
        name=clean_text(record.name, MAX_NAME_CHARS),
        attributes=clean_attributes(record.attributes),
        events=tuple(
            SpanEvent(
                name=clean_text(event.name, MAX_NAME_CHARS),
                time_ns=event.time_ns,
                attributes=clean_attributes(event.attributes, MAX_EVENT_ATTRIBUTES),
            )
            for event in record.events[:MAX_EVENTS]
        ),
        links=tuple(
            msgspec.structs.replace(link, attributes=clean_attributes(link.attributes, MAX_EVENT_ATTRIBUTES))
            for link in record.links[:MAX_LINKS]
        ),
        status_description=clean_text(record.status_description, MAX_DESCRIPTION_CHARS),
    )


def _plain(value: Any) -> AttributeValue:
    match value:
        case bool():
            return value
        case float():
            # JSON has no nan and no infinity
            return float(value) if math.isfinite(value) else str(float(value))
        case int():
            return int(value) if -(2**63) <= value < 2**63 else clean_text(str(int(value)), MAX_VALUE_CHARS)
        case str():
            return clean_text(value, MAX_VALUE_CHARS)
        case list() | tuple():
            return _plain_list(list(value))
        case set() | frozenset():
            return _plain_list(sorted(value, key=str))
        case _:
            return clean_text(str(value), MAX_VALUE_CHARS)


def _plain_list(items: list[Any]) -> list[Any]:
    """At most `MAX_LIST_ITEMS` items and `MAX_VALUE_CHARS` characters, all of one type; a cut is marked."""
    kept = [clean_value(item) for item in items[:MAX_LIST_ITEMS]]
    same_type = len({type(item) for item in kept}) == 1
    if same_type and not isinstance(kept[0], str | list):
        return kept
    texts: list[Any] = []
    room = MAX_VALUE_CHARS
    for item in kept:
        text = item if isinstance(item, str) else clean_text(str(item), MAX_VALUE_CHARS)
        room -= len(text)
        if room < 0:
            break
        texts.append(text)
    return texts if len(texts) == len(items) else [*texts, f"… [{len(items)} items]"]
