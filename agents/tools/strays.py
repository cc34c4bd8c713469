"""What the tools of an ended process left running: found by the session they are marked with, and ended."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from agents.tools.brand import brand_of, branded_by
from agents.tools.family import Member, carries, send, snapshot

STRAY_SECONDS = 5.0
"""How long the killed are waited for; the kernel may be busy with a dying one."""
PAUSE_SECONDS = 0.005


def end_strays(session_id: str, scratch: Path) -> tuple[str, ...]:
    """Kill every process of the session's tools and return once none lives; who they were, as `pid name`.

    For the one that holds the session, before it starts tools of its own. Blocking. Found are the processes
    that are marked with the session and its scratch directory (in their environment, or by the brand that
    outlasts it), those of the sessions their commands run in,
    and all that descend from either; never this process and what it descends from, which a tool may have
    started. Nothing is found without /proc.
    """
    # Ids are only unique in one store, the directory is only this session's.
    marks = {"ORCHESTRATOR_SESSION_ID": session_id, "ORCHESTRATOR_SCRATCH_DIR": str(scratch)}

    def marked(pid: int) -> bool:
        return branded_by(brand_of(pid), session_id, str(scratch)) or carries(pid, marks)

    killed: dict[tuple[int, int], Member] = {}
    deadline = time.monotonic() + STRAY_SECONDS
    while time.monotonic() < deadline:
        living = [member for member in _strays(marked) if not member.dead]
        if not living:
            break
        for member in living:
            send(member, signal.SIGKILL)
            killed[member.pid, member.started] = member
        time.sleep(PAUSE_SECONDS)
    return tuple(str(member) for member in killed.values())


def _strays(is_marked: Callable[[int], bool]) -> list[Member]:
    everyone = snapshot()
    kept = _line_of_descent(everyone)
    marked = {pid for pid in everyone if pid not in kept and is_marked(pid)}
    # A command leads a session of its own, so whatever is in it was started by that command.
    led = {everyone[pid].session for pid in marked} & marked
    members = marked | {pid for pid, one in everyone.items() if one.session in led and pid not in kept}
    grown = members
    while grown:
        grown = {pid for pid, one in everyone.items() if one.parent in members} - members - kept
        members |= grown
    return [everyone[pid] for pid in sorted(members)]


def _line_of_descent(everyone: Mapping[int, Member]) -> set[int]:
    """This process and its ancestors."""
    line: set[int] = set()
    pid = os.getpid()
    while pid not in line:
        line.add(pid)
        pid = everyone[pid].parent if pid in everyone else 0
    return line
