"""`check_trace`: what is wrong with a trace, one sentence per problem. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from telemetry.attributes import ERROR_TYPE, PERMISSION_SPAN, TOOL_NAME, TOOL_OUTCOME, TOOL_PREFIX, TURN_SPAN
from telemetry.records import SpanRecord
from telemetry.tree import SpanTree, build_tree

QUIET_OUTCOMES = frozenset({"denied", "cancelled"})
"""Outcomes of a tool call that are no error of the tool."""


def check_trace(records: Iterable[SpanRecord]) -> tuple[str, ...]:
    """The problems of one or several traces, in a stable order; empty when all is well.

    The same span twice, identical, is no problem: what was not acknowledged is sent again. A turn may have a
    parent that is not here: the process that started it from outside.
    """
    traces: dict[str, list[SpanRecord]] = {}
    for record in records:
        spans = traces.setdefault(record.trace_id, [])
        if record not in spans[-1:]:
            spans.append(record)
    return tuple(
        problem for trace_id, spans in sorted(traces.items()) for problem in _check_one(trace_id, spans)
    )


def _check_one(trace_id: str, records: list[SpanRecord]) -> Iterator[str]:
    tree = build_tree(records)
    yield from _duplicates(records)
    yield from _roots(trace_id, tree)
    for span in tree.spans.values():
        yield from _orphan(span, tree)
        yield from _times(span)
        yield from _status(span)


def _duplicates(records: list[SpanRecord]) -> Iterator[str]:
    first: dict[str, SpanRecord] = {}
    differing: Counter[str] = Counter()
    for record in records:
        if first.setdefault(record.span_id, record) != record:
            differing[record.span_id] += 1
    for span_id, count in differing.items():
        yield f"{_name(first[span_id])} shares its id with {count} other {_plural(count, 'span')}."


def _roots(trace_id: str, tree: SpanTree) -> Iterator[str]:
    roots = [span for span in tree.roots if span.parent_span_id is None or _has_outer_parent(span, tree)]
    if not roots:
        yield f"trace {trace_id} has no root span; the turn was not ended or its span was not exported."
    elif len(roots) > 1:
        yield f"trace {trace_id} has {len(roots)} root spans: {', '.join(map(_name, roots))}."
    for span in tree.roots:
        if span.parent_span_id in tree.spans:
            yield f"{_name(span)} is its own ancestor."


def _orphan(span: SpanRecord, tree: SpanTree) -> Iterator[str]:
    missing = span.parent_span_id is not None and span.parent_span_id not in tree.spans
    if missing and not _has_outer_parent(span, tree):
        yield f"{_name(span)} is an orphan: its parent {span.parent_span_id} is not in the trace."


def _has_outer_parent(span: SpanRecord, tree: SpanTree) -> bool:
    return (
        span.name == TURN_SPAN and span.parent_span_id is not None and span.parent_span_id not in tree.spans
    )


def _times(span: SpanRecord) -> Iterator[str]:
    if span.end_ns <= 0:
        yield f"{_name(span)} has not ended."
    elif span.start_ns <= 0:
        yield f"{_name(span)} has no start."
    elif span.end_ns < span.start_ns:
        yield f"{_name(span)} ends {span.start_ns - span.end_ns} ns before it starts."


def _status(span: SpanRecord) -> Iterator[str]:
    is_error = span.status == "ERROR"
    if is_error and not span.attributes.get(ERROR_TYPE):
        yield f"{_name(span)} is ERROR without {ERROR_TYPE}."
    if span.name == PERMISSION_SPAN and TOOL_NAME in span.attributes:
        yield f"{_name(span)} carries {TOOL_NAME}; viewers would draw the wait as a tool."
    outcome = span.attributes.get(TOOL_OUTCOME)
    if is_error and span.name.startswith(TOOL_PREFIX) and outcome in QUIET_OUTCOMES:
        yield f"{_name(span)} is ERROR although the call was {outcome}."


def _name(span: SpanRecord) -> str:
    return f"`{span.name}` ({span.span_id})"


def _plural(count: int, word: str) -> str:
    return word if count == 1 else f"{word}s"
