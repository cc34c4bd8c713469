"""One turn: a prompt to the main agent (or a person's resume of one task), worked on and settled once."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence

import attrs
import trio

from agents.agent import Agent, Transcript
from agents.emitter import Emitter
from agents.errors import ErrorCode, ToolError
from agents.events import (
    AgentFinished,
    AgentRef,
    Event,
    RecoveryReleased,
    ResumedTrace,
    RunSettled,
    TurnClosed,
    TurnFinished,
    TurnStarted,
)
from agents.exchange import usage_attributes
from agents.messages import Message, Usage
from agents.models.base import Model
from agents.outcome import AgentOutcome, Ending
from agents.requests import Denial
from agents.results import FileChange, TaskResult, TaskStatus, Waits
from agents.shielding import shielded
from agents.spec import AgentSpec
from orchestrator.assembly import Assembly
from orchestrator.closing import (
    close_agent_span,
    refer_to_resumed,
    released_keys,
    set_status,
    wait_attributes,
)
from orchestrator.crew import Order, Run
from orchestrator.delegates import Delegates
from orchestrator.driving import begin, drive
from orchestrator.settlement import judge, total_changes, total_usage
from orchestrator.supervisor import Supervisor
from telemetry import attributes as names
from telemetry.facts import turn_facts
from telemetry.records import SpanRef
from telemetry.spans import Span, start_span

EMPTY_ANSWER = ToolError(
    code=ErrorCode.EMPTY_MODEL_RESPONSE,
    message="The model ended the turn without any visible text. Ask again with a more specific prompt.",
    retriable=True,
)


@attrs.frozen
class TurnOutcome:
    """How a turn ended. `event` is the stored `turn.finished`."""

    event: Event
    payload: TurnFinished

    @property
    def status(self) -> TaskStatus:
        return self.payload.status

    @property
    def text(self) -> str:
        return self.payload.text

    @property
    def error(self) -> ToolError | None:
        return self.payload.error

    @property
    def usage(self) -> Usage:
        return self.payload.usage

    @property
    def denials(self) -> tuple[Denial, ...]:
        return self.payload.denials

    @property
    def files_changed(self) -> tuple[FileChange, ...]:
        return self.payload.files_changed

    @property
    def session_id(self) -> str:
        return self.event.session_id

    @property
    def turn_id(self) -> str:
        assert self.event.turn_id is not None
        return self.event.turn_id

    @property
    def trace_id(self) -> str | None:
        return self.event.trace_id


@attrs.define(eq=False)
class Turn:
    """What every turn has: ids, a root span, a scope, and one settlement."""

    assembly: Assembly
    supervisor: Supervisor
    nursery: trio.Nursery
    index: int
    prompt: str
    parent: SpanRef | None = None
    """An inbound trace context, in headless runs."""
    resumes_task: str | None = None
    resumes: ResumedTrace | None = None
    """The earlier turn that this one resumes."""
    turn_id: str = attrs.field(factory=lambda: f"turn-{uuid.uuid4().hex[:12]}")
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    ended: trio.Event = attrs.field(factory=trio.Event)
    """Set when `work` has returned."""
    span: Span = attrs.field(init=False)
    emitter: Emitter = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.span = start_span(
            names.TURN_SPAN,
            turn_facts(
                session_id=self.assembly.session_id,
                turn_id=self.turn_id,
                index=self.index,
                resumes_task=self.resumes_task,
            ),
            parent=self.parent,
        )
        if self.resumes is not None:
            refer_to_resumed(self.span, self.resumes)
        self.emitter = Emitter(self.assembly.feed, self.assembly.session_id, self.turn_id, self.ref)

    @property
    def ref(self) -> AgentRef:
        return AgentRef(id=self.turn_id, name="main", label="main", depth=0)

    @property
    def waits(self) -> Waits:
        return Waits()

    async def begin(self) -> None:
        """`turn.started` is on disk before anything runs."""
        started = TurnStarted(
            prompt=self.prompt,
            index=self.index,
            resumes_task=self.resumes_task,
            resumes_trace=self.resumes,
            trace_targets=self.assembly.feed.trace_targets,
        )
        with shielded("The start of a turn"):  # a stored turn is always settled, too
            await self.emitter.emit(started, self.span)

    async def launch(self, order: Order) -> Run:
        """Start a chain's next run directly below the root, at the depth that the chain has."""
        return await self.supervisor.launch(
            order,
            parent_owner=self.turn_id,
            depth=1 if order.continues is None else order.continues.depth,
            turn_id=self.turn_id,
            parent=self.span.ref,
            nursery=self.nursery,
        )

    def stop(self) -> None:
        """End the turn: its agent is `stopped`, its delegates `aborted`."""
        self.scope.cancel(reason="stopped by the person")

    async def abort_delegates(self) -> None:
        """Cancel what still runs below this turn and wait until it has settled."""
        running = self.supervisor.crew.running
        for run in running:
            run.cancel(Ending.ABORTED)
        for run in running:
            await run.settled.wait()

    async def give_way(self) -> None:
        """Wait until a follow-up prompt may begin: the turn has ended."""
        await self.ended.wait()

    def finished(
        self,
        status: TaskStatus,
        error: ToolError | None,
        text: str,
        own: AgentOutcome | None,
        runs: Sequence[Run],
        now: int,
    ) -> TurnFinished:
        """The turn's result: its agent's own figures and those of the runs directly below it, each once."""
        results = [run.result for run in runs if run.result is not None]
        for run in runs:
            run.counted = True
        usage = total_usage(Usage() if own is None else own.usage, results)
        files = total_changes(() if own is None else own.files_changed, results)
        waits = self.waits if own is None else own.waits
        denials = (*(() if own is None else own.denials), *self._denials_of(runs))
        self.span.set_attributes(
            {
                names.OUTCOME: status,
                names.FILES_CHANGED: len(files),
                names.DENIALS: len(denials),
                **usage_attributes(usage),
                **wait_attributes(waits),
            }
        )
        set_status(self.span, status, error)
        return TurnFinished(
            status=status,
            error=error,
            text=text,
            usage=usage,
            duration_ms=round((now - self.span.start_ns) / 1e6),
            waits=waits,
            denials=denials,
            files_changed=files,
        )

    def _denials_of(self, runs: Sequence[Run]) -> list[Denial]:
        """What was denied to these runs and to the runs below them."""
        denials: list[Denial] = []
        for run in runs:
            denials.extend(() if run.agent is None else run.agent.tally.denials)
            denials.extend(self._denials_of(self.supervisor.crew.children(run.run_id)))
        return denials


