"""What makes a trace sound."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.attributes import (
    OUTCOME,
    PERMISSION_DECISION,
    PERMISSION_SPAN,
    SETTLE_SPAN,
    TASK_SPAN,
    TOOL_NAME,
    TOOL_OUTCOME,
    TURN_SPAN,
)
from telemetry.check import check_trace
from telemetry.records import SpanRecord
from tests.telemetry.spans import EPOCH_NS, MILLISECOND, Trace, burst, span_records


def sound() -> Trace:
    """A turn with a delegate that failed; positions in `records` are used below."""
    trace = Trace()
    turn = trace.span(None, TURN_SPAN, 0, 100)
    agent = trace.span(turn, "invoke_agent main", 1, 99, {OUTCOME: "completed"})
    tool = trace.span(agent, "execute_tool Bash", 10, 60, {TOOL_NAME: "Bash", TOOL_OUTCOME: "denied"})
    trace.span(tool, PERMISSION_SPAN, 11, 50, {PERMISSION_DECISION: "deny"}, service="person")
    trace.span(agent, "execute_tool Read", 70, 80, {TOOL_OUTCOME: "error"}, error="NOT_FOUND")
    task = trace.span(agent, TASK_SPAN, 81, 98, {TOOL_OUTCOME: "error"}, error="TURN_LIMIT")
    trace.span(task, "invoke_agent fixer", 82, 98, {OUTCOME: "truncated"}, error="TURN_LIMIT")
    trace.span(task, SETTLE_SPAN, 97, 98)
    return trace


def only_problem(trace: Trace) -> str:
    (problem,) = check_trace(trace.records)
    return problem


def test_a_sound_trace_has_no_problems() -> None:
    assert check_trace(sound().records) == ()
    assert check_trace([]) == ()


def test_several_sound_traces_are_sound() -> None:
    assert check_trace([*sound().records, *burst(5), *sound().records]) == ()


def test_a_missing_parent_makes_an_orphan() -> None:
    trace = sound()
    agent = trace.records.pop(1)
    problems = check_trace(trace.records)
    assert len(problems) == 3
    assert all("is an orphan" in problem and agent.span_id in problem for problem in problems)


def test_a_turn_may_have_a_parent_outside() -> None:
    trace = sound()
    trace.records[0] = msgspec.structs.replace(trace.records[0], parent_span_id="f" * 16)
    assert check_trace(trace.records) == ()


def test_a_trace_has_one_root() -> None:
    trace = sound()
    extra = msgspec.structs.replace(
        trace.records[0], span_id="e" * 16, name="settle", start_ns=trace.records[0].start_ns + 1
    )
    trace.records.append(extra)
    assert "has 2 root spans" in only_problem(trace)
    assert "`settle` (eeeeeeeeeeeeeeee)" in only_problem(trace)


def test_a_trace_without_its_root_is_told() -> None:
    trace = sound()
    trace.records.pop(0)
    assert any("has no root span" in problem for problem in check_trace(trace.records))


def test_spans_in_a_circle_are_told() -> None:
    trace = sound()
    agent, tool = trace.records[1], trace.records[2]
    trace.records[1] = msgspec.structs.replace(agent, parent_span_id=tool.span_id)
    assert any("is its own ancestor" in problem for problem in check_trace(trace.records))


def test_an_id_belongs_to_one_span() -> None:
    trace = sound()
    read = trace.records[4]
    trace.records.append(msgspec.structs.replace(read, name="execute_tool Glob"))
    assert f"`execute_tool Read` ({read.span_id}) shares its id with 1 other span." == only_problem(trace)


def test_the_same_span_sent_again_is_no_problem() -> None:
    trace = sound()
    assert check_trace([*trace.records, *trace.records]) == ()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"end_ns": 0}, "has not ended"),
        ({"start_ns": 0}, "has no start"),
        ({"end_ns": EPOCH_NS + 70 * MILLISECOND - 10}, "ends 10 ns before it starts"),
        ({"attributes": {TOOL_OUTCOME: "error"}}, "is ERROR without error.type"),
        ({"status": "UNSET"}, "has error.type but is not ERROR"),
        ({"attributes": {"error.type": "NOT_FOUND"}}, "does not say how the call came out"),
        (
            {"attributes": {TOOL_OUTCOME: "denied", "error.type": "TOOL_DENIED"}, "status": "ERROR"},
            "is ERROR although the call was denied",
        ),
        (
            {"attributes": {TOOL_OUTCOME: "cancelled", "error.type": "TOOL_ABORTED"}, "status": "ERROR"},
            "is ERROR although the call was cancelled",
        ),
    ],
)
def test_times_and_status_keep_their_rules(changes: dict[str, object], problem: str) -> None:
    trace = sound()
    trace.records[4] = msgspec.structs.replace(trace.records[4], **changes)
    told = only_problem(trace)
    assert problem in told
    assert f"`execute_tool Read` ({trace.records[4].span_id})" in told


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"attributes": {TOOL_NAME: "Bash", PERMISSION_DECISION: "deny"}}, "carries gen_ai.tool.name"),
        ({"attributes": {}}, "does not say how it was decided"),
        (
            {"status": "ERROR", "attributes": {PERMISSION_DECISION: "deny", "error.type": "TOOL_DENIED"}},
            "is ERROR although the wait ended by a decision",
        ),
    ],
)
def test_a_permission_wait_is_no_tool_and_no_error(changes: dict[str, object], problem: str) -> None:
    trace = sound()
    trace.records[3] = msgspec.structs.replace(trace.records[3], **changes)
    assert problem in only_problem(trace)


@pytest.mark.parametrize(
    ("position", "changes", "problem"),
    [
        (6, {"attributes": {OUTCOME: "failed", "error.type": "INTERNAL"}}, "says TURN_LIMIT where"),
        (6, {"end_ns": EPOCH_NS + 99 * MILLISECOND}, "ends before its delegate"),
        (6, {"attributes": {"error.type": "TURN_LIMIT"}}, "does not say how the run came out"),
        (4, {"start_ns": EPOCH_NS - 90 * MILLISECOND}, "before its parent `invoke_agent main`"),
    ],
)
def test_a_task_ends_as_its_delegate_does(position: int, changes: dict[str, object], problem: str) -> None:
    trace = sound()
    trace.records[position] = msgspec.structs.replace(trace.records[position], **changes)
    assert problem in only_problem(trace)


def test_a_wait_hangs_below_the_call_that_waited() -> None:
    trace = sound()
    trace.records[3] = msgspec.structs.replace(trace.records[3], parent_span_id=trace.records[1].span_id)
    assert "hangs below `invoke_agent main`" in only_problem(trace)


def test_several_turns_may_share_a_trace_that_began_outside() -> None:
    first, second = sound(), sound()
    records = [
        msgspec.structs.replace(record, trace_id="1" * 32, parent_span_id=record.parent_span_id or "f" * 16)
        for record in (*first.records, *second.records)
    ]
    assert check_trace(records) == ()


@given(st.lists(span_records, max_size=4))
def test_every_problem_of_any_records_is_one_sentence(records: list[SpanRecord]) -> None:
    for problem in check_trace(records):
        assert problem.endswith(".")
