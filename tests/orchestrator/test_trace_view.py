"""One trace as text: critical path, time split, drawing."""

from __future__ import annotations

import unicodedata

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.trace_view import NOTHING, AgentTime, Known, critical_path, render_trace, time_split
from telemetry.attributes import (
    AGENT_LABEL,
    LOCK_SPAN,
    OUTCOME,
    PERMISSION_DECISION,
    PERMISSION_SPAN,
    SETTLE_SPAN,
    TASK_DESCRIPTION,
    TASK_SPAN,
    TASK_WAIT_SPAN,
    TOOL_OUTCOME,
    TURN_SPAN,
)
from telemetry.records import SpanRecord
from tests.telemetry.spans import Trace, span_records

BUDGET = "MUTATION_RETRY_BUDGET_EXHAUSTED"


def delegation() -> Trace:
    """A main agent that starts a fixer, waits for it and answers; the fixer is denied an edit and fails."""
    trace = Trace()
    turn = trace.span(None, TURN_SPAN, 0, 5000)
    main = trace.span(turn, "invoke_agent main", 1, 4999, {AGENT_LABEL: "main"})
    trace.span(main, "chat opus", 2, 800, kind="CLIENT")
    task = trace.span(main, TASK_SPAN, 801, 4000, error=BUDGET)
    fixer = trace.span(
        task, "invoke_agent fixer", 802, 4000, {AGENT_LABEL: "fixer#1"}, service="fixer", error=BUDGET
    )
    trace.span(fixer, "chat haiku", 803, 1500, service="fixer", kind="CLIENT")
    edit = trace.span(fixer, "execute_tool Edit", 1510, 3500, {TOOL_OUTCOME: "denied"}, service="fixer")
    trace.span(edit, PERMISSION_SPAN, 1520, 3400, {PERMISSION_DECISION: "deny"}, service="person")
    trace.span(edit, LOCK_SPAN, 3401, 3451, service="fixer")
    trace.span(task, SETTLE_SPAN, 3990, 4000)
    trace.span(main, "chat sonnet", 810, 900, kind="CLIENT")
    trace.span(main, TASK_WAIT_SPAN, 905, 4000)
    trace.span(main, "chat opus again", 4001, 4990, kind="CLIENT")
    return trace


def test_the_critical_path_leads_through_the_delegate_that_was_waited_for() -> None:
    trace = delegation()
    assert trace.names(critical_path(trace.records)) == [
        TURN_SPAN,
        "invoke_agent main",
        "chat opus",
        TASK_SPAN,
        "invoke_agent fixer",
        "chat haiku",
        "execute_tool Edit",
        PERMISSION_SPAN,
        LOCK_SPAN,
        "chat opus again",
    ]


def test_of_two_delegates_the_one_that_ended_last_is_critical() -> None:
    trace = Trace()
    turn = trace.span(None, TURN_SPAN, 0, 100)
    main = trace.span(turn, "invoke_agent main", 0, 100)
    for name, end in (("quick", 50), ("slow", 90)):
        task = trace.span(main, TASK_SPAN, 10, end)
        trace.span(task, f"invoke_agent {name}", 11, end)
    trace.span(main, TASK_WAIT_SPAN, 12, 90)
    assert trace.names(critical_path(trace.records)) == [
        TURN_SPAN,
        "invoke_agent main",
        TASK_SPAN,
        "invoke_agent slow",
    ]


def test_a_wait_for_a_task_elsewhere_in_the_trace_leads_to_that_task() -> None:
    trace = Trace()
    turn = trace.span(None, TURN_SPAN, 0, 100)
    main = trace.span(turn, "invoke_agent main", 0, 100)
    batch = trace.span(main, "execute_tool Batch", 1, 5)
    task = trace.span(batch, TASK_SPAN, 2, 80)
    trace.span(task, "invoke_agent fixer", 3, 80)
    trace.span(main, TASK_WAIT_SPAN, 10, 80)
    path = trace.names(critical_path(trace.records))
    assert TASK_WAIT_SPAN in path
    assert "invoke_agent fixer" in path


