"""One trace as text: the tree with a waterfall, the critical path, and where each agent's time went. Pure.

The critical path is read from the root's end backwards: of a span's children the one that ended last, then
the one that ended last before that one began, and so on; a tie goes to the earlier start. Settlement gives a
Task, its agent and the `TaskWait` that returned because of it one and the same end, so the path leads through
a wait to what was waited for.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from telemetry.attributes import (
    AGENT_DEPTH,
    AGENT_LABEL,
    AGENT_NAME,
    AGENT_PREFIX,
    CHAT_PREFIX,
    ERROR_TYPE,
    LOCK_SPAN,
    OUTCOME,
    PERMISSION_DECISION,
    PERMISSION_SPAN,
    TASK_DESCRIPTION,
    TASK_SPAN,
    TASK_WAIT_SPAN,
    TOOL_OUTCOME,
    TOOL_PREFIX,
    TURN_SPAN,
)
from telemetry.records import SpanRecord
from telemetry.tree import SpanTree, build_tree

Interval = tuple[int, int]
"""Start and end in nanoseconds."""

NOTHING = "No spans: the turn is still running, or it was not recorded."
LEGEND = "* on the critical path   ! error"
SPLIT_COLUMNS = ("total", "model", "tool", "waiting for you", "lock", "delegates")
NARROW_COLUMNS = ("total", "model", "tool", "you", "lock", "delegates")
MAX_SERVICE = 16
DURATION = 9
MIN_WIDTH = 60
MIN_LABEL = 8


@attrs.frozen
class Known:
    """What the stored events know of spans beyond what the spans say; by span id."""

    subjects: Mapping[str, str] = attrs.field(factory=dict)
    """What a tool call is about: its path, its command."""
    reasons: Mapping[str, str] = attrs.field(factory=dict)
    """An error's message."""


@attrs.frozen
class AgentTime:
    """Where one agent's time went, in milliseconds. Things that ran side by side count once."""

    label: str
    model_ms: int
    """In model calls, their retries included."""
    tool_ms: int
    """In tools at work, without their waits and without `Task` and `TaskWait`."""
    permission_ms: int
    """Waiting for a person."""
    lock_ms: int
    """Waiting for another agent to release a path."""
    total_ms: int
    """From the agent's start to its end."""
    delegates_ms: int = 0
    """In `TaskWait`: nothing to do but to wait for delegates."""


def render_trace(records: Iterable[SpanRecord], *, width: int = 100, known: Known | None = None) -> str:
    """Tree, waterfall and time split of one trace, at most `width` (60 or more) columns wide.

    `*` marks the critical path, `!` an error with its `error.type` and, where it is known, its reason. Text
    from the spans is shown without control characters.
    """
    facts = known or Known()
    tree = build_tree(records)
    if not tree.spans:
        return NOTHING
    layout = _lay_out(tree, max(MIN_WIDTH, width))
    critical = frozenset(_critical_path(tree))
    lines = [*_header(tree, layout), ""]
    for depth, span in tree.everything():
        lines.extend(_span_lines(span, depth, span.span_id in critical, layout, facts, tree))
    lines += ["", LEGEND]
    split = _time_split(tree)
    if split:
        lines += ["", *_split_lines(split, layout.width)]
    return "\n".join(line.rstrip() for line in lines)


def critical_path(records: Iterable[SpanRecord]) -> tuple[str, ...]:
    """The ids of the spans on the critical path of one trace, in order of their start."""
    return _critical_path(build_tree(records))


def time_split(records: Iterable[SpanRecord]) -> tuple[AgentTime, ...]:
    """One row per `invoke_agent` span of one trace, in the order of the tree."""
    return _time_split(build_tree(records))


# the critical path


