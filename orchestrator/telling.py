"""What a crash left open, as the agent whose call it was is told of it: once, in its next message.

An effect is untold from the moment its process has died until a message that tells of it is stored; that
message and the note that it was told are one transaction, so another crash neither loses nor repeats it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import attrs

from agents.events import EffectsTold
from agents.rules.effects import EffectIntent, Verdict
from agents.rules.preview import one_line
from orchestrator.store.base import CallRow, EffectRow, Store

MAX_COMMAND_CHARS = 200


@attrs.frozen
class OpenEffect:
    """One effect without a result."""

    effect_id: str
    owner: str
    """The runId or turnId whose call it was."""
    text: str
    """What is known of it, in words."""


class Untold:
    """The session's effects that nobody has been told of yet. One per session."""

    def __init__(self, effects: Sequence[OpenEffect] = ()) -> None:
        self._effects = list(effects)

    @property
    def all(self) -> tuple[OpenEffect, ...]:
        return tuple(self._effects)

    def of(self, owners: Collection[str]) -> tuple[OpenEffect, ...]:
        """Those of these owners, in order."""
        return tuple(effect for effect in self._effects if effect.owner in owners)

    def told(self, effects: Collection[OpenEffect]) -> None:
        """Their agent has been told."""
        self._effects = [effect for effect in self._effects if effect not in effects]


async def read_untold(store: Store, session_id: str) -> tuple[OpenEffect, ...]:
    """Every effect without a result that its agent has not been told of, judged or not, in order."""
    rows = [row for row in await store.effects(session_id) if row.result is None]
    if not rows:
        return ()
    told = {
        effect_id
        for event in await store.events(session_id)
        if isinstance(event.payload, EffectsTold)
        for effect_id in event.payload.effect_ids
    }
    calls = {call.call_id: call for call in await store.calls(session_id)}
    return tuple(
        OpenEffect(row.intent.effect_id, row.intent.owner, describe(row, calls))
        for row in rows
        if row.intent.effect_id not in told
    )


def describe(row: EffectRow, calls: Mapping[str, CallRow]) -> str:
    """One effect in words."""
    intent = row.intent
    call = calls.get(intent.call_id)
    if intent.kind == "shell":
        command = one_line(intent.target)
        if len(command) > MAX_COMMAND_CHARS:
            command = f"{command[:MAX_COMMAND_CHARS]}…"
        tool = "Bash" if call is None else call.tool
        return f"{tool} `{command}`: unknown whether it ran; look before you repeat it"
    tool = "Change" if call is None else call.tool
    deletes = " (the removal of the file)" if intent.planned_hash is None else ""
    return f"{tool} of {shown(intent)}{deletes}: {FINDINGS[row.verdict]}"


def shown(intent: EffectIntent) -> str:
    """A file effect's path as results show it."""
    return intent.target if intent.shown is None else intent.shown


FINDINGS: Mapping[str | None, str] = {
    Verdict.APPLIED: "applied",
    Verdict.NOT_APPLIED: "not applied; the file is as it was before",
    Verdict.CHANGED_BY_SOMEONE_ELSE: "unknown, somebody else has changed the file since; read it",
    Verdict.UNKNOWN: "unknown, the file cannot be read; look before you repeat it",
    None: "open; the file is compared when the session is resumed",
}


def told_text(effects: Sequence[OpenEffect]) -> str:
    """The part of a message that tells of `effects`; empty where there are none."""
    if not effects:
        return ""
    lines = [f"- {effect.text}" for effect in effects]
    head = "[The process ended in the middle of these calls of yours. What became of them:]"
    return "\n".join([head, *lines])
