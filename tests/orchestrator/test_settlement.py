"""Outcome, children and the guard's verdict become one result."""

from __future__ import annotations

import pytest

from agents.errors import ErrorCode, ToolError
from agents.messages import Usage
from agents.outcome import AgentOutcome, Ending
from agents.results import FileChange, TaskResult
from orchestrator.reports import bounded
from orchestrator.settlement import MAX_REPORT_CHARS, RunFacts, bounded_report, settle, total_changes
from orchestrator.task import RUNNING, STATUSES, TRANSITIONS

FACTS = RunFacts("task-1", "run-1", "chain-1", "fixer", "fixer#1", 5)
BUDGET = ToolError(code=ErrorCode.MUTATION_RETRY_BUDGET_EXHAUSTED, message="three")
LIMIT = ToolError(code=ErrorCode.TURN_LIMIT, message="turns")
PROVIDER = ToolError(code=ErrorCode.PROVIDER_ERROR, message="no")


def settled(
    ending: Ending, text: str = "", error: ToolError | None = None, terminal: ToolError | None = None
) -> TaskResult:
    return settle(FACTS, AgentOutcome(ending=ending, text=text, error=error), (), terminal)


def test_a_normal_end_with_text_is_completed() -> None:
    assert settled(Ending.FINISHED, "done").status == "completed"


def test_a_normal_end_without_visible_text_is_failed_with_empty_result() -> None:
    result = settled(Ending.FINISHED, " \n")
    assert (result.status, result.error and result.error.code) == ("failed", "EMPTY_RESULT")


def test_an_empty_model_response_is_a_delegates_empty_result() -> None:
    empty = ToolError(code=ErrorCode.EMPTY_MODEL_RESPONSE, message="nothing")
    result = settled(Ending.ERROR, "", empty)
    assert result.error is not None
    assert result.error.code == "EMPTY_RESULT"


@pytest.mark.parametrize("ending", list(Ending))
def test_a_terminal_tool_error_fails_the_run_whatever_else_happened(ending: Ending) -> None:
    result = settled(ending, "All done, everything works!", LIMIT, BUDGET)
    assert (result.status, result.error) == ("failed", BUDGET)
    assert result.report == "All done, everything works!"


def test_stopped_and_aborted_are_told_apart_and_only_a_person_resumes_them() -> None:
    assert settled(Ending.STOPPED).status == "stopped"
    assert settled(Ending.ABORTED).status == "aborted"
    assert not settled(Ending.STOPPED).resumable
    assert not settled(Ending.ABORTED).resumable


def test_a_limit_is_truncated_with_its_own_code() -> None:
    result = settled(Ending.LIMIT, "half", LIMIT)
    assert (result.status, result.error) == ("truncated", LIMIT)
    assert result.resumable


def test_a_provider_failure_is_failed_and_keeps_the_partial_text() -> None:
    result = settled(Ending.ERROR, "half a thought", PROVIDER)
    assert (result.status, result.report) == ("failed", "half a thought")


def test_every_ending_lands_in_the_closed_set() -> None:
    assert {settled(ending, "x").status for ending in Ending} <= STATUSES
    assert set(TRANSITIONS.values()) == STATUSES


def test_a_settled_run_has_no_way_out() -> None:
    assert {state for state, _ in TRANSITIONS} == {RUNNING}


def test_usage_of_children_is_added_once() -> None:
    child = settle(FACTS, AgentOutcome(Ending.FINISHED, "x", usage=Usage(input_tokens=3)), (), None)
    own = AgentOutcome(Ending.FINISHED, "y", usage=Usage(input_tokens=4))
    assert settle(FACTS, own, [child, child], None).usage.input_tokens == 10


def test_changes_of_one_file_become_one_from_first_to_last() -> None:
    first = FileChange(path="a", change="created", before=None, after="1")
    second = FileChange(path="a", change="modified", before="1", after="2")
    child = settle(FACTS, AgentOutcome(Ending.FINISHED, "x", files_changed=(second,)), (), None)
    assert total_changes([first], [child]) == (
        FileChange(path="a", change="created", before=None, after="2"),
    )


def test_a_long_report_keeps_head_and_tail_and_says_how_much_is_missing() -> None:
    cut = bounded_report("a" * 20_000 + "END")
    assert len(cut) <= MAX_REPORT_CHARS
    assert cut.startswith("aaa")
    assert cut.endswith("END")
    assert "characters left out" in cut


def test_joined_reports_stay_within_their_bound_and_short_ones_stay_whole() -> None:
    def reporting(text: str) -> TaskResult:
        return settle(FACTS, AgentOutcome(Ending.FINISHED, text), (), None)

    joined = bounded([reporting("x" * 12_000) for _ in range(7)] + [reporting("short")])
    assert sum(len(result.report) for result in joined) <= 50_000
    assert joined[-1].report == "short"
