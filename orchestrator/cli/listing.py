"""Tables and JSON lines of the verbs that list things."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from rich.cells import cell_len

from agents.rules.preview import one_line
from orchestrator.cli.leaving import Leave, Status


def table(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Aligned columns; every cell on one line, without control characters."""
    cells = [list(names), *([one_line(str(value)) for value in row] for row in rows)]
    widths = [max(cell_len(row[column]) for row in cells) for column in range(len(names))]
    return [
        "  ".join(_padded(text, width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def _padded(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))


def say(lines: Iterable[str]) -> None:
    """Print lines of text. Where nobody reads them any more (`| head`) the command ends: no failure."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()
    except BrokenPipeError:
        raise Leave(Status.COMPLETED) from None


def say_json(values: Iterable[Any]) -> None:
    """Print one JSON object per line."""
    say(msgspec.json.encode(value).decode("utf-8") for value in values)
