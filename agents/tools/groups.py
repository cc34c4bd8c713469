"""How a call runs beside its neighbours of one batch. Pure."""

from __future__ import annotations

import enum


class CallGroup(enum.Enum):
    """The three ways."""

    TOGETHER = "together"
    """Read-only calls and Task starts: side by side."""
    MUTATION = "mutation"
    """Write and Edit: side by side, in call order per canonical path."""
    ALONE = "alone"
    """Bash, TaskWait, TaskStop, plugin tools: a group of its own."""
