"""Mutation recovery: three counted failures of one key end the run that made them. Pure.

The rules, in the order in which `Ledger.failed` applies them:

1. A key is (owner, kind, target). The owner is the one executing agent: the parent during one prompt, or one
   delegate run. No method reads or changes a key of another owner than the one it was given.
2. Denied, refused in plan, aborted and internal errors are not failures (`NOT_FAILURES`).
3. Once a key is exhausted, its owner's run is over: nothing counts for that owner any more, and a success in
   what is left of the batch does not undo it. Only `release` does away with the key.
4. The codes that hand back what the retry needs (`GRACED`) are not counted the first time each, per key.
5. Everything else counts; the failure that brings a key to `LIMIT` exhausts it.

A success clears count and graces of its key. Settlement releases every key of its owner, however the run
ended, so that the ledger of an idle session is empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

import attrs
import msgspec

from agents.errors import ErrorCode, ToolError

Kind = Literal["edit", "patch-command"]

EDIT: Kind = "edit"
PATCH_COMMAND: Kind = "patch-command"
PATCH_TARGET = "shell patch command"
"""The one target of every recognised shell patch: what it changes is not known from its command line."""

LIMIT = 3
"""Counted failures of one key that end a run."""

GRACED = frozenset({ErrorCode.EDIT_TAG_MISMATCH, ErrorCode.EDIT_TAG_UNKNOWN, ErrorCode.EDIT_LINES_UNSEEN})
"""Each hands back the live tag or the unseen lines: the first of each is part of working, not blindness."""

NOT_FAILURES = frozenset(
    {ErrorCode.TOOL_DENIED, ErrorCode.TOOL_ABORTED, ErrorCode.INTERNAL}
    | {code for code in ErrorCode if code.endswith("_IN_PLAN")}
)
"""Nothing was tried, or the fault is ours."""


@attrs.frozen
class Key:
    """What failures are counted on."""

    owner: str
    """runId of a delegate, turnId of a parent."""
    kind: Kind
    target: str
    """Canonical path of an `edit` (case folded where the volume ignores case), else `PATCH_TARGET`."""


@attrs.frozen
class Count:
    """What one key has used up."""

    attempts: int = 0
    """Counted failures since the last success."""
    graces: frozenset[ErrorCode] = frozenset()
    """Codes whose one uncounted occurrence is spent."""


@attrs.frozen
class NotCounted:
    """The error is none of this guard's business."""


@attrs.frozen
class Grace:
    """The first occurrence of a graced code: not counted."""

    code: ErrorCode
    attempt: int = 0
    """Failures counted so far on the key, this one not among them."""
    limit: int = LIMIT


@attrs.frozen
class Counted:
    """The failure counts; the run goes on."""

    attempt: int
    """1-based."""
    limit: int = LIMIT


@attrs.frozen
class Exhausted:
    """The failure was the last one allowed: the run ends after its batch."""

    attempt: int = LIMIT
    limit: int = LIMIT


Verdict = NotCounted | Grace | Counted | Exhausted


def _frozen(counts: Mapping[Key, Count]) -> Mapping[Key, Count]:
    return MappingProxyType(dict(counts))