@attrs.define(eq=False)
class MainTurn(Turn):
    """A prompt to the session's main agent."""

    spec: AgentSpec = attrs.field(kw_only=True)
    model: Model = attrs.field(kw_only=True)
    history: tuple[Message, ...] = attrs.field(kw_only=True)
    max_turns: int = attrs.field(kw_only=True)
    orders: tuple[Order, ...] = attrs.field(kw_only=True, default=())
    """Chains that a resume continues first; the parent is handed their results."""
    agent: Agent = attrs.field(init=False)
    transcript: Transcript = attrs.field(init=False)
    delegates: Delegates = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        attributes = self.assembly.agent_attributes(self.ref, self.spec, self.model)
        span = self.span.child(names.agent_span(self.spec.name), attributes)
        self.agent = self.assembly.agent(
            spec=self.spec,
            ref=self.ref,
            model=self.model,
            span=span,
            turn_id=self.turn_id,
            task_id=None,
            chain_labels=(),
            max_turns=self.max_turns,
        )
        self.transcript = Transcript(self.agent.emitter, span, list(self.history))
        self.delegates = Delegates(
            supervisor=self.supervisor,
            owner=self.turn_id,
            depth=0,
            turn_id=self.turn_id,
            nursery=self.nursery,
            mine=lambda run: run.depth == 1,
        )
        if "Task" in self.agent.tools:
            self.agent.delegator = self.delegates

    async def give_way(self) -> None:
        """Once the loop is idle, leave the delegates to the follow-up prompt and end for the parent."""
        self.delegates.gives_way.set()
        await self.ended.wait()

    async def work(self) -> TurnOutcome:
        """Run the main agent to its end and settle, whatever happens; cancellation from outside goes on."""
        try:
            outcome: AgentOutcome | None = None
            with self.scope:
                outcome = await self._drive()
            if outcome is None:
                outcome = self._outcome(Ending.STOPPED)
                with shielded("The settlement of a turn"):
                    await self.abort_delegates()
        except BaseException:
            with shielded("The settlement of a turn"):
                await self.abort_delegates()
                await self._settle(self._outcome(Ending.ABORTED))
            raise
        return await self._settle(outcome)

    async def _drive(self) -> AgentOutcome:
        await self.agent.announce()
        first = [await self.launch(order) for order in self.orders]
        untold = self.supervisor.untold
        delegated = {run.run_id for run in self.supervisor.crew.all}
        owners = {effect.owner for effect in untold.all} - delegated  # the turns of this conversation
        await begin(self.transcript, self.delegates, untold, owners, self.prompt, first)
        return await drive(self.agent, self.transcript, self.delegates)

    def _outcome(self, ending: Ending) -> AgentOutcome:
        return self.agent.outcome(ending, self.transcript.last_text)

    async def _settle(self, outcome: AgentOutcome) -> TurnOutcome:
        with shielded("The settlement of a turn"):
            settling = self.span.child(names.SETTLE_SPAN)
            status, error = judge(outcome, self.agent.tally.terminal, empty=EMPTY_ANSWER)
            keys = released_keys(self.assembly.recovery, self.turn_id)
            self.assembly.feed.at_settlement(self.turn_id, self._release)
            now = time.time_ns()
            runs = [run for run in self.delegates.runs if run.result is not None and not run.counted]
            below = [run for run in self.supervisor.crew.running if run.parent_owner == self.turn_id]
            payload = self.finished(status, error, outcome.text, outcome, runs, now)
            agent_record = close_agent_span(self.agent, status, error, keys, now)
            finished = AgentFinished(status=status, error=error, usage=outcome.usage, turns=outcome.turns)
            settled = RunSettled(owner=self.turn_id, status=status)
            settling.set_attributes(
                {names.TASK_STATUS: status, names.FILES_CHANGED: len(payload.files_changed)}
            )
            stored = await self.assembly.feed.emit(
                [
                    self.emitter.event(settled, settling, ended=settling.end(now)),
                    self.emitter.event(RecoveryReleased(owner=self.turn_id, keys=keys), self.agent.span),
                    self.emitter.event(finished, self.agent.span, ended=agent_record),
                    self.emitter.event(payload, self.span, ended=None if below else self.span.end(now)),
                ]
            )
            if below:
                self.nursery.start_soon(self._close_root, below, status)
            return TurnOutcome(stored[-1], payload)

    async def _close_root(self, below: Sequence[Run], status: TaskStatus) -> None:
        """The root span of a turn that gave way ends with the last of its delegates, however that ends."""
        with trio.CancelScope(shield=True):  # each is bounded itself: its settlement has a deadline
            for run in below:
                await run.settled.wait()
        with shielded("The end of a turn's trace"):
            ended = self.span.end(max(run.settled_ns or 0 for run in below) or None)
            await self.emitter.emit(TurnClosed(status=status), self.span, ended=ended)

    def _release(self) -> None:
        self.assembly.recovery.release(self.turn_id)


