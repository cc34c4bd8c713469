"""How this command was started, as it can be typed again: for commands that are printed to be copied."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

NAME = "orchestrator"


def program() -> str:
    """`orchestrator` where the shell finds this very one; else the path of what was run, the shorter way."""
    started = Path(sys.argv[0] or NAME)
    found = shutil.which(started.name)
    if started.name == "__main__.py":
        return f"{shlex.quote(_short(sys.executable))} -m {NAME}"
    if found is not None and os.path.realpath(found) == os.path.realpath(started):
        return started.name
    return shlex.quote(_short(str(started))) if started.exists() else NAME


def _short(path: str) -> str:
    """Relative to the current folder where that is shorter and leads there by itself."""
    absolute = os.path.abspath(path)
    relative = os.path.relpath(absolute)
    if len(relative) >= len(absolute) or relative.startswith(os.pardir):
        return absolute
    return relative if os.sep in relative else os.path.join(os.curdir, relative)
