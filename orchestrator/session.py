"""`Session`: one conversation with a main agent and its delegates, on one workspace, in one store."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

import attrs
import trio

from agents.errors import ErrorCode, Failure, ToolError, failure
from agents.events import AnyPayload, Event, SessionChanged, SessionStarted, timestamp
from agents.messages import Message
from agents.models.base import Model
from agents.spec import AgentSpec, OperatingMode, PermissionMode
from orchestrator.approvals import Approvals
from orchestrator.assembly import Assembly
from orchestrator.crew import Crew, Order, Run
from orchestrator.resume import ChainFact, ResumePlan, plan_resume
from orchestrator.settings import Settings
from orchestrator.store.base import Store, TurnRow
from orchestrator.supervisor import Supervisor
from orchestrator.turn import MainTurn, TaskTurn, Turn, TurnOutcome
from telemetry.records import SpanRef


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
    _idle: trio.Lock = attrs.field(factory=trio.Lock)

    @property
    def crew(self) -> Crew:
        return self.supervisor.crew

    async def run(self, prompt: str) -> TurnOutcome:
        """One turn of the main agent. A second prompt waits until the first turn has ended.

        Raises `Failure` INVALID_ARGUMENT for an empty prompt, and store failures.
        """
        if not prompt.strip():
            raise failure(ErrorCode.INVALID_ARGUMENT, "The prompt is empty. Say what is to be done.")
        return await self._main_turn(prompt, orders=())

    async def plan(self, prompt: str = "", *, failed: bool = False) -> ResumePlan | ToolError:
        """What `resume` would do now."""
        turns = await self.store.turns(self.id)
        newest = _newest_main_turn(turns)
        effects = await self.store.effects(self.id, only_open=True)
        return plan_resume(
            status="completed" if newest is None else newest.status,
            error_code=None if newest is None else newest.error_code,
            chains=[await self._chain_fact(run) for run in self._chain_ends()],
            open_effects=[f"{row.intent.kind} {row.intent.target}" for row in effects],
            prompt=prompt,
            failed=failed,
        )

    async def resume(self, prompt: str = "", *, failed: bool = False) -> TurnOutcome:
        """Continue the session's conversation.

        Raises `Failure` with the plan's refusal where there is nothing to do.
        """
        plan = await self.plan(prompt, failed=failed)
        if isinstance(plan, ToolError):
            raise Failure(plan)
        orders = [
            await self._order(chain.task_id, "", fresh=chain.action == "restart") for chain in plan.to_run
        ]
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
        order = await self._order(last.task_id, prompt)
        async with self._idle:
            turn = TaskTurn(
                assembly=self.assembly,
                supervisor=self.supervisor,
                nursery=self.nursery,
                index=await self._next_index(),
                prompt=prompt or order.prompt,
                parent=self.inbound,
                resumes_task=last.task_id,
                link=await self._root_of(last),
                order=order,
            )
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
        async with self._idle:
            turns = await self.store.turns(self.id)
            newest = _newest_main_turn(turns)
            link = _root(newest) if resuming and newest is not None else None
            turn = MainTurn(
                assembly=self.assembly,
                supervisor=self.supervisor,
                nursery=self.nursery,
                index=len(turns),
                prompt=prompt,
                parent=self.inbound,
                link=link,
                spec=self.main_spec,
                model=self.main_model,
                history=await self._history(),
                max_turns=self.settings.max_turns,
                orders=tuple(orders),
            )
            return await self._play(turn)

    async def _play(self, turn: MainTurn | TaskTurn) -> TurnOutcome:
        self._turn = turn
        try:
            await turn.begin()
            return await turn.work()
        finally:
            self._turn = None

    async def _history(self) -> tuple[Message, ...]:
        return await self.store.messages(self.id, None)

    async def _next_index(self) -> int:
        return len(await self.store.turns(self.id))

    async def _order(self, task_id: str, prompt: str, *, fresh: bool = False) -> Order:
        run = self.crew.find(task_id)
        assert run is not None
        ordered = await self.supervisor.desk.continuation(
            run, agent=None, prompt=prompt, description="", by_person=True
        )
        if isinstance(ordered, ToolError):
            raise Failure(ordered)
        if fresh:
            row = await self.store.task(task_id)
            assert row is not None
            return attrs.evolve(ordered, history=(), prompt=row.prompt)
        return ordered

    def _chain_ends(self) -> list[Run]:
        ends = {run.chain_id: run for run in self.crew.all}
        return list(ends.values())

    async def _chain_fact(self, run: Run) -> ChainFact:
        task_ids = [earlier.task_id for earlier in self.crew.chain(run.chain_id)]
        messages = await self.store.messages(self.id, task_ids)
        return ChainFact(
            task_id=run.task_id,
            label=run.label,
            status=run.status,
            error_code=run.result.error.code.value if run.result and run.result.error else None,
            has_model_turn=any(message.role == "assistant" for message in messages),
        )

    async def _root_of(self, run: Run) -> SpanRef | None:
        row = await self.store.task(run.task_id)
        turns = await self.store.turns(self.id)
        return next((_root(turn) for turn in turns if row is not None and turn.turn_id == row.turn_id), None)


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


def _root(turn: TurnRow) -> SpanRef | None:
    if turn.trace_id is None or turn.span_id is None:
        return None
    return SpanRef(turn.trace_id, turn.span_id)


def _now() -> str:
    return timestamp(time.time_ns())