@attrs.define(eq=False)
class TaskTurn(Turn):
    """A person's resume of one task: the delegate's own turn, directly below the root."""

    order: Order = attrs.field(kw_only=True)
    run: Run | None = attrs.field(init=False, default=None)

    async def work(self) -> TurnOutcome:
        """Run the delegate to its settlement; the turn takes its status."""
        try:
            with self.scope:
                self.run = await self.launch(self.order)
                await self.run.settled.wait()
            if self.scope.cancelled_caught:
                with shielded("The settlement of a turn"):
                    await self.abort_delegates()
        except BaseException:
            with shielded("The settlement of a turn"):
                await self.abort_delegates()
                await self._settle(stopped=False)
            raise
        return await self._settle(stopped=self.scope.cancelled_caught)

    async def _settle(self, *, stopped: bool) -> TurnOutcome:
        with shielded("The settlement of a turn"):
            result: TaskResult | None = None if self.run is None else self.run.result
            status: TaskStatus = "stopped" if stopped else "aborted" if result is None else result.status
            error = None if result is None or stopped else result.error
            text = "" if result is None else result.report
            now = time.time_ns()
            payload = self.finished(status, error, text, None, [self.run] if self.run else [], now)
            (stored,) = await self.assembly.feed.emit(
                [self.emitter.event(payload, self.span, ended=self.span.end(now))]
            )
            return TurnOutcome(stored, payload)

    @property
    def waits(self) -> Waits:
        return Waits() if self.run is None or self.run.result is None else self.run.result.waits
