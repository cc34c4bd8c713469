"""Codec of OpenAI-style chat completions: our request to its JSON, its answer to our chunks. Pure.

Tolerant of unknown fields and of what compatible servers are known to do (whole calls in one delta, missing
indices, the same index for several calls, arguments as an object); strict on what a turn needs: a finish. A
call without a name is a call of a tool that does not exist: the model is told, and can make it again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from agents.errors import ErrorCode, Failure, failure
from agents.messages import Message, Reasoning, ToolCall, Usage
from agents.models.base import (
    CallChunk,
    Chunk,
    FinishChunk,
    ModelRequest,
    ReasoningChunk,
    TextChunk,
    ToolSpec,
)
from agents.models.nesting import map_texts, too_deep
from agents.models.provider_errors import Asked, error_in_answer

PROVIDER = "openai-chat"
DONE = "[DONE]"
"""The data of a stream's last event."""

UNNAMED = "unnamed"
"""What goes back to the provider for a call without a name."""

_REASONING_FIELDS = ("reasoning_content", "reasoning")


# ── request ────────────────────────────────────────────────────────────────────────────────────────────


def encode(
    request: ModelRequest, model: str, *, stream: bool, limit_field: str = "max_completion_tokens"
) -> bytes:
    """The request's body: valid UTF-8 whatever its texts hold.

    `limit_field` is the server's name for the output limit; many compatible servers only know `max_tokens`.
    """
    body: dict[str, Any] = {"model": model, "messages": list(_messages(request))}
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    if request.max_output_tokens is not None:
        body[limit_field] = request.max_output_tokens
    body["stream"] = stream
    if stream:
        body["stream_options"] = {"include_usage": True}
    return _json(body)


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return {"type": "function", "function": function}


def _messages(request: ModelRequest) -> Iterator[dict[str, Any]]:
    ids = _wire_ids(request.messages)
    if request.system:
        yield {"role": "system", "content": request.system}
    for message in request.messages:
        match message.role:
            case "user":
                yield {"role": "user", "content": message.text}
            case "assistant":
                yield _assistant(message, ids)
            case "tool":
                for result in message.results:
                    call_id = ids.get(result.call_id, result.call_id)
                    yield {"role": "tool", "tool_call_id": call_id, "content": result.text}


def _wire_ids(messages: tuple[Message, ...]) -> dict[str, str]:
    """Our call id → the id on the wire: the provider's own; ours where it gave none or repeated one."""
    ids: dict[str, str] = {}
    used: set[str] = set()
    for message in messages:
        for call in message.calls:
            own = call.provider_call_id
            ids[call.call_id] = own if own and own not in used else call.call_id
            used.add(ids[call.call_id])
    return ids


def _assistant(message: Message, ids: dict[str, str]) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": "assistant", "content": message.text or None}
    for part in message.parts:
        if isinstance(part, Reasoning) and part.provider == PROVIDER and isinstance(part.data, dict):
            for field in _REASONING_FIELDS:
                if isinstance(part.data.get(field), str):
                    wire[field] = wire.get(field, "") + part.data[field]
    if message.calls:
        wire["tool_calls"] = [_call(call, ids[call.call_id]) for call in message.calls]
    elif wire["content"] is None:
        # A message with neither text nor calls is refused when its content is null.
        wire["content"] = ""
    return wire


def _call(call: ToolCall, call_id: str) -> dict[str, Any]:
    # Servers that parse the arguments of past calls refuse the whole conversation for one that is broken, so
    # what is not an object goes back inside one: the model still sees what it wrote.
    arguments = call.arguments if isinstance(call.arguments, dict) else {"invalid_arguments": call.arguments}
    function = {"name": _wire_name(call.tool), "arguments": _json(arguments).decode("utf-8")}
    return {"id": call_id, "type": "function", "function": function}


