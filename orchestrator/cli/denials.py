"""Denied calls in words: grouped by cause, each with the advice that can work, or with none. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from agents.requests import Denial, DenialReason
from agents.rules.advice import options_for
from orchestrator.cli.tally import Tally
from orchestrator.cli.words import counted

INBOX = "--permission-prompts inbox"
BY_A_PERSON = f"run it on a terminal, or be asked elsewhere with {INBOX}"
_CAUSES: dict[DenialReason, str] = {
    "user": "denied by you",
    "timeout": "nobody answered in time",
    "cancelled": "withdrawn when the run was ended",
    "deny-list": "on the list of places that no tool opens",
}


@attrs.frozen
class Denied:
    """What was denied and why; equal ones are told once."""

    agent: str
    tool: str
    subject: str
    reason: DenialReason
    rule: str | None = None
    """The deny rule, where one decided and is known."""
    options: tuple[str, ...] | None = None
    """What would have let it run without asking; empty: nothing; None: the request is not known."""


def denied(denials: Sequence[Denial], tally: Tally) -> dict[Denied, int]:
    """Every cause with the number of its calls, in the order of the first of each."""
    found: dict[Denied, int] = {}
    for one in denials:
        request = None if one.request_id is None else tally.requests.get(one.request_id)
        cause = Denied(
            agent=one.agent,
            tool=one.tool,
            subject=tally.subjects.get(one.call_id, ""),
            reason=one.reason,
            rule=tally.rules.get(one.call_id) if one.reason == "rule" else None,
            options=None if request is None else options_for(request),
        )
        found[cause] = found.get(cause, 0) + 1
    return found


def denial_rows(denials: Sequence[Denial], tally: Tally) -> list[str]:
    """One row per cause."""
    return [_row(cause, number) for cause, number in denied(denials, tally).items()]


def headless_line(denials: Sequence[Denial], tally: Tally) -> str:
    """One line for a run in which nobody could be asked: what was denied, and what can be done about it."""
    causes = denied(denials, tally)
    tools: dict[str, int] = {}
    for cause, number in causes.items():
        tools[cause.tool] = tools.get(cause.tool, 0) + number
    listed = ", ".join(tool if number == 1 else f"{tool} {number}×" for tool, number in tools.items())
    head = f"{counted(sum(tools.values()), 'call')} denied: {listed}."
    return " ".join([head, *_advice(list(causes))])


def _row(cause: Denied, number: int) -> str:
    times = "" if number == 1 else f", {number}×"
    return f"{f'{cause.tool} {cause.subject}'.strip()} ({cause.agent}){times}: {_why(cause)}"


def _why(cause: Denied) -> str:
    if cause.reason == "rule":
        return "a deny rule" if cause.rule is None else f"your deny rule {cause.rule}"
    if cause.reason != "no-approver":
        return _CAUSES[cause.reason]
    if cause.options is None:
        return f"nobody to ask; allow in advance with --allow RULE, or {BY_A_PERSON}"
    if not cause.options:
        return f"nobody to ask, and no option allows it in advance; {BY_A_PERSON}"
    return f"nobody to ask; allow with {cause.options[0]}"


def _advice(causes: Sequence[Denied]) -> list[str]:
    unasked = [cause for cause in causes if cause.reason == "no-approver"]
    free = [cause for cause in unasked if cause.options or cause.options is None]
    bound = [cause for cause in unasked if cause.options == ()]
    ruled = [cause for cause in causes if cause.reason == "rule"]
    listed = [cause for cause in causes if cause.reason == "deny-list"]
    told: list[str] = []
    if free:
        options = dict.fromkeys(cause.options[0] if cause.options else "--allow RULE" for cause in free)
        told.append(f"Nobody was there to ask: allow in advance with {' '.join(options)}, {BY_A_PERSON}.")
    if bound:
        told.append(f"No option allows this in advance: {_named(bound)}; {BY_A_PERSON}.")
    if ruled:
        rules = ", ".join(dict.fromkeys(cause.rule or "a deny rule" for cause in ruled))
        told.append(f"A deny rule of yours forbids it: {rules}. Take that rule away if it is too wide.")
    if listed:
        told.append(f"No tool opens this place: {_named(listed)}; put what is needed elsewhere.")
    return told


def _named(causes: Sequence[Denied]) -> str:
    return ", ".join(dict.fromkeys(f"{cause.tool} {cause.subject}".strip() for cause in causes))
