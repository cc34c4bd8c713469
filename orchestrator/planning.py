"""What a resume would do, read from the store alone: nothing is opened, taken or written."""

from __future__ import annotations

from agents.errors import ErrorCode, ToolError
from agents.events import MessageAppended
from orchestrator.resume import ChainFact, PlannedChain, ResumePlan, plan_resume
from orchestrator.store.base import Store, TaskRow, TurnRow
from orchestrator.store.leases import locked
from orchestrator.task import RUNNING
from orchestrator.telling import read_untold

INTERRUPTED = "interrupted"


async def refuse_a_held_one(store: Store, session_id: str) -> None:
    """Raise `Failure` CHAIN_LOCKED where a process that is not known to be dead holds the session."""
    holder = await store.holder(session_id)
    if holder is not None:
        raise locked(session_id, holder)


async def plan_stored(store: Store, session_id: str, prompt: str, *, failed: bool) -> ResumePlan | ToolError:
    """The plan of `Session.resume`, for an opened session or one that nobody has opened: what says `running`
    was interrupted then.
    """
    turns = [turn for turn in await store.turns(session_id) if turn.resumes_task is None]
    status, code = ("completed", None) if not turns else (turns[-1].status, turns[-1].error_code)
    if status == RUNNING:
        status, code = INTERRUPTED, ErrorCode.INTERRUPTED.value
    return plan_resume(
        status=status,
        error_code=code,
        unsaid=await _unsaid(store, turns[-1]) if status == INTERRUPTED else "",
        chains=list((await _facts(store, session_id)).values()),
        open_effects=[effect.text for effect in await read_untold(store, session_id)],
        prompt=prompt,
        failed=failed,
    )


async def plan_stored_task(store: Store, row: TaskRow, prompt: str) -> PlannedChain | ToolError:
    """The same for one chain, named by any of its tasks: its end is continued, or it is refused."""
    fact = (await _facts(store, row.session_id))[row.chain_id]
    if fact.status == "completed" and not prompt:
        return ToolError(
            code=ErrorCode.TASK_NOT_RESUMABLE,
            message=f"{fact.label} is completed, so there is nothing to continue. "
            "Give a prompt to go on with it.",
        )
    code = f" ({fact.error_code})" if fact.error_code else ""
    inside = f" in {', '.join(fact.was_in)}" if fact.was_in else ""
    why = f"{fact.status}{code}{inside}: goes on after its last complete model turn"
    return PlannedChain(fact.task_id, fact.label, fact.status, "continue", why)


async def open_effects_of(store: Store, row: TaskRow) -> tuple[str, ...]:
    """In words: the open effects that a resume of this chain tells its delegate of."""
    runs = {run.run_id for run in await store.chain(row.chain_id)}
    return tuple(effect.text for effect in await read_untold(store, row.session_id) if effect.owner in runs)


async def _unsaid(store: Store, turn: TurnRow) -> str:
    """The prompt of an interrupted turn, where the process died before its agent was told."""
    for event in await store.events(turn.session_id):
        of_turn = event.turn_id == turn.turn_id and event.task_id is None
        if of_turn and isinstance(event.payload, MessageAppended) and event.payload.message.role == "user":
            return ""
    return turn.prompt


async def _facts(store: Store, session_id: str) -> dict[str, ChainFact]:
    """The end of every chain of the session, by chain id, in order of the chains' start."""
    rows = await store.tasks(session_id)
    ends = {row.chain_id: row for row in rows}
    chain_of = {row.run_id: row.chain_id for row in rows}
    open_calls = [
        call
        for call in await store.calls(session_id)
        if call.ok is None or call.error_code == ErrorCode.INTERRUPTED.value
    ]
    facts: dict[str, ChainFact] = {}
    for chain_id, row in ends.items():
        messages = await store.messages(session_id, [run.task_id for run in rows if run.chain_id == chain_id])
        above = chain_of.get(row.parent_owner)
        died = row.status in (RUNNING, INTERRUPTED)
        facts[chain_id] = ChainFact(
            task_id=row.task_id,
            label=row.label,
            status=INTERRUPTED if died else row.status,
            error_code=ErrorCode.INTERRUPTED.value if died else _code(row),
            has_model_turn=any(message.role == "assistant" for message in messages),
            was_in=tuple(dict.fromkeys(c.tool for c in open_calls if died and c.owner == row.run_id)),
            parent=None if above is None else ends[above].task_id,
        )
    return facts


def _code(row: TaskRow) -> str | None:
    return None if row.result is None or row.result.error is None else row.result.error.code.value