def _critical_path(tree: SpanTree) -> tuple[str, ...]:
    if not tree.roots:
        return ()
    path: dict[str, SpanRecord] = {}
    open_ends = [tree.roots[0]]
    while open_ends:
        span = open_ends.pop()
        if span.span_id not in path:
            path[span.span_id] = span
            open_ends.extend(_chain_back(tree.children(span), span.end_ns))
            open_ends.extend(_waited_for(span, tree))
    in_order = sorted(path.values(), key=lambda span: (span.start_ns, -span.end_ns))
    return tuple(span.span_id for span in in_order)


def _chain_back(children: Sequence[SpanRecord], end_ns: int) -> Iterator[SpanRecord]:
    """From `end_ns` back to the beginning: each time the child that ended last before the previous one."""
    point = end_ns + 1  # a child may end together with its parent
    for child in sorted(children, key=lambda span: (-span.end_ns, span.start_ns)):
        if child.end_ns < point:
            yield child
            point = child.start_ns


def _waited_for(span: SpanRecord, tree: SpanTree) -> Iterator[SpanRecord]:
    """The Tasks whose end a `TaskWait` span has: it returned because of them."""
    if span.name == TASK_WAIT_SPAN:
        for other in tree.spans.values():
            if other.name == TASK_SPAN and other.end_ns == span.end_ns:
                yield other


# where the time went


def _time_split(tree: SpanTree) -> tuple[AgentTime, ...]:
    return tuple(
        _agent_time(span, tree) for _, span in tree.everything() if span.name.startswith(AGENT_PREFIX)
    )


def _agent_time(agent: SpanRecord, tree: SpanTree) -> AgentTime:
    models: list[Interval] = []
    tools: list[Interval] = []
    task_waits: list[Interval] = []
    permissions: list[Interval] = []
    locks: list[Interval] = []
    for span in tree.children(agent):
        if span.name.startswith(CHAT_PREFIX):
            models.append(_interval(span))
        elif span.name.startswith(TOOL_PREFIX):
            asked, locked = _waits_of(span, tree)
            permissions += asked
            locks += locked
            at_work = _subtract(_interval(span), [*asked, *locked])
            if span.name == TASK_WAIT_SPAN:
                task_waits += at_work
            elif span.name != TASK_SPAN:  # a Task is open while its delegate runs, which has a row of its own
                tools += at_work
    return AgentTime(
        label=_label(agent),
        model_ms=_milliseconds(models),
        tool_ms=_milliseconds(tools),
        permission_ms=_milliseconds(permissions),
        lock_ms=_milliseconds(locks),
        total_ms=_milliseconds([_interval(agent)]),
        delegates_ms=_milliseconds(task_waits),
    )


def _waits_of(tool: SpanRecord, tree: SpanTree) -> tuple[list[Interval], list[Interval]]:
    """The permission and lock waits directly below a tool span."""
    below = tree.children(tool)
    return (
        [_interval(span) for span in below if span.name == PERMISSION_SPAN],
        [_interval(span) for span in below if span.name == LOCK_SPAN],
    )


def _label(agent: SpanRecord) -> str:
    name = agent.attributes.get(AGENT_LABEL) or agent.attributes.get(AGENT_NAME)
    return str(name) if name else agent.name.removeprefix(AGENT_PREFIX)


def _interval(span: SpanRecord) -> Interval:
    return span.start_ns, max(span.start_ns, span.end_ns)


