"""Generated files and operations, and a second, simpler way to apply them, for the properties of Edit."""

from __future__ import annotations

import codecs
from typing import Any

import attrs
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from agents.errors import ToolError
from agents.rules.edits import Planned, Refused, Snapshot, digest_of, plan_edit, tag_of
from agents.rules.line_set import LineSet
from agents.rules.ops import EditRequest, Op, parse_request
from agents.rules.ranges import range_problem
from agents.rules.text import decode

CALM = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
"""Properties judge results, not the machine's load."""


def snapshot(data: bytes, seen: Any = None) -> Snapshot:
    """A version of which all lines were seen, unless `seen` says which."""
    lines = range(1, len(decode(data).lines) + 1) if seen is None else seen
    return Snapshot(tag=tag_of(data), digest=digest_of(data), data=data, seen=LineSet.of(lines))


def request(ops: list[dict[str, Any]], tag: str) -> EditRequest:
    parsed = parse_request(tag, ops)
    assert isinstance(parsed, EditRequest), parsed
    return parsed


def edit(
    live: bytes,
    *ops: dict[str, Any],
    tagged: bytes | None = None,
    seen: Any = None,
    known: Snapshot | None = None,
) -> Planned | Refused:
    """Plan `ops` against `live`, with a tag of `tagged` (default: of `live` itself)."""
    version = snapshot(live if tagged is None else tagged, seen)
    return plan_edit(request(list(ops), version.tag), version, live, path="f.txt", known=known)


def done(planned: Planned | Refused) -> bytes:
    assert isinstance(planned, Planned), planned
    return planned.data


def refused(planned: Planned | Refused) -> ToolError:
    assert isinstance(planned, Refused), planned
    return planned.error


@attrs.frozen
class Sample:
    """A generated file and operations that fit it."""

    data: bytes
    codec: str
    mark: bytes
    ops: list[dict[str, Any]]


ASCII_LINES = st.text(st.sampled_from("ab }\t"), min_size=0, max_size=4)
ANY_LINES = st.text(st.sampled_from("ab }\té中\u2028\x85\x0c"), min_size=0, max_size=4)
KINDS = st.sampled_from(
    [
        ("utf-8", b""),
        ("utf-8", codecs.BOM_UTF8),
        ("utf-16-le", codecs.BOM_UTF16_LE),
        ("utf-16-be", codecs.BOM_UTF16_BE),
        ("latin-1", b""),
    ]
)


@st.composite
def samples(draw: st.DrawFn) -> Sample:
    codec, mark = draw(KINDS)
    lines = ASCII_LINES if codec == "latin-1" else ANY_LINES
    endings = st.sampled_from(draw(st.sampled_from([["\n"], ["\r\n"], ["\n", "\r\n"]])))
    text = "".join(a + b for a, b in draw(st.lists(st.tuples(lines, endings), max_size=8)))
    text += draw(st.sampled_from(["", "tail"]))
    data = mark + text.encode(codec)
    if codec == "latin-1":
        data = b"\xe9\n" + data
    count = len(decode(data).lines)
    ops: list[dict[str, Any]] = []
    for op in draw(st.lists(_ops(lines, count), min_size=1, max_size=5)):
        if range_problem(_parsed([*ops, op]), count) is None:
            ops.append(op)
    return Sample(data, codec, mark, ops or [{"op": "append", "text": "more"}])


def _ops(lines: st.SearchStrategy[str], count: int) -> st.SearchStrategy[dict[str, Any]]:
    text = st.lists(lines, min_size=1, max_size=3).map(lambda items: "\n".join(items) + "\n")
    line = st.integers(1, max(1, count))
    span = st.tuples(line, st.integers(0, 2)).map(lambda at: {"start": at[0], "end": at[0] + at[1]})
    return st.one_of(
        st.builds(lambda at, text: {"op": "replace", **at, "text": text}, span, text),
        st.builds(lambda at: {"op": "delete", **at}, span),
        st.builds(lambda at, text: {"op": "insert", "before": at, "text": text}, line, text),
        st.builds(lambda at, text: {"op": "insert", "after": at, "text": text}, st.integers(0, count), text),
        st.builds(lambda text: {"op": "append", "text": text}, text),
    )


def _parsed(ops: list[dict[str, Any]]) -> tuple[Op, ...]:
    return request(ops, "0000").ops


def model(sample: Sample) -> bytes:
    """Apply the operations on a list of (line, ending) slots, one line at a time."""
    raw = sample.data[len(sample.mark) :].decode(sample.codec)
    rows = [(row.removesuffix("\n").removesuffix("\r"), _ending(row)) for row in _rows(raw)]
    usual = next((ending for _, ending in reversed(rows) if ending), "\n")
    before: dict[int, list[tuple[str, str]]] = {}
    instead: dict[int, list[tuple[str, str]]] = {}
    for op in sample.ops:
        lines = op.get("text", "").removesuffix("\n").split("\n")
        if op["op"] in ("insert", "append"):
            anchor = op.get("before", op.get("after", len(rows)))
            slot = anchor if "before" in op else anchor + 1
            ending = rows[max(anchor, 1) - 1][1] if rows else "\n"
            before[slot] = before.get(slot, []) + [(line, ending) for line in lines]
        else:
            for number in range(op["start"], op["end"] + 1):
                instead[number] = []
            if op["op"] == "replace":
                ends = [rows[number - 1][1] for number in range(op["start"], op["end"] + 1)]
                ends += [ends[-1]] * len(lines)
                instead[op["start"]] = list(zip(lines, ends, strict=False))
    out: list[tuple[str, str]] = []
    for number in range(1, len(rows) + 2):
        out += before.get(number, [])
        out += instead.get(number, rows[number - 1 : number])
    text = "".join(line + (ending or usual) for line, ending in out)
    if rows and not rows[-1][1]:
        text = text.removesuffix("\n")
        text = text.removesuffix("\r") if (out and (out[-1][1] or usual) == "\r\n") else text
    return sample.mark + text.encode(sample.codec)


def _rows(raw: str) -> list[str]:
    pieces = raw.split("\n")
    return [f"{piece}\n" for piece in pieces[:-1]] + ([pieces[-1]] if pieces[-1] else [])


def _ending(row: str) -> str:
    return "\r\n" if row.endswith("\r\n") else "\n" if row.endswith("\n") else ""
