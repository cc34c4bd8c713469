"""What a model response means for the loop."""

from __future__ import annotations

import pytest

from agents.messages import Text, Usage
from agents.models.base import CallChunk, FinishChunk, ModelResponse
from agents.steps import CUT_REASONS, WITHHELD_REASONS, AskAgain, Finish, RunTools, Stop, next_step


def answer(text: str = "", *calls: CallChunk, reason: str = "stop") -> ModelResponse:
    parts = [Text(text=text)] if text else []
    return ModelResponse((*parts, *calls), FinishChunk(reason, Usage()))


CALL = CallChunk("Read", {"path": "a"}, "1")


def test_calls_are_run_whatever_text_stands_beside_them() -> None:
    assert next_step(answer("I look.", CALL), empty_before=0) == RunTools((CALL,))


def test_visible_text_without_a_call_is_the_last_word() -> None:
    assert next_step(answer("Done."), empty_before=0) == Finish("Done.")


def test_an_empty_answer_is_asked_for_once_more_and_then_ends_the_run() -> None:
    assert next_step(answer(" "), empty_before=0) == AskAgain()
    stopped = next_step(answer(), empty_before=1)
    assert isinstance(stopped, Stop)
    assert stopped.error.code == "EMPTY_MODEL_RESPONSE"


@pytest.mark.parametrize("reason", sorted(CUT_REASONS))
@pytest.mark.parametrize("text", ["Half a sent", ""])
def test_an_answer_cut_at_the_output_limit_is_never_a_normal_end(reason: str, text: str) -> None:
    stopped = next_step(answer(text, reason=reason), empty_before=0)
    assert isinstance(stopped, Stop)
    assert (stopped.error.code, stopped.limit) == ("BUDGET_LIMIT", True)


@pytest.mark.parametrize("reason", sorted(WITHHELD_REASONS))
def test_an_answer_that_the_provider_withheld_is_a_failure(reason: str) -> None:
    stopped = next_step(answer("Part", reason=reason), empty_before=0)
    assert isinstance(stopped, Stop)
    assert (stopped.error.code, stopped.limit) == ("PROVIDER_ERROR", False)