def _merge(intervals: Iterable[Interval]) -> list[Interval]:
    """The same time as intervals that do not overlap, in order."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def _subtract(whole: Interval, holes: Iterable[Interval]) -> list[Interval]:
    """What is left of `whole` outside the holes."""
    left: list[Interval] = []
    start, end = whole
    for hole_start, hole_end in _merge(holes):
        if hole_start > start:
            left.append((start, min(hole_start, end)))
        start = max(start, hole_end)
    if start < end:
        left.append((start, end))
    return [(a, b) for a, b in left if a < b]


def _milliseconds(intervals: Iterable[Interval]) -> int:
    return round(sum(end - start for start, end in _merge(intervals)) / 1_000_000)


# drawing


@attrs.frozen
class _Layout:
    """Column widths and the time scale of the waterfall."""

    width: int
    name: int
    service: int
    bar: int
    start_ns: int
    span_ns: int


def _lay_out(tree: SpanTree, width: int) -> _Layout:
    spans = tree.spans.values()
    start = min(span.start_ns for span in spans)
    service = min(MAX_SERVICE, max(_columns(_printable(span.service)) for span in spans))
    free = width - 2 - 1 - service - 1 - DURATION - 2
    bar = free // 3
    return _Layout(
        width=width,
        name=free - bar,
        service=service,
        bar=bar,
        start_ns=start,
        span_ns=max(1, max(span.end_ns for span in spans) - start),
    )


def _header(tree: SpanTree, layout: _Layout) -> Iterator[str]:
    root = tree.roots[0]
    count = len(tree.spans)
    whole = _duration(layout.span_ns)
    yield _fit(f"trace {root.trace_id}  {whole}  {count} {'span' if count == 1 else 'spans'}", layout.width)
    yield _fit(_outcome(tree), layout.width)


def _outcome(tree: SpanTree) -> str:
    """How the turn ended, and beside it what failed in it: a failed call is not the turn's failure."""
    root = tree.roots[0]
    if root.status == "ERROR":
        head = f"error {_error_type(root)}"
    else:
        head = (
            f"turn {_printable(str(root.attributes[OUTCOME]))}" if OUTCOME in root.attributes else "no error"
        )
    failed = [_label(span) for span in tree.spans.values() if _failed_task(span, tree)]
    calls = [span for span in tree.spans.values() if _failed_call(span)]
    parts = [head]
    if failed:
        parts.append(f"{len(failed)} {'task' if len(failed) == 1 else 'tasks'} failed ({', '.join(failed)})")
    if calls:
        parts.append(f"{len(calls)} failed {'call' if len(calls) == 1 else 'calls'}")
    told = ", ".join(parts[1:])
    return f"{parts[0]}; {told}" if told else parts[0]


def _failed_task(span: SpanRecord, tree: SpanTree) -> bool:
    """A delegate's agent that ended by error: below a Task, or (a person's resume of it) below the turn."""
    above = tree.spans.get(span.parent_span_id or "")
    if above is None or span.status != "ERROR" or not span.name.startswith(AGENT_PREFIX):
        return False
    return above.name == TASK_SPAN or span.attributes.get(AGENT_DEPTH) not in (None, 0)


def _failed_call(span: SpanRecord) -> bool:
    if span.name == TASK_SPAN or not span.name.startswith(TOOL_PREFIX):
        return False
    return span.status == "ERROR" or span.attributes.get(TOOL_OUTCOME) == "error"


def _name(span: SpanRecord, known: Known) -> str:
    """What a span stands for, in the words of the other listings."""
    if span.name == TURN_SPAN:
        return "turn"
    if span.name.startswith(AGENT_PREFIX):
        return f"agent {_label(span)}"
    if not span.name.startswith(TOOL_PREFIX):
        return span.name
    tool = span.name.removeprefix(TOOL_PREFIX)
    if span.name == TASK_SPAN:
        about = [span.attributes.get(AGENT_LABEL), span.attributes.get(TASK_DESCRIPTION)]
    else:
        about = [known.subjects.get(span.span_id)]
    return " ".join([tool, *(str(one) for one in about if one)])


