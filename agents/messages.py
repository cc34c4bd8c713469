"""The conversation as values: messages, their parts, token usage. Pure; also the shape on the wire."""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class Text(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type", tag="text"):
    """Visible text."""

    text: str


class Reasoning(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type", tag="reasoning"):
    """A provider's thinking block, kept as that provider requires it and sent back unread."""

    provider: str
    data: Any


class ToolCall(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type", tag="toolCall"):
    """One call the model asks for."""

    call_id: str
    """Ours, unique in the store."""
    tool: str
    arguments: Any
    """The decoded JSON object; the raw string where the model's JSON was broken."""
    provider_call_id: str | None = None
    """The provider's own id, sent back to it and never used as a key."""


class ToolResult(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type", tag="toolResult"
):
    """What the model reads of one finished call."""

    call_id: str
    ok: bool
    text: str


Part = Text | Reasoning | ToolCall | ToolResult


class Message(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One message of a conversation. A `tool` message answers every call of the message before it."""

    id: str
    role: Literal["user", "assistant", "tool"]
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """All visible text, joined by newlines."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls, in the order asked."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The tool results, in the order of the calls."""
        return tuple(part for part in self.parts if isinstance(part, ToolResult))


class Usage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Tokens spent. Counts add up with `+`; `input_tokens` includes both cache figures."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
        )
