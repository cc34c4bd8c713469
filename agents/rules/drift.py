"""Which lines of one text are which lines of another: the alignment under diffs and drift recovery. Pure.

Lines that occur exactly once in both texts are anchors (the longest run of them in the same order); from
each anchor, and from both ends, equal neighbours are matched outwards. Time grows with the lines (times the
logarithm of the anchors), never with their square.
"""

from __future__ import annotations

import bisect
import itertools
from collections import Counter
from collections.abc import Sequence

import attrs


@attrs.frozen
class LineMap:
    """Old line → new line for the lines that are certainly the same ones. Lines are 1-based here."""

    positions: tuple[int | None, ...]
    """New line by old line - 1; None: changed, gone, or not certain which."""
    old_count: int
    new_count: int
    unique: frozenset[int]
    """Old lines whose text occurs once in both texts."""

    def new(self, line: int) -> int | None:
        """Where old `line` stands now. Line 0 is the head and `old_count + 1` the end: both always map."""
        if line == 0:
            return 0
        if line == self.old_count + 1:
            return self.new_count + 1
        return self.positions[line - 1]

    def offset(self, line: int) -> int | None:
        """By how much old `line` moved."""
        at = self.new(line)
        return None if at is None else at - line

    def certain(self, line: int) -> bool:
        """Whether the neighbours confirm where `line` stands: one if its text is unique, else both."""
        offset = self.offset(line)
        if offset is None:
            return False
        agreeing = (self.offset(line - 1) == offset) + (self.offset(line + 1) == offset)
        return agreeing >= (1 if line in self.unique else 2)

    def near(self, line: int) -> int:
        """The best guess where to look for old `line`, within 1..new_count (0 in an empty text)."""
        for back in range(min(line, self.old_count), -1, -1):
            at = self.new(back)
            if at is not None:
                return max(min(at + line - back, self.new_count), min(1, self.new_count))
        return min(line, self.new_count)  # unreachable: line 0 always maps


def map_lines(old: Sequence[str], new: Sequence[str]) -> LineMap:
    """Map the unchanged lines of `old` to `new`.

    Between two anchors a run of equal lines can often be matched from the left or from the right. Where the
    two differ it is not certain which line is which (one more copy of a repeated line came in), and none is
    mapped.
    """
    anchors = _anchors(old, new)
    left = _align(old, new, anchors, from_left=True)
    right = _align(old, new, anchors, from_left=False)
    positions = tuple(None if a is None or a != b else a + 1 for a, b in zip(left, right, strict=True))
    unique = _unique_in_both(old, new)
    return LineMap(
        positions=positions,
        old_count=len(old),
        new_count=len(new),
        unique=frozenset(index + 1 for index, line in enumerate(old) if line in unique),
    )


def align(old: Sequence[str], new: Sequence[str]) -> list[int | None]:
    """For each old index (from 0) the new index of the same line, ascending, as a diff shows it."""
    shorter = min(len(old), len(new))
    head = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    rest = shorter - head
    tail = next((back for back in range(rest) if old[-1 - back] != new[-1 - back]), rest)
    before, after = old[head : len(old) - tail], new[head : len(new) - tail]
    middle = _align(before, after, _anchors(before, after), from_left=True)
    return [
        *range(head),
        *(None if at is None else at + head for at in middle),
        *range(len(new) - tail, len(new)),
    ]


def _unique_in_both(old: Sequence[str], new: Sequence[str]) -> set[str]:
    once_old = {line for line, count in Counter(old).items() if count == 1}
    return {line for line, count in Counter(new).items() if count == 1 and line in once_old}


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    unique = _unique_in_both(old, new)
    where = {line: index for index, line in enumerate(new) if line in unique}
    pairs = [(index, where[line]) for index, line in enumerate(old) if line in unique]
    return [pairs[index] for index in _longest_rising([b for _, b in pairs])]


def _longest_rising(values: list[int]) -> list[int]:
    """Indexes of a longest strictly rising subsequence (patience sorting)."""
    tops: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for index, value in enumerate(values):
        pile = bisect.bisect_left(tops, value)
        before.append(ends[pile - 1] if pile else -1)
        if pile == len(tops):
            tops.append(value)
            ends.append(index)
        else:
            tops[pile] = value
            ends[pile] = index
    chain: list[int] = []
    at = ends[-1] if ends else -1
    while at >= 0:
        chain.append(at)
        at = before[at]
    return chain[::-1]


def _align(
    old: Sequence[str], new: Sequence[str], anchors: list[tuple[int, int]], *, from_left: bool
) -> list[int | None]:
    positions: list[int | None] = [None] * len(old)
    fences = [(-1, -1), *anchors, (len(old), len(new))]
    for index, at in anchors:
        positions[index] = at
    for (old_before, new_before), (old_after, new_after) in itertools.pairwise(fences):
        low_old, low_new, high_old, high_new = old_before + 1, new_before + 1, old_after, new_after
        for rightwards in (from_left, not from_left):
            while low_old < high_old and low_new < high_new:
                at_old, at_new = (low_old, low_new) if rightwards else (high_old - 1, high_new - 1)
                if old[at_old] != new[at_new]:
                    break
                positions[at_old] = at_new
                if rightwards:
                    low_old, low_new = low_old + 1, low_new + 1
                else:
                    high_old, high_new = high_old - 1, high_new - 1
    return positions
