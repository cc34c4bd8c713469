"""ToolSearch: activates tools that are listed by name only. It executes nothing and permits nothing."""

from __future__ import annotations

from typing import Annotated

import msgspec

from agents.errors import ErrorCode, failure
from agents.permit import Permit
from agents.results import FoundTool, ToolSearchResult
from agents.rules.paths import ResolvedPath
from agents.rules.tool_search import MAX_MATCHES
from agents.tools.active import SEARCH
from agents.tools.base import CallGroup, Preview, Risk, Target, ToolContext, ToolOutput

MAX_QUERY_CHARS = 500


class ToolSearchInput(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    query: Annotated[
        str,
        msgspec.Meta(
            min_length=1,
            max_length=MAX_QUERY_CHARS,
            description="The exact name of a tool, or a few words that say what it should do.",
        ),
    ]


class ToolSearchTool:
    name = SEARCH
    description = (
        "Activate tools that are listed by name only. `query` is the exact name of a tool, or a few words "
        f"that say what it should do; the best matches, at most {MAX_MATCHES}, can be called from your next "
        "turn on, until the person's current prompt has been answered. Nothing is executed by it, and what "
        "needs a permission still needs it."
    )
    risk: Risk = "low"
    # A call that follows in the same batch finds the tool active: the order of the calls counts.
    group = CallGroup.ALONE
    input = ToolSearchInput
    timeout_seconds: float | None = 10.0

    def targets(self, arguments: ToolSearchInput) -> tuple[Target, ...]:
        return ()

    async def check(
        self, arguments: ToolSearchInput, paths: tuple[ResolvedPath, ...], context: ToolContext
    ) -> Preview | None:
        return None

    async def run(self, arguments: ToolSearchInput, permit: Permit, context: ToolContext) -> ToolOutput:
        """Raises `Failure`: NOT_FOUND where nothing matches, with the names there are."""
        active = context.active
        cards = () if active is None else active.deferred
        found = None if active is None else active.search(arguments.query)
        if found is None or not (found.activated or found.active_before):
            there_is = ", ".join(card.name for card in cards) or "none"
            raise failure(
                ErrorCode.NOT_FOUND,
                f"No tool matches {arguments.query!r}. Give the exact name of one that can be activated: "
                f"{there_is}.",
                details={"tools": [card.name for card in cards]},
            )
        return ToolOutput(
            ToolSearchResult(
                activated=tuple(FoundTool(name=card.name, summary=card.summary) for card in found.activated),
                already_active=found.active_before,
                notice="They can be called now, until the person's current prompt has been answered.",
            )
        )
