"""What a resume would do, read from the store alone: nothing is opened, taken or written."""

from __future__ import annotations

import attrs

from agents.errors import ErrorCode, ToolError
from orchestrator.resume import ChainFact, PlannedChain, ResumePlan, plan_resume
from orchestrator.store.base import Store, TaskRow
from orchestrator.store.leases import locked
from orchestrator.task import RUNNING

INTERRUPTED = "interrupted"


async def plan_stored(store: Store, session_id: str, prompt: str, *, failed: bool) -> ResumePlan | ToolError:
    """The plan of `Session.resume`, for a session nobody has opened. What says `running` was interrupted.

    Raises `Failure` CHAIN_LOCKED where a process that is not known to be dead holds the session.
    """
    await _refuse_a_held_one(store, session_id)
    turns = [turn for turn in await store.turns(session_id) if turn.resumes_task is None]
    status, code = ("completed", None) if not turns else (turns[-1].status, turns[-1].error_code)
    if status == RUNNING:
        status, code = INTERRUPTED, ErrorCode.INTERRUPTED.value
    ends = {row.chain_id: row for row in await store.tasks(session_id)}
    effects = await store.effects(session_id, only_open=True)
    return plan_resume(
        status=status,
        error_code=code,
        chains=[await _fact(store, row) for row in ends.values()],
        open_effects=[f"{row.intent.kind} {row.intent.target}" for row in effects],
        prompt=prompt,
        failed=failed,
    )


async def plan_stored_task(store: Store, row: TaskRow, prompt: str) -> PlannedChain | ToolError:
    """The same for one chain, named by any of its tasks: its end is continued, or it is refused."""
    await _refuse_a_held_one(store, row.session_id)
    fact = await _fact(store, (await store.chain(row.chain_id))[-1])
    if fact.status == "completed" and not prompt:
        return ToolError(
            code=ErrorCode.TASK_NOT_RESUMABLE,
            message=f"{fact.label} is completed, so there is nothing to continue. "
            "Give a prompt to go on with it.",
        )
    code = f" ({fact.error_code})" if fact.error_code else ""
    why = f"{fact.status}{code}: goes on after its last complete model turn"
    return PlannedChain(fact.task_id, fact.label, fact.status, "continue", why)


async def _fact(store: Store, row: TaskRow) -> ChainFact:
    runs = await store.chain(row.chain_id)
    messages = await store.messages(row.session_id, [run.task_id for run in runs])
    error = None if row.result is None or row.result.error is None else row.result.error.code.value
    if row.status == RUNNING:
        row, error = attrs.evolve(row, status=INTERRUPTED), ErrorCode.INTERRUPTED.value
    return ChainFact(
        task_id=row.task_id,
        label=row.label,
        status=row.status,
        error_code=error,
        has_model_turn=any(message.role == "assistant" for message in messages),
    )


async def _refuse_a_held_one(store: Store, session_id: str) -> None:
    holder = await store.holder(session_id)
    if holder is not None:
        raise locked(session_id, holder)
