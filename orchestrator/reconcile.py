"""`reconcile`: what an ended process was in the middle of is brought to a known state, before anything runs.

Its tools' processes are ended. Each effect without a result is compared once and judged: a file by its hash
against what was there and what was planned; a shell command is never run again and stays unknown. Calls
without an answer get one, from what is stored. Every part is one transaction or can be done twice, so that a
crash in here is made good by the next start.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat

import trio

from agents import descriptors
from agents.errors import ErrorCode, Failure
from agents.rules.effects import EffectIntent, Verdict
from agents.rules.effects import reconcile as judge
from agents.tools.strays import end_strays
from agents.workspace import Workspace
from orchestrator.answers import answer_open_calls
from orchestrator.store.base import Store
from orchestrator.telling import OpenEffect, read_untold

OWN_TEMPORARY = re.compile(r"\.orchestrator-[0-9a-f]{16}\.tmp")
"""The names of the journal's temporary files: nothing else is ever removed."""
_CHUNK = 1 << 20


async def reconcile(store: Store, session_id: str, workspace: Workspace) -> tuple[OpenEffect, ...]:
    """Reconcile the session, whose lease the caller holds; the effects that agents are yet to be told of.

    Called before `close_interrupted`: what still says `running` is what the ended process was working on.
    """
    await trio.to_thread.run_sync(end_strays, session_id, workspace.scratch)
    for row in await store.effects(session_id, only_open=True):
        verdict = await trio.to_thread.run_sync(examine, row.intent, workspace)
        await store.judge(row.intent.effect_id, verdict)
    await answer_open_calls(store, session_id)
    # Again: what was forked in the moment of the death has its marks only once it has become its command.
    await trio.to_thread.run_sync(end_strays, session_id, workspace.scratch)
    return await read_untold(store, session_id)


def examine(intent: EffectIntent, workspace: Workspace) -> Verdict:
    """What became of an effect; its temporary file is removed. Blocking."""
    if intent.kind == "shell":
        return Verdict.UNKNOWN
    verdict = _compare(intent, workspace)
    _remove_temporary(intent)
    return verdict


def _compare(intent: EffectIntent, workspace: Workspace) -> Verdict:
    path = workspace.resolve(intent.target)
    if path.canonical != intent.target:  # a link stands on the way now: this is another file
        return Verdict.CHANGED_BY_SOMEONE_ELSE
    try:
        with workspace.open(path) as descriptor:
            return judge(intent, _hash(descriptor))
    except Failure as failed:
        match failed.error.code:
            case ErrorCode.NOT_FOUND:
                return judge(intent, None)
            case ErrorCode.INVALID_ARGUMENT | ErrorCode.CONFLICT:  # not a file any more
                return Verdict.CHANGED_BY_SOMEONE_ELSE
            case _:
                return Verdict.UNKNOWN
    except OSError:
        return Verdict.UNKNOWN


def _hash(descriptor: int) -> str:
    digest = hashlib.sha256()
    while chunk := os.read(descriptor, _CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


def _remove_temporary(intent: EffectIntent) -> None:
    """Remove the file that the bytes went through, if it is still there and is what its name says."""
    if intent.temporary is None:
        return
    folder, name = os.path.split(intent.temporary)
    if folder != os.path.dirname(intent.target) or not OWN_TEMPORARY.fullmatch(name):
        return
    # What cannot be removed now can still be told from the user's files by its name.
    with contextlib.suppress(OSError, Failure), descriptors.directory(folder) as parent:
        if stat.S_ISREG(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=parent)
            descriptors.sync_directory(parent)
