"""What one finished call means for the mutation guard: the count, its events, the terminal error."""

from __future__ import annotations

from typing import Any

import attrs

from agents.agent import Agent
from agents.errors import Failure, ToolError
from agents.events import AnyPayload, RecoveryCounted, RecoveryExhausted, RecoveryGrace
from agents.messages import ToolCall
from agents.rules.recovery import (
    EDIT,
    Counted,
    Exhausted,
    Grace,
    Key,
    NotCounted,
    Verdict,
    annotate,
    cleared_by,
    exhausted_error,
    key_of,
)
from agents.rules.shell import parse_line, patch_command
from agents.tools.base import ToolOutput
from telemetry import attributes as names
from telemetry.spans import Span

OUTSIDE = "(outside)"


@attrs.frozen
class CountedCall:
    """The call's error as the model gets it, events to store, and the terminal error if it ended the run."""

    error: ToolError | None
    payloads: tuple[AnyPayload, ...] = ()
    terminal: ToolError | None = None


def count(agent: Agent, call: ToolCall, span: Span, output: ToolOutput) -> CountedCall:
    """Apply the guard to one finished call. It does not wait, so agents cannot interleave in it."""
    if call.tool not in ("Edit", "Write", "Bash"):
        return CountedCall(output.error)
    canonical, display, outside = _place(agent, call)
    patch = call.tool == "Bash" and _is_patch(call.arguments)
    if output.error is None:
        cleared = cleared_by(agent.owner, call.tool, canonical, patch)
        if cleared is not None:
            agent.recovery.succeeded(cleared)
        return CountedCall(None)
    key = key_of(agent.owner, call.tool, canonical, patch)
    if key is None:
        return CountedCall(output.error)
    verdict = agent.recovery.failed(key, output.error.code)
    # a span shows no path outside the roots: that is content
    shown = OUTSIDE if outside else display or key.target
    return _judged(agent, key, display or key.target, shown, verdict, output.error, span)


def _judged(
    agent: Agent, key: Key, target: str, shown: str, verdict: Verdict, error: ToolError, span: Span
) -> CountedCall:
    annotated = annotate(error, verdict)
    fields: dict[str, Any] = {"kind": key.kind, "target": target, "code": error.code.value}
    noted = fields | {"target": shown}
    match verdict:
        case NotCounted():
            return CountedCall(annotated)
        case Grace(attempt=attempt, limit=limit):
            agent.tally.graces += 1
            _note(agent, span, names.RECOVERY_GRACE, noted, attempt, limit)
            return CountedCall(annotated, (RecoveryGrace(**fields, attempt=attempt, limit=limit),))
        case Counted(attempt=attempt, limit=limit):
            agent.tally.counted += 1
            _note(agent, span, names.RECOVERY_COUNTED, noted, attempt, limit)
            return CountedCall(annotated, (RecoveryCounted(**fields, attempt=attempt, limit=limit),))
        case Exhausted(attempt=attempt, limit=limit):
            agent.tally.counted += 1
            _note(agent, span, names.RECOVERY_COUNTED, noted, attempt, limit)
            _note(agent, span, names.RECOVERY_EXHAUSTED, noted, attempt, limit)
            # beside the event: viewers find attributes, and events hardly
            agent.span.set_attributes({names.RECOVERY_KIND: key.kind, names.RECOVERY_TARGET: shown})
            payloads = (
                RecoveryCounted(**fields, attempt=attempt, limit=limit),
                RecoveryExhausted(**fields, attempt=attempt, limit=limit),
            )
            hint = annotated.details.get("hint")
            terminal = exhausted_error(key, error.code, hint, display=target if key.kind == EDIT else None)
            return CountedCall(annotated, payloads, terminal)


def _note(agent: Agent, span: Span, event: str, fields: dict[str, Any], attempt: int, limit: int) -> None:
    agent.span.add_event(
        event,
        {
            names.RECOVERY_TARGET: fields["target"],
            names.RECOVERY_KIND: fields["kind"],
            names.RECOVERY_ATTEMPT: attempt,
            names.RECOVERY_LIMIT: limit,
            names.ERROR_TYPE: fields["code"],
            names.ORIGIN_SPAN: span.span_id,
        },
    )


def _place(agent: Agent, call: ToolCall) -> tuple[str | None, str | None, bool]:
    """Canonical key and display form of the call's path, None where it names no usable one; and whether it
    lies outside the roots."""
    path = call.arguments.get("path") if isinstance(call.arguments, dict) else None
    if call.tool == "Bash" or not isinstance(path, str):
        return None, None, False
    try:
        resolved = agent.workspace.resolve(path)
    except Failure:
        return None, None, False
    return agent.workspace.lock_key(resolved), resolved.display, resolved.outside


def _is_patch(arguments: Any) -> bool:
    command = arguments.get("command") if isinstance(arguments, dict) else None
    return isinstance(command, str) and patch_command(parse_line(command))
