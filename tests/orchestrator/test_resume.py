"""What a resume would do, decided from what is stored."""

from __future__ import annotations

from typing import Any

import pytest

from agents.errors import ErrorCode, ToolError
from orchestrator.resume import ChainFact, PlannedChain, ResumePlan, describe, plan_resume


def chain(name: str, status: str, **facts: Any) -> ChainFact:
    given: dict[str, Any] = {"error_code": None, "has_model_turn": True}
    return ChainFact(task_id=f"task-{name}", label=f"{name}#1", status=status, **(given | facts))


def planned(
    *chains: ChainFact, status: str = "interrupted", prompt: str = "", failed: bool = False, **more: Any
) -> ResumePlan:
    given: dict[str, Any] = {"error_code": None, "open_effects": ()}
    plan = plan_resume(status=status, chains=chains, prompt=prompt, failed=failed, **(given | more))
    assert isinstance(plan, ResumePlan)
    return plan


def action(plan: ResumePlan, name: str) -> PlannedChain:
    return next(one for one in plan.chains if one.task_id == f"task-{name}")


@pytest.mark.parametrize("status", ["interrupted", "aborted"])
def test_what_did_not_end_by_itself_goes_on_and_without_a_model_turn_starts_again(status: str) -> None:
    plan = planned(chain("a", status), chain("b", status, has_model_turn=False))
    assert [one.action for one in plan.chains] == ["continue", "restart"]


@pytest.mark.parametrize("status", ["completed", "failed", "truncated", "stopped"])
def test_a_settled_task_is_a_result_for_the_parent(status: str) -> None:
    assert planned(chain("a", status)).to_run == ()


def test_failed_and_truncated_ones_go_on_when_asked_for() -> None:
    plan = planned(chain("a", "failed"), chain("b", "truncated"), chain("c", "stopped"), failed=True)
    assert [one.action for one in plan.chains] == ["continue", "continue", "reuse"]


def test_the_plan_names_what_an_interrupted_task_was_in() -> None:
    plan = planned(chain("a", "interrupted", was_in=("Edit", "Bash")))
    assert "interrupted in Edit, Bash: goes on after its last complete model turn" in describe(plan)


def test_the_plan_lists_the_open_effects() -> None:
    plan = planned(open_effects=["Edit of a.py: applied"])
    assert "open      Edit of a.py: applied" in describe(plan)


def test_a_delegates_delegate_goes_on_inside_it() -> None:
    plan = planned(chain("a", "interrupted"), chain("b", "interrupted", parent="task-a"))
    assert action(plan, "b").action == "continue"
    assert action(plan, "b").parent == "task-a"


def test_a_delegates_delegate_does_not_go_on_without_it_at_any_depth() -> None:
    plan = planned(
        chain("a", "stopped"),
        chain("b", "aborted", parent="task-a"),
        chain("c", "aborted", parent="task-b"),
    )
    assert plan.to_run == ()
    assert "is not continued without a#1, which delegated it" in action(plan, "b").why
    assert "without b#1" in action(plan, "c").why


def test_a_prompt_that_was_never_told_is_told_now() -> None:
    plan = planned(unsaid="Do the work.")
    assert plan.prompt.endswith("\n\nDo the work.")
    assert "Continue" not in plan.prompt
    both = planned(unsaid="Do the work.", prompt="And quickly.")
    assert both.prompt.endswith("Do the work.\n\nAnd quickly.")


def test_a_completed_conversation_needs_a_prompt() -> None:
    refused = plan_resume(
        status="completed",
        error_code=None,
        chains=[chain("a", "failed")],
        open_effects=(),
        prompt="",
        failed=False,
    )
    assert isinstance(refused, ToolError)
    assert refused.code is ErrorCode.TASK_NOT_RESUMABLE
    assert "--failed" in refused.message
    assert planned(chain("a", "failed"), status="completed", prompt="More").prompt == "More"
    assert planned(chain("a", "failed"), status="completed", failed=True).to_run != ()
