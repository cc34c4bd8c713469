"""Tables and JSON lines of the verbs that list things."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from rich.cells import cell_len, set_cell_size

from agents.rules.preview import one_line
from orchestrator.cli.leaving import Leave, Status

GAP = "  "
MIN_CUT = 10
"""Columns that a cut cell keeps."""


def table(
    names: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    width: int | None = None,
    drop: Sequence[str] = (),
    cut: Sequence[str] = (),
) -> list[str]:
    """Aligned columns; every cell on one line, without control characters.

    Where they are wider than `width` (None: nothing is), columns without any value go, then those of `drop`,
    one by one; what is still too wide is taken from the cells of `cut`, the last named last.
    """
    cells = [list(names), *([one_line(str(value)) for value in row] for row in rows)]
    if width is not None:
        empty = [name for at, name in enumerate(names) if not any(row[at] for row in cells[1:])]
        for name in [*empty, *drop]:
            if _total(cells) > width and name in cells[0] and len(cells[0]) > 1:
                at = cells[0].index(name)
                cells = [[*row[:at], *row[at + 1 :]] for row in cells]
        for name in cut:
            if name in cells[0]:
                _narrow(cells, cells[0].index(name), _total(cells) - width)
    widths = _widths(cells)
    return [
        GAP.join(_padded(text, room) for text, room in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def at_home(path: str) -> str:
    """A path with `~` for the person's home."""
    home = os.environ.get("HOME", "").rstrip("/")
    return f"~{path[len(home) :]}" if home and path.startswith(f"{home}/") else path


def _widths(cells: Sequence[Sequence[str]]) -> list[int]:
    return [max(cell_len(row[column]) for row in cells) for column in range(len(cells[0]))]


def _total(cells: Sequence[Sequence[str]]) -> int:
    widths = _widths(cells)
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _narrow(cells: list[list[str]], at: int, excess: int) -> None:
    """Take `excess` columns from one column; its name stays."""
    if excess > 0:
        room = max(cell_len(cells[0][at]), MIN_CUT, _widths(cells)[at] - excess)
        for row in cells:
            if cell_len(row[at]) > room:
                row[at] = f"{set_cell_size(row[at], room - 1).rstrip()}…"


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
