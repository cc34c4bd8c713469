"""What of a stored conversation is sent to a provider: always valid, whatever a crash left behind. Pure.

Every call is answered exactly once, right after the message that made it; a result without its call is dropped;
roles alternate (neighbouring user messages become one). Stored messages are never rewritten by this.
"""

from __future__ import annotations

from collections.abc import Sequence

from agents.messages import Message, Part, Text, ToolResult

INTERRUPTED_TEXT = (
    '{"error":{"code":"INTERRUPTED","message":"The process ended before this call had a result. It may or may not '
    'have had an effect: look before you repeat it."}}'
)


def for_request(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The valid form of `messages`, which is `messages` itself in every ordinary case."""
    valid: list[Message] = []
    position = 0
    while position < len(messages):
        message = messages[position]
        position += 1
        if message.role == "tool":
            continue  # its call is not directly before it: an answer without a question
        if message.role == "user" and valid and valid[-1].role == "user":
            valid[-1] = _joined(valid[-1], message)
            continue
        if message.role == "assistant" and valid and valid[-1].role == "assistant":
            valid.append(_continue_message(message))
        valid.append(message)
        if message.calls:
            following = messages[position] if position < len(messages) else None
            answered = following is not None and following.role == "tool"
            valid.append(_answers(message, following if answered else None))
            position += 1 if answered else 0
    return tuple(valid)


LEFT_OUT = (
    "[This result was left out: the conversation had become too long. Make the call again if you need it.]"
)
_KEPT_RESULT_CHARS = 400
"""Shorter results stay: leaving them out gains nothing."""


def shortened(messages: Sequence[Message], most: int) -> tuple[Message, ...]:
    """`messages` with the oldest long tool results left out until at most `most` characters remain, or none
    is left. Calls, texts and the order stay as they are.
    """
    excess = sum(_size(message) for message in messages) - most
    kept: list[Message] = []
    for message in messages:
        parts: list[Part] = []
        for part in message.parts:
            if excess > 0 and isinstance(part, ToolResult) and len(part.text) > _KEPT_RESULT_CHARS:
                excess -= len(part.text) - len(LEFT_OUT)
                part = ToolResult(call_id=part.call_id, ok=part.ok, text=LEFT_OUT)
            parts.append(part)
        kept.append(Message(id=message.id, role=message.role, parts=tuple(parts)))
    return tuple(kept)


def after_overflows(messages: Sequence[Message], overflows: int) -> tuple[Message, ...]:
    """A conversation that has been too long for its model so many times: half as long for each of them."""
    if overflows == 0:
        return tuple(messages)
    return shortened(messages, sum(_size(message) for message in messages) >> overflows)


def _size(message: Message) -> int:
    """Characters that a model reads, roughly."""
    return sum(len(str(part)) for part in message.parts)


def _joined(first: Message, second: Message) -> Message:
    return Message(id=first.id, role="user", parts=first.parts + second.parts)


def _continue_message(before: Message) -> Message:
    return Message(id=f"{before.id}-continue", role="user", parts=(Text(text="Continue."),))


def _answers(asked: Message, given: Message | None) -> Message:
    """One result per call, in call order; the ones that are missing are told to be interrupted."""
    results = {result.call_id: result for result in (given.results if given is not None else ())}
    parts = tuple(
        results.get(call.call_id, ToolResult(call_id=call.call_id, ok=False, text=INTERRUPTED_TEXT))
        for call in asked.calls
    )
    if given is not None and parts == given.parts:
        return given
    return Message(id=f"{asked.id}-results" if given is None else given.id, role="tool", parts=parts)
