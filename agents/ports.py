"""The doors upward: what one agent needs from whoever runs it, as protocols."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import attrs

from agents.errors import ToolError
from agents.events import Event
from agents.requests import Answer, PermissionRequest
from agents.results import TaskListResult, TaskStarted, TaskStopResult, TaskWaitResult
from agents.rules.effects import EffectIntent, EffectResult
from telemetry.spans import Span


class EventSink(Protocol):
    """Stored first, then shown."""

    async def emit(self, events: Sequence[Event]) -> tuple[Event, ...]:
        """Store `events` in one transaction, in order, and return them with their `seq`.

        Returns after the commit; cancelling the wait does not cancel the write.
        Raises `Failure` with STORE_WRITE_FAILED.
        """
        ...

    def show(self, event: Event) -> None:
        """Pass an ephemeral event on; it is never stored."""
        ...


class Approver(Protocol):
    """Answers permission requests. Shut when nobody answers."""

    async def ask(self, request: PermissionRequest) -> Answer:
        """Wait for the answer to `request`, at most to its deadline.

        Must not raise: no answer is `timeout`, nobody there is `no-approver`. May be cancelled; the request is
        then withdrawn.
        """
        ...


class EffectLog(Protocol):
    """The durable journal: intent before effect, result after it."""

    async def intend(self, intent: EffectIntent) -> None:
        """Return once `intent` is on disk."""
        ...

    async def finish(self, result: EffectResult) -> None:
        """Record what was done."""
        ...


@attrs.frozen
class Waited:
    """What TaskWait hands back, and when the settlement that ended the wait took place."""

    result: TaskWaitResult
    ended_ns: int | None
    """Nanoseconds since the epoch; None where no settlement ended the wait."""


class Delegator(Protocol):
    """Starts, waits for, lists and stops the delegates of one agent. Errors are values."""

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
        """Check the arguments, start the delegate in the background, return at once.

        `span` is the Task tool's span: it stays open until the task has settled, and settlement ends it.
        """
        ...

    async def wait(
        self,
        task_ids: tuple[str, ...] | None,
        *,
        mode: str,
        min_completed: int | None,
        timeout_seconds: float,
    ) -> Waited | ToolError:
        """Wait for settlements; None waits for every task of this agent."""
        ...

    async def list(self) -> TaskListResult:
        """Every task of this agent, running or settled."""
        ...

    async def stop(self, task_ids: tuple[str, ...] | None) -> TaskStopResult | ToolError:
        """Stop tasks with their descendants and processes; None stops all. Returns when they have settled."""
        ...
