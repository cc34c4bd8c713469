"""Lines that fit a terminal: cut between words, and what continues a line hangs below its beginning."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from rich.cells import cell_len, get_character_cell_size

NARROWEST = 20
HANG = 2
_PIECES = re.compile(r"\s*\S+|\s+\Z")


def terminal_width(stream: Any = None) -> int | None:
    """Columns of the terminal that `stream` (standard output) is; None: it is none, and lines stay whole."""
    shown = sys.stdout if stream is None else stream
    try:
        if not shown.isatty():
            return None
    except (AttributeError, ValueError):  # closed
        return None
    return max(NARROWEST, shutil.get_terminal_size().columns)


def wrapped(text: str, width: int | None, hang: int | None = None) -> list[str]:
    """`text` as lines of at most `width` columns (None: as long as they are).

    What continues its first line, and every further line of its own, starts `hang` columns in: by default two
    more than the first line.
    """
    first, *rest = text.split("\n")
    deep = _indent(first) + HANG if hang is None else hang
    lines = list(_cut(first, width, deep))
    for line in rest:
        lines += _cut(f"{' ' * deep}{line}".rstrip(), width, deep + _indent(line))
    return lines


def all_wrapped(texts: Iterable[str], width: int | None) -> list[str]:
    """Each text by itself."""
    return [line for text in texts for line in wrapped(text, width)]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _cut(line: str, width: int | None, deep: int) -> Iterator[str]:
    if width is None or cell_len(line) <= width:
        yield line
        return
    deep = min(deep, width // 2)
    current, used = "", 0
    for piece in _PIECES.findall(line):
        size = cell_len(piece)
        if used + size > width and current.strip():
            yield current
            piece = piece.lstrip()
            current, used, size = " " * deep, deep, cell_len(piece)
        while used + size > width:
            head, piece = _broken(piece, width - used)
            yield current + head
            current, used, size = " " * deep, deep, cell_len(piece)
        current, used = current + piece, used + size
    if current.strip():
        yield current


def _broken(word: str, room: int) -> tuple[str, str]:
    """A word that is longer than a line: as much of it as has room, at least one character, and the rest."""
    used = 0
    for index, char in enumerate(word):
        used += get_character_cell_size(char)
        if used > room and index:
            return word[:index], word[index:]
    return word, ""
