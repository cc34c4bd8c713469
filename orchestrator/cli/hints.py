"""How commands that are printed to be copied are written, so that they work where this one did."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from orchestrator.cli.card import Hints
from orchestrator.cli.program import program


def hints_of(flags: Mapping[str, Any]) -> Hints:
    """How a further command has to be written for the same store, and a resume for the same permissions."""
    store, mode = flags.get("store"), flags.get("permission_mode")
    return Hints(
        program=program(),
        options=() if store is None else ("--store", shlex.quote(str(store))),
        resume_options=() if mode is None else ("--permission-mode", mode),
    )
