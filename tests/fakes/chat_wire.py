"""The chat-completions wire as a strict provider sees it: what it refuses, and how it writes an answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from agents.messages import Message, Part, Text, ToolCall, ToolResult, Usage
from agents.models.base import CallChunk, Chunk, FinishChunk, ModelRequest, TextChunk

_LABEL = re.compile(r'You are the agent "(.+?)"')
_PIECE = 7
"""Characters of arguments per delta: small, so that calls really interleave."""


def label_of(body: dict[str, Any]) -> str:
    """Which agent asks, by the line that every agent's system prompt holds; `main` without one."""
    for message in body["messages"]:
        if message["role"] == "system" and (found := _LABEL.search(message["content"])):
            return found[1]
    return "main"


def complaint(body: Any) -> str | None:
    """Why a strict provider refuses `body` with status 400; None where it is in order."""
    if not isinstance(body, dict) or not isinstance(body.get("model"), str):
        return "the body needs a model"
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return "the body needs messages"
    if "tools" in body and not body["tools"]:
        return "tools must not be empty"
    waiting: set[str] = set()
    for position, message in enumerate(messages):
        role = message.get("role")
        if role == "tool":
            if message.get("tool_call_id") not in waiting:
                return f"messages[{position}]: no open call has the id {message.get('tool_call_id')!r}"
            if not isinstance(message.get("content"), str):
                return f"messages[{position}]: a tool message needs a text"
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            return f"messages[{position}]: the calls {sorted(waiting)} are not answered"
        if problem := _complaint_about(message, position):
            return f"messages[{position}]: {problem}"
        waiting = {call["id"] for call in message.get("tool_calls") or []}
    if waiting:
        return f"the calls {sorted(waiting)} are not answered"
    first = [message["role"] for message in messages if message["role"] != "system"][:1]
    return None if first == ["user"] else "the conversation does not begin with a user message"


def _complaint_about(message: dict[str, Any], position: int) -> str | None:
    role, content, calls = message.get("role"), message.get("content"), message.get("tool_calls")
    if role not in ("system", "user", "assistant"):
        return f"unknown role {role!r}"
    if role == "system" and position != 0:
        return "the system message must come first"
    if calls is None:
        return None if isinstance(content, str) else "a message without calls needs a text"
    if role != "assistant" or not calls:
        return "only an assistant's message has calls, and at least one"
    if len({call["id"] for call in calls}) != len(calls):
        return "two calls have one id"
    for call in calls:
        try:
            arguments = json.loads(call["function"]["arguments"])
        except ValueError:
            arguments = None
        if not isinstance(arguments, dict) or not call["function"]["name"]:
            return "a call needs a name and a JSON object as arguments"
    return None


def to_request(body: dict[str, Any], label: str, attempt: int) -> ModelRequest:
    """A wire request as our own value, for the script's turn logic."""
    messages: list[Message] = []
    for position, wire in enumerate(body["messages"]):
        if wire["role"] == "system":
            continue
        if wire["role"] == "tool" and messages[-1].role == "tool":
            messages[-1] = Message(
                id=messages[-1].id, role="tool", parts=(*messages[-1].parts, *_parts(wire))
            )
        else:
            messages.append(Message(id=str(position), role=wire["role"], parts=_parts(wire)))
    name = label.partition("#")[0]
    return ModelRequest(
        system="", messages=tuple(messages), tools=(), agent_name=name, agent_label=label, attempt=attempt
    )


def _parts(wire: dict[str, Any]) -> tuple[Part, ...]:
    if wire["role"] == "tool":
        return (ToolResult(call_id=wire["tool_call_id"], ok=True, text=wire["content"]),)
    text: tuple[Part, ...] = (Text(text=wire["content"]),) if wire.get("content") else ()
    calls = tuple(
        ToolCall(
            call_id=call["id"],
            tool=call["function"]["name"],
            arguments=json.loads(call["function"]["arguments"]),
            provider_call_id=call["id"],
        )
        for call in wire.get("tool_calls") or []
    )
    return text + calls


def whole_answer(chunks: tuple[Chunk, ...], answer_id: str, model: str) -> dict[str, Any]:
    """The answer as one JSON object."""
    message: dict[str, Any] = {"role": "assistant", "content": None}
    text = "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk))
    if text:
        message["content"] = text
    calls = [chunk for chunk in chunks if isinstance(chunk, CallChunk)]
    if calls:
        message["tool_calls"] = [
            {"id": call.provider_call_id, "type": "function", "function": _function(call)} for call in calls
        ]
    finish = next((chunk for chunk in chunks if isinstance(chunk, FinishChunk)), None)
    choice = {"index": 0, "message": message, "finish_reason": finish.reason if finish else None}
    usage = _usage(finish.usage) if finish else None
    return {
        "id": answer_id,
        "object": "chat.completion",
        "model": model,
        "choices": [choice],
        "usage": usage,
    }


def streamed_answer(chunks: tuple[Chunk, ...], answer_id: str, model: str) -> Iterator[bytes]:
    """The answer as events; parallel calls interleave, and a cut answer just stops."""

    def event(choices: list[Any], usage: Any = None) -> bytes:
        head = {"id": answer_id, "object": "chat.completion.chunk", "model": model}
        return b"data: " + json.dumps({**head, "choices": choices, "usage": usage}).encode() + b"\n\n"

    def delta(content: dict[str, Any], reason: str | None = None) -> bytes:
        return event([{"index": 0, "delta": content, "finish_reason": reason}])

    yield delta({"role": "assistant", "content": ""})
    for chunk in chunks:
        if isinstance(chunk, TextChunk):
            yield delta({"content": chunk.text})
    for call_delta in _call_deltas([chunk for chunk in chunks if isinstance(chunk, CallChunk)]):
        yield delta({"tool_calls": [call_delta]})
    for chunk in chunks:
        if isinstance(chunk, FinishChunk):
            yield delta({}, chunk.reason)
            yield event([], _usage(chunk.usage))
            yield b"data: [DONE]\n\n"


def _call_deltas(calls: list[CallChunk]) -> Iterator[dict[str, Any]]:
    texts = [_function(call)["arguments"] for call in calls]
    for index, call in enumerate(calls):
        function = {"name": call.tool, "arguments": ""}
        yield {"index": index, "id": call.provider_call_id, "type": "function", "function": function}
    pieces = [[text[i : i + _PIECE] for i in range(0, len(text), _PIECE)] for text in texts]
    for row in zip_longest(*pieces):
        for index, piece in enumerate(row):
            if piece is not None:
                yield {"index": index, "function": {"arguments": piece}}


def _function(call: CallChunk) -> dict[str, str]:
    arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
    return {"name": call.tool, "arguments": arguments}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
