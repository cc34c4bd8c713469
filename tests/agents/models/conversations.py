"""Conversations for the tests of models."""

from __future__ import annotations

from typing import Any

from agents.errors import Failure
from agents.messages import Message, Part, Text, ToolCall, ToolResult
from agents.models.base import Chunk, Model, ModelRequest, ModelResponse, assemble


def prompt(label: str) -> str:
    """A system prompt with the line that names its agent."""
    return f'Work well.\nYou are the agent "{label}".\n'


def user(text: str = "go") -> Message:
    return Message(id="u", role="user", parts=(Text(text=text),))


def request(*messages: Message, label: str = "main", **more: Any) -> ModelRequest:
    """A request of the agent `label` (its name is what stands before the `#`)."""
    name = label.partition("#")[0]
    return ModelRequest(
        system=prompt(label),
        messages=messages or (user(),),
        tools=(),
        agent_name=name,
        agent_label=label,
        **more,
    )


def turn(number: int, *calls: tuple[str, Any, str]) -> tuple[Message, Message]:
    """An assistant message of (tool, arguments, result) and the tool message that answers it."""
    asked = tuple(
        ToolCall(
            call_id=f"c{number}-{i}", tool=tool, arguments=arguments, provider_call_id=f"call_{number}_{i}"
        )
        for i, (tool, arguments, _) in enumerate(calls)
    )
    answered = tuple(
        ToolResult(call_id=f"c{number}-{i}", ok=True, text=text) for i, (_, _, text) in enumerate(calls)
    )
    return (
        Message(id=f"a{number}", role="assistant", parts=asked),
        Message(id=f"t{number}", role="tool", parts=answered),
    )


def answered(response: ModelResponse, number: int, *texts: str) -> tuple[Message, Message]:
    """`response` as an assistant message, and `texts` as the results of its calls."""
    parts: list[Part] = [Text(text=response.text)] if response.text else []
    parts += [
        ToolCall(
            call_id=f"r{number}-{i}",
            tool=call.tool,
            arguments=call.arguments,
            provider_call_id=call.provider_call_id,
        )
        for i, call in enumerate(response.calls)
    ]
    results = tuple(ToolResult(call_id=f"r{number}-{i}", ok=True, text=text) for i, text in enumerate(texts))
    return (
        Message(id=f"ra{number}", role="assistant", parts=tuple(parts)),
        Message(id=f"rt{number}", role="tool", parts=results),
    )


async def chunks_of(model: Model, asked: ModelRequest) -> list[Chunk]:
    async with model.respond(asked) as chunks:
        return [chunk async for chunk in chunks]


async def response_of(model: Model, asked: ModelRequest) -> ModelResponse:
    response = assemble(await chunks_of(model, asked))
    assert response is not None
    return response


async def failure_of(model: Model, asked: ModelRequest) -> Failure:
    try:
        chunks = await chunks_of(model, asked)
    except Failure as problem:
        return problem
    raise AssertionError(f"answered with {chunks}")
