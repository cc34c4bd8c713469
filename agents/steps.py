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
    limit: bool = False
    """Whether a limit ended it: what there is was cut, not wrong."""


NextStep = RunTools | Finish | AskAgain | Stop


CUT_REASONS = frozenset({"length", "max_tokens", "max_output_tokens", "model_context_window_exceeded"})
"""The providers' words for an answer that stops where their output limit is, in the middle of a sentence."""
WITHHELD_REASONS = frozenset({"content_filter", "refusal"})

_CUT = ToolError(
    code=ErrorCode.BUDGET_LIMIT,
    message="The model's answer was cut at its output limit, so the run did not come to an end. Resume it to go "
    "on, ask for a shorter answer, or raise the model's output limit.",
    retriable=True,
    details={"limit": "output tokens"},
)
_WITHHELD = ToolError(
    code=ErrorCode.PROVIDER_ERROR,
    message="The provider withheld the model's answer, or a part of it. Word the task differently, or choose "
    "another model.",
    details={"reason": "withheld"},
)


def next_step(response: ModelResponse, *, empty_before: int) -> NextStep:
    """Decide. `empty_before` counts the empty responses directly before this one."""
    if response.calls:
        return RunTools(response.calls)
    if response.finish.reason in CUT_REASONS:
        return Stop(_CUT, limit=True)
    if response.finish.reason in WITHHELD_REASONS:
        return Stop(_WITHHELD)
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