def _wire_name(tool: str) -> str:
    """A name that servers take: they refuse the whole conversation for one call that the model misspelt."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", tool)[:64] or UNNAMED


def _json(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_without_surrogates(value))


def _without_surrogates(value: Any) -> Any:
    """`value` with every lone surrogate replaced by U+FFFD, and surrogate pairs joined, in keys too."""
    return map_texts(value, _whole_characters, keys=True)


def _whole_characters(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


# ── answer ─────────────────────────────────────────────────────────────────────────────────────────────


class _OpenCall:
    """One tool call, while its pieces come in."""

    def __init__(self, index: int | None) -> None:
        self.index = index
        self.id: str | None = None
        self.name = ""
        self.pieces: list[str] = []
        self.whole: dict[str, Any] | None = None
        """Arguments that came as an object instead of a string."""

    def add(self, delta: dict[str, Any]) -> None:
        self.id = self.id or _text(delta.get("id")) or None
        function = _object(delta.get("function"))
        name = _text(function.get("name"))
        if name != self.name:  # some servers repeat the name in every delta
            self.name += name
        arguments = function.get("arguments")
        if isinstance(arguments, dict) and too_deep(arguments):
            self.pieces.append(_json(arguments).decode("utf-8"))
        elif isinstance(arguments, dict):
            self.whole = arguments
        elif isinstance(arguments, str):
            self.pieces.append(arguments)

    def is_not(self, call_id: str) -> bool:
        """Whether an id, where there are two, says that a delta is about another call."""
        return bool(call_id and self.id) and call_id != self.id

    def complete(self) -> bool:
        return self.whole is not None or isinstance(_arguments("".join(self.pieces) or "null"), dict)

    def chunk(self) -> CallChunk:
        arguments = self.whole if self.whole is not None else _arguments("".join(self.pieces))
        return CallChunk(tool=self.name, arguments=arguments, provider_call_id=self.id)


class ChatDecoder:
    """One answer's decoder: either `feed` for every event and `close` at the end, or `decode_whole` once.

    All raise `Failure` with PROVIDER_ERROR (or the code that the provider's own error amounts to).
    """

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._calls: list[_OpenCall] = []
        self._reasoning: dict[str, list[str]] = {}
        self._usage = Usage()
        self._reason: str | None = None
        self._id: str | None = None
        self._model: str | None = None
        self._closed = False

    @property
    def ended(self) -> bool:
        """Whether the provider has said how the response ended: nothing but usage can follow."""
        return self._reason is not None

    def feed(self, data: str) -> list[Chunk]:
        """The chunks that one event's data completes. Calls come when all are whole, at the finish."""
        if self._closed:
            return []
        if data.strip() == DONE:
            return self.close()
        event = self._event(data)
        choice = self._choice(event)
        if choice is None:
            return []
        chunks = self._message(_object(choice.get("delta")))
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason and not self.ended:
            self._reason = reason
            chunks += self._rest()
        return chunks

    def close(self) -> list[Chunk]:
        """The stream has ended: its finish, or nothing where it was cut."""
        if self._reason is None or self._closed:
            return []
        self._closed = True
        return [FinishChunk(self._reason, self._usage, self._id, self._model)]

    def decode_whole(self, body: bytes) -> list[Chunk]:
        """The chunks of an answer that came as one JSON object."""
        event = self._event(body)
        choice = self._choice(event)
        message = None if choice is None else choice.get("message")
        if choice is None or not isinstance(message, dict):
            raise self._unreadable("has no choices[0].message")
        chunks = self._message(message)
        reason = choice.get("finish_reason")
        self._reason = (
            reason if isinstance(reason, str) and reason else "tool_calls" if self._calls else "stop"
        )
        return chunks + self._rest() + self.close()

    def _event(self, data: str | bytes) -> dict[str, Any]:
        try:
            event = _decode(data)
        except (ValueError, RecursionError):
            raise self._unreadable("is not JSON") from None
        if not isinstance(event, dict):
            raise self._unreadable("is not a JSON object")
        if event.get("error"):
            raise Failure(error_in_answer(self._asked, event["error"]))
        if event.get("object") == "error":
            raise Failure(error_in_answer(self._asked, event))
        self._id = self._id or _text(event.get("id")) or None
        self._model = self._model or _text(event.get("model")) or None
        if isinstance(event.get("usage"), dict):
            self._usage = _usage(event["usage"])
        return event

    def _choice(self, event: dict[str, Any]) -> dict[str, Any] | None:
        """The first choice; further ones (n > 1) were never asked for."""
        for choice in _list(event.get("choices")):
            if isinstance(choice, dict) and not choice.get("index"):
                return choice
        return None

    def _message(self, message: dict[str, Any]) -> list[Chunk]:
        """Take in a delta, or a whole message: they have the same fields."""
        for field in _REASONING_FIELDS:
            if reasoning := _text(message.get(field)):
                self._reasoning.setdefault(field, []).append(reasoning)
                break  # some servers send the same text under both names
        chunks: list[Chunk] = []
        if text := _visible(message.get("content")) + _text(message.get("refusal")):
            chunks += self._flush_reasoning()
            chunks.append(TextChunk(text))
        touched: list[_OpenCall] = []
        for delta in _list(message.get("tool_calls")):
            if isinstance(delta, dict):
                call = self._call_for(delta, touched)
                call.add(delta)
                touched.append(call)
        return chunks

    def _call_for(self, delta: dict[str, Any], touched: list[_OpenCall]) -> _OpenCall:
        """The open call that `delta` goes on with, or a new one.

        `touched` are the calls of earlier entries of the same event: entries without index or id are calls
        of their own.
        """
        index, call_id = delta.get("index"), _text(delta.get("id"))
        name = _text(_object(delta.get("function")).get("name"))
        if isinstance(index, int):
            same = [call for call in self._calls if call.index == index]
        else:
            index = None
            same = [call for call in self._calls if call_id and call.id == call_id]
            if not same and not (call_id and name):
                same = [call for call in self._calls[-1:] if call not in touched and not call.is_not(call_id)]
        if same and not _begins_anew(same[-1], call_id, name):
            return same[-1]
        self._calls.append(_OpenCall(index))
        return self._calls[-1]

    def _flush_reasoning(self) -> list[Chunk]:
        blocks: list[Chunk] = [
            ReasoningChunk(Reasoning(provider=PROVIDER, data={field: "".join(pieces)}))
            for field, pieces in self._reasoning.items()
        ]
        self._reasoning.clear()
        return blocks

    def _rest(self) -> list[Chunk]:
        """What only the end makes whole: the last reasoning, and the calls in the order of their indices."""
        chunks = self._flush_reasoning()
        positions = {id(call): position for position, call in enumerate(self._calls)}
        for call in sorted(self._calls, key=lambda c: positions[id(c)] if c.index is None else c.index):
            chunks.append(call.chunk())
        return chunks

    def _unreadable(self, what: str) -> Failure:
        return failure(
            ErrorCode.PROVIDER_ERROR,
            f"The answer of {self._asked.model} {what}. Run it again; if it persists, check that "
            f"{self._asked.address} serves chat completions (--base-url).",
            retriable=True,
        )


def _begins_anew(call: _OpenCall, call_id: str, name: str) -> bool:
    """Whether a delta that seems to go on with `call` is a new one after all.

    Only a delta that names a function can be: some servers give every whole call the same index, or none.
    """
    if not name or not call.name:
        return False
    if call_id and call.id:
        return call_id != call.id
    if call.index is None and name != call.name:
        return True
    return call.complete()


def _arguments(text: str) -> Any:
    """The decoded object; `{}` for no text at all; the raw text where it is none or nested too deep."""
    if not text.strip():
        return {}
    try:
        decoded = _decode(text)
    except (ValueError, RecursionError):
        return text
    return decoded if isinstance(decoded, dict) and not too_deep(decoded) else text


def _decode(data: str | bytes) -> Any:
    """Decode JSON. Raises ValueError or RecursionError."""
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        text = data if isinstance(data, str) else data.decode("utf-8")
        if "\\ud" not in text.lower():
            raise
        # Half of a surrogate pair, written as an escape: some servers cut an emoji in two between events.
        return _without_surrogates(json.loads(text))


def _visible(content: Any) -> str:
    """The visible text of `content`: a string, null, or a list of parts of which the text parts count."""
    if isinstance(content, list):
        return "".join(_text(part.get("text")) for part in content if isinstance(part, dict))
    return _text(content)


def _usage(usage: dict[str, Any]) -> Usage:
    prompt = _object(usage.get("prompt_tokens_details"))
    completion = _object(usage.get("completion_tokens_details"))
    return Usage(
        input_tokens=_count(usage.get("prompt_tokens")),
        output_tokens=_count(usage.get("completion_tokens")),
        cache_read_tokens=_count(prompt.get("cached_tokens") or usage.get("prompt_cache_hit_tokens")),
        reasoning_tokens=_count(completion.get("reasoning_tokens")),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and value > 0 else 0
