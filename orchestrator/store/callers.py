"""No self-approval: whether this process descends from a tool that an agent runs.

Looked at are the markers that every tool process carries in its environment, in this process, in its
ancestors and in the leaders of their process groups and sessions; and whether an ancestor is itself the
holder of a session: what works below it was started by it, whatever it has done to its environment. A hostile
program that was allowed to run can still hide from this; only a sandbox is proof against one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs

from agents.errors import ErrorCode, failure
from orchestrator.store.holders import Holder
from orchestrator.store.leases import current_holder, is_local, look_up

MARKER = "ORCHESTRATOR_CALL_ID"
"""The variable that names the tool call a process belongs to."""
MAX_ANCESTORS = 256


@attrs.frozen
class Relative:
    """One process of a line of descent, as `/proc/PID/stat` shows it."""

    pid: int
    parent: int
    group: int
    session: int


def refuse_tool_processes(holders: Iterable[Holder] = ()) -> None:
    """Return for a caller of the person's own; raise `Failure` TOOL_DENIED for a tool's descendant.

    `holders` are the processes that hold sessions now.
    """
    why = _descent(tuple(holders))
    if why is None:
        return
    raise failure(
        ErrorCode.TOOL_DENIED,
        f"Refused: {why}, and what an agent runs never answers or stops for the person. "
        "Run the command yourself, in a terminal of your own.",
        details={"reason": "self-approval"},
    )


def _descent(holders: tuple[Holder, ...]) -> str | None:
    """Why the caller counts as an agent's, in words; None where it does not."""
    if MARKER in os.environ:
        return "this process belongs to a tool call"
    me = current_holder() if holders else None
    for relative in lineage(os.getpid()):
        if any(_is_marked(pid) for pid in {relative.pid, relative.group, relative.session} - {0}):
            return f"this process descends from a tool call (process {relative.pid})"
        if me is None or relative.pid == me.pid:
            continue
        if any(_is_holder(relative.pid, holder, me) for holder in holders):
            return f"this process descends from process {relative.pid}, which runs a session"
    return None


def lineage(pid: int) -> Iterator[Relative]:
    """The process and its ancestors, nearest first; ends where `/proc` does."""
    for _ in range(MAX_ANCESTORS):
        relative = _relative(pid)
        if relative is None:
            return
        yield relative
        pid = relative.parent


def _relative(pid: int) -> Relative | None:
    if pid <= 0:
        return None
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The command name stands in brackets and may hold anything, brackets and spaces too.
    fields = stat.rpartition(")")[2].split()
    if len(fields) < 4:
        return None
    return Relative(pid, parent=int(fields[1]), group=int(fields[2]), session=int(fields[3]))


def _is_marked(pid: int) -> bool:
    """Whether the process was started with the marker. One of another user cannot be read, nor is it ours."""
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return any(entry.startswith(f"{MARKER}=".encode()) for entry in environ.split(b"\0"))


def _is_holder(pid: int, holder: Holder, me: Holder) -> bool:
    if holder.pid != pid or not is_local(holder, me):
        return False
    facts = look_up(pid)
    return facts is not None and facts.started == holder.started
