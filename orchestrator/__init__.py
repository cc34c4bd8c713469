"""Many agents, durability, people: sessions, supervision, settlement, resume, the store and the command line.

api          `open_session`, `run_sync`: the public API, also re-exported here, lazily
opening      what a session stands on, opened in order and closed in reverse
session      run, resume, stop;  turn: one prompt's life;  supervisor: one delegate run's life
assembly     how one agent is put together;  crew: the runs in memory;  desk: what may be delegated
delegates    one agent's view of delegation;  driving: the loop plus the hand-over of reports
settlement   outcome → TaskResult (pure);  closing: how spans end;  reports: what parents read (pure)
resume       the plan of a resume (pure);  interruption: what an ended process left open is closed
remains      what it left open in the traces (pure);  reopening: those spans, put together from the events
sending      which spans have reached their targets, across processes;  trace_view, trace_export: for people
feed         stored first, then exported and shown;  approvals: the queue of permission requests
inbox        answers and orders of other processes;  preflight: what could still ask, before a run (pure)
premises     what settings stand for: workspace, definitions, main agent
settings     one frozen value, read once;  store/: durability;  cli/: people
"""

from __future__ import annotations

import importlib
from typing import Any

_PUBLIC = {
    "open_session": "orchestrator.api",
    "run_sync": "orchestrator.api",
    "Session": "orchestrator.session",
    "TurnOutcome": "orchestrator.turn",
    "Event": "agents.events",
    "to_wire": "agents.events",
    "AgentSpec": "agents.spec",
    "ErrorCode": "agents.errors",
    "ToolError": "agents.errors",
    "Failure": "agents.errors",
    "Answer": "agents.requests",
    "Decision": "agents.requests",
    "PermissionRequest": "agents.requests",
    "TaskResult": "agents.results",
    "tool_from_function": "agents.tools.custom",
    "MemoryStore": "orchestrator.store.memory",
    "open_memory_store": "orchestrator.store.memory",
    "open_sqlite_store": "orchestrator.store.sqlite",
}

__all__ = sorted(_PUBLIC)  # noqa: PLE0605 - built from the table above, so that the two cannot differ


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `orchestrator --help` must not pay for the rest."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'orchestrator' has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return __all__
