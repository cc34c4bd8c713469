"""`begin` and `drive`: an agent is told what it is to do and has not been told yet, then runs to its end."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence

from agents.agent import Agent, Transcript
from agents.errors import ErrorCode, Failure
from agents.events import AnyPayload, EffectsTold, ResultsDelivered
from agents.incidents import incident
from agents.loop import run_agent
from agents.messages import Message, Text
from agents.outcome import AgentOutcome, Ending
from orchestrator.crew import Run
from orchestrator.delegates import Delegates
from orchestrator.reports import hand_over_text
from orchestrator.telling import Untold, told_text
from telemetry.spans import leaf_exceptions

STORE_CODES = frozenset(
    {
        ErrorCode.STORE_BUSY,
        ErrorCode.STORE_TOO_NEW,
        ErrorCode.STORE_UNREADABLE,
        ErrorCode.STORE_WRITE_FAILED,
        ErrorCode.CHAIN_LOCKED,
    }
)
"""Failures of the ground everything stands on: no run can settle on them, so they leave it."""


async def begin(
    transcript: Transcript,
    delegates: Delegates,
    untold: Untold,
    owners: Collection[str],
    prompt: str,
    first: Sequence[Run],
) -> None:
    """Open the run's conversation with `prompt`, behind what the agent is still to be told: the results of
    its delegates that it was not given, and the open effects of `owners`, its earlier runs. Waits for the
    runs of `first`. The message and the notes that it was told are stored together.
    """
    for run in first:
        await run.settled.wait()
    results = delegates.unread
    effects = untold.of(owners)
    task_ids = tuple(result.task_id for result in results)
    also: list[AnyPayload] = []
    if results:
        also.append(ResultsDelivered(task_ids=task_ids))
    if effects:
        also.append(EffectsTold(effect_ids=tuple(effect.effect_id for effect in effects)))
    news = hand_over_text(results) if results else ""
    await transcript.append(user_message(news, told_text(effects), prompt), *also)
    delegates.delivered(task_ids)
    untold.told(effects)


def user_message(*texts: str) -> Message:
    """A user message of one text part each."""
    return Message(
        id=f"msg-{uuid.uuid4().hex[:12]}", role="user", parts=tuple(Text(text=text) for text in texts if text)
    )


async def drive(agent: Agent, transcript: Transcript, delegates: Delegates) -> AgentOutcome:
    """The agent's outcome for everything that can happen in its work; only store failures are raised.

    While its loop has ended normally and delegates still run, or have results it was not given, the agent's
    work stays open: it waits for them, is handed the reports, and judges. A follow-up prompt ends that wait.
    """
    try:
        while True:
            outcome = await run_agent(agent, transcript)
            if outcome.ending is not Ending.FINISHED:
                await delegates.settled()
                return outcome
            results = await delegates.news()
            if not results:
                return outcome
            task_ids = tuple(result.task_id for result in results)
            handed = user_message(hand_over_text(results))
            await transcript.append(handed, ResultsDelivered(task_ids=task_ids))
            delegates.delivered(task_ids)
    except Exception as error:
        outcome = contained(agent, transcript, error)
        await delegates.settled()
        return outcome


def contained(agent: Agent, transcript: Transcript, error: Exception) -> AgentOutcome:
    """The outcome of a run whose work raised `error`; a store failure among its leaves is raised again."""
    leaves = list(leaf_exceptions(error))
    failures = [leaf.error for leaf in leaves if isinstance(leaf, Failure)]
    if any(failure.code in STORE_CODES for failure in failures):
        raise error
    if failures and len(failures) == len(leaves):
        return agent.outcome(Ending.ERROR, transcript.last_text, failures[0])
    return agent.outcome(
        Ending.ERROR,
        transcript.last_text,
        incident(error, agent.span, agent.ref.label, "Resume it to go on."),
    )
