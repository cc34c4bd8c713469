"""A few lines of a file for an error: which ones, as text, and which of them were shown in full. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from agents.rules.line_set import LineSet
from agents.rules.text import TextFile

MAX_LINES = 40
MAX_LINE_CHARS = 512

_CONTEXTS = (8, 4, 2, 1, 0)


@attrs.frozen
class Excerpt:
    """Some lines of one version."""

    content: str
    """`[<path>#<TAG>]`, then `N:text` rows, as Read shows them."""
    lines: LineSet
    """The lines in it."""
    whole: LineSet
    """Those that were not clipped: they count as seen."""
    complete: bool
    """Whether every line asked for is there, unclipped."""


def excerpt(text: TextFile, wanted: LineSet, *, path: str, tag: str) -> Excerpt:
    """The first `MAX_LINES` of the `wanted` lines, each clipped at `MAX_LINE_CHARS` characters."""
    shown = [line for line, _ in zip(wanted, range(MAX_LINES), strict=False)]
    rows = [f"[{path}#{tag}]"]
    whole: list[int] = []
    for number in shown:
        line = text.shown_lines[number - 1]
        if len(line) <= MAX_LINE_CHARS:
            whole.append(number)
            rows.append(f"{number}:{line}")
        else:
            rows.append(f"{number}:{line[:MAX_LINE_CHARS]}… [clipped, {len(line)} characters]")
    return Excerpt(
        content="\n".join(rows),
        lines=LineSet.of(shown),
        whole=LineSet.of(whole),
        complete=len(whole) == len(wanted),
    )


def around(text: TextFile, anchors: Iterable[tuple[int, int]], *, path: str, tag: str) -> Excerpt:
    """The lines around `anchors` (ranges of lines, wherever they lie), with as much context as fits."""
    count = len(text.lines)
    ranges = [(_within(first, count), _within(last, count)) for first, last in anchors] if count else []
    wanted = LineSet()
    for context in _CONTEXTS:
        wanted = _union((max(1, first - context), min(count, last + context)) for first, last in ranges)
        if len(wanted) <= MAX_LINES:
            break
    return excerpt(text, wanted, path=path, tag=tag)


def _within(line: int, count: int) -> int:
    return max(1, min(line, count))


def _union(ranges: Iterable[Sequence[int]]) -> LineSet:
    found = LineSet()
    for first, last in ranges:
        found |= LineSet.of(range(first, last + 1))
    return found