def _span_lines(
    span: SpanRecord, depth: int, critical: bool, layout: _Layout, known: Known, tree: SpanTree
) -> Iterator[str]:
    told_below = any(  # a Task ends as its delegate did, which has a row of its own
        span.name == TASK_SPAN and child.status == "ERROR" and _error_type(child) == _error_type(span)
        for child in tree.children(span)
    )
    mark = ("*" if critical else " ") + ("!" if span.status == "ERROR" else " ")
    # deep trees keep half of the column for the name
    indent = " " * min(2 * depth, layout.name // 2)
    note = span.attributes.get(PERMISSION_DECISION)
    outcome = span.attributes.get(TOOL_OUTCOME)
    if outcome in ("denied", "cancelled"):
        note = outcome
    marked = f" ({_printable(str(note))})" if note else ""
    named = _fit(indent + _printable(_name(span, known)), layout.name - _columns(marked))
    name = _pad(named + marked, layout.name)
    service = _pad(_printable(span.service), layout.service)
    took = _duration(max(0, span.end_ns - span.start_ns)).rjust(DURATION)
    yield f"{mark}{name} {service} {took}  {_bar(span, layout)}"
    if span.status == "ERROR" and not told_below:
        yield _fit(f"  {indent}  {_error_type(span)}{_reason(span, known)}", layout.width)


def _error_type(span: SpanRecord) -> str:
    return _printable(str(span.attributes.get(ERROR_TYPE) or "without error.type"))


def _reason(span: SpanRecord, known: Known) -> str:
    """Why, beside the code: from the events, else the span's own words where they say more than the code."""
    code = _error_type(span)
    text = _printable(known.reasons.get(span.span_id) or span.status_description)
    return "" if not text or text == code or text.endswith(f": {code}") else f": {text}"


def _bar(span: SpanRecord, layout: _Layout) -> str:
    """The span's place in the trace's time, at least one mark wide."""
    first = (span.start_ns - layout.start_ns) * layout.bar // layout.span_ns
    last = (span.end_ns - layout.start_ns) * layout.bar // layout.span_ns
    first = min(max(first, 0), layout.bar - 1)
    return " " * first + "█" * max(1, min(last, layout.bar) - first)


def _split_lines(split: Sequence[AgentTime], width: int) -> Iterator[str]:
    columns = SPLIT_COLUMNS if width >= 80 else NARROW_COLUMNS
    rows = [
        ("time by agent", *columns),
        *((_printable(row.label), *_split_cells(row)) for row in split),
    ]
    widths = [max(map(_columns, column)) for column in zip(*rows, strict=True)]
    label = min(widths[0], max(MIN_LABEL, width - sum(value + 2 for value in widths[1:])))
    for name, *values in rows:
        cells = "".join(f"  {value.rjust(room)}" for value, room in zip(values, widths[1:], strict=True))
        yield _fit(_pad(name, label) + cells, width)


def _split_cells(row: AgentTime) -> tuple[str, ...]:
    values = (row.total_ms, row.model_ms, row.tool_ms, row.permission_ms, row.lock_ms, row.delegates_ms)
    return tuple(_duration(value * 1_000_000) if value else "-" for value in values)


def _duration(ns: int) -> str:
    milliseconds = ns / 1_000_000
    if milliseconds < 10:
        return f"{milliseconds:.1f} ms"
    if milliseconds < 999.5:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    if seconds < 59.995:
        return f"{seconds:.2f} s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} m" if hours else f"{minutes} m {seconds:02} s"


def _printable(text: str) -> str:
    """Without control characters, on one line: a name from a trace must not steer the terminal."""
    return "".join(char if char.isprintable() else "�" for char in text)


def _char_columns(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _columns(text: str) -> int:
    """Terminal columns that `text` takes."""
    return sum(map(_char_columns, text))


def _fit(text: str, columns: int) -> str:
    """`text`, cut with an ellipsis where it is wider than `columns`."""
    if _columns(text) <= columns:
        return text
    kept = ""
    used = 1
    for char in text:
        used += _char_columns(char)
        if used > columns:
            break
        kept += char
    return kept + "…"


def _pad(text: str, columns: int) -> str:
    fitted = _fit(text, columns)
    return fitted + " " * (columns - _columns(fitted))
