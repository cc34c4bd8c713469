"""What was done to the workspace, to be shown and to be undone, told from the effect journal alone. Pure.

A rollback undoes the chosen effects newest first. It is guarded by hashes: a file is touched only where its
content is the one that the newest chosen effect left, or already the one from before; anything else is
CONFLICT for the whole rollback, and nothing is touched. So a change that somebody made later is never lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

import attrs

from agents.errors import ErrorCode, ToolError
from agents.results import Hunk
from agents.rules.effects import EffectIntent, EffectResult, Verdict, reconcile

MAX_NAMED = 10
"""Paths that one message names."""


class EffectLike(Protocol):
    """One journal entry, as a store gives it back."""

    @property
    def intent(self) -> EffectIntent: ...

    @property
    def result(self) -> EffectResult | None: ...

    @property
    def verdict(self) -> str | None:
        """What start-up recovery found for an effect without a result."""
        ...

    @property
    def at(self) -> str:
        """RFC 3339 UTC."""
        ...


@attrs.frozen
class Review:
    """One mutation inside the workspace."""

    review_id: str
    """The effect's id."""
    session_id: str
    owner: str
    call_id: str
    path: str
    """As displayed."""
    canonical: str
    change: Literal["created", "modified", "deleted"]
    before_hash: str | None
    """SHA-256 hex; None: no file."""
    after_hash: str | None
    hunks: tuple[Hunk, ...]
    reversible: bool
    """Whether the bytes that undoing it takes away are kept somewhere else."""
    at: str


@attrs.frozen
class Remove:
    """Delete a file that was created."""

    path: str
    canonical: str
    expected: str
    """SHA-256 hex of what must stand there."""


@attrs.frozen
class Restore:
    """Write the bytes that an effect's file held before it."""

    path: str
    canonical: str
    expected: str | None
    """SHA-256 hex of what must stand there; None: nothing may."""
    effect_id: str
    """Whose before-image."""
    content: str
    """SHA-256 hex of that image."""
    mode: int | None
    """Permission bits to set; None: they are as they were."""


@attrs.frozen
class Rollback:
    """What is to be done, in this order: removes, directories, restores."""

    removes: tuple[Remove, ...]
    directories: tuple[str, ...]
    """Canonical directories that were made for new files, innermost first; removed where empty."""
    restores: tuple[Restore, ...]
    left: tuple[str, ...]
    """What was chosen and cannot be undone from the journal, in words."""


@attrs.frozen
class Refused:
    """Nothing is rolled back."""

    error: ToolError


def reviews(effects: Sequence[EffectLike]) -> tuple[Review, ...]:
    """The mutations that took place inside the workspace, in order."""
    pulled = _pulled_in(effects)
    return tuple(
        Review(
            review_id=effect.intent.effect_id,
            session_id=effect.intent.session_id,
            owner=effect.intent.owner,
            call_id=effect.intent.call_id,
            path=_shown(effect.intent),
            canonical=effect.intent.target,
            change=_change(effect.intent),
            before_hash=effect.intent.before_hash,
            after_hash=_after(effect),
            hunks=effect.intent.hunks,
            reversible=effect.intent.effect_id not in pulled,
            at=effect.at,
        )
        for effect in effects
        if effect.intent.kind == "file" and effect.intent.inside and _took_place(effect) is True
    )


def touched(effects: Sequence[EffectLike]) -> tuple[str, ...]:
    """The canonical paths whose present hash `plan_rollback` needs."""
    inside = (e.intent.target for e in effects if e.intent.kind == "file" and e.intent.inside)
    return tuple(dict.fromkeys(inside))


def plan_rollback(effects: Sequence[EffectLike], current: Mapping[str, str | None]) -> Rollback | Refused:
    """How the chosen `effects` (oldest first) are undone.

    `current` gives the SHA-256 hex of every path of `touched` as it is now, None where no file is.
    """
    pulled = _pulled_in(effects)
    traces = [_trace(path, effects, current[path]) for path in touched(effects)]
    changed = [trace for trace in traces if trace.changed]
    if changed:
        return Refused(_conflict(changed))
    undone = [trace for trace in traces if trace.undone and trace.then != current[trace.canonical]]
    lost = [t for t in undone if t.then is None and any(e.intent.effect_id in pulled for e in t.undone)]
    if lost:
        return Refused(_only_copy(lost))
    removes, restores = _steps(undone, current)
    made = {name for trace in traces for effect in trace.undone for name in effect.intent.new_directories}
    return Rollback(
        removes=removes,
        directories=tuple(sorted(made, key=lambda name: (-name.count("/"), name))),
        restores=restores,
        left=_left(effects),
    )


