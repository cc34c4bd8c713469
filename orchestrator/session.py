"""`Session`: one conversation with a main agent and its delegates, on one workspace, in one store."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

import attrs
import trio

from agents.errors import ErrorCode, Failure, ToolError, failure
from agents.events import AnyPayload, Event, ResumedTrace, SessionChanged, SessionStarted, timestamp
from agents.messages import Message
from agents.models.base import Model
from agents.rules.transcripts import after_overflows
from agents.spec import AgentSpec, OperatingMode, PermissionMode
from orchestrator.approvals import Approvals
from orchestrator.assembly import Assembly
from orchestrator.crew import Crew, Order, Run
from orchestrator.planning import plan_stored
from orchestrator.resume import UNSETTLED, PlannedChain, ResumePlan
from orchestrator.settings import Settings
from orchestrator.store.base import Store, TurnRow
from orchestrator.supervisor import Supervisor
from orchestrator.turn import MainTurn, TaskTurn, Turn, TurnOutcome
from telemetry.attributes import RESUME_ATTEMPT
from telemetry.records import SpanRef
from telemetry.spans import instance_id


@attrs.define(eq=False)
class Session:
    """Runs prompts, resumes chains, stops. Made by `open_session`; ends with its block."""

    id: str
    settings: Settings
    store: Store
    assembly: Assembly
    supervisor: Supervisor
    approvals: Approvals
    main_spec: AgentSpec
    main_model: Model
    nursery: trio.Nursery
    inbound: SpanRef | None
    """A trace context from the environment of a headless run."""
    warnings: tuple[str, ...] = ()
    """What was odd about definitions and settings, for the person."""
    _turn: Turn | None = None
    _prompts: trio.Lock = attrs.field(factory=trio.Lock)
    """Prompts begin one after the other, in the order in which they came."""

    @property
    def crew(self) -> Crew:
        return self.supervisor.crew

    async def run(self, prompt: str) -> TurnOutcome:
        """One turn of the main agent.

        A follow-up prompt waits until the parent's loop is idle, then it is a new turn and closes the earlier
        one for the parent: that `run` returns with the text so far, its delegates run on, and their results
        go to the newest turn.

        Raises `Failure` INVALID_ARGUMENT for an empty prompt, and store failures.
        """
        if not prompt.strip():
            raise failure(ErrorCode.INVALID_ARGUMENT, "The prompt is empty. Say what is to be done.")
        return await self._main_turn(prompt, orders=())

    async def plan(self, prompt: str = "", *, failed: bool = False) -> ResumePlan | ToolError:
        """What `resume` would do now."""
        return await plan_stored(self.store, self.id, prompt, failed=failed)

    async def resume(self, prompt: str = "", *, failed: bool = False) -> TurnOutcome:
        """Continue the session's conversation.

        Raises `Failure` with the plan's refusal where there is nothing to do.
        """
        plan = await self.plan(prompt, failed=failed)
        if isinstance(plan, ToolError):
            raise Failure(plan)
        orders = [await self._order(chain, "", plan.to_run) for chain in plan.to_run if chain.parent is None]
        return await self._main_turn(plan.prompt, orders=orders, resuming=True)

    async def resume_task(self, name: str, prompt: str = "") -> TurnOutcome:
        """A person's resume of one chain, by task, run or chain id or by label: a turn of its own.

        Raises `Failure`: TASK_UNKNOWN, TASK_RUNNING, TASK_NOT_RESUMABLE (a completed one without a prompt).
        """
        run = self.crew.find(name)
        if run is None:
            known = ", ".join(f"{other.label} ({other.task_id})" for other in self.crew.all) or "none"
            raise failure(
                ErrorCode.TASK_UNKNOWN, f"There is no task {name!r} in this session. It has: {known}."
            )
        last = self.crew.last_of_chain(run)
        if last.status == "completed" and not prompt:
            raise failure(
                ErrorCode.TASK_NOT_RESUMABLE,
                f"{last.label} is completed, so there is nothing to continue. "
                "Give a prompt to go on with it.",
            )
        order = await self._order_alone(last, prompt)
        async with self._prompts:
            await self._make_way()
            turn = TaskTurn(
                assembly=self.assembly,
                supervisor=self.supervisor,
                nursery=self.nursery,
                index=await self._next_index(),
                prompt=prompt or order.prompt,
                parent=self.inbound,
                resumes_task=last.task_id,
                resumes=await self._resumed_run(last),
                order=order,
            )
            await self._begin(turn)
        return await self._play(turn)

    def stop(self) -> None:
        """End the open turn: it becomes `stopped`, its delegates `aborted`. Returns at once."""
        if self._turn is not None:
            self._turn.stop()

    @asynccontextmanager
    async def events(self) -> AsyncIterator[trio.MemoryReceiveChannel[Event]]:
        """Every event from now on, as `async with session.events() as events: async for event in events`."""
        async with self.assembly.feed.subscribe() as receive:
            yield receive

    async def announce(self, *, resumed: bool, trace_target: str | None) -> None:
        """Store `session.started`: once per process that opens the session."""
        settings = self.settings
        started = SessionStarted(
            workspace=str(self.assembly.workspace.root),
            mode=settings.mode.value,
            permission_mode=settings.permission_mode.value,
            model=self.main_model.name,
            resumed=resumed,
            main_agent=settings.agent,
            base_url=settings.base_url,
            trace_target=trace_target,
            instance_id=instance_id(),
        )
        await self._tell(started)

    async def set_mode(self, operating: OperatingMode) -> None:
        """Change which tools exist, and store that.

        Plan binds every running agent, delegates at any depth too, from its next call: a call that waits for
        an answer is denied when the answer comes, one that runs is finished. The way back gives running
        agents their calls back; those that were started in plan get their other tools with their next turn.
        """
        self.assembly.modes.operating = OperatingMode(operating)
        await self._tell_modes()

    async def set_permission_mode(self, permission: PermissionMode) -> None:
        """Change how calls are approved, and store that.

        Binds every running agent from its next call, a delegate at most as far as its definition goes. An
        open request is not answered by it.
        """
        modes = self.assembly.modes
        modes.permission = PermissionMode(permission)
        wider = wider_definitions(self.assembly.specs.values(), modes.permission)
        self.warnings = (*self.warnings, *(text for text in wider if text not in self.warnings))
        await self._tell_modes()

    async def _tell_modes(self) -> None:
        modes = self.assembly.modes
        changed = SessionChanged(mode=modes.operating.value, permission_mode=modes.permission.value)
        await self._tell(changed)

    async def _tell(self, payload: AnyPayload) -> None:
        event = Event(session_id=self.id, turn_id=None, agent=None, task_id=None, payload=payload, ts=_now())
        await self.assembly.feed.emit([event])

    async def _main_turn(
        self, prompt: str, *, orders: Sequence[Order], resuming: bool = False
    ) -> TurnOutcome:
        async with self._prompts:
            await self._make_way()
            turns = await self.store.turns(self.id)
            newest = _newest_main_turn(turns)
            turn = MainTurn(
                assembly=self.assembly,
                supervisor=self.supervisor,
                nursery=self.nursery,
                index=len(turns),
                prompt=prompt,
                parent=self.inbound,
                resumes=await self._resumed_turn(newest) if resuming else None,
                spec=self.main_spec,
                model=self.main_model,
                history=await self._history(turns),
                max_turns=self.settings.max_turns,
                orders=tuple(orders),
            )
            await self._begin(turn)
        return await self._play(turn)

    async def _make_way(self) -> None:
        if self._turn is not None:
            await self._turn.give_way()

    async def _begin(self, turn: MainTurn | TaskTurn) -> None:
        self._turn = turn
        try:
            await turn.begin()
        except BaseException:
            turn.ended.set()
            raise

    async def _play(self, turn: MainTurn | TaskTurn) -> TurnOutcome:
        try:
            return await turn.work()
        finally:
            turn.ended.set()
            if self._turn is turn:
                self._turn = None

    async def _history(self, turns: Sequence[TurnRow]) -> tuple[Message, ...]:
        overflows = sum(
            turn.error_code == ErrorCode.CONTEXT_OVERFLOW for turn in turns if turn.resumes_task is None
        )
        return after_overflows(await self.store.messages(self.id, None), overflows)

    async def _next_index(self) -> int:
        return len(await self.store.turns(self.id))

    async def _order(self, chain: PlannedChain, prompt: str, planned: Sequence[PlannedChain]) -> Order:
        """The next run of a chain, and inside it those of `planned` that its delegate had delegated."""
        run = self.crew.find(chain.task_id)
        assert run is not None
        desk = self.supervisor.desk
        if chain.action == "restart" and run.resumes is None:
            ordered = await desk.restart(run, prompt)
        else:
            ordered = await desk.continuation(run, agent=None, prompt=prompt, description="", by_person=True)
        if isinstance(ordered, ToolError):
            raise Failure(ordered)
        below = [await self._order(one, "", planned) for one in planned if one.parent == chain.task_id]
        return attrs.evolve(ordered, nested=tuple(below))

    async def _order_alone(self, run: Run, prompt: str) -> Order:
        """The next run of one chain, whatever became of others; what it had delegated goes on inside it."""
        plan = await plan_stored(self.store, self.id, "Continue.", failed=True)
        assert not isinstance(plan, ToolError)  # there is a prompt
        chain = next(one for one in plan.chains if one.task_id == run.task_id)
        return await self._order(chain, prompt, [one for one in plan.to_run if one.status in UNSETTLED])

    async def _resumed_run(self, run: Run) -> ResumedTrace | None:
        """The turn of a chain's last run, as the next one's trace refers to it."""
        row = await self.store.task(run.task_id)
        turns = await self.store.turns(self.id)
        turn = next((turn for turn in turns if row is not None and turn.turn_id == row.turn_id), None)
        error = None if run.result is None else run.result.error
        reason = run.status if error is None else error.code.value
        return _resumed(turn, 1 + len(self.crew.chain(run.chain_id)), reason)

    async def _resumed_turn(self, turn: TurnRow | None) -> ResumedTrace | None:
        """The newest turn, as the trace of its resume refers to it. What was completed is not tried again."""
        if turn is None:
            return None
        spans = await self.store.spans(self.id, turn.trace_id)
        attempts = [span.attributes.get(RESUME_ATTEMPT) for span in spans if span.span_id == turn.span_id]
        before = next((number for number in attempts if isinstance(number, int)), 1)
        attempt = 1 if turn.status == "completed" else before + 1
        return _resumed(turn, attempt, turn.error_code or turn.status)


def wider_definitions(specs: Iterable[AgentSpec], mode: PermissionMode) -> tuple[str, ...]:
    """A warning for each definition that asks for a wider permission mode than the session's.

    A definition only narrows: the session's mode applies to such a one.
    """
    return tuple(
        f"{spec.source}: {spec.name} asks for permission mode `{spec.permission_mode}`, which is wider than "
        f"this session's; `{mode}` applies to it."
        for spec in specs
        if spec.permission_mode is not None and spec.permission_mode.reach > mode.reach
    )


def _newest_main_turn(turns: Sequence[TurnRow]) -> TurnRow | None:
    main = [turn for turn in turns if turn.resumes_task is None]
    return main[-1] if main else None


def _resumed(turn: TurnRow | None, attempt: int, reason: str) -> ResumedTrace | None:
    if turn is None or turn.trace_id is None or turn.span_id is None:
        return None
    return ResumedTrace(trace_id=turn.trace_id, span_id=turn.span_id, attempt=attempt, reason=reason)


def _now() -> str:
    return timestamp(time.time_ns())
