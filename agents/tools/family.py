"""Which processes a command left: its group, those that carry its marks or its brand, and their descendants.

Read from /proc. Where there is none (macOS) the answer is empty and the process group alone is known. The
brand finds those that left their session, emptied their environment and outlived their parents, and never
one that somebody else started, in this process too: no guess by parent or by time is made. A process that
sets its limits anew as well is not found: only a sandbox holds a hostile program.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Mapping
from pathlib import Path

import attrs

from agents.tools.brand import brand_of

PROC = Path("/proc")


@attrs.frozen
class Member:
    """One process, told apart from a later one with the same id by when it started."""

    pid: int
    parent: int
    group: int
    session: int
    name: str
    state: str
    """As in /proc: `Z` is a zombie."""
    started: int
    """Clock ticks since boot."""

    @property
    def dead(self) -> bool:
        return self.state in "ZX"

    def __str__(self) -> str:
        return f"{self.pid} {self.name}"


def snapshot() -> dict[int, Member]:
    """Every process that can be seen, by id; empty where there is no /proc."""
    found: dict[int, Member] = {}
    with contextlib.suppress(OSError):
        for entry in os.listdir(PROC):
            if entry.isdecimal():
                member = _member(int(entry))
                if member is not None:
                    found[member.pid] = member
    return found


def family(
    leader: int,
    marks: Mapping[str, str],
    known: Iterable[Member] = (),
    *,
    brand: int | None = None,
    everyone: dict[int, Member] | None = None,
) -> list[Member]:
    """The living and the dead of a command that ran as `leader` of its own session.

    `marks`: variables whose values, all together, tell this call's processes; `brand`: the number that they
    were branded with. `known`: members found
    before, who stay members wherever they hang now.
    """
    processes = snapshot() if everyone is None else everyone
    own = os.getpid()
    members = {
        pid
        for pid, process in processes.items()
        if leader in (process.group, process.session)
        or (pid != own and ((brand is not None and brand_of(pid) == brand) or carries(pid, marks)))
    }
    members |= {m.pid for m in known if m.pid in processes and processes[m.pid].started == m.started}
    members.discard(own)
    grown = True
    while grown:
        children = {pid for pid, process in processes.items() if process.parent in members} - members - {own}
        members |= children
        grown = bool(children)
    return [processes[pid] for pid in sorted(members)]


def send(member: Member, number: signal.Signals) -> None:
    """Signal exactly this process, not one that took its id meanwhile."""
    with contextlib.suppress(OSError):
        descriptor = os.pidfd_open(member.pid)
        try:
            now = _member(member.pid)
            if now is not None and now.started == member.started:
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)


def _member(pid: int) -> Member | None:
    try:
        text = (PROC / str(pid) / "stat").read_bytes().decode("utf-8", "replace")
    except OSError:
        return None
    name, _, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()
    return Member(
        pid=pid,
        name="".join(c if c.isprintable() else "?" for c in name),
        state=fields[0],
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        started=int(fields[19]),
    )


def carries(pid: int, marks: Mapping[str, str]) -> bool:
    """Whether the process was started with all these variables; False where that cannot be read."""
    if not marks:
        return False
    try:
        environment = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return False
    entries = set(environment.split(b"\0"))
    return all(os.fsencode(f"{name}={value}") in entries for name, value in marks.items())
