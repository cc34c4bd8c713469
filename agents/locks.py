"""Per-path mutation locks shared by all agents of a session."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from typing import Literal

import attrs
import trio

Waiting = Callable[[Literal["permission", "lock"]], AbstractContextManager[None]]
"""`ToolContext.waiting`: wraps the wait itself."""


class PathLocks:
    """Mutations of one canonical path one after the other; a shell patch excludes every mutation.

    Claims are granted in order of arrival, as far as they do not exclude each other: one path never waits
    for another, but nobody overtakes a waiting `exclusive`. A call makes one claim at most, and a claim on
    several paths is granted for all of them at once, so nothing can deadlock.
    """

    def __init__(self) -> None:
        self._claims: list[_Claim] = []

    def hold(self, canonical: str, waiting: Waiting) -> AbstractAsyncContextManager[None]:
        """Hold one path (on a case-insensitive volume the caller folds the case)."""
        return self._claimed(_Claim(frozenset({canonical})), waiting)

    def hold_all(self, canonicals: Iterable[str], waiting: Waiting) -> AbstractAsyncContextManager[None]:
        """Hold several paths: all or, while any of them is held by somebody else, none."""
        return self._claimed(_Claim(frozenset(canonicals)), waiting)

    def exclusive(self, waiting: Waiting) -> AbstractAsyncContextManager[None]:
        """Hold every path."""
        return self._claimed(_Claim(None), waiting)

    @property
    def held(self) -> int:
        """How many holders there are now (0 when the session is idle)."""
        return sum(claim.granted.is_set() for claim in self._claims)

    @asynccontextmanager
    async def _claimed(self, claim: _Claim, waiting: Waiting) -> AsyncIterator[None]:
        self._claims.append(claim)
        self._grant()
        try:
            if claim.granted.is_set():
                await trio.lowlevel.checkpoint()
            else:
                with waiting("lock"):
                    await claim.granted.wait()
            yield
        finally:  # also where the wait was cut: a claim that nobody waits for would block the path for ever
            self._claims.remove(claim)
            self._grant()

    def _grant(self) -> None:
        """Grant what no earlier claim excludes. Earlier ones hold, or stand before it in the queue."""
        for index, claim in enumerate(self._claims):
            if not claim.granted.is_set() and not any(map(claim.excludes, self._claims[:index])):
                claim.granted.set()


@attrs.frozen(eq=False)
class _Claim:
    paths: frozenset[str] | None
    """None: every path."""
    granted: trio.Event = attrs.field(factory=trio.Event)

    def excludes(self, other: _Claim) -> bool:
        return self.paths is None or other.paths is None or not self.paths.isdisjoint(other.paths)
