"""Task, run and chain: their states and what may follow what. Pure.

A run is `running` until it is settled, once, into one status of the closed set. A chain is a straight line
of runs of one delegate conversation; only its last run can be continued.
"""

from __future__ import annotations

from typing import get_args

from agents.results import TaskStatus

RUNNING = "running"
STATUSES: frozenset[str] = frozenset(get_args(TaskStatus))

TRANSITIONS: dict[tuple[str, str], str] = {
    (RUNNING, "finish"): "completed",
    (RUNNING, "limit"): "truncated",
    (RUNNING, "fail"): "failed",
    (RUNNING, "stop"): "stopped",
    (RUNNING, "abort"): "aborted",
    (RUNNING, "process died"): "interrupted",
}
"""(state, what happened) → state. A settled run has no way out: a missing key is an illegal step."""

RESUMABLE_BY_MODEL: frozenset[str] = frozenset({"completed", "failed", "truncated", "interrupted"})
"""Those who were stopped or aborted only a person continues."""

MAX_DELEGATES = 10
"""Delegates running at once per session, by default."""
MAX_DEPTH = 1
"""Default depth of delegation: the main agent's delegates do not delegate."""
DELEGATE_TURNS = 60
"""Model turns of one delegate run, unless its definition says otherwise."""
DELEGATE_SECONDS = 3600.0
"""Wall-clock bound of one delegate run, unless its definition says otherwise."""
MAIN_TURNS = 200
"""Model turns of the main agent per prompt."""


def chain_label(agent_name: str, number: int) -> str:
    """The label a person can say: definition name and number from 1 in call order (`fixer#2`)."""
    return f"{agent_name}#{number}"
