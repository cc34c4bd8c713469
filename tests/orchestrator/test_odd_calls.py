"""Calls that no tool could have meant, on their way through a whole session."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agents.errors import Failure
from agents.messages import Usage
from agents.models.base import CallChunk, Chunk, FinishChunk, ModelRequest
from agents.models.nesting import MAX_NESTING, too_deep
from agents.models.openai_chat import UNNAMED, ChatDecoder, encode
from agents.models.placeholders import fill
from agents.models.provider_errors import Asked
from tests.fakes.chat_wire import streamed_answer
from tests.harness import call, calls, events_of, say, scripted, session_on

ASKED = Asked(model="m", address="a", key_variable="K")


class Recorded:
    """A model that sends calls through the wire format first; keeps the requests as they would be sent."""

    name = "openai-chat:recorded"
    provider = "openai-chat"

    def __init__(self, *given: CallChunk) -> None:
        self._given = given
        self.sent: list[bytes] = []

    def respond(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[Chunk]]:
        return self._respond(request)

    @asynccontextmanager
    async def _respond(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[Chunk]]:
        self.sent.append(encode(request, "m", stream=True))
        async with aclosing(self._chunks(len(self.sent))) as chunks:
            yield chunks

    async def _chunks(self, turn: int) -> AsyncGenerator[Chunk]:
        if turn > 1:
            yield FinishChunk("stop", Usage())
            return
        decoder = ChatDecoder(ASKED)
        answer = (*self._given, FinishChunk("tool_calls", Usage()))
        for event in streamed_answer(answer, "answer-1", "m"):
            for chunk in decoder.feed(event.decode().removeprefix("data: ")):
                yield chunk


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = {"a": [value]} if depth % 2 else {"a": value}
    return value


@pytest.mark.parametrize("depth", [100, 500, 690])
async def test_deeply_nested_arguments_are_an_argument_error_and_nothing_worse(
    tmp_path: Path, depth: int
) -> None:
    model = scripted({"main": [calls(call("Read", path=nested(depth))), say("done")]})
    async with session_on(tmp_path, model) as session:
        outcome = await session.run("go")
        (done,) = [event.payload for event in await events_of(session, "tool.finished")]
    assert outcome.status == "completed"
    assert done.error.code == "INVALID_ARGUMENT"


async def test_arguments_nested_beyond_that_are_the_scripts_error(tmp_path: Path) -> None:
    model = scripted({"main": [calls(call("Read", path=nested(MAX_NESTING + 2))), say("done")]})
    async with session_on(tmp_path, model) as session:
        outcome = await session.run("go")
    assert outcome.error is not None
    assert outcome.error.code == "PROVIDER_ERROR"
    assert "nested more than 700 deep" in outcome.error.message


def test_a_value_that_contains_itself_is_too_deep() -> None:
    value: list[Any] = []
    value.append(value)
    assert too_deep(value)
    with pytest.raises(Failure, match="PROVIDER_ERROR"):
        fill(value, ())


def test_a_few_lines_that_stand_for_too_much_are_refused() -> None:
    value: Any = ["x"] * 10
    for _ in range(7):
        value = [value] * 10
    with pytest.raises(Failure, match="parts"):
        fill(value, ())


def test_placeholders_are_filled_in_at_any_depth_and_the_script_stays_as_it_is() -> None:
    value = {"a": [{"b": "x"}, "y"], "c": {"${task:1}": 1}}
    filled = fill(value, ())
    assert filled == value
    assert filled is not value
    assert filled["a"][0] is not value["a"][0]


async def test_each_call_gets_one_result_also_one_without_a_name(tmp_path: Path) -> None:
    model = Recorded(CallChunk("Glob", {"pattern": "*"}, "a"), CallChunk("", {"x": 1}, "b"))
    async with session_on(tmp_path, model, defer_tools=False) as session:
        await session.run("go")
        ends = [event.payload for event in await events_of(session, "tool.finished")]
    assert sorted((done.tool, done.error and done.error.code) for done in ends) == [
        ("", "TOOL_NOT_FOUND"),
        ("Glob", None),
    ]
    assert f'"name":"{UNNAMED}"'.encode() in model.sent[1]
    assert model.sent[1].count(b'"tool_call_id"') == 2