def test_a_wait_that_ran_out_of_time_is_critical_itself() -> None:
    trace = Trace()
    turn = trace.span(None, TURN_SPAN, 0, 100)
    main = trace.span(turn, "invoke_agent main", 0, 100)
    trace.span(main, TASK_SPAN, 1, 95)
    trace.span(main, TASK_WAIT_SPAN, 10, 99)
    assert trace.names(critical_path(trace.records)) == [TURN_SPAN, "invoke_agent main", TASK_WAIT_SPAN]


def test_what_ran_beside_the_critical_span_is_not_critical() -> None:
    trace = Trace()
    turn = trace.span(None, TURN_SPAN, 0, 100)
    trace.span(turn, "chat first", 1, 10)
    trace.span(turn, "execute_tool Read", 11, 30)
    trace.span(turn, "execute_tool Grep", 12, 40)
    assert trace.names(critical_path(trace.records)) == [TURN_SPAN, "chat first", "execute_tool Grep"]


def test_no_spans_have_no_path_and_no_split() -> None:
    assert (critical_path([]), time_split([])) == ((), ())


def test_each_agent_has_its_time_by_what_it_waited_for() -> None:
    assert time_split(delegation().records) == (
        AgentTime("main", 1877, 0, 0, 0, 4998, delegates_ms=3095),
        AgentTime("fixer#1", 697, 60, 1880, 50, 3198),
    )


def test_tools_side_by_side_count_once() -> None:
    trace = Trace()
    agent = trace.span(None, "invoke_agent main", 0, 100)
    trace.span(agent, "execute_tool Read", 10, 50)
    trace.span(agent, "execute_tool Read", 20, 60)
    (row,) = time_split(trace.records)
    assert (row.tool_ms, row.total_ms) == (50, 100)


def test_a_permission_wait_of_a_task_call_is_the_parents() -> None:
    trace = Trace()
    agent = trace.span(None, "invoke_agent main", 0, 100)
    task = trace.span(agent, TASK_SPAN, 10, 90)
    trace.span(task, PERMISSION_SPAN, 11, 31, service="person")
    (row,) = time_split(trace.records)
    assert (row.permission_ms, row.tool_ms) == (20, 0)


def test_an_agent_without_a_label_goes_by_its_span() -> None:
    trace = Trace()
    trace.span(None, "invoke_agent reviewer", 0, 1)
    assert time_split(trace.records)[0].label == "reviewer"


def test_the_tree_shows_marks_errors_decisions_and_the_split() -> None:
    text = render_trace(delegation().records)
    lines = text.splitlines()
    assert "13 spans" in lines[0]
    assert lines[1] == "no error; 1 task failed (fixer#1)"
    task = next(line for line in lines if " Task " in line)
    assert task.startswith("*!    Task ")
    assert "3.20 s" in task
    fixer = lines[lines.index(task) + 1]
    assert fixer.startswith("*!      agent fixer#1 ")
    assert lines[lines.index(task) + 2].strip() == BUDGET
    assert text.count(BUDGET) == 1
    assert any("permission wait (deny)" in line and "person" in line for line in lines)
    assert any(" Edit (denied)" in line for line in lines)
    assert any(line.startswith("      TaskWait") for line in lines)
    assert " ".join(lines[-1].split()) == "fixer#1 3.20 s 697 ms 60 ms 1.88 s 50 ms -"


def test_what_failed_in_a_completed_turn_is_told_at_the_top_and_is_not_the_turns_failure() -> None:
    trace = delegation()
    trace.records[0] = msgspec.structs.replace(trace.records[0], attributes={OUTCOME: "completed"})
    failed = Trace()
    for number in (1, 2):
        failed.span(None, "execute_tool Bash", number, number + 1, {TOOL_OUTCOME: "error"})
    failed.span(None, "execute_tool Edit", 4, 5, {TOOL_OUTCOME: "error"}, error="EDIT_RANGE_INVALID")
    trace.records += failed.records
    lines = render_trace(trace.records).splitlines()
    assert lines[1] == "turn completed; 1 task failed (fixer#1), 3 failed calls"


