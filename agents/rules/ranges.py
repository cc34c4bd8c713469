"""Where the operations of one Edit stand in the tagged text; that they stand clear of each other. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import attrs

from agents.errors import ErrorCode, ToolError
from agents.rules.blocks import Block, Unresolved, resolve_blocks
from agents.rules.ops import (
    Append,
    BlockOp,
    Delete,
    DeleteBlock,
    Insert,
    InsertAfterBlock,
    LineOp,
    Op,
    Replace,
    ReplaceBlock,
    anchored,
    refusal,
)
from agents.rules.text import TextFile

_END = -1
"""The gap at the end of a text whose length is not known."""


@attrs.frozen
class Located:
    """Operations on lines alone."""

    ops: tuple[LineOp, ...]
    spans: tuple[str, ...] = ()
    """What each block operation came to, as `replaceBlock 12-40`."""


def locate(ops: Sequence[Op], text: TextFile, path: str) -> Located | ToolError:
    """Turn block operations into the line operations that they stand for in the tagged `text`.

    EDIT_RANGE_INVALID comes before EDIT_BLOCK_UNRESOLVED, and again after it for what the blocks then touch.
    """
    problem = range_problem(ops, len(text.lines))
    if problem is not None:
        return problem
    named = [op for op in ops if isinstance(op, BlockOp)]
    blocks = (
        dict(zip(named, resolve_blocks(path, text, [op.line for op in named]), strict=True)) if named else {}
    )
    placed: list[LineOp] = []
    spans: list[str] = []
    for op in ops:
        if not isinstance(op, BlockOp):
            placed.append(op)
            continue
        block = blocks[op]
        if isinstance(block, Unresolved):
            return _unresolved(op, block, path)
        placed.append(_placed(op, block))
        spans.append(f"{_NAMES[type(op)]} {block.start}-{block.end}")
    problem = range_problem(placed, len(text.lines)) if named else None
    return problem or Located(tuple(placed), tuple(spans))


_NAMES: dict[type, str] = {
    ReplaceBlock: "replaceBlock",
    DeleteBlock: "deleteBlock",
    InsertAfterBlock: "insertAfterBlock",
}


def _placed(op: BlockOp, block: Block) -> LineOp:
    match op:
        case ReplaceBlock(number=number, lines=lines):
            return Replace(number, block.start, block.end, lines)
        case DeleteBlock(number=number):
            return Delete(number, block.start, block.end)
        case InsertAfterBlock(number=number, lines=lines):
            return Insert(number, block.end, "after", lines, opener=block.start)


def _unresolved(op: BlockOp, block: Unresolved, path: str) -> ToolError:
    instead = {
        ReplaceBlock: f'{{"op": "replace", "start": {op.line}, "end": …, "text": "…"}}',
        DeleteBlock: f'{{"op": "delete", "start": {op.line}, "end": …}}',
        InsertAfterBlock: '{"op": "insert", "after": …, "text": "…"}',
    }[type(op)]
    return refusal(
        ErrorCode.EDIT_BLOCK_UNRESOLVED,
        f"Operation {op.number}: {_NAMES[type(op)]} cannot tell the block at line {op.line} of {path}: "
        f"{block.why}. Nothing was written.",
        f"Use explicit lines instead: {instead}, with the block's own line numbers.",
    )


def range_problem(ops: Sequence[Op], count: int | None) -> ToolError | None:
    """What is wrong with the ranges of `ops` in a text of `count` lines (None: not known), if anything is."""
    for op in ops:
        problem = _bounds_problem(op, count)
        if problem is not None:
            return problem
    for one, other in itertools.combinations(ops, 2):
        where = _clash(one, other, count)
        if where is not None:
            return _invalid(
                f"Operations {one.number} and {other.number} both stand on {where}.",
                "Join them into one operation: which comes first must not be a guess.",
            )
    return None


def _bounds_problem(op: Op, count: int | None) -> ToolError | None:
    match op:
        case Replace(start=start, end=end) | Delete(start=start, end=end):
            if start > end:
                return _invalid(
                    f"Operation {op.number}: start {start} is after end {end}.",
                    f"Send start {end} and end {start}.",
                )
            first, last = start, end
        case Insert(anchor=anchor):
            if anchor == 0 and op.side == "after":
                return None
            first = last = anchor
        case Append():
            return None
        case _:
            first = last = op.line
    if first >= 1 and (count is None or last <= count):
        return None
    span = str(first) if first == last else f"{first}-{last}"
    problem = f"Operation {op.number}: line {span} is outside the file, which has {count_words(count)}."
    if count == 0:
        return _invalid(problem, 'Use {"op": "append"} to put lines into an empty file.')
    if first < 1:
        return _invalid(problem, 'Use a line number from 1, or {"op": "insert", "after": 0} for the head.')
    return _invalid(problem, f'Use line numbers from 1 to {count}, or {{"op": "append"}} for the end.')


def count_words(count: int | None) -> str:
    """A number of lines in words."""
    match count:
        case None:
            return "lines from 1 on"
        case 0:
            return "no lines"
        case 1:
            return "1 line"
        case _:
            return f"{count} lines"


def _clash(one: Op, other: Op, count: int | None) -> str | None:
    """The place that both operations claim, in words."""
    first, second = anchored(one), anchored(other)
    if first is not None and second is not None:
        low, high = max(first[0], second[0]), min(first[1], second[1])
        if low <= high:
            return f"line {low}" if low == high else f"lines {low}-{high}"
    gaps = _gap(one, count), _gap(other, count)
    if gaps[0] is not None and gaps[0] == gaps[1]:
        return "the end of the file" if gaps[0] in (count, _END) else f"the place after line {gaps[0]}"
    return None


def _gap(op: Op, count: int | None) -> int | None:
    match op:
        case Insert():
            return op.gap
        case Append():
            return _END if count is None else count
        case _:
            return None


def _invalid(problem: str, step: str) -> ToolError:
    return refusal(ErrorCode.EDIT_RANGE_INVALID, f"{problem} Nothing was written.", step)