@attrs.frozen(hash=False)
class Ledger:
    """All keys in use, of all owners. Immutable: each step returns the next ledger."""

    counts: Mapping[Key, Count] = attrs.field(factory=dict, converter=_frozen)

    @property
    def is_empty(self) -> bool:
        """Whether nobody has used up anything."""
        return not self.counts

    def keys(self, owner: str) -> tuple[Key, ...]:
        """The keys of one owner, oldest first."""
        return tuple(key for key in self.counts if key.owner == owner)

    def exhausted(self, owner: str) -> Key | None:
        """The key that ended this owner's run, if one did."""
        return next((key for key in self.keys(owner) if self.counts[key].attempts >= LIMIT), None)

    def failed(self, key: Key, code: ErrorCode) -> tuple[Ledger, Verdict]:
        """Count one failure of `key`. Failures of one batch are passed in call order."""
        if code in NOT_FAILURES or self.exhausted(key.owner) is not None:
            return self, NotCounted()
        count = self.counts.get(key, Count())
        if code in GRACED and code not in count.graces:
            return self._with(key, attrs.evolve(count, graces=count.graces | {code})), Grace(
                code, count.attempts
            )
        attempt = count.attempts + 1
        verdict = Counted(attempt) if attempt < LIMIT else Exhausted(attempt)
        return self._with(key, attrs.evolve(count, attempts=attempt)), verdict

    def succeeded(self, key: Key) -> Ledger:
        """Clear count and graces of `key`; an exhausted key stays until it is released."""
        if self.counts.get(key, Count()).attempts >= LIMIT:
            return self
        return Ledger({other: count for other, count in self.counts.items() if other != key})

    def release(self, owner: str) -> tuple[Ledger, tuple[tuple[Key, Count], ...]]:
        """Drop every key of `owner`; also return what was dropped, oldest first."""
        dropped = tuple((key, self.counts[key]) for key in self.keys(owner))
        rest = {key: count for key, count in self.counts.items() if key.owner != owner}
        return Ledger(rest), dropped

    def _with(self, key: Key, count: Count) -> Ledger:
        return Ledger({**self.counts, key: count})


class RecoveryBook:
    """The cell that a session's agents share: the current ledger, replaced step by step.

    Its steps neither wait nor call out, so agents of one event loop cannot interleave inside one.
    """

    def __init__(self) -> None:
        self.ledger = Ledger()

    @property
    def is_empty(self) -> bool:
        """True whenever the session is idle."""
        return self.ledger.is_empty

    def failed(self, key: Key, code: ErrorCode) -> Verdict:
        """Count one failure."""
        self.ledger, verdict = self.ledger.failed(key, code)
        return verdict

    def succeeded(self, key: Key) -> None:
        """Clear one key."""
        self.ledger = self.ledger.succeeded(key)

    def release(self, owner: str) -> tuple[tuple[Key, Count], ...]:
        """Drop every key of a settled owner; what was dropped, possibly nothing."""
        self.ledger, dropped = self.ledger.release(owner)
        return dropped


def key_of(owner: str, tool: str, canonical: str | None, patch: bool) -> Key | None:
    """The key on which a *failed* call counts; None: it never counts.

    `canonical` is the call's canonical path, None where the call named no usable one; `patch` says whether a
    Bash line is a recognised patch command. A failed Write has no key: it repeats no anchor blindly.
    """
    if tool == "Edit" and canonical is not None:
        return Key(owner, EDIT, canonical)
    if tool == "Bash" and patch:
        return Key(owner, PATCH_COMMAND, PATCH_TARGET)
    return None


def cleared_by(owner: str, tool: str, canonical: str | None, patch: bool) -> Key | None:
    """The key that a *successful* call clears. As `key_of`, but a Write clears its path's edit key too."""
    if tool == "Write" and canonical is not None:
        return Key(owner, EDIT, canonical)
    return key_of(owner, tool, canonical, patch)


_DEFAULT_HINT = "Read the message, change the call accordingly, and do not send the same one again."