def test_rows_name_what_is_known_and_an_error_has_its_reason() -> None:
    trace = Trace()
    turn = trace.span(None, TURN_SPAN, 0, 90)
    main = trace.span(turn, "invoke_agent main", 1, 80, {AGENT_LABEL: "main"})
    trace.span(main, TASK_SPAN, 2, 70, {AGENT_LABEL: "fixer#3", TASK_DESCRIPTION: "December invoices"})
    edit = trace.span(main, "execute_tool Edit", 3, 9, error="EDIT_RANGE_INVALID")
    edit_id = edit.ref.span_id
    known = Known({edit_id: "src/a.py"}, {edit_id: "Line 9 is\noutside."})
    text = render_trace(trace.records, known=known, width=140)
    lines = [" ".join(line.split()).lstrip("*! ") for line in text.splitlines()]
    assert any(line.startswith("turn ") for line in lines)
    assert any(line.startswith("Task fixer#3 December invoices ") for line in lines)
    assert any(line.startswith("Edit src/a.py ") for line in lines)
    assert "EDIT_RANGE_INVALID: Line 9 is�outside." in lines


def test_a_failed_turn_is_told_at_the_top() -> None:
    trace = Trace()
    trace.span(None, TURN_SPAN, 0, 61_000, error="NETWORK_ERROR")
    lines = render_trace(trace.records).splitlines()
    assert lines[1] == "error NETWORK_ERROR"
    assert "1 m 01 s" in lines[0]


def test_nothing_to_draw_is_said() -> None:
    assert render_trace([]) == NOTHING


def test_names_from_a_trace_do_not_steer_the_terminal() -> None:
    trace = Trace()
    trace.span(None, "chat \x1b[2J\u202eevil", 0, 1, service="a\nb", error="X\x07")
    assert not set(render_trace(trace.records)) & set("\x1b\x07\u202e")
    assert "a\nb" not in render_trace(trace.records)


def test_spans_whose_parent_is_missing_are_still_drawn() -> None:
    trace = delegation()
    trace.records = [record for record in trace.records if record.name != "invoke_agent main"]
    assert "chat opus again" in render_trace(trace.records)


def columns(line: str) -> int:
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in line)


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_no_line_is_wider_than_asked(width: int) -> None:
    trace = delegation()
    deep = trace.span(
        None, "invoke_agent 中文代理名称" + "很长" * 30, 0, 10, service="中文服务名称很长很长很长"
    )
    for number in range(40):
        deep = trace.span(deep, f"execute_tool {number}" + "x" * 80, 0, 10, error="E" * 90)
    assert all(columns(line) <= width for line in render_trace(trace.records, width=width).splitlines())


@given(st.lists(span_records, max_size=6), st.integers(0, 120), st.data())
def test_any_records_are_drawn_and_measured_without_an_error(
    records: list[SpanRecord], width: int, data: st.DataObject
) -> None:
    ids = [record.span_id for record in records]
    linked = [
        msgspec.structs.replace(
            record,
            trace_id="1" * 32,
            parent_span_id=data.draw(st.sampled_from([None, *ids])),
            name=data.draw(st.sampled_from(["invoke_agent a", "execute_tool b", TASK_WAIT_SPAN, TASK_SPAN])),
        )
        for record in records
    ]
    text = render_trace(linked, width=width)
    assert text
    assert set(critical_path(linked)) <= set(ids)
    for row in time_split(linked):
        assert min(row.model_ms, row.tool_ms, row.permission_ms, row.lock_ms, row.total_ms) >= 0
