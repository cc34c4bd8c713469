"""Decoded JSON of any depth: what is nested too deep could be taken in, but not stored or sent on. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MAX_NESTING = 700
"""Encoders and decoders recurse up to the interpreter's limit (1000), on top of the frames that they find."""


MAX_PARTS = 1_000_000
"""Of one value: in YAML a few lines can stand for more than fits in memory."""


def too_deep(value: Any, most: int = MAX_NESTING) -> bool:
    """Whether objects and lists are nested more than `most` deep; ends for one that contains itself, too."""
    level = [value]
    for _ in range(most + 1):
        holders = [item for item in level if isinstance(item, dict | list)]
        if not holders:
            return False
        # one of each: the same holder may stand in many places
        unique = {id(item): item for item in holders}.values()
        level = [child for item in unique for child in (item.values() if isinstance(item, dict) else item)]
    return True


def map_texts(
    value: Any, change: Callable[[str], str], *, keys: bool = False, most: int | None = None
) -> Any:
    """A copy of `value` with every text changed, in `keys` of objects if asked; without recursion.

    Raises OverflowError for more than `most` parts.
    """
    whole: list[Any] = [value]
    left: list[tuple[Any, Any]] = [(whole, 0)]
    parts = 0
    while left:
        parts += 1
        if most is not None and parts > most:
            raise OverflowError
        holder, key = left.pop()
        item = holder[key]
        if isinstance(item, str):
            holder[key] = change(item)
        elif isinstance(item, dict):
            copy = {change(k) if keys and isinstance(k, str) else k: v for k, v in item.items()}
            holder[key] = copy
            left.extend((copy, each) for each in reversed(copy))
        elif isinstance(item, list | tuple):
            holder[key] = list(item)
            left.extend((holder[key], each) for each in reversed(range(len(item))))
    return whole[0]
