"""One delegate run's life: work under its own scope and deadline, then settle, exactly once.

A run's coroutine turns everything that goes wrong in its own work into a result. Only cancellation and a
failure of settlement or store leave it.
"""

from __future__ import annotations

import time
import uuid

import attrs
import trio

from agents.agent import Agent, Transcript
from agents.errors import ErrorCode, ToolError
from agents.events import (
    AgentFinished,
    RecoveryReleased,
    RunSettled,
    TaskFinished,
    TaskStartedEvent,
)
from agents.outcome import AgentOutcome, Ending
from agents.results import TaskResult
from agents.rules.recovery import RecoveryBook
from agents.shielding import shielded
from orchestrator.assembly import Assembly
from orchestrator.closing import (
    close_agent_span,
    close_settle_span,
    close_task_span,
    released_keys,
)
from orchestrator.crew import Crew, Order, Run
from orchestrator.delegates import Delegates
from orchestrator.desk import Desk
from orchestrator.driving import begin, contained, drive
from orchestrator.settlement import RunFacts, settle
from orchestrator.task import DELEGATE_SECONDS
from orchestrator.telling import Untold
from telemetry import attributes as names
from telemetry.facts import task_facts
from telemetry.records import SpanRef
from telemetry.spans import Span, start_span


@attrs.define(eq=False)
class Supervisor:
    """Starts runs and sees each to its settlement. One per session."""

    assembly: Assembly
    crew: Crew
    recovery: RecoveryBook
    desk: Desk
    max_delegates: int
    untold: Untold = attrs.field(factory=Untold)
    """Open effects of an earlier process that their agents are yet to be told of."""

    async def launch(
        self,
        order: Order,
        *,
        parent_owner: str,
        depth: int,
        turn_id: str,
        parent: SpanRef,
        nursery: trio.Nursery,
    ) -> Run:
        """Store that the task has started, then start it in `nursery`. Not interruptible between the two."""
        run = self._new_run(order, parent_owner, depth)
        supervised = _Supervised(self, run, order, turn_id, parent)
        self.crew.add(run)
        if order.continues is not None:
            order.continues.delivered = True  # the new run's result takes its place
        with shielded("The start of a task"):
            try:
                await supervised.announce()
            except BaseException:
                run.settled.set()
                raise
        nursery.start_soon(supervised.live, name=f"delegate {run.label}")
        return run

    def _new_run(self, order: Order, parent_owner: str, depth: int) -> Run:
        before = order.continues
        return Run(
            task_id=f"task-{uuid.uuid4().hex[:12]}",
            run_id=f"run-{uuid.uuid4().hex[:12]}",
            chain_id=f"chain-{uuid.uuid4().hex[:12]}" if before is None else before.chain_id,
            agent_name=order.spec.name,
            label=self.crew.next_label(order.spec.name) if before is None else before.label,
            depth=depth,
            parent_owner=parent_owner,
            description=order.description,
            resumes=None if before is None else before.task_id,
        )


