"""`LineSet`: which lines of a file were seen, as ranges, so that a million of them cost nothing. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs


@attrs.frozen
class LineSet:
    """A set of 1-based line numbers. Build it with `LineSet.of`."""

    ranges: tuple[tuple[int, int], ...] = ()
    """Inclusive, ascending, neither overlapping nor touching."""

    @classmethod
    def of(cls, lines: Iterable[int]) -> LineSet:
        """The set of `lines`, in any order, with or without repeats."""
        if isinstance(lines, LineSet):
            return lines
        if isinstance(lines, range) and lines.step == 1:
            return cls(((lines.start, lines.stop - 1),) if lines else ())
        return cls(_merged([(line, line) for line in sorted(set(lines))]))

    def __or__(self, other: LineSet) -> LineSet:
        return LineSet(_merged(sorted(self.ranges + other.ranges)))

    def __contains__(self, line: int) -> bool:
        return any(first <= line <= last for first, last in self.ranges)

    def __iter__(self) -> Iterator[int]:
        for first, last in self.ranges:
            yield from range(first, last + 1)

    def __str__(self) -> str:
        """In words: `3`, `3-5, 9`."""
        return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in self.ranges)

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.ranges)

    def moved(self, first: int, last: int, by: int) -> LineSet:
        """The lines of the set in `first`..`last`, each moved by `by`."""
        return LineSet(
            tuple(
                (max(low, first) + by, min(high, last) + by)
                for low, high in self.ranges
                if low <= last and high >= first
            )
        )

    def missing(self, first: int, last: int) -> LineSet:
        """The lines of `first`..`last` (inclusive) that are not in the set."""
        gaps: list[tuple[int, int]] = []
        at = first
        for low, high in self.ranges:
            if high < at:
                continue
            if low > last:
                break
            if low > at:
                gaps.append((at, low - 1))
            at = high + 1
        if at <= last:
            gaps.append((at, last))
        return LineSet(tuple(gaps))


def _merged(ranges: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for first, last in ranges:
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return tuple(merged)
