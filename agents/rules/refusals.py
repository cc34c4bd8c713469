"""What the model is told when a permission request was closed without a yes. Pure."""

from __future__ import annotations

from agents.errors import ErrorCode, ToolError
from agents.requests import Answer, Decision, DenialReason, PermissionRequest
from agents.rules.advice import UNJUDGED, options_for

MAX_FEEDBACK_CHARS = 2000

REASONS: dict[Decision, DenialReason] = {
    Decision.DENY: "user",
    Decision.TIMEOUT: "timeout",
    Decision.CANCELLED: "cancelled",
    Decision.NO_APPROVER: "no-approver",
}
"""`details.reason` of every decision that lets nothing run."""

KEEPS_CHANGING = ToolError(
    code=ErrorCode.CONFLICT,
    message="Not executed: the path came to mean another place each time an answer was given. "
    "Name the real file instead of a link, and make the call again.",
)
"""A call whose paths changed after every answer."""


def refusal(
    reason: DenialReason, request: PermissionRequest, answer: Answer, timeout_seconds: float
) -> ToolError:
    """TOOL_DENIED for one closed request; nothing was executed. The message names one next step."""
    details: dict[str, str] = {"reason": reason, "requestId": request.id}
    feedback = (answer.feedback or "").strip()[:MAX_FEEDBACK_CHARS]
    if feedback:
        details["feedback"] = feedback
    return ToolError(
        code=ErrorCode.TOOL_DENIED,
        message="Not executed: " + _text(reason, request, answer.source, feedback, timeout_seconds),
        details=dict(details),
    )


def _text(
    reason: DenialReason, request: PermissionRequest, source: str, feedback: str, timeout_seconds: float
) -> str:
    tool = request.tool
    match reason:
        case "user" if feedback:
            return f"the user denied this {tool} call and says: {feedback}"
        case "user" if source == "approver failed":
            return f"the approver of this {tool} call failed. Go on without it and say so in your answer."
        case "user":
            return f"the user denied this {tool} call. Do not repeat it; reach the goal in another way."
        case "timeout":
            return (
                f"nobody answered the request for this {tool} call within {timeout_seconds:g} s (and nobody "
                "denied it). Go on without it and say in your answer what still waits for an approval."
            )
        case "cancelled":
            return (
                f"the request for this {tool} call was withdrawn because the run was ended. "
                "Make the call again if it is still wanted when the run goes on."
            )
        case _:
            return f"this {tool} call needs an approval and there is nobody to ask. {_why(request)}{_nobody(request)}"


def _why(request: PermissionRequest) -> str:
    """What made it ask, where the arguments themselves did: other ones may not."""
    reason = request.reason.strip()
    if not reason:
        return ""
    if UNJUDGED in reason:
        return f"{reason} If it is not what you meant (an open quote, say), write it anew. "
    return f"{reason} "


def _nobody(request: PermissionRequest) -> str:
    options = " or ".join(f"`{option}`" for option in options_for(request))
    if not options:
        return (
            "It asks in every mode, and no option allows it in advance. Go on without it, and tell the user "
            "to run this on a terminal, or with `--permission-prompts inbox` to be asked elsewhere."
        )
    return (
        f"Go on without it, and tell the user what allows it: {options}, or "
        "`--permission-prompts inbox` to be asked."
    )
