"""What makes a trace sound."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.attributes import PERMISSION_SPAN, TOOL_NAME, TOOL_OUTCOME, TURN_SPAN
from telemetry.check import check_trace
from telemetry.records import SpanRecord
from tests.telemetry.spans import Trace, burst, span_records


def sound() -> Trace:
    trace = Trace()
    turn = trace.span(None, TURN_SPAN, 0, 100)
    agent = trace.span(turn, "invoke_agent main", 1, 99)
    tool = trace.span(agent, "execute_tool Bash", 10, 60, {TOOL_NAME: "Bash", TOOL_OUTCOME: "denied"})
    trace.span(tool, PERMISSION_SPAN, 11, 50, service="person")
    trace.span(agent, "execute_tool Read", 70, 80, error="NOT_FOUND")
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
    assert len(problems) == 2
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
    assert "is its own ancestor" in only_problem(trace)


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
        ({"start_ns": 20, "end_ns": 10}, "ends 10 ns before it starts"),
        ({"status": "ERROR", "attributes": {}}, "is ERROR without error.type"),
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


def test_a_permission_wait_never_looks_like_a_tool() -> None:
    trace = sound()
    trace.records[3] = msgspec.structs.replace(trace.records[3], attributes={TOOL_NAME: "Bash"})
    assert "carries gen_ai.tool.name" in only_problem(trace)


@given(st.lists(span_records, max_size=4))
def test_every_problem_of_any_records_is_one_sentence(records: list[SpanRecord]) -> None:
    for problem in check_trace(records):
        assert problem.endswith(".")
