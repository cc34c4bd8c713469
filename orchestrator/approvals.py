"""The session's side of permissions: one queue of requests, what answers them, and the grants given so far.

Requests stand in line in the order of their arrival and one of them is shown at a time, but any of them can
be answered by its id from elsewhere. A deadline counts from the arrival, in line or on screen.
"""

from __future__ import annotations

import datetime
import inspect
import logging
from collections.abc import Awaitable
from typing import Any, Protocol

import attrs
import msgspec
import trio

from agents.errors import ErrorCode, failure
from agents.requests import Answer, Decision, PermissionRequest
from agents.rules.permission_rules import Grant

log = logging.getLogger("orchestrator")


@attrs.define
class Grants:
    """What a person allowed for the session. In memory only: it ends with the process that asked."""

    _given: set[Grant] = attrs.field(factory=set)

    def add(self, grant: Grant) -> None:
        """Remember a grant for every agent of the session."""
        self._given.add(grant)

    def all(self) -> frozenset[Grant]:
        """Every grant so far."""
        return frozenset(self._given)


class Surface(Protocol):
    """Something that shows requests to a person, one at a time."""

    async def show(self, request: PermissionRequest, queue: tuple[PermissionRequest, ...]) -> Answer:
        """Show `request` (behind it wait `queue`) and return the answer.

        Is cancelled when the request was answered elsewhere, timed out or was withdrawn, and then takes it
        off the screen. An exception counts as a denial.
        """
        ...


@attrs.define(eq=False)
class _Waiting:
    """One open request in the line."""

    request: PermissionRequest
    position: int
    """How many stood before it when it arrived."""
    first: trio.Event = attrs.field(factory=trio.Event)
    """Set when it has come to the head of the line."""
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    """Ends the wait, and with it what is on screen."""
    answer: Answer | None = None


class Approvals:
    """The `Approver` of a whole session.

    Attributes
    ----------
    surface     where the head of the line is shown; None: nothing is shown
    inbox       whether requests wait for `answer` when there is no surface; False denies at once
    """

    def __init__(self, surface: Surface | None = None, *, inbox: bool = False) -> None:
        self._surface = surface
        self._inbox = inbox
        self._line: dict[str, _Waiting] = {}

    @property
    def pending(self) -> tuple[PermissionRequest, ...]:
        """The open requests, oldest first."""
        return tuple(waiting.request for waiting in self._line.values())

    def waits(self, owner: str) -> bool:
        """Whether the agent with this owner id waits for an answer."""
        return any(waiting.request.owner == owner for waiting in self._line.values())

    async def ask(self, request: PermissionRequest) -> Answer:
        """Stand in line and wait for the answer, at most to the deadline.

        Never raises but for cancellation, which withdraws the request.
        """
        if self._surface is None and not self._inbox:
            await trio.lowlevel.checkpoint()
            return Answer(decision=Decision.NO_APPROVER, source="policy")
        waiting = _Waiting(request, position=len(self._line))
        waiting.scope.deadline = trio.current_time() + seconds_to_answer(request)
        self._line[request.id] = waiting
        self._call_first()
        try:
            with waiting.scope:
                await waiting.first.wait()
                self._settle(waiting, await self._shown(request))
        finally:
            del self._line[request.id]
            self._call_first()
        if waiting.answer is None:
            waiting.answer = Answer(decision=Decision.TIMEOUT, source="deadline")
        return msgspec.structs.replace(waiting.answer, queue_position=waiting.position)

    def answer(self, request_id: str, answer: Answer) -> None:
        """Answer one open request, wherever it stands in the line.

        Raises `Failure` CONFLICT for a request that is closed, answered already, or was never made; nothing
        changes then.
        """
        waiting = self._line.get(request_id)
        if waiting is None or waiting.answer is not None or waiting.scope.cancel_called:
            log.info("an answer (%s) came for the closed request %s", answer.decision, request_id)
            raise failure(
                ErrorCode.CONFLICT,
                f"The request {request_id!r} is not open: it was answered, has timed out, was withdrawn, or "
                "never existed. Nothing was changed; list the open ones with `orchestrator approvals`.",
            )
        self._settle(waiting, answer)

    def _settle(self, waiting: _Waiting, answer: Answer) -> None:
        """The first answer counts. One for the session answers all open requests that its grant covers."""
        if waiting.answer is not None:
            return
        waiting.answer = answer
        waiting.scope.cancel()
        if (
            answer.decision is not Decision.ALLOW_SESSION
            or answer.scope != "tool"
            or not waiting.request.grant
        ):
            return
        for other in self._line.values():
            if other.request.grant == waiting.request.grant and not other.scope.cancel_called:
                self._settle(other, Answer(decision=Decision.ALLOW_ONCE, source="grant"))

    def _call_first(self) -> None:
        for waiting in self._line.values():
            waiting.first.set()
            return

    async def _shown(self, request: PermissionRequest) -> Answer:
        """Show the head of the line. Without a surface only `answer` or the deadline ends the wait."""
        if self._surface is None:
            await trio.sleep_forever()
        try:
            return await self._surface.show(request, self.pending[1:])
        except Exception:
            log.exception("the approver failed on %s", request.id)
            return Answer(decision=Decision.DENY, source="approver failed")


class ApproverObject(Protocol):
    """What a program hands in to answer requests itself."""

    def approve(self, request: PermissionRequest) -> Awaitable[Answer | bool]:
        """Decide one request: True allows this call, False denies it."""
        ...


@attrs.frozen
class ApproverSurface:
    """A `Surface` over a program's own approver object."""

    approver: ApproverObject

    async def show(self, request: PermissionRequest, queue: tuple[PermissionRequest, ...]) -> Answer:
        """Ask the object. Raises TypeError when it answers with anything but an `Answer` or a bool."""
        answer: Any = self.approver.approve(request)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, Answer):
            return answer
        if isinstance(answer, bool):
            return Answer(decision=Decision.ALLOW_ONCE if answer else Decision.DENY, source="api")
        raise TypeError(f"approve() returned {type(answer).__name__}; return an Answer, True or False")


def seconds_to_answer(request: PermissionRequest) -> float:
    """How long a request may stay open, by its own two times."""
    created, deadline = (
        datetime.datetime.fromisoformat(text) for text in (request.created, request.deadline)
    )
    return max(0.0, (deadline - created).total_seconds())
