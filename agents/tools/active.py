"""`ActiveTools`: which of an agent's tools its requests carry. Pure.

The tools that an agent has never change while it works; this set only says which of them the model is told
of in full, and may call. An agent lives for one prompt of the person (or one run of a delegate), and its set
with it.
"""

from __future__ import annotations

import attrs

from agents.errors import ErrorCode, ToolError
from agents.rules.tool_search import ToolCard, find_tools

SEARCH = "ToolSearch"


@attrs.frozen
class Activation:
    """What one search came to."""

    activated: tuple[ToolCard, ...]
    active_before: tuple[str, ...]
    """Tools that the query means and that could be called already."""


@attrs.define
class ActiveTools:
    """The active ones among the tools that an agent has."""

    names: tuple[str, ...]
    """Every tool that the agent has."""
    deferred: tuple[ToolCard, ...] = ()
    """Those that are listed by name only, until they are activated."""
    _activated: dict[str, None] = attrs.field(factory=dict)

    @property
    def searchable(self) -> bool:
        """Whether the agent can activate tools."""
        return SEARCH in self.names

    def has(self, name: str) -> bool:
        """Whether the agent can come to call the tool: now, or after an activation."""
        return name in self.names and (self.searchable or name in self)

    def __contains__(self, name: str) -> bool:
        """Whether the tool is active."""
        return name in self._activated or (name in self.names and name not in self._deferred_names)

    @property
    def in_request(self) -> tuple[str, ...]:
        """The active tools as the model is told of them: an activation adds at the end."""
        return (*(name for name in self.names if name not in self._deferred_names), *self._activated)

    @property
    def _deferred_names(self) -> frozenset[str]:
        return frozenset(card.name for card in self.deferred)

    def search(self, query: str) -> Activation:
        """Activate what `query` means, for as long as the agent works. Executes nothing."""
        wanted = query.strip().casefold()
        if exact := [name for name in self.in_request if name.casefold() == wanted]:
            return Activation((), tuple(exact))
        found = find_tools(query, self.deferred)
        new = tuple(card for card in found if card.name not in self._activated)
        before = tuple(card.name for card in found if card.name in self._activated)
        self._activated.update(dict.fromkeys(card.name for card in new))
        return Activation(new, before)


def not_active(name: str) -> ToolError:
    """What a direct call to a tool that was not activated is answered with."""
    return ToolError(
        code=ErrorCode.TOOL_NOT_ACTIVE,
        message=f"{name} is not active in this prompt. Call {SEARCH} with the query {name!r}, then repeat "
        "this call.",
        details={"suggestedTool": SEARCH, "suggestedArgs": {"query": name}},
        retriable=True,
    )
