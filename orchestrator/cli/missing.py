"""What this version does not have: it says so, and what to do instead."""

from __future__ import annotations

from orchestrator.cli.leaving import Leave, Status


def unavailable(what: str, instead: str) -> Leave:
    """What is not built says so."""
    return Leave(Status.USAGE, f"INVALID_ARGUMENT: {what} is not available in this version. {instead}")
