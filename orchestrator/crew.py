"""The session's delegate runs, running and settled: their ids, labels and chains, in memory."""

from __future__ import annotations

import time

import attrs
import trio

from agents.agent import Agent
from agents.events import AgentRef
from agents.messages import Message
from agents.models.base import Model
from agents.outcome import Ending
from agents.results import TaskLive, TaskResult
from agents.spec import AgentSpec
from orchestrator.store.base import TaskRow
from orchestrator.task import RUNNING, chain_label
from telemetry.spans import Span


@attrs.define(eq=False)
class Run:
    """One run of a delegate, from its start to its one settlement."""

    task_id: str
    run_id: str
    chain_id: str
    agent_name: str
    label: str
    depth: int
    parent_owner: str
    description: str = ""
    resumes: str | None = None
    started_ns: int = attrs.field(factory=time.time_ns)
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    ending: Ending | None = None
    """Why its scope is being cancelled: STOPPED or ABORTED. None: nobody has asked for that."""
    agent: Agent | None = None
    """While it runs in this process."""
    settled: trio.Event = attrs.field(factory=trio.Event)
    settled_ns: int | None = None
    result: TaskResult | None = None
    delivered: bool = False
    """Whether its parent has been given the result."""
    counted: bool = False
    """Whether a finished turn has counted its usage, files and denials."""

    @property
    def status(self) -> str:
        return RUNNING if self.result is None else self.result.status

    @property
    def ref(self) -> AgentRef:
        return AgentRef(id=self.run_id, name=self.agent_name, label=self.label, depth=self.depth)

    def cancel(self, ending: Ending) -> None:
        """End the run with this ending; the first reason given stays."""
        if not self.settled.is_set():
            self.ending = self.ending or ending
            self.scope.cancel(reason=self.ending.value)

    def live(self) -> TaskLive:
        """How it stands now."""
        tally = None if self.agent is None else self.agent.tally
        elapsed = round((time.time_ns() - self.started_ns) / 1e6)
        return TaskLive(
            task_id=self.task_id,
            label=self.label,
            agent=self.agent_name,
            status=self.status,
            elapsed_ms=elapsed if self.result is None else self.result.duration_ms,
            turns=self.result.turns if self.result is not None else 0 if tally is None else tally.turns,
            tool_calls=self.result.tool_calls
            if self.result is not None
            else 0
            if tally is None
            else tally.tool_calls,
            last_tool=None if tally is None else tally.last_tool,
            waiting_for_permission=self.result is None and tally is not None and tally.asking > 0,
        )


@attrs.frozen
class Order:
    """A run that may start: everything checked, nothing begun."""

    spec: AgentSpec
    model: Model
    prompt: str
    description: str
    history: tuple[Message, ...] = ()
    """The chain's stored conversation, when the run continues one."""
    continues: Run | None = None
    nested: tuple[Order, ...] = ()
    """Chains of its own delegates that are continued first, inside the run."""
    task_span: Span | None = None
    """The Task tool's span; None where a person resumed the task."""


class Crew:
    """All runs of one session."""

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}
        self._numbers: dict[str, int] = {}

    def add(self, run: Run) -> None:
        """Take in a run that starts, or one that an earlier process left settled."""
        self._runs[run.task_id] = run
        name, _, number = run.label.rpartition("#")
        if number.isdigit():
            self._numbers[name] = max(self._numbers.get(name, 0), int(number))

    def restore(self, row: TaskRow) -> Run:
        """Take in a stored task of an earlier process."""
        run = Run(
            task_id=row.task_id,
            run_id=row.run_id,
            chain_id=row.chain_id,
            agent_name=row.agent_name,
            label=row.label,
            depth=row.depth,
            parent_owner=row.parent_owner,
            description=row.description,
            resumes=row.resumes,
        )
        run.result = row.result
        run.delivered = row.delivered
        run.counted = True
        run.settled.set()
        if row.resumes in self._runs:
            self._runs[row.resumes].delivered = True  # this run's result takes its place
        self.add(run)
        return run

    def next_label(self, agent_name: str) -> str:
        """The label of a new chain; numbered in call order."""
        number = self._numbers.get(agent_name, 0) + 1
        self._numbers[agent_name] = number
        return chain_label(agent_name, number)

    def find(self, name: str) -> Run | None:
        """By task id, run id, or label (then the chain's newest run)."""
        if name in self._runs:
            return self._runs[name]
        matching = [run for run in self._runs.values() if name in (run.run_id, run.label, run.chain_id)]
        return matching[-1] if matching else None

    def last_of_chain(self, run: Run) -> Run:
        """The chain's end: only that can be continued."""
        return [other for other in self._runs.values() if other.chain_id == run.chain_id][-1]

    def chain(self, chain_id: str) -> tuple[Run, ...]:
        return tuple(run for run in self._runs.values() if run.chain_id == chain_id)

    @property
    def all(self) -> tuple[Run, ...]:
        """In order of start."""
        return tuple(self._runs.values())

    @property
    def running(self) -> tuple[Run, ...]:
        return tuple(run for run in self._runs.values() if not run.settled.is_set())

    def children(self, owner: str) -> tuple[Run, ...]:
        """The runs that `owner` started."""
        return tuple(run for run in self._runs.values() if run.parent_owner == owner)
