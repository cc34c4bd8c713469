"""Letters to the process that holds a session: an answer to a request, or an order to stop. Pure.

A letter is accepted only while it can have an effect; `refusal` is that rule, and a store asks it in the
transaction that would keep the letter. The first answer to a request is the only one that is ever accepted.
"""

from __future__ import annotations

from typing import Any

import attrs
import msgspec

from agents.errors import ErrorCode, ToolError
from agents.requests import Answer


class AnswerRequest(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="kind", tag="answer"
):
    """Somebody's answer to one open request."""

    session_id: str
    request_id: str
    answer: Answer

    @property
    def target(self) -> str:
        return self.request_id


class StopSession(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="kind", tag="stop-session"
):
    """End every open turn of the session."""

    session_id: str

    @property
    def target(self) -> str:
        return self.session_id


class StopTask(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="kind", tag="stop-task"):
    """End one delegate run, with what runs below it."""

    session_id: str
    task_id: str

    @property
    def target(self) -> str:
        return self.task_id


Letter = AnswerRequest | StopSession | StopTask

ANSWER, STOP_SESSION, STOP_TASK = "answer", "stop-session", "stop-task"
_KINDS: dict[type[Any], str] = {AnswerRequest: ANSWER, StopSession: STOP_SESSION, StopTask: STOP_TASK}
_letters = msgspec.json.Decoder(Letter)


@attrs.frozen
class MailFacts:
    """What a store knows, inside the transaction, about a letter that somebody wants to leave."""

    held: bool
    """Whether a process that may be alive holds the session."""
    open: bool
    """Whether what the letter is about is open: the request has no decision, the turn or task still runs."""
    known: bool
    """Whether it exists at all, in this session."""
    answered: bool = False
    """Whether an accepted answer to the same request is on its way."""


def kind_of(letter: Letter) -> str:
    """The letter's tag."""
    return _KINDS[type(letter)]


def decode_letter(body: str) -> Letter:
    return _letters.decode(body)


def refusal(letter: Letter, facts: MailFacts) -> ToolError | None:
    """CONFLICT where the letter comes too late or is about nothing; None: it is accepted."""
    why = _why(letter, facts)
    if why is None:
        return None
    what, step = _ABOUT[kind_of(letter)]
    if facts.known and facts.open and not facts.held:
        step = f"settle it and go on with `orchestrator resume {letter.session_id}`"
    return ToolError(
        code=ErrorCode.CONFLICT,
        message=f"{what} {letter.target} {why}. Nothing was changed; {step}.",
        details={"sessionId": letter.session_id, "target": letter.target},
    )


_ABOUT = {
    ANSWER: ("The request", "list the open ones with `orchestrator approvals`"),
    STOP_SESSION: ("The session", "list the sessions with `orchestrator sessions`"),
    STOP_TASK: ("The task", "list the tasks with `orchestrator tasks`"),
}


def _why(letter: Letter, facts: MailFacts) -> str | None:
    if not facts.known:
        return "does not exist"
    if facts.answered:
        return "has been answered already"
    if not facts.open:
        return _CLOSED[kind_of(letter)]
    if not facts.held:
        return "is not waited for any more: the process that worked on its session has ended"
    return None


_CLOSED = {
    ANSWER: "is closed: it was answered, has timed out or was withdrawn",
    STOP_SESSION: "has no turn that runs",
    STOP_TASK: "has ended already",
}
