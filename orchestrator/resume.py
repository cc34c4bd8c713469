"""`plan_resume`: what a resume of a session would do, before anything is done. Pure.

Settled tasks are results for the parent to judge, failed ones too; `failed` continues the failed and
truncated chains as well. Interrupted and aborted chains continue after their last complete model turn; one
without a stored model turn restarts. What a person stopped stays stopped. Finished siblings are never run
again. A delegate's own delegates are continued inside its run, so only where it is continued itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import attrs

from agents.errors import ErrorCode, ToolError

Action = Literal["reuse", "continue", "restart"]
UNSETTLED = ("interrupted", "aborted")
"""Ends that are no answer to the task: what ended so goes on without being asked for."""


@attrs.frozen
class ChainFact:
    """The end of one chain, as stored."""

    task_id: str
    label: str
    status: str
    error_code: str | None
    has_model_turn: bool
    """Whether any answer of its model is stored."""
    was_in: tuple[str, ...] = ()
    """The tools whose calls were open when its process died."""
    parent: str | None = None
    """The task at the end of the chain that delegated it; None: the main agent did."""


@attrs.frozen
class PlannedChain:
    """What happens to one chain, and why."""

    task_id: str
    label: str
    status: str
    action: Action
    why: str
    parent: str | None = None
    """The task that it is continued in; None: directly below the turn."""


@attrs.frozen
class ResumePlan:
    """The whole plan; the real resume follows it."""

    prompt: str
    """What the parent is told, beside its delegates' results."""
    chains: tuple[PlannedChain, ...]
    open_effects: tuple[str, ...]
    """Side effects whose outcome is not known, in words."""

    @property
    def to_run(self) -> tuple[PlannedChain, ...]:
        return tuple(chain for chain in self.chains if chain.action != "reuse")


def plan_resume(
    *,
    status: str,
    error_code: str | None,
    chains: Sequence[ChainFact],
    open_effects: Sequence[str],
    prompt: str,
    failed: bool,
    unsaid: str = "",
) -> ResumePlan | ToolError:
    """Plan the resume of a session whose newest turn ended with `status`; the refusal where there is none.

    `unsaid` is that turn's prompt where it ended before the agent was told.
    """
    planned = _plan_chains(chains, failed)
    work = any(chain.action != "reuse" for chain in planned)
    if not prompt and status == "completed" and not work:
        return ToolError(
            code=ErrorCode.TASK_NOT_RESUMABLE,
            message="The conversation is completed, so there is nothing to continue. "
            "Give a prompt to go on with it"
            + (", or `--failed` to continue its failed tasks." if _has_failed(chains) else "."),
        )
    return ResumePlan(
        prompt="\n\n".join(
            part
            for part in (
                _how_it_ended(status, error_code),
                unsaid,
                prompt or ("" if unsaid else _continue(status)),
            )
            if part
        ),
        chains=planned,
        open_effects=tuple(open_effects),
    )


def _plan_chains(chains: Sequence[ChainFact], failed: bool) -> tuple[PlannedChain, ...]:
    planned = {chain.task_id: _plan_chain(chain, failed) for chain in chains}
    # Parents start before what they delegate, so a parent's plan is final when its delegates' are looked at.
    for task_id, plan in planned.items():
        above = None if plan.parent is None else planned.get(plan.parent)
        if above is not None and above.action == "reuse" and plan.action != "reuse":
            why = f"{plan.status}: is not continued without {above.label}, which delegated it"
            planned[task_id] = attrs.evolve(plan, action="reuse", why=why)
    return tuple(planned.values())


def _plan_chain(chain: ChainFact, failed: bool) -> PlannedChain:
    action: Action = "reuse"
    why = f"{chain.status}: its result is handed to the parent"
    if chain.status in UNSETTLED:
        inside = f" in {', '.join(chain.was_in)}" if chain.was_in else ""
        action, why = "continue", f"{chain.status}{inside}: goes on after its last complete model turn"
        if not chain.has_model_turn:
            action, why = "restart", f"{chain.status} before its model had answered: starts again"
    elif chain.status in ("failed", "truncated"):
        code = f" ({chain.error_code})" if chain.error_code else ""
        why = f"{chain.status}{code}: its result is handed to the parent; --failed continues it"
        if failed:
            action, why = "continue", f"{chain.status}{code}: continued because of --failed"
    return PlannedChain(chain.task_id, chain.label, chain.status, action, why, chain.parent)


def _has_failed(chains: Sequence[ChainFact]) -> bool:
    return any(chain.status in ("failed", "truncated") for chain in chains)


def _how_it_ended(status: str, error_code: str | None) -> str:
    if status == "completed":
        return ""
    code = f", {error_code}" if error_code else ""
    return f"[Your previous turn ended: {status}{code}. Files may have changed since.]"


def _continue(status: str) -> str:
    return (
        "Judge the results of your delegates." if status == "completed" else "Continue from where it stands."
    )


def describe(plan: ResumePlan) -> str:
    """The plan as a person reads it."""
    lines = [f"{chain.action:<9} {chain.label:<14} {chain.task_id}  {chain.why}" for chain in plan.chains]
    lines += [f"open      {effect}" for effect in plan.open_effects]
    lines.append(f"then      the parent is told: {plan.prompt!r}")
    return "\n".join(lines)
