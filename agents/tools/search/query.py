"""What a Grep looks for. Pure."""

from __future__ import annotations

from typing import Literal

import attrs

from agents.rules.hidden import Hidden
from agents.tools.search.globs import Include
from agents.tools.search.patterns import Pattern

Mode = Literal["content", "filesWithMatches", "count"]


@attrs.frozen
class Query:
    """What is searched for, and how much of it is wanted."""

    pattern: Pattern
    mode: Mode
    limit: int
    max_bytes: int
    """Of all rows together."""
    include: Include | None = None
    hidden: Hidden | None = None
    """What deny rules hide from a walk."""