_HINTS: dict[ErrorCode, str] = {
    ErrorCode.INVALID_ARGUMENT: (
        "Correct the argument that the message names; sending the same call again fails again."
    ),
    ErrorCode.NOT_FOUND: (
        "Take the path from a listing or a search instead of guessing it; Edit never creates a file."
    ),
    ErrorCode.TOOL_TIMEOUT: "Do the same in a smaller step.",
    ErrorCode.TOOL_FAILED: (
        "The reason is in the output of this result: find it there before you try again. Where a patch "
        "does not apply, its context lines no longer match the files: look at the files as they are now."
    ),
    ErrorCode.TOOL_BINARY_CONTENT: (
        "This is not a text file; it cannot be edited by lines. Choose another file."
    ),
    ErrorCode.WRITE_STALE: "The file changed since you saw it: look at its current content first.",
    ErrorCode.CONFLICT: ("Something already stands there. Choose another target; nothing is overwritten."),
    ErrorCode.SHELL_NOT_FOUND: "No shell can run the command here: make the change with Edit instead.",
    ErrorCode.PROCESS_RESOURCE_EXHAUSTED: (
        "The machine cannot start another process now: make the change with Edit."
    ),
    ErrorCode.EDIT_TAG_REQUIRED: (
        "Pass `tag`: the four hex digits after # in the header [<path>#<TAG>] that you were last shown "
        "for this file."
    ),
    ErrorCode.EDIT_TAG_UNKNOWN: (
        "Use the live tag in this error and the numbered lines that come with it; tags of other agents, "
        "other files or earlier runs do not count."
    ),
    ErrorCode.EDIT_TAG_MISMATCH: (
        "The file changed. Use the live tag in this error and take your line numbers from the numbered "
        "lines that come with it."
    ),
    ErrorCode.EDIT_LINES_UNSEEN: (
        "Compare the revealed lines with what you meant to change: if they are the right ones and all of "
        "them were shown, send the same call again, otherwise correct its line numbers."
    ),
    ErrorCode.EDIT_PARSE_FAILED: (
        "Correct the operation that the message names: each op takes exactly the fields of its kind, "
        "with line numbers as integers."
    ),
    ErrorCode.EDIT_RANGE_INVALID: (
        "Every line number refers to the tagged version and is not shifted by the other ops of the call. "
        "Take the numbers from the lines you were shown; the message says how many there are."
    ),
    ErrorCode.EDIT_BLOCK_UNRESOLVED: (
        "Use replace or delete with explicit start and end lines instead of a block op."
    ),
    ErrorCode.EDIT_NO_CHANGE: (
        "The file already says exactly this: nothing was needed. Go on with the next step."
    ),
}


def hint_for(code: ErrorCode) -> str:
    """What to do differently next time, for the model. Names no tool but Edit: any agent may read it."""
    return _HINTS.get(code, _DEFAULT_HINT)


def annotate(error: ToolError, verdict: Verdict, hint: str | None = None) -> ToolError:
    """`error` as the model gets it: with hint, attempt and limit in `details`, terminating when exhausted.

    A hint that the tool has put into `details` is more specific than the code's own and stays; `hint` wins
    over both. A grace gets the hint alone: it was not counted. An uncounted error stays as it is.
    """
    if isinstance(verdict, NotCounted):
        return error
    details: dict[str, Any] = {**error.details}
    details["hint"] = hint or details.get("hint") or hint_for(error.code)
    if isinstance(verdict, Counted | Exhausted):
        details["attempt"] = verdict.attempt
        details["limit"] = verdict.limit
    return msgspec.structs.replace(
        error, details=details, terminate=error.terminate or isinstance(verdict, Exhausted)
    )


def exhausted_error(
    key: Key, last_code: ErrorCode, hint: str | None = None, *, display: str | None = None
) -> ToolError:
    """The terminal error of a run whose `key` is exhausted.

    `display` is the target as people write it (workspace-relative); the key keeps the canonical one.
    """
    target = display or key.target
    recovery = _next_step(key.kind, target, hint or hint_for(last_code))
    what = f"edits of {target}" if key.kind == EDIT else "shell patch commands"
    return ToolError(
        code=ErrorCode.MUTATION_RETRY_BUDGET_EXHAUSTED,
        message=f"The run was ended after three counted failures: three {what} failed, the last one with "
        f"{last_code}. {recovery}",
        details={
            "kind": key.kind,
            "target": target,
            "attempts": LIMIT,
            "lastCode": str(last_code),
            "recovery": recovery,
        },
        retriable=True,
    )


def _next_step(kind: Kind, target: str, hint: str) -> str:
    if kind == EDIT:
        return f"Resume this run, look at {target} as it is now, then edit it with a new approach: {hint}"
    return f"Resume this run and make the change with Edit instead of a patch command: {hint}"
