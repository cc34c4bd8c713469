"""Roll back what a call, a run, a task, a turn or a whole session did to the files of its workspace."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable

import attrs
import trio

from agents.errors import ErrorCode, Failure, failure
from agents.journal import Journal, read_if_there
from agents.locks import PathLocks, Waiting
from agents.results import FileChange
from agents.rollback import carry_out
from agents.rules.edits import digest_of
from agents.rules.paths import Root
from agents.rules.reviews import Refused, Review, Rollback, plan_rollback, reviews, touched
from agents.workspace import Workspace
from orchestrator.store.base import EffectRow, Found, Store, TaskRow


@attrs.frozen
class Scope:
    """Which effects of one session are meant."""

    session_id: str
    owners: frozenset[str] | None = None
    """Turns and runs; None: every one."""
    call_ids: frozenset[str] | None = None
    """None: every call."""

    def holds(self, row: EffectRow) -> bool:
        """Whether the effect is meant."""
        intent = row.intent
        return (self.owners is None or intent.owner in self.owners) and (
            self.call_ids is None or intent.call_id in self.call_ids
        )


@attrs.frozen
class RolledBack:
    """What a rollback did."""

    call_id: str
    """Under which it is journalled itself: rolling this back brings everything back."""
    changes: tuple[FileChange, ...]
    """Empty where everything was as before already."""
    left: tuple[str, ...]
    """What was meant and cannot be undone (commands, files outside the workspace), in words."""


async def scope_of_found(store: Store, found: Found) -> Scope:
    """The effects of a session, turn, task, run or chain, with what its delegates did, and theirs."""
    if found.kind == "session":
        return Scope(found.session_id)
    tasks = await store.tasks(found.session_id)
    if found.kind == "turn":
        own = {found.id}
    else:
        own = {row.run_id for row in tasks if found.id in (row.task_id, row.run_id, row.chain_id)}
    return Scope(found.session_id, owners=_with_descendants(own, tasks))


async def scope_of_call(store: Store, call_id: str, session_ids: Iterable[str]) -> Scope:
    """The effects of one call, looked for in these sessions. Raises `Failure` NOT_FOUND."""
    for session_id in session_ids:
        if any(row.intent.call_id == call_id for row in await store.effects(session_id)):
            return Scope(session_id, call_ids=frozenset({call_id}))
    raise failure(
        ErrorCode.NOT_FOUND,
        f"No call {call_id} changed anything. Find the id with `orchestrator show SESSION`.",
    )


async def stored_reviews(store: Store, scope: Scope) -> tuple[Review, ...]:
    """What was done to the workspace, in order."""
    return reviews([row for row in await store.effects(scope.session_id) if scope.holds(row)])


async def planned(store: Store, scope: Scope, workspace: Workspace) -> Rollback:
    """What a rollback would do now. Raises `Failure` CONFLICT naming the paths that changed later."""
    rows = [row for row in await store.effects(scope.session_id) if scope.holds(row)]
    current = {path: await trio.to_thread.run_sync(_hash_now, workspace, path) for path in touched(rows)}
    plan = plan_rollback(rows, current)
    if isinstance(plan, Refused):
        raise Failure(plan.error)
    return plan


async def roll_back(
    store: Store,
    scope: Scope,
    *,
    workspace: Workspace,
    locks: PathLocks | None = None,
    waiting: Waiting | None = None,
) -> RolledBack:
    """Undo the effects of `scope` on the workspace's files, guarded by their hashes.

    The caller holds the session (`store.lease`), so that nobody works on it meanwhile; `workspace` is that
    session's. Raises `Failure`: CONFLICT naming the paths that changed later (nothing is touched then), and
    what writing files and the store raise.
    """
    plan = await planned(store, scope, workspace)
    name = f"rollback-{uuid.uuid4().hex[:12]}"
    changes = await carry_out(
        plan,
        store.before_image,
        call_id=name,
        journal=Journal(store, session_id=scope.session_id, owner=name),
        workspace=workspace,
        locks=locks or PathLocks(),
        waiting=waiting or _alone,
    )
    return RolledBack(name, changes, plan.left)


def _with_descendants(owners: set[str], tasks: Iterable[TaskRow]) -> frozenset[str]:
    """In order of start a parent comes before its delegates, so one pass finds them all."""
    found = set(owners)
    for row in tasks:
        if row.parent_owner in found:
            found.add(row.run_id)
    return frozenset(found)


def _hash_now(workspace: Workspace, canonical: str) -> str | None:
    """None where no file is. Raises `Failure` CONFLICT where the path leads elsewhere now."""
    path = workspace.resolve(canonical)
    if path.canonical != canonical or path.root is not Root.WORKSPACE:
        raise failure(
            ErrorCode.CONFLICT,
            f"{canonical} no longer leads into the workspace {workspace.root}. Roll back in the workspace of "
            "the session, with its directories as they were.",
        )
    try:
        now = read_if_there(workspace, path)
    except Failure as other:  # a directory has its place, or a file that of a directory above it
        if other.error.code is not ErrorCode.INVALID_ARGUMENT:
            raise
        return None
    return None if now is None else digest_of(now.data)


def _alone(kind: str) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext()
