"""The effect journal's values and the verdict over an effect that a crash left open. Pure."""

from __future__ import annotations

import enum
from typing import Literal

import msgspec

from agents.results import Hunk


class EffectIntent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a call is about to do; durable before it is done."""

    effect_id: str
    session_id: str
    owner: str
    call_id: str
    kind: Literal["file", "shell"]
    target: str
    """Canonical path of a file effect; the command line (redacted) of a shell effect."""
    inside: bool
    """Whether the target lies inside the workspace: only then is a before-image kept."""
    before_hash: str | None = None
    """SHA-256 hex of the bytes before; None: there was no file."""
    planned_hash: str | None = None
    """SHA-256 hex of the bytes that will be written; None: the file will be deleted."""
    temporary: str | None = None
    """Path of the temporary file the bytes go through."""
    before_image: bytes | None = None
    """The bytes before, for rollback; kept beside the store, content-addressed."""
    before_mode: int | None = None
    """The permission bits before; None: there was no file."""
    shown: str | None = None
    """The path as results show it."""
    hunks: tuple[Hunk, ...] = ()
    """What changes, at most `diffs.MAX_HUNKS` regions."""
    new_directories: tuple[str, ...] = ()
    """Canonical directories that are made for a new file, outermost first."""


class EffectResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What was done."""

    effect_id: str
    ok: bool
    after_hash: str | None = None


class Verdict(enum.StrEnum):
    """What became of an effect whose result was never stored."""

    APPLIED = "applied"
    NOT_APPLIED = "not applied"
    CHANGED_BY_SOMEONE_ELSE = "changed by someone else"
    UNKNOWN = "unknown"


def reconcile(intent: EffectIntent, current_hash: str | None) -> Verdict:
    """Compare a file as it is now (None: no file) with what was there and what was planned."""
    if intent.kind == "shell":
        return Verdict.UNKNOWN
    if current_hash == intent.planned_hash:
        return Verdict.APPLIED
    if current_hash == intent.before_hash:
        return Verdict.NOT_APPLIED
    return Verdict.CHANGED_BY_SOMEONE_ELSE
