"""Carry out a planned rollback: each step is a journalled mutation of its own, guarded by the file's hash."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable

import attrs
import msgspec
import trio

from agents.errors import ErrorCode, Failure, ToolError, failure
from agents.journal import Journal
from agents.locks import PathLocks, Waiting
from agents.results import FileChange
from agents.rules.edits import digest_of
from agents.rules.paths import ResolvedPath, Root
from agents.rules.reviews import Remove, Restore, Rollback
from agents.workspace import FileBytes, Workspace

Image = Callable[[str], Awaitable[bytes | None]]
"""The bytes that an effect's file held before, by effect id; None where none were kept."""


async def carry_out(
    rollback: Rollback,
    image: Image,
    *,
    call_id: str,
    journal: Journal,
    workspace: Workspace,
    locks: PathLocks,
    waiting: Waiting,
) -> tuple[FileChange, ...]:
    """Remove, tidy and restore, in that order; what changed.

    Before the first step every before-image is looked at. Raises `Failure`: CONFLICT when a file changed
    since the rollback was planned; `details.done` then names what was already rolled back, and the same
    rollback, planned anew, goes on from there.
    """
    for restore in rollback.restores:
        await _content(image, restore)
    hand = _Hand(call_id, journal, workspace, locks, waiting)
    done: list[FileChange] = []
    try:
        for remove in rollback.removes:
            done.append(await hand.remove(remove))
        for directory in rollback.directories:
            await trio.to_thread.run_sync(_tidy, workspace, directory)
        for restore in rollback.restores:
            done.append(await hand.restore(restore, await _content(image, restore)))
    except Failure as failed:
        raise Failure(_so_far(failed, done)) from failed
    return tuple(done)


async def _content(image: Image, restore: Restore) -> bytes:
    content = await image(restore.effect_id)
    if content is None or digest_of(content) != restore.content:
        raise failure(
            ErrorCode.CONFLICT,
            f"The bytes that {restore.path} held before were not kept, so it cannot be restored. "
            "Take it from your version control instead.",
            details={"paths": [restore.path]},
        )
    return content


@attrs.frozen
class _Hand:
    call_id: str
    journal: Journal
    workspace: Workspace
    locks: PathLocks
    waiting: Waiting

    async def remove(self, step: Remove) -> FileChange:
        path = await trio.to_thread.run_sync(_place, self.workspace, step)
        deletion = await self.journal.delete(
            path,
            lambda before: _guard(before, step),
            call_id=self.call_id,
            workspace=self.workspace,
            locks=self.locks,
            waiting=self.waiting,
        )
        assert deletion.change is not None
        return deletion.change

    async def restore(self, step: Restore, content: bytes) -> FileChange:
        path = await trio.to_thread.run_sync(_place, self.workspace, step)

        def compute(before: FileBytes | None) -> bytes:
            _guard(before, step)
            return content

        mutation = await self.journal.mutate(
            path,
            compute,
            call_id=self.call_id,
            workspace=self.workspace,
            locks=self.locks,
            waiting=self.waiting,
            mode=step.mode,
        )
        assert mutation.change is not None
        return mutation.change


def _place(workspace: Workspace, step: Remove | Restore) -> ResolvedPath:
    """The step's place, if it is still the one that the journal knows."""
    path = workspace.resolve(step.canonical)
    if path.canonical != step.canonical or path.root is not Root.WORKSPACE:
        raise failure(
            ErrorCode.CONFLICT,
            f"{step.path} now leads to {path.canonical}. Remove the symbolic link on its way, then roll back "
            "again.",
            details={"paths": [step.path]},
        )
    return path


def _guard(before: FileBytes | None, step: Remove | Restore) -> None:
    now = None if before is None else digest_of(before.data)
    if now != step.expected:
        raise failure(
            ErrorCode.CONFLICT,
            f"{step.path} was changed by somebody else a moment ago. Look at it, then roll back again.",
            details={"paths": [step.path]},
        )


def _tidy(workspace: Workspace, directory: str) -> None:
    path = workspace.resolve(directory)
    if path.canonical == directory and path.root is Root.WORKSPACE and directory != os.fspath(workspace.root):
        workspace.remove_directory(path)


def _so_far(failed: Failure, done: list[FileChange]) -> ToolError:
    error = failed.error
    details = {**error.details, "done": [change.path for change in done]}
    return msgspec.structs.replace(error, details=details)
