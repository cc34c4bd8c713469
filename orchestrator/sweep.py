"""`sweep`: sessions that ended processes left open are brought to rest by whoever starts next on the store."""

from __future__ import annotations

from collections.abc import Callable

from agents.errors import ErrorCode, Failure
from agents.workspace import Workspace
from orchestrator.interruption import close_interrupted
from orchestrator.reconcile import reconcile
from orchestrator.sending import Sending
from orchestrator.store.base import SessionRow, Store
from telemetry.export import open_export
from telemetry.settings import TelemetrySettings


async def sweep(
    store: Store,
    own: str,
    *,
    workspace_of: Callable[[SessionRow], Workspace],
    telemetry: TelemetrySettings,
    warn: Callable[[str], None],
) -> tuple[str, ...]:
    """Close every session but `own` that still says `running` though nobody holds it; their ids.

    Their processes are ended, effects judged, runs and turns settled as `interrupted`, traces completed (and
    sent, where this start has their target). A session that somebody works on is left alone. What is wrong
    with one session is told through `warn` and never stops the start of another.
    """
    swept: list[str] = []
    for session_id in await store.unsettled():
        row = await store.session(session_id)
        if row is None or session_id == own:
            continue
        try:
            async with store.lease(session_id, patience=0):
                await _close(store, row, workspace_of(row), telemetry, warn)
                swept.append(session_id)
        except Failure as failed:
            if failed.error.code is not ErrorCode.CHAIN_LOCKED:
                warn(f"warning: the interrupted session {session_id} was not closed: {failed.error.message}")
        except OSError as error:
            warn(f"warning: the interrupted session {session_id} was not closed: {error}")
    return tuple(swept)


async def _close(
    store: Store,
    row: SessionRow,
    workspace: Workspace,
    telemetry: TelemetrySettings,
    warn: Callable[[str], None],
) -> None:
    await reconcile(store, row.session_id, workspace)
    await close_interrupted(store, row.session_id)
    sending = Sending(store, row.session_id)
    async with open_export(telemetry, warn=warn) as export:  # of its own: acknowledgements are counted
        sending.export = export
        await sending.catch_up()
    await sending.finish()
