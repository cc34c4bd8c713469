"""The `Model` protocol, its request, its chunks, and the response they add up to. Pure."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import attrs

from agents.messages import Message, Reasoning, Text, Usage


@attrs.frozen
class ToolSpec:
    """A tool as the model is told of it."""

    name: str
    description: str
    schema: dict[str, Any]
    """JSON Schema of the argument object."""


@attrs.frozen
class ModelRequest:
    """One request: everything a provider needs, and who asks (for scripts and traces)."""

    system: str
    messages: tuple[Message, ...]
    """Valid: starts with a user message, every call answered exactly once by the next message."""
    tools: tuple[ToolSpec, ...]
    agent_name: str
    agent_label: str
    attempt: int = 1
    max_output_tokens: int | None = None


@attrs.frozen
class TextChunk:
    """Some visible text."""

    text: str


@attrs.frozen
class ReasoningChunk:
    """One whole reasoning block."""

    reasoning: Reasoning


@attrs.frozen
class CallChunk:
    """One whole tool call. `arguments` is the decoded object, or the raw string if its JSON is broken."""

    tool: str
    arguments: Any
    provider_call_id: str | None


@attrs.frozen
class FinishChunk:
    """The response is complete. A stream that ends without one was cut."""

    reason: str
    """`stop`, `tool_calls`, `length` …: the provider's word."""
    usage: Usage
    response_id: str | None = None
    response_model: str | None = None


Chunk = TextChunk | ReasoningChunk | CallChunk | FinishChunk


@attrs.frozen
class ModelResponse:
    """A whole answer; never a partial one."""

    parts: tuple[Text | Reasoning | CallChunk, ...]
    """In the order given; neighbouring texts joined."""
    finish: FinishChunk

    @property
    def text(self) -> str:
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def calls(self) -> tuple[CallChunk, ...]:
        return tuple(part for part in self.parts if isinstance(part, CallChunk))


class Model(Protocol):
    """One model of one provider."""

    @property
    def name(self) -> str:
        """`provider:name`, as given on the command line."""
        ...

    @property
    def provider(self) -> str:
        """The provider's name for telemetry (`gen_ai.provider.name`)."""
        ...

    def respond(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[Chunk]]:
        """Send `request`; the block reads the chunks, and leaving it closes the stream.

        Raises `agents.errors.Failure` with a model code (PROVIDER_ERROR, NETWORK_ERROR, STREAM_FAILED …).
        """
        ...


def assemble(chunks: list[Chunk]) -> ModelResponse | None:
    """The response that `chunks` add up to; None where the finish is missing."""
    parts: list[Text | Reasoning | CallChunk] = []
    finish: FinishChunk | None = None
    for chunk in chunks:
        match chunk:
            case TextChunk(text=text):
                if parts and isinstance(parts[-1], Text):
                    parts[-1] = Text(text=parts[-1].text + text)
                elif text:
                    parts.append(Text(text=text))
            case ReasoningChunk(reasoning=reasoning):
                parts.append(reasoning)
            case CallChunk():
                parts.append(chunk)
            case FinishChunk():
                finish = chunk
    return None if finish is None else ModelResponse(tuple(parts), finish)


def model_part(name: str) -> str:
    """The model of `provider:name` as telemetry names it; of a script, the file's own name only."""
    provider, _, rest = name.partition(":")
    return rest.rpartition("/")[2] if provider == "script" else rest or name
