"""What changed between two versions of a file: regions, counts and a unified diff of bounded length. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from agents.results import Hunk
from agents.rules.drift import align
from agents.rules.text import TextFile

CONTEXT = 3
MAX_DIFF_LINES = 200
MAX_LINE_CHARS = 500
MAX_HUNKS = 200
"""Regions that a record of a change keeps."""


def changes(old: TextFile, new: TextFile) -> tuple[Hunk, ...]:
    """The changed regions in order, without context. A line whose ending changed counts as changed."""
    positions = align(_keys(old), _keys(new))
    found: list[Hunk] = []
    at_old = at_new = 0
    for index, position in [*enumerate(positions), (len(positions), len(new.lines))]:
        if position is None:
            continue
        if index > at_old or position > at_new:
            found.append(_hunk(at_old, index - at_old, at_new, position - at_new))
        at_old, at_new = index + 1, position + 1
    return tuple(found)


def counts(hunks: Sequence[Hunk]) -> tuple[int, int]:
    """Added and removed lines."""
    return sum(hunk.new_lines for hunk in hunks), sum(hunk.old_lines for hunk in hunks)


def bounded(hunks: Sequence[Hunk]) -> tuple[Hunk, ...]:
    """At most `MAX_HUNKS` of `hunks`: the last one covers all that the others leave over."""
    if len(hunks) <= MAX_HUNKS:
        return tuple(hunks)
    kept, rest = hunks[: MAX_HUNKS - 1], hunks[MAX_HUNKS - 1 :]
    start, end = _first(rest[0]), _past(rest[-1])
    new_start = _first_new(rest[0])
    new_end = _first_new(rest[-1]) + rest[-1].new_lines
    return (*kept, _hunk(start, end - start, new_start, new_end - new_start))


def unified(
    old: TextFile,
    new: TextFile,
    path: str,
    *,
    created: bool = False,
    deleted: bool = False,
    moved_to: str | None = None,
) -> str:
    """A unified diff of at most `MAX_DIFF_LINES` lines; a cut says how many lines were left out."""
    before = "/dev/null" if created else f"a/{path}"
    after = "/dev/null" if deleted else f"b/{moved_to or path}"
    rows = [f"--- {before}", f"+++ {after}"]
    if moved_to is not None:
        rows[:0] = [f"rename from {path}", f"rename to {moved_to}"]
    for group in _groups(changes(old, new)):
        rows.extend(_rows(old, new, group))
    if len(rows) > MAX_DIFF_LINES:
        left_out = len(rows) - MAX_DIFF_LINES + 1
        rows[MAX_DIFF_LINES - 1 :] = [f"… {left_out} more diff lines"]
    return "\n".join(rows) + "\n"


def _keys(text: TextFile) -> list[str]:
    return [line + ending for line, ending in zip(text.lines, text.endings, strict=True)]


def _hunk(old_index: int, old_lines: int, new_index: int, new_lines: int) -> Hunk:
    # An empty side names the line before the gap, as `diff -u` does.
    return Hunk(
        old_start=old_index + (1 if old_lines else 0),
        old_lines=old_lines,
        new_start=new_index + (1 if new_lines else 0),
        new_lines=new_lines,
    )


def _groups(hunks: Sequence[Hunk]) -> list[list[Hunk]]:
    """Neighbouring regions whose contexts would touch are shown as one."""
    groups: list[list[Hunk]] = []
    for hunk in hunks:
        if groups and _first(hunk) - _past(groups[-1][-1]) <= 2 * CONTEXT:
            groups[-1].append(hunk)
        else:
            groups.append([hunk])
    return groups


def _first(hunk: Hunk) -> int:
    return hunk.old_start - (1 if hunk.old_lines else 0)


def _first_new(hunk: Hunk) -> int:
    return hunk.new_start - (1 if hunk.new_lines else 0)


def _past(hunk: Hunk) -> int:
    return _first(hunk) + hunk.old_lines


def _rows(old: TextFile, new: TextFile, group: Sequence[Hunk]) -> list[str]:
    start, stop = max(0, _first(group[0]) - CONTEXT), min(len(old.lines), _past(group[-1]) + CONTEXT)
    rows: list[str] = []
    at = start
    for hunk in group:
        rows.extend(_row(" ", old, index) for index in range(at, _first(hunk)))
        rows.extend(_row("-", old, index) for index in range(_first(hunk), _past(hunk)))
        first_new = _first_new(hunk)
        rows.extend(_row("+", new, index) for index in range(first_new, first_new + hunk.new_lines))
        at = _past(hunk)
    rows.extend(_row(" ", old, index) for index in range(at, stop))
    before = _first(group[0]) - start
    new_start = _first_new(group[0]) - before
    added, removed = counts(group)
    old_count = stop - start
    new_count = old_count + added - removed
    header = f"@@ -{_span(start, old_count)} +{_span(new_start, new_count)} @@"
    return [header, *(line for row in rows for line in row.split("\n"))]


def _span(index: int, count: int) -> str:
    return f"{index + (1 if count else 0)},{count}"


def _row(mark: str, text: TextFile, index: int) -> str:
    line = text.shown_lines[index]
    if len(line) > MAX_LINE_CHARS:
        line = f"{line[:MAX_LINE_CHARS]}… [{len(line)} characters]"
    if text.endings[index]:
        return f"{mark}{line}"
    return f"{mark}{line}\n\\ No newline at end of file"
