"""What a model response means for the loop. Pure."""

from __future__ import annotations

import attrs

from agents.errors import ErrorCode, ToolError
from agents.models.base import CallChunk, ModelResponse


@attrs.frozen
class RunTools:
    """Run these calls and ask again."""

    calls: tuple[CallChunk, ...]


@attrs.frozen
class Finish:
    """The model has said its last word."""

    text: str


@attrs.frozen
class AskAgain:
    """Neither a call nor visible text: ask once more."""


@attrs.frozen
class Stop:
    """The run cannot go on."""

    error: ToolError


NextStep = RunTools | Finish | AskAgain | Stop


def next_step(response: ModelResponse, *, empty_before: int) -> NextStep:
    """Decide. `empty_before` counts the empty responses directly before this one."""
    if response.calls:
        return RunTools(response.calls)
    if response.text.strip():
        return Finish(response.text)
    if empty_before == 0:
        return AskAgain()
    return Stop(
        ToolError(
            code=ErrorCode.EMPTY_MODEL_RESPONSE,
            message="The model answered twice with neither a tool call nor visible text. "
            "Ask again with a more specific prompt, or choose another model.",
            retriable=True,
        )
    )
