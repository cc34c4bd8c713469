"""Who may work on a session: the rule that tells a living holder from a dead one, and the taking of a lease.

A holder is named by host, boot, pid namespace, pid and process start. Seen from the same boot and namespace,
it is dead exactly when that process is gone, whatever its heartbeat says. One of an earlier boot of this host
is dead. One from elsewhere is dead when its heartbeat stood still for 60 s of the observer's own clock.
Where there is no `/proc`, everybody is from elsewhere.
"""

from __future__ import annotations

import enum
import os
import time
from pathlib import Path
from typing import Protocol

import attrs
import msgspec
import trio

from agents.errors import ErrorCode, Failure, failure
from agents.events import timestamp
from orchestrator.store.holders import Holder as Holder

HEARTBEAT_SECONDS = 10.0
STILL_SECONDS = 60.0
"""Six missed heartbeats: a holder from elsewhere is taken for dead."""
PATIENCE_SECONDS = 65.0
"""How long `lease` watches a holder from elsewhere at most before it gives up."""
WATCH_SECONDS = 1.0


@attrs.frozen
class ProcessFacts:
    """What `/proc` says of a pid."""

    started: int
    state: str
    """One letter: `Z` and `X` are gone, `T` is stopped and alive."""


@attrs.frozen
class LeaseRecord:
    """The stored row of a session's lease."""

    epoch: int
    holder: Holder | None
    """None: nobody."""
    beat: int
    """Counts up while the holder lives."""


class Life(enum.Enum):
    """The judgement over a holder."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"
    """From elsewhere, and not yet watched for long enough."""


def is_local(holder: Holder, observer: Holder) -> bool:
    """Whether the observer can see the holder's process: then its pid is looked up for `judge`."""
    return (
        holder.boot_id != ""
        and holder.boot_id == observer.boot_id
        and holder.pid_namespace == observer.pid_namespace
    )


def judge(holder: Holder, observer: Holder, process: ProcessFacts | None, still_seconds: float) -> Life:
    """Alive or dead, from the facts.

    `process` is what the holder's pid is now (None: nothing), `still_seconds` how long its heartbeat has
    stood still under the observer's eyes.
    """
    if is_local(holder, observer):
        gone = process is None or process.started != holder.started or process.state in ("Z", "X")
        return Life.DEAD if gone else Life.ALIVE
    same_host = holder.host != "" and holder.host == observer.host
    if same_host and "" not in (holder.boot_id, observer.boot_id) and holder.boot_id != observer.boot_id:
        return Life.DEAD
    return Life.DEAD if still_seconds >= STILL_SECONDS else Life.UNKNOWN


def current_holder() -> Holder:
    """This process."""
    facts = look_up(os.getpid())
    machine = _read("/etc/machine-id").strip()
    return Holder(
        host=f"{machine}:{os.uname().nodename}" if machine else "",
        boot_id=_read("/proc/sys/kernel/random/boot_id").strip(),
        pid_namespace=_link("/proc/self/ns/pid"),
        pid=os.getpid(),
        started=0 if facts is None else facts.started,
        since=timestamp(time.time_ns()),
    )


def look_up(pid: int) -> ProcessFacts | None:
    """What runs under `pid` in this pid namespace; None where nothing does."""
    # The command name stands in brackets and may hold anything, brackets and spaces too.
    _, bracket, rest = _read(f"/proc/{pid}/stat").rpartition(")")
    fields = rest.split()
    if not bracket or len(fields) < 20:
        return None
    return ProcessFacts(started=int(fields[19]), state=fields[0])


def may_live(holder: Holder, observer: Holder) -> bool:
    """Whether the holder is not known to be dead: one from elsewhere counts as alive until it was watched."""
    process = look_up(holder.pid) if is_local(holder, observer) else None
    return judge(holder, observer, process, 0.0) is not Life.DEAD


def encode_holder(holder: Holder) -> str:
    return msgspec.json.encode(holder).decode("utf-8")


def decode_holder(text: str | None) -> Holder | None:
    return None if text is None else msgspec.json.decode(text, type=Holder)


class LeaseDesk(Protocol):
    """Where leases are kept."""

    async def read_lease(self, session_id: str) -> LeaseRecord | None: ...

    async def take_lease(self, session_id: str, seen: LeaseRecord | None, holder: Holder) -> int | None:
        """Compare and set: the new epoch if the row is still as `seen`, else None."""
        ...


async def acquire(desk: LeaseDesk, session_id: str, me: Holder, patience: float) -> int:
    """Take the session's lease and return its epoch. `Failure` CHAIN_LOCKED while another holder lives."""
    begun = still_since = trio.current_time()
    mark: tuple[int, int] | None = None
    while True:
        record = await desk.read_lease(session_id)
        if record is None or record.holder is None:
            life = Life.DEAD
        else:
            moved = mark is not None and mark != (record.epoch, record.beat)
            mark = (record.epoch, record.beat)
            process = look_up(record.holder.pid) if is_local(record.holder, me) else None
            life = judge(record.holder, me, process, trio.current_time() - still_since)
            if life is Life.ALIVE or (moved and life is not Life.DEAD):
                raise locked(session_id, record.holder)
        if life is Life.DEAD:
            # A take-over whose outcome is not known would lock the session until this process ends.
            with trio.CancelScope(shield=True):
                epoch = await desk.take_lease(session_id, record, me)
            if epoch is not None:
                return epoch
            continue
        assert record is not None
        assert record.holder is not None
        if trio.current_time() - begun >= patience:
            raise locked(session_id, record.holder)
        await trio.sleep(WATCH_SECONDS)


def locked(session_id: str, holder: Holder | None) -> Failure:
    """CHAIN_LOCKED, naming who holds the session and what to do."""
    if holder is None:
        return failure(
            ErrorCode.CHAIN_LOCKED,
            f"Session {session_id} is held by another process; wait until it ends, then try again.",
            retriable=True,
            details={"sessionId": session_id},
        )
    return failure(
        ErrorCode.CHAIN_LOCKED,
        f"Session {session_id} is held by process {holder.pid} since {holder.since}; "
        f"wait until it ends, or stop it with `orchestrator stop {session_id}`.",
        retriable=True,
        details={"sessionId": session_id, "pid": holder.pid, "since": holder.since, "host": holder.host},
    )


def lost(session_id: str, holder: Holder | None) -> Failure:
    """STORE_WRITE_FAILED of a holder whose epoch is over: it stops."""
    taker = "another process" if holder is None else f"process {holder.pid} since {holder.since}"
    return failure(
        ErrorCode.STORE_WRITE_FAILED,
        f"Session {session_id} was taken over by {taker}; nothing more of this process is stored in it. "
        f"Look at it with `orchestrator show {session_id}`.",
        details={"sessionId": session_id, "reason": "lease-lost"},
    )


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
