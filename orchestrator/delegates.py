"""`Delegates`: one agent's view of delegation: start, wait, list, stop, and the hand-over of reports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import attrs
import trio

from agents.errors import ErrorCode, ToolError
from agents.outcome import Ending
from agents.ports import Waited
from agents.results import TaskListResult, TaskResult, TaskStarted, TaskStopResult, TaskWaitResult
from orchestrator.crew import Crew, Order, Run
from orchestrator.reports import bounded
from telemetry.records import SpanRef
from telemetry.spans import Span


class OrderDesk(Protocol):
    """Checks what a Task call asks for."""

    async def order(
        self, *, agent: str, prompt: str, description: str, model: str | None, depth: int
    ) -> Order | ToolError: ...

    async def continuation(
        self, run: Run, *, agent: str | None, prompt: str, description: str, by_person: bool
    ) -> Order | ToolError: ...


class Launcher(Protocol):
    """Starts runs; the supervisor as its delegates' side sees it."""

    @property
    def crew(self) -> Crew: ...

    @property
    def desk(self) -> OrderDesk: ...

    @property
    def max_delegates(self) -> int: ...

    async def launch(
        self,
        order: Order,
        *,
        parent_owner: str,
        depth: int,
        turn_id: str,
        parent: SpanRef,
        nursery: trio.Nursery,
    ) -> Run: ...


