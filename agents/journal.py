"""The mutation shell: lock, read, compute, intent, effect, result, in that order."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import attrs
import trio

from agents.errors import ErrorCode, Failure, failure
from agents.locks import PathLocks, Waiting
from agents.ports import EffectLog
from agents.results import FileChange, Hunk
from agents.rules import diffs
from agents.rules.effects import EffectIntent, EffectResult
from agents.rules.paths import ResolvedPath, Root
from agents.rules.text import decode
from agents.workspace import FileBytes, Landed, Workspace

EFFECT_SECONDS = 30.0
"""How long intent, effect and result may take together once they are shielded from cancellation."""

Compute = Callable[[FileBytes | None], bytes]
"""From what is there now (None: nothing) to the bytes that shall be there. May raise `Failure`; runs in a
worker thread."""


@attrs.frozen
class Mutation:
    """What landed."""

    change: FileChange | None
    """None outside the workspace: the effect journal alone knows those."""
    after: FileBytes
    broke_hard_link: bool


@attrs.frozen
class Move:
    """A file went to another path."""

    changes: tuple[FileChange, ...]
    """The new path created, the old one deleted; those of them that lie inside the workspace."""
    after: FileBytes
    """What stands at the new path."""
    broke_hard_link: bool


@attrs.frozen
class Deletion:
    """A file is gone."""

    change: FileChange | None
    """None outside the workspace."""
    broke_hard_link: bool
    """Whether the file had other names, which keep the bytes."""


@attrs.frozen
class _Step:
    """One effect on one file, ready to be carried out."""

    path: ResolvedPath
    before: FileBytes | None
    planned: bytes | None
    """None: the file goes."""
    intent: EffectIntent
    take_after: os.stat_result | int | None = None
    """Whose mode and owner, or which permission bits, a new file gets."""

    def change(self) -> FileChange | None:
        if not self.intent.inside:
            return None
        return FileChange(
            path=self.path.display,
            change="created" if self.before is None else "deleted" if self.planned is None else "modified",
            before=self.intent.before_hash,
            after=self.intent.planned_hash,
        )


class Journal:
    """One agent's effects, each with its intent before it and its result after it.

    From the first intent of a call on, everything is shielded with a deadline: a cancelled call ends with its
    effects and their rows whole, and the cancellation goes on at the caller's next checkpoint, so that what
    landed can be reported.
    """

    def __init__(self, log: EffectLog, *, session_id: str, owner: str) -> None:
        self._log = log
        self._session_id = session_id
        self._owner = owner

    async def mutate(
        self,
        path: ResolvedPath,
        compute: Compute,
        *,
        call_id: str,
        workspace: Workspace,
        locks: PathLocks,
        waiting: Waiting,
        describe: Callable[[], tuple[Hunk, ...]] | None = None,
        mode: int | None = None,
    ) -> Mutation:
        """Under the path's lock: read what is there now, `compute` the new bytes, make the intent durable,
        write atomically, journal the result.

        `describe`, called after `compute`, tells the regions that change where the caller knows them already;
        `mode` sets the permission bits (None: they stay, and a new file gets the umask's).
        """

        def prepare() -> _Step:
            before = read_if_there(workspace, path)
            planned = compute(before)
            hunks = _hunks(before, planned) if describe is None else describe()
            return self._step(path, before, planned, call_id, hunks, mode)

        async with locks.hold(workspace.lock_key(path), waiting):
            step = await trio.to_thread.run_sync(prepare)
            await trio.lowlevel.checkpoint_if_cancelled()
            with trio.move_on_after(EFFECT_SECONDS, shield=True):
                landed, facts = await self._write(step, workspace)
                return Mutation(step.change(), FileBytes(landed.data, facts), landed.broke_hard_link)
            raise _late(path.display)

    async def move(
        self,
        path: ResolvedPath,
        to: ResolvedPath,
        compute: Compute,
        *,
        call_id: str,
        workspace: Workspace,
        locks: PathLocks,
        waiting: Waiting,
    ) -> Move:
        """Under both paths' locks: write what `compute` makes of the file to `to`, where nothing may be, then
        delete `path`. Two effects, each with its intent and its result; killed between them, both files are
        there. The new file takes mode and owner of the old one.
        """

        def prepare() -> tuple[_Step, _Step]:
            before = read_if_there(workspace, path)
            planned = compute(before)
            assert before is not None, "compute refuses to move what is not there"
            workspace.check_replaceable(path, like=before.stat)
            create = self._step(to, None, planned, call_id, _hunks(None, planned), before.stat)
            return create, self._step(path, before, None, call_id, _hunks(before, b""))

        keys = workspace.lock_key(path), workspace.lock_key(to)
        async with locks.hold_all(keys, waiting):
            create, delete = await trio.to_thread.run_sync(prepare)
            await trio.lowlevel.checkpoint_if_cancelled()
            with trio.move_on_after(EFFECT_SECONDS, shield=True):
                landed, facts = await self._write(create, workspace)
                try:
                    await self._delete(delete, workspace)
                except Exception as failed:
                    await self._take_back(create, FileBytes(landed.data, facts), call_id, workspace, failed)
                    raise
                changes = tuple(change for step in (create, delete) if (change := step.change()) is not None)
                return Move(changes, FileBytes(landed.data, facts), _other_names(delete))
            raise _late(path.display)

    async def delete(
        self,
        path: ResolvedPath,
        verify: Callable[[FileBytes | None], object],
        *,
        call_id: str,
        workspace: Workspace,
        locks: PathLocks,
        waiting: Waiting,
    ) -> Deletion:
        """Under the path's lock: read what is there now, `verify` it (raises `Failure` where it shall stay),
        make the intent durable, delete, journal the result.
        """

        def prepare() -> _Step:
            before = read_if_there(workspace, path)
            verify(before)
            assert before is not None, "verify refuses to delete what is not there"
            workspace.check_replaceable(path, like=before.stat)
            return self._step(path, before, None, call_id, _hunks(before, b""))

        async with locks.hold(workspace.lock_key(path), waiting):
            step = await trio.to_thread.run_sync(prepare)
            await trio.lowlevel.checkpoint_if_cancelled()
            with trio.move_on_after(EFFECT_SECONDS, shield=True):
                await self._delete(step, workspace)
                return Deletion(step.change(), _other_names(step))
            raise _late(path.display)

    @asynccontextmanager
    async def _shell(self, command: str, call_id: str) -> AsyncIterator[None]:
        intent = EffectIntent(
            effect_id=str(uuid.uuid4()),
            session_id=self._session_id,
            owner=self._owner,
            call_id=call_id,
            kind="shell",
            target=command,
            inside=False,
        )
        with trio.move_on_after(EFFECT_SECONDS, shield=True) as bound:
            await self._log.intend(intent)
        if bound.cancelled_caught:
            raise _late("the command")
        ok = False
        try:
            await trio.lowlevel.checkpoint_if_cancelled()  # cancelled meanwhile: its row says it did not run
            yield
            ok = True
        finally:
            with trio.move_on_after(EFFECT_SECONDS, shield=True):
                await self._log.finish(EffectResult(effect_id=intent.effect_id, ok=ok))

    def shell(self, command: str, *, call_id: str) -> AbstractAsyncContextManager[None]:
        """Journal a shell command (redacted by the caller) around the block: intent before, result after.

        The result is `ok` where the block ends without an exception, whatever the command's exit code.
        """
        return self._shell(command, call_id)

    def _step(
        self,
        path: ResolvedPath,
        before: FileBytes | None,
        planned: bytes | None,
        call_id: str,
        hunks: tuple[Hunk, ...],
        take_after: os.stat_result | int | None = None,
    ) -> _Step:
        """One effect with its intent. Blocking."""
        inside = path.root is Root.WORKSPACE
        name = f".orchestrator-{secrets.token_hex(8)}.tmp"
        intent = EffectIntent(
            effect_id=str(uuid.uuid4()),
            session_id=self._session_id,
            owner=self._owner,
            call_id=call_id,
            kind="file",
            target=path.canonical,
            inside=inside,
            before_hash=None if before is None else _sha256(before.data),
            planned_hash=None if planned is None else _sha256(planned),
            temporary=None if planned is None else os.path.join(os.path.dirname(path.canonical), name),
            before_image=before.data if before is not None and inside else None,
            before_mode=None if before is None else stat.S_IMODE(before.stat.st_mode),
            shown=path.display,
            hunks=diffs.bounded(hunks),
            new_directories=_missing_directories(path.canonical) if before is None else (),
        )
        return _Step(path, before, planned, intent, take_after)

    async def _write(self, step: _Step, workspace: Workspace) -> tuple[_Written, os.stat_result]:
        await self._log.intend(step.intent)
        try:
            landed, facts = await trio.to_thread.run_sync(_write, step, workspace)
        except Exception:
            await self._failed(step)
            raise
        await self._log.finish(
            EffectResult(effect_id=step.intent.effect_id, ok=True, after_hash=landed.sha256)
        )
        if facts is None:
            raise _gone(step.path)
        assert step.planned is not None
        return _Written(step.planned, landed.broke_hard_link), facts

    async def _delete(self, step: _Step, workspace: Workspace) -> None:
        await self._log.intend(step.intent)
        try:
            await trio.to_thread.run_sync(_delete, step, workspace)
        except Exception:
            await self._failed(step)
            raise
        await self._log.finish(EffectResult(effect_id=step.intent.effect_id, ok=True))

    async def _failed(self, step: _Step) -> None:
        await self._log.finish(EffectResult(effect_id=step.intent.effect_id, ok=False))

    async def _take_back(
        self, create: _Step, written: FileBytes, call_id: str, workspace: Workspace, failed: Exception
    ) -> None:
        """The old file stays where it is: so its copy goes, as an effect of its own."""
        step = self._step(create.path, written, None, call_id, _hunks(written, b""))
        try:
            await self._delete(step, workspace)
        except Failure as stuck:
            raise failure(
                ErrorCode.CONFLICT,
                f"The file could not be removed from its old path, and now stands at {create.path.display} "
                f"too ({stuck.error.message}). Delete the one that is not wanted.",
                details={"copy": create.path.display},
            ) from failed


@attrs.frozen
class _Written:
    data: bytes
    broke_hard_link: bool


def read_if_there(workspace: Workspace, path: ResolvedPath) -> FileBytes | None:
    """What is at `path` now; None where nothing is. Blocking."""
    try:
        return workspace.read(path)
    except Failure as missing:
        if missing.error.code is ErrorCode.NOT_FOUND:
            return None
        raise


def _write(step: _Step, workspace: Workspace) -> tuple[Landed, os.stat_result | None]:
    assert step.planned is not None
    assert step.intent.temporary is not None
    landed = workspace.write(
        step.path,
        step.planned,
        temporary=os.path.basename(step.intent.temporary),
        like=None if step.before is None else step.before.stat,
        take_after=step.take_after,
    )
    with contextlib.suppress(OSError):
        return landed, os.lstat(step.path.canonical)
    return landed, None


def _delete(step: _Step, workspace: Workspace) -> None:
    assert step.before is not None
    workspace.delete(step.path, like=step.before.stat)


def _hunks(before: FileBytes | None, planned: bytes) -> tuple[Hunk, ...]:
    return diffs.changes(decode(b"" if before is None else before.data), decode(planned))


def _missing_directories(canonical: str) -> tuple[str, ...]:
    missing: list[str] = []
    directory = os.path.dirname(canonical)
    while not os.path.lexists(directory):
        missing.append(directory)
        directory = os.path.dirname(directory)
    return tuple(reversed(missing))


def _other_names(step: _Step) -> bool:
    return step.before is not None and step.before.stat.st_nlink > 1


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _gone(path: ResolvedPath) -> Failure:
    return failure(
        ErrorCode.CONFLICT,
        f"{path.display} was written, and then removed or made unreachable by somebody else. "
        "Look at its directory before you write it again.",
        retriable=True,
    )


def _late(what: str) -> Failure:
    return failure(
        ErrorCode.STORE_WRITE_FAILED,
        f"The journal did not answer within {EFFECT_SECONDS:.0f} seconds for {what}. "
        "Look whether the change landed before you send it again.",
        retriable=True,
    )