@attrs.define(eq=False)
class _Supervised:
    supervisor: Supervisor
    run: Run
    order: Order
    turn_id: str
    parent: SpanRef
    agent: Agent = attrs.field(init=False)
    span: Span = attrs.field(init=False)
    transcript: Transcript = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        assembly, run, order = self.supervisor.assembly, self.run, self.order
        self.span = start_span(
            names.agent_span(order.spec.name),
            assembly.agent_attributes(run.ref, order.spec, order.model) | self._ids(),
            parent=self.parent,
            service=assembly.service(order.spec),
        )
        if order.task_span is not None:
            description = {names.TASK_DESCRIPTION: run.description or None}
            order.task_span.set_attributes(self._ids() | {names.AGENT_LABEL: run.label} | description)
        self.agent = assembly.agent(
            spec=order.spec,
            ref=run.ref,
            model=order.model,
            span=self.span,
            turn_id=self.turn_id,
            task_id=run.task_id,
            chain_labels=self._labels_above(),
        )
        self.transcript = Transcript(self.agent.emitter, self.span, list(order.history))
        run.agent = self.agent

    def _ids(self) -> dict[str, object]:
        run = self.run
        return dict(
            task_facts(task_id=run.task_id, run_id=run.run_id, chain_id=run.chain_id, resumes=run.resumes)
        )

    def _labels_above(self) -> tuple[str, ...]:
        labels: list[str] = []
        owner = self.run.parent_owner
        while (
            above := next((run for run in self.supervisor.crew.all if run.run_id == owner), None)
        ) is not None:
            labels.insert(0, above.label)
            owner = above.parent_owner
        return ("main", *labels)

    async def announce(self) -> None:
        """`task.started` is on disk before anything runs."""
        run, order = self.run, self.order
        started = TaskStartedEvent(
            task_id=run.task_id,
            run_id=run.run_id,
            chain_id=run.chain_id,
            agent_name=run.agent_name,
            description=run.description,
            prompt=order.prompt,
            model=order.model.name,
            parent_owner=run.parent_owner,
            resumes=run.resumes,
        )
        await self.agent.emitter.emit(started, order.task_span or self.span)

    async def live(self) -> None:
        """Work, then settle, whatever the work came to."""
        try:
            try:
                outcome = await self._work()
            except Exception as error:
                outcome = contained(self.agent, self.transcript, error)
            except BaseException:
                await self._settle(self._outcome(self.run.ending or Ending.ABORTED))
                raise
            await self._settle(outcome)
        finally:
            self.run.settled.set()  # also when the store failed: nobody may wait for ever

    async def _work(self) -> AgentOutcome:
        seconds = self.order.spec.timeout_seconds or DELEGATE_SECONDS
        outcome: AgentOutcome | None = None
        with self.run.scope, trio.move_on_after(seconds) as clock:
            async with trio.open_nursery() as nursery:  # its own delegates: it settles after them
                delegates = self._delegates(nursery)
                await self._begin(delegates)
                outcome = await drive(self.agent, self.transcript, delegates)
        if self.run.scope.cancelled_caught:
            return self._outcome(self.run.ending or Ending.STOPPED)
        if clock.cancelled_caught:
            return self._outcome(Ending.LIMIT, _time_limit(seconds))
        assert outcome is not None
        return outcome

    def _delegates(self, nursery: trio.Nursery) -> Delegates:
        supervisor, run = self.supervisor, self.run
        return Delegates(
            supervisor=supervisor,
            owner=run.run_id,
            depth=run.depth,
            turn_id=self.turn_id,
            nursery=nursery,
            mine=lambda other: other.parent_owner in {r.run_id for r in supervisor.crew.chain(run.chain_id)},
        )

    async def _begin(self, delegates: Delegates) -> None:
        supervisor, run = self.supervisor, self.run
        await self.agent.announce()
        first: list[Run] = []
        if "Task" in self.agent.tools:
            self.agent.delegator = delegates
            for order in self.order.nested:
                nested = await supervisor.launch(
                    order,
                    parent_owner=run.run_id,
                    depth=run.depth + 1,
                    turn_id=self.turn_id,
                    parent=self.span.ref,
                    nursery=delegates.nursery,
                )
                first.append(nested)
        owners = {earlier.run_id for earlier in supervisor.crew.chain(run.chain_id)}
        await begin(self.transcript, delegates, supervisor.untold, owners, self.order.prompt, first)

    def _outcome(self, ending: Ending, error: ToolError | None = None) -> AgentOutcome:
        return self.agent.outcome(ending, self.transcript.last_text, error)

    async def _settle(self, outcome: AgentOutcome) -> None:
        """Compute, store in one transaction, release, show; shielded, with a deadline."""
        with shielded("The settlement of a task"):
            settling = start_span(names.SETTLE_SPAN, parent=self._settle_parent())
            result = self._result(outcome)
            owner = self.run.run_id
            book = self.supervisor.recovery
            self.supervisor.assembly.feed.at_settlement(owner, lambda: self._release(result, book))
            keys = released_keys(book, owner)
            emitter = self.agent.emitter
            now = time.time_ns()
            origin = outcome.error_span
            finished = AgentFinished(
                status=result.status, usage=outcome.usage, turns=result.turns, error=result.error
            )
            settled = RunSettled(owner=owner, status=result.status)
            agent_record = close_agent_span(self.agent, result.status, result.error, keys, now)
            await emitter.sink.emit(
                [
                    emitter.event(settled, settling, ended=close_settle_span(settling, result, now)),
                    emitter.event(RecoveryReleased(owner=owner, keys=keys), self.span),
                    emitter.event(finished, self.span, ended=agent_record),
                    emitter.event(
                        self._task_finished(result),
                        self.order.task_span or self.span,
                        ended=close_task_span(self.order.task_span, result, origin, now),
                    ),
                ]
            )
            self.run.settled_ns = now

    def _settle_parent(self) -> SpanRef:
        return self.parent if self.order.task_span is None else self.order.task_span.ref

    def _result(self, outcome: AgentOutcome) -> TaskResult:
        run = self.run
        facts = RunFacts(
            task_id=run.task_id,
            run_id=run.run_id,
            chain_id=run.chain_id,
            agent=run.agent_name,
            label=run.label,
            duration_ms=round((time.time_ns() - run.started_ns) / 1e6),
        )
        children = [child.result for child in self.supervisor.crew.children(run.run_id) if child.result]
        return settle(facts, outcome, children, self.agent.tally.terminal)

    def _release(self, result: TaskResult, book: RecoveryBook) -> None:
        book.release(self.run.run_id)
        self.run.result = result

    def _task_finished(self, result: TaskResult) -> TaskFinished:
        run = self.run
        return TaskFinished(
            task_id=run.task_id,
            run_id=run.run_id,
            chain_id=run.chain_id,
            agent_name=run.agent_name,
            description=run.description,
            result=result,
            resumes=run.resumes,
        )


def _time_limit(seconds: float) -> ToolError:
    return ToolError(
        code=ErrorCode.TIME_LIMIT,
        message=f"The run did not end within its {seconds:g} s. Resume it, or give it a smaller task.",
        retriable=True,
        details={"seconds": seconds},
    )