@attrs.frozen
class _Trace:
    """One path followed back through its effects."""

    canonical: str
    shown: str
    undone: tuple[EffectLike, ...]
    """Newest first."""
    then: str | None
    """The hash from before all of them."""
    now: str | None
    changed: bool
    """Whether some content on the way is not the one that the journal knows."""


def _trace(path: str, effects: Sequence[EffectLike], now: str | None) -> _Trace:
    chosen = [effect for effect in reversed(effects) if _is_file_at(effect, path)]
    at, undone, changed = now, list[EffectLike](), False
    for effect in chosen:
        took_place = _took_place(effect)
        if took_place is None:  # killed on the way: the file itself tells, as far as nobody changed it since
            verdict = reconcile(effect.intent, at)
            changed = changed or verdict is Verdict.CHANGED_BY_SOMEONE_ELSE
            took_place = verdict is Verdict.APPLIED
        if took_place:
            changed = changed or at != _after(effect)
            undone.append(effect)
            at = effect.intent.before_hash
    restored = bool(undone) and now == undone[-1].intent.before_hash
    return _Trace(
        canonical=path,
        shown=_shown(chosen[0].intent),
        undone=tuple(undone),
        then=at,
        now=now,
        changed=changed and not restored,  # an earlier rollback that was broken off goes on
    )


def _steps(
    traces: Sequence[_Trace], current: Mapping[str, str | None]
) -> tuple[tuple[Remove, ...], tuple[Restore, ...]]:
    removes: list[Remove] = []
    restores: list[Restore] = []
    for trace in traces:
        now, oldest = current[trace.canonical], trace.undone[-1].intent
        if trace.then is None:
            assert now is not None
            removes.append(Remove(trace.shown, trace.canonical, now))
            continue
        # A file that was gone in between came back with other bits than it had.
        gone = any(None in (effect.intent.before_hash, _after(effect)) for effect in trace.undone)
        mode = oldest.before_mode if gone else None
        restores.append(
            Restore(trace.shown, trace.canonical, now, oldest.effect_id, trace.then, mode),
        )
    return tuple(removes), tuple(restores)


def _is_file_at(effect: EffectLike, path: str) -> bool:
    intent = effect.intent
    return intent.kind == "file" and intent.inside and intent.target == path


def _took_place(effect: EffectLike) -> bool | None:
    """None: not known."""
    if effect.result is not None:
        return effect.result.ok
    match effect.verdict:
        case Verdict.APPLIED:
            return True
        case Verdict.NOT_APPLIED:
            return False
        case _:
            return None


def _after(effect: EffectLike) -> str | None:
    result = effect.result
    return effect.intent.planned_hash if result is None else result.after_hash


def _pulled_in(effects: Sequence[EffectLike]) -> frozenset[str]:
    """Creations that are the only copy of a file: the same call deleted it outside the workspace."""
    deleted_outside = {
        (effect.intent.owner, effect.intent.call_id)
        for effect in effects
        if effect.intent.kind == "file"
        and not effect.intent.inside
        and effect.intent.planned_hash is None
        and _took_place(effect) is not False
    }
    return frozenset(
        effect.intent.effect_id
        for effect in effects
        if effect.intent.before_hash is None
        and effect.intent.inside
        and (effect.intent.owner, effect.intent.call_id) in deleted_outside
    )


def _left(effects: Sequence[EffectLike]) -> tuple[str, ...]:
    left = [
        f"effects of the command `{effect.intent.target}`"
        if effect.intent.kind == "shell"
        else f"{_shown(effect.intent)}, outside the workspace"
        for effect in effects
        if not effect.intent.inside and _took_place(effect) is not False
    ]
    return tuple(dict.fromkeys(left))


def _change(intent: EffectIntent) -> Literal["created", "modified", "deleted"]:
    if intent.before_hash is None:
        return "created"
    return "deleted" if intent.planned_hash is None else "modified"


def _shown(intent: EffectIntent) -> str:
    return intent.shown or intent.target


def _conflict(traces: Sequence[_Trace]) -> ToolError:
    shown = _named(traces)
    return ToolError(
        code=ErrorCode.CONFLICT,
        message=f"{shown} changed after what is to be rolled back; nothing was touched. "
        "Roll back what came after it first, or keep the file and undo the change by hand.",
        details={"paths": [trace.shown for trace in traces]},
    )


def _only_copy(traces: Sequence[_Trace]) -> ToolError:
    return ToolError(
        code=ErrorCode.CONFLICT,
        message=f"{_named(traces)} was moved in from outside the workspace and is the only copy; nothing was "
        "touched. Move it back by hand, then roll back again.",
        details={"paths": [trace.shown for trace in traces]},
    )


def _named(traces: Sequence[_Trace]) -> str:
    names = [trace.shown for trace in traces[:MAX_NAMED]]
    more = len(traces) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")
