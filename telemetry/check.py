"""`check_trace`: what is wrong with a trace, one sentence per problem. Pure.

Structure: one root (several turns below one outer span may share a trace), no orphan, no circle, ids once,
everything ended and not before it began, a child not before its parent. Status: ERROR exactly with
`error.type`; what was denied or cancelled is no error; a Task has the error of its delegate. Content of the
kinds: a tool call says its outcome, a wait its decision, a wait hangs below the call that waited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from telemetry.attributes import (
    AGENT_PREFIX,
    CHAT_PREFIX,
    ERROR_TYPE,
    LOCK_SPAN,
    OUTCOME,
    PERMISSION_DECISION,
    PERMISSION_SPAN,
    PROCESS_DIED,
    TASK_SPAN,
    TOOL_NAME,
    TOOL_OUTCOME,
    TOOL_PREFIX,
    TURN_SPAN,
)
from telemetry.records import SpanRecord
from telemetry.tree import SpanTree, build_tree

QUIET_OUTCOMES = frozenset({"denied", "cancelled"})
"""Outcomes of a tool call that are no error of the tool."""
OUTCOMES = QUIET_OUTCOMES | {"ok", "error"}
CLOCK_SLACK_NS = 2_000_000
"""A span rebuilt after a crash knows its start to the millisecond."""
PLACES = {
    AGENT_PREFIX: (TURN_SPAN, TASK_SPAN, AGENT_PREFIX),
    CHAT_PREFIX: (AGENT_PREFIX,),
    TOOL_PREFIX: (AGENT_PREFIX,),
    PERMISSION_SPAN: (TOOL_PREFIX,),
    LOCK_SPAN: (TOOL_PREFIX,),
}
"""Beginning of a span's name → beginnings of the names that its parent may have."""


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
        yield from _place(span, tree)
        yield from _times(span, tree)
        yield from _status(span)
        yield from _kind(span, tree)


def _duplicates(records: list[SpanRecord]) -> Iterator[str]:
    first: dict[str, SpanRecord] = {}
    differing: Counter[str] = Counter()
    for record in records:
        if first.setdefault(record.span_id, record) != record:
            differing[record.span_id] += 1
    for span_id, count in differing.items():
        yield f"{_name(first[span_id])} shares its id with {count} other {_plural(count, 'span')}."


def _roots(trace_id: str, tree: SpanTree) -> Iterator[str]:
    own = [span for span in tree.roots if span.parent_span_id is None]
    outer = {span.parent_span_id: span for span in tree.roots if _has_outer_parent(span, tree)}
    roots = [*own, *outer.values()]
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


def _place(span: SpanRecord, tree: SpanTree) -> Iterator[str]:
    parent = tree.spans.get(span.parent_span_id or "")
    for prefix, above in PLACES.items():
        if parent is not None and span.name.startswith(prefix) and not parent.name.startswith(above):
            yield f"{_name(span)} hangs below {_name(parent)}, where it does not belong."


def _times(span: SpanRecord, tree: SpanTree) -> Iterator[str]:
    if span.end_ns <= 0:
        yield f"{_name(span)} has not ended."
    elif span.start_ns <= 0:
        yield f"{_name(span)} has no start."
    elif span.end_ns < span.start_ns:
        yield f"{_name(span)} ends {span.start_ns - span.end_ns} ns before it starts."
    parent = tree.spans.get(span.parent_span_id or "")
    if parent is not None and 0 < span.start_ns < parent.start_ns - CLOCK_SLACK_NS:
        yield f"{_name(span)} starts {parent.start_ns - span.start_ns} ns before its parent {_name(parent)}."


def _status(span: SpanRecord) -> Iterator[str]:
    is_error = span.status == "ERROR"
    if is_error and not span.attributes.get(ERROR_TYPE):
        yield f"{_name(span)} is ERROR without {ERROR_TYPE}."
    if not is_error and ERROR_TYPE in span.attributes:
        yield f"{_name(span)} has {ERROR_TYPE} but is not ERROR."
    outcome = span.attributes.get(TOOL_OUTCOME)
    if is_error and span.name.startswith(TOOL_PREFIX) and outcome in QUIET_OUTCOMES:
        yield f"{_name(span)} is ERROR although the call was {outcome}."


def _kind(span: SpanRecord, tree: SpanTree) -> Iterator[str]:
    if span.name == PERMISSION_SPAN:
        if TOOL_NAME in span.attributes:
            yield f"{_name(span)} carries {TOOL_NAME}; viewers would draw the wait as a tool."
        if PERMISSION_DECISION not in span.attributes:
            yield f"{_name(span)} does not say how it was decided."
        elif _is_a_loud_decision(span):
            yield f"{_name(span)} is ERROR although the wait ended by a decision."
    elif span.name.startswith(TOOL_PREFIX) and span.attributes.get(TOOL_OUTCOME) not in OUTCOMES:
        yield f"{_name(span)} does not say how the call came out."
    elif span.name.startswith(AGENT_PREFIX) and OUTCOME not in span.attributes:
        yield f"{_name(span)} does not say how the run came out."
    if span.name == TASK_SPAN:
        yield from _delegate(span, tree)


def _is_a_loud_decision(wait: SpanRecord) -> bool:
    excused = wait.attributes[PERMISSION_DECISION] == "timeout" or wait.status_description == PROCESS_DIED
    return wait.status == "ERROR" and not excused


def _delegate(task: SpanRecord, tree: SpanTree) -> Iterator[str]:
    """A Task ends with its delegate, and with its delegate's error."""
    for agent in tree.children(task):
        if not agent.name.startswith(AGENT_PREFIX):
            continue
        theirs, ours = agent.attributes.get(ERROR_TYPE), task.attributes.get(ERROR_TYPE)
        if theirs != ours:
            yield f"{_name(task)} says {ours or 'no error'} where {_name(agent)} says {theirs or 'no error'}."
        if task.end_ns < agent.end_ns:
            yield f"{_name(task)} ends before its delegate {_name(agent)}."


def _name(span: SpanRecord) -> str:
    return f"`{span.name}` ({span.span_id})"


def _plural(count: int, word: str) -> str:
    return word if count == 1 else f"{word}s"
