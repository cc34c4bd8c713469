"""Putting lines into a text without touching any other byte. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from agents.rules.line_set import LineSet
from agents.rules.ops import Append, Delete, Insert, LineOp, Replace
from agents.rules.text import TextFile

_MARK = "\ufeff"


@attrs.frozen(order=True)
class Splice:
    """Lines `start`..`end` (indexes from 0, `end` excluded) become `lines`."""

    start: int
    end: int
    lines: tuple[str, ...] = attrs.field(order=False)
    like: int = attrs.field(order=False)
    """Index of the line whose ending an inserted line takes."""


@attrs.frozen
class Spliced:
    """The new text, and where its lines come from."""

    text: TextFile
    written: LineSet
    """Lines that were put in."""
    kept: tuple[tuple[int, int, int], ...]
    """First and last old line, and by how much they moved."""

    def carry(self, lines: LineSet) -> LineSet:
        """Old `lines` in the new numbering, without those that are gone."""
        carried = LineSet()
        for first, last, by in self.kept:
            carried |= lines.moved(first, last, by)
        return carried


def place(op: LineOp, count: int, offset: int) -> Splice:
    """Where `op` lands in a text of `count` lines whose lines stand `offset` below their tagged numbers.

    The head and the end do not move with the lines.
    """
    match op:
        case Replace(start=start, end=end, lines=lines):
            return Splice(start - 1 + offset, end + offset, lines, start - 1 + offset)
        case Delete(start=start, end=end):
            return Splice(start - 1 + offset, end + offset, (), start - 1 + offset)
        case Insert(anchor=0, lines=lines):
            return Splice(0, 0, lines, 0)
        case Insert(anchor=anchor, lines=lines):
            return Splice(op.gap + offset, op.gap + offset, lines, anchor - 1 + offset)
        case Append(lines=lines):
            return Splice(count, count, lines, count - 1)


def splice(old: TextFile, splices: Iterable[Splice]) -> Spliced:
    """Apply splices that do not overlap.

    A replacing line takes the ending of the line whose place it has (further ones that of the last), an
    inserted line that of its anchor. Whether the file ends in a newline stays as it was, except that a file
    which was empty gets one.
    """
    lines: list[str] = []
    endings: list[str] = []
    kept: list[tuple[int, int, int]] = []
    written = LineSet()
    at = 0
    for item in [*sorted(splices), Splice(len(old.lines), len(old.lines), (), 0)]:
        if item.start > at:
            kept.append((at + 1, item.start, len(lines) - at))
            lines.extend(old.lines[at : item.start])
            endings.extend(old.endings[at : item.start])
        if item.lines:
            written |= LineSet.of(range(len(lines) + 1, len(lines) + len(item.lines) + 1))
            lines.extend(item.lines)
            endings.extend(_endings(old, item))
        at = item.end
    if 1 in written:
        lines[0] = lines[0].removeprefix(_MARK)  # the file's own mark is kept aside and never doubled
    text = attrs.evolve(old, lines=tuple(lines), endings=_settled(old, endings))
    return Spliced(text=text, written=written, kept=tuple(kept))


def _endings(old: TextFile, item: Splice) -> list[str]:
    if not old.lines:
        return ["\n"] * len(item.lines)
    replaced = old.endings[item.start : item.end] or old.endings[item.like : item.like + 1]
    return [replaced[min(index, len(replaced) - 1)] for index in range(len(item.lines))]


def _settled(old: TextFile, endings: list[str]) -> tuple[str, ...]:
    """No line inside without an ending; the last one with or without, as before."""
    usual = next((ending for ending in reversed(old.endings) if ending), "\n")
    settled = [ending or usual for ending in endings]
    if settled and old.lines and not old.final_newline:
        settled[-1] = ""
    return tuple(settled)