@attrs.define(eq=False)
class Delegates:
    """Implements `Delegator` for one run of one agent."""

    supervisor: Launcher
    owner: str
    depth: int
    """The owner's own depth; its delegates are one deeper."""
    turn_id: str
    nursery: trio.Nursery
    """Where its delegates run: the session's for the main agent, its run's own for a delegate."""
    mine: Callable[[Run], bool]
    """Which runs count as this agent's, those of earlier runs of its conversation included."""
    gives_way: trio.Event = attrs.field(factory=trio.Event)
    """Set when a follow-up prompt waits: the agent's loop is then not entered again in this turn."""

    @property
    def runs(self) -> tuple[Run, ...]:
        return tuple(run for run in self.supervisor.crew.all if self.mine(run))

    async def start(
        self,
        *,
        agent: str,
        prompt: str,
        description: str,
        model: str | None,
        resume: str | None,
        call_id: str,
        span: Span,
    ) -> TaskStarted | ToolError:
        if resume is None:
            ordered = await self.supervisor.desk.order(
                agent=agent, prompt=prompt, description=description, model=model, depth=self.depth + 1
            )
        else:
            ordered = await self._continuation(resume, agent, prompt, description, model)
        if isinstance(ordered, ToolError):
            return ordered
        running = self.supervisor.crew.running  # counted here: nothing waits between this and the launch
        if len(running) >= self.supervisor.max_delegates:
            return _limit_reached(running, self.supervisor.max_delegates)
        run = await self.supervisor.launch(
            attrs.evolve(ordered, task_span=span),
            parent_owner=self.owner,
            depth=self.depth + 1,
            turn_id=self.turn_id,
            parent=span.ref,
            nursery=self.nursery,
        )
        return TaskStarted(task_id=run.task_id, run_id=run.run_id, label=run.label)

    async def _continuation(
        self, resume: str, agent: str, prompt: str, description: str, model: str | None
    ) -> Order | ToolError:
        run = self._find(resume)
        if run is None:
            return self._unknown(resume)
        if model is not None:
            return ToolError(
                code=ErrorCode.INVALID_ARGUMENT,
                message="A resumed chain keeps its model. Call Task again without `model`, with resume "
                f"{resume!r}.",
            )
        return await self.supervisor.desk.continuation(
            self.supervisor.crew.last_of_chain(run),
            agent=agent,
            prompt=prompt,
            description=description,
            by_person=False,
        )

    async def wait(
        self,
        task_ids: tuple[str, ...] | None,
        *,
        mode: str,
        min_completed: int | None,
        timeout_seconds: float,
    ) -> Waited | ToolError:
        chosen = self._choose(task_ids)
        if isinstance(chosen, ToolError):
            return chosen
        needed = len(chosen) if mode == "all" else min(1, len(chosen))
        if min_completed is not None:
            needed = min(min_completed, len(chosen))
        waited = sum(run.settled.is_set() for run in chosen) < needed
        with trio.move_on_after(timeout_seconds) as bound:
            await _until(chosen, needed)
        settled = [run for run in chosen if run.settled.is_set()]
        results = bounded([run.result for run in settled if run.result is not None])
        ended = (
            max((run.settled_ns or 0 for run in settled), default=0)
            if waited and not bound.cancelled_caught
            else 0
        )
        self.delivered(tuple(result.task_id for result in results))
        running = tuple(run.live() for run in chosen if not run.settled.is_set())
        result = TaskWaitResult(results=results, running=running, timed_out=bound.cancelled_caught)
        return Waited(result, ended or None)

    async def list(self) -> TaskListResult:
        return TaskListResult(tasks=tuple(run.live() for run in self.runs))

    async def stop(self, task_ids: tuple[str, ...] | None) -> TaskStopResult | ToolError:
        chosen = (
            [run for run in self.runs if not run.settled.is_set()]
            if task_ids is None
            else self._choose(task_ids)
        )
        if isinstance(chosen, ToolError):
            return chosen
        running = [run for run in chosen if not run.settled.is_set()]
        for run in running:
            run.cancel(Ending.STOPPED)
        await _until(running, len(running))
        return TaskStopResult(
            stopped=tuple(run.task_id for run in running),
            already_settled=tuple(run.task_id for run in chosen if run not in running),
        )

    async def settled(self) -> None:
        """Wait until no delegate of this agent runs any more."""
        for run in self.runs:
            await run.settled.wait()

    @property
    def unread(self) -> tuple[TaskResult, ...]:
        """Every result so far that this agent has not been given, in order of start."""
        return tuple(run.result for run in self.runs if run.result is not None and not run.delivered)

    async def news(self) -> tuple[TaskResult, ...]:
        """Wait for the running ones, then what is unread. Nothing, at once, when a follow-up prompt waits."""
        async with trio.open_nursery() as nursery:

            async def give_way() -> None:
                await self.gives_way.wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(give_way)
            await self.settled()
            nursery.cancel_scope.cancel()
        return () if self.gives_way.is_set() else self.unread

    def delivered(self, task_ids: Sequence[str]) -> None:
        """The agent has been given these results."""
        for run in self.runs:
            if run.task_id in task_ids:
                run.delivered = True

    def _choose(self, task_ids: tuple[str, ...] | None) -> Sequence[Run] | ToolError:
        if task_ids is None:
            news = [run for run in self.runs if not run.settled.is_set() or not run.delivered]
            return news or self.runs
        chosen: list[Run] = []
        for name in task_ids:
            run = self._find(name)
            if run is None:
                return self._unknown(name)
            if run not in chosen:
                chosen.append(run)
        return chosen

    def _find(self, name: str) -> Run | None:
        run = self.supervisor.crew.find(name)
        return run if run is not None and self.mine(run) else None

    def _unknown(self, name: str) -> ToolError:
        resumable = [
            f"{run.label} ({run.task_id})" for run in self.runs if run.result and run.result.resumable
        ]
        known = [f"{run.label} ({run.task_id}, {run.status})" for run in self.runs]
        listed = f"Your tasks are: {', '.join(known)}." if known else "You have started no task yet."
        return ToolError(
            code=ErrorCode.TASK_UNKNOWN,
            message=f"There is no task {name!r} of yours. {listed}",
            details={"resumable": resumable},
        )


async def _until(runs: Sequence[Run], needed: int) -> None:
    """Return once `needed` of `runs` have settled."""
    if needed <= 0:
        return
    async with trio.open_nursery() as nursery:
        done = [sum(run.settled.is_set() for run in runs)]
        if done[0] >= needed:
            return

        async def watch(run: Run) -> None:
            await run.settled.wait()
            done[0] += 1
            if done[0] >= needed:
                nursery.cancel_scope.cancel()

        for run in runs:
            if not run.settled.is_set():
                nursery.start_soon(watch, run)


def _limit_reached(running: Sequence[Run], limit: int) -> ToolError:
    labels = ", ".join(f"{run.label} ({run.task_id})" for run in running)
    return ToolError(
        code=ErrorCode.DELEGATION_LIMIT,
        message=f"{limit} delegates run already, which is the limit: {labels}. Call TaskWait (mode `any`) until "
        f"one has ended, or TaskStop to end one, then start this one.",
        retriable=True,
        details={"limit": limit},
    )
