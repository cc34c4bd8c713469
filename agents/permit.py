"""`Permit`: the proof that the gate let one call through. Only `agents.gate` makes one."""

from __future__ import annotations

from typing import Any, final

import attrs
import msgspec

from agents.requests import Answer
from agents.rules.hidden import Hidden
from agents.rules.paths import ResolvedPath


@final
@attrs.frozen(init=False)
class Permit:
    """May run exactly once, with exactly these arguments on exactly these paths."""

    call_id: str
    tool: str
    arguments: msgspec.Struct
    """Decoded and checked; byte for byte what was shown if somebody was asked."""
    paths: tuple[ResolvedPath, ...]
    """In the order of `Tool.targets`."""
    answer: Answer | None
    """Who allowed it, where somebody or something was asked; None: the table."""

    hidden: Hidden | None = None
    """What deny rules keep from a walk below the paths; None: nothing."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise TypeError("a Permit comes from Gate.admit alone")

    @classmethod
    def _create(
        cls,
        call_id: str,
        tool: str,
        arguments: msgspec.Struct,
        paths: tuple[ResolvedPath, ...],
        answer: Answer | None,
        hidden: Hidden | None = None,
    ) -> Permit:
        permit = object.__new__(cls)
        permit.__attrs_init__(call_id, tool, arguments, paths, answer, hidden)
        return permit
