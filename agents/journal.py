"""The mutation shell: lock, read, compute, intent, effect, result, in that order."""

from __future__ import annotations

import hashlib
import os
import secrets
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import attrs
import trio

from agents.errors import ErrorCode, Failure, failure
from agents.locks import PathLocks, Waiting
from agents.ports import EffectLog
from agents.results import FileChange
from agents.rules.effects import EffectIntent, EffectResult
from agents.rules.paths import ResolvedPath, Root
from agents.workspace import FileBytes, Landed, Workspace

EFFECT_SECONDS = 30.0
"""How long intent, effect and result may take together once they are shielded from cancellation."""


@attrs.frozen
class Mutation:
    """What landed."""

    change: FileChange | None
    """None outside the workspace: the effect journal alone knows those."""
    after: FileBytes
    broke_hard_link: bool


class Journal:
    """One agent's effects, each with its intent before it and its result after it."""

    def __init__(self, log: EffectLog, *, session_id: str, owner: str) -> None:
        self._log = log
        self._session_id = session_id
        self._owner = owner

    async def mutate(
        self,
        path: ResolvedPath,
        compute: Callable[[FileBytes | None], bytes],
        *,
        call_id: str,
        workspace: Workspace,
        locks: PathLocks,
        waiting: Waiting,
    ) -> Mutation:
        """Under the path's lock: read what is there now (None: nothing), `compute` the new bytes (may raise
        `Failure`; runs in a worker thread), make the intent durable, write atomically, journal the result.

        From the intent on, shielded with a deadline: a cancelled call ends with the effect and its row whole,
        and the cancellation goes on at the caller's next checkpoint, so that what landed can be reported.
        """
        async with locks.hold(workspace.lock_key(path), waiting):
            before, planned = await trio.to_thread.run_sync(_prepare, path, compute, workspace)
            intent = self._file_intent(path, before, planned, call_id)
            await trio.lowlevel.checkpoint_if_cancelled()
            with trio.move_on_after(EFFECT_SECONDS, shield=True):
                return await self._effect(path, intent, before, planned, workspace)
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

    def _file_intent(
        self, path: ResolvedPath, before: FileBytes | None, planned: bytes, call_id: str
    ) -> EffectIntent:
        inside = path.root is Root.WORKSPACE
        name = f".orchestrator-{secrets.token_hex(8)}.tmp"
        return EffectIntent(
            effect_id=str(uuid.uuid4()),
            session_id=self._session_id,
            owner=self._owner,
            call_id=call_id,
            kind="file",
            target=path.canonical,
            inside=inside,
            before_hash=None if before is None else _sha256(before.data),
            planned_hash=_sha256(planned),
            temporary=os.path.join(os.path.dirname(path.canonical), name),
            before_image=before.data if before is not None and inside else None,
        )

    async def _effect(
        self,
        path: ResolvedPath,
        intent: EffectIntent,
        before: FileBytes | None,
        planned: bytes,
        workspace: Workspace,
    ) -> Mutation:
        assert intent.temporary is not None
        await self._log.intend(intent)
        try:
            landed, facts = await trio.to_thread.run_sync(
                _write, path, planned, os.path.basename(intent.temporary), before, workspace
            )
        except Exception:
            await self._log.finish(EffectResult(effect_id=intent.effect_id, ok=False))
            raise
        await self._log.finish(EffectResult(effect_id=intent.effect_id, ok=True, after_hash=landed.sha256))
        if facts is None:
            raise _gone(path)
        change = FileChange(
            path=path.display,
            change="created" if before is None else "modified",
            before=intent.before_hash,
            after=landed.sha256,
        )
        return Mutation(
            change=change if intent.inside else None,
            after=FileBytes(planned, facts),
            broke_hard_link=landed.broke_hard_link,
        )


def _prepare(
    path: ResolvedPath, compute: Callable[[FileBytes | None], bytes], workspace: Workspace
) -> tuple[FileBytes | None, bytes]:
    before = read_if_there(workspace, path)
    return before, compute(before)


def read_if_there(workspace: Workspace, path: ResolvedPath) -> FileBytes | None:
    """What is at `path` now; None where nothing is. Blocking."""
    try:
        return workspace.read(path)
    except Failure as missing:
        if missing.error.code is ErrorCode.NOT_FOUND:
            return None
        raise


def _write(
    path: ResolvedPath, planned: bytes, temporary: str, before: FileBytes | None, workspace: Workspace
) -> tuple[Landed, os.stat_result | None]:
    landed = workspace.write(path, planned, temporary=temporary, like=None if before is None else before.stat)
    try:
        return landed, os.lstat(path.canonical)
    except OSError:
        return landed, None


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
