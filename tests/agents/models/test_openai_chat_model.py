"""The adapter against a real server over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from agents.errors import ErrorCode
from agents.messages import Usage
from agents.models.base import CallChunk, FinishChunk, TextChunk
from agents.models.http import HttpTransport, Timeouts
from agents.models.openai_chat_model import OpenAIChatModel
from tests.agents.models.conversations import (
    answered,
    chunks_of,
    failure_of,
    request,
    response_of,
    turn,
    user,
)
from tests.fakes.chat_server import ChatServer

TWO_CALLS = [
    {"tool": "Read", "arguments": {"path": "src/päth.py", "offset": 1}},
    {"tool": "Grep", "arguments": {"pattern": "a" * 40}},
]


def script(*turns: dict[str, Any], faults: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"agents": {"main": list(turns)}, "faults": faults or []}


def fault(**what: Any) -> dict[str, Any]:
    return {"agent": "main", "turn": 1, **what}


@asynccontextmanager
async def asking(
    document: dict[str, Any], *, key: str | None = None, timeouts: Timeouts | None = None, **behaviour: Any
) -> AsyncIterator[tuple[OpenAIChatModel, ChatServer]]:
    with ChatServer(document, **behaviour) as server:
        async with HttpTransport({}, timeouts) as transport:
            yield OpenAIChatModel("big", transport, server.url, key), server


@pytest.mark.parametrize("as_json", [False, True], ids=["stream", "whole"])
async def test_text_calls_and_usage_come_back_streamed_or_whole(as_json: bool) -> None:
    usage = {"inputTokens": 100, "outputTokens": 20, "cacheReadTokens": 64, "reasoningTokens": 7}
    document = script({"text": "Looking.", "calls": TWO_CALLS, "usage": usage})
    async with asking(document, as_json=as_json) as (model, _):
        response = await response_of(model, request())
    assert response.text == "Looking."
    assert response.calls == (
        CallChunk("Read", {"path": "src/päth.py", "offset": 1}, "call_1_1"),
        CallChunk("Grep", {"pattern": "a" * 40}, "call_1_2"),
    )
    assert response.finish.reason == "tool_calls"
    assert response.finish.usage == Usage(
        input_tokens=100, output_tokens=20, cache_read_tokens=64, reasoning_tokens=7
    )
    assert response.finish.response_model == "big"


async def test_text_comes_in_pieces_as_it_is_streamed() -> None:
    async with asking(script({"text": "abcdef"})) as (model, _):
        chunks = await chunks_of(model, request())
    assert chunks[:3] == [TextChunk("ab"), TextChunk("cd"), TextChunk("ef")]


async def test_a_conversation_goes_on_turn_by_turn_over_one_connection() -> None:
    document = script({"calls": TWO_CALLS}, {"calls": TWO_CALLS[:1]}, {"text": "Done."})
    async with asking(document) as (model, server):
        messages = (user(),)
        first = await response_of(model, request(*messages))
        messages += answered(first, 1, "A", "B")
        second = await response_of(model, request(*messages))
        messages += answered(second, 2, "C")
        assert (await response_of(model, request(*messages))).text == "Done."
        assert server.connections == 1
        assert [recorded.status for recorded in server.requests] == [200, 200, 200]
    sent = server.requests[-1].body["messages"]
    assert [message["role"] for message in sent] == [
        *("system", "user", "assistant", "tool", "tool", "assistant", "tool")
    ]


async def test_the_key_is_sent_when_there_is_one_and_no_header_without() -> None:
    document = script({"text": "a"})
    async with asking(document, key=" sk-1\n") as (model, server):
        await response_of(model, request())
    assert server.requests[0].headers["authorization"] == "Bearer sk-1"
    async with asking(document) as (model, server):
        await response_of(model, request())
    assert "authorization" not in server.requests[0].headers


async def test_a_wrong_key_is_refused_with_the_variables_name_and_without_the_key() -> None:
    async with asking(script({"text": "a"}), key="provided", require_key="right") as (model, _):
        error = (await failure_of(model, request())).error
    assert (error.code, error.retriable) == (ErrorCode.PROVIDER_UNAUTHORIZED, False)
    assert "OPENAI_API_KEY" in error.message
    assert "provided" not in error.message


@pytest.mark.parametrize(
    ("what", "code", "retriable"),
    [
        ({"error": 401}, ErrorCode.PROVIDER_UNAUTHORIZED, False),
        ({"error": 403}, ErrorCode.PROVIDER_UNAUTHORIZED, False),
        ({"error": 404}, ErrorCode.MODEL_NOT_CONFIGURED, False),
        ({"error": 429}, ErrorCode.PROVIDER_RATE_LIMITED, True),
        ({"error": 400}, ErrorCode.PROVIDER_ERROR, False),
        ({"error": 400, "message": "maximum context length is 8"}, ErrorCode.CONTEXT_OVERFLOW, False),
        ({"error": 500}, ErrorCode.PROVIDER_ERROR, True),
        ({"error": 503}, ErrorCode.PROVIDER_ERROR, True),
        ({"error": "NETWORK_ERROR"}, ErrorCode.NETWORK_ERROR, True),
        ({"stream_cut": True}, ErrorCode.STREAM_FAILED, True),
    ],
)
async def test_what_goes_wrong_at_the_server_has_its_code(
    what: dict[str, Any], code: ErrorCode, retriable: bool
) -> None:
    async with asking(script({"text": "a", "calls": TWO_CALLS}, faults=[fault(**what)])) as (model, _):
        error = (await failure_of(model, request())).error
        assert (error.code, error.retriable) == (code, retriable)
        again = await response_of(model, request())
    assert again.text == "a"


async def test_a_whole_answer_that_is_cut_is_a_failed_stream() -> None:
    document = script({"text": "abc"}, faults=[fault(stream_cut=True)])
    async with asking(document, as_json=True) as (model, _):
        assert (await failure_of(model, request())).error.code is ErrorCode.STREAM_FAILED


async def test_the_wait_that_a_rate_limit_asks_for_is_in_the_details() -> None:
    async with asking(script({"text": "a"}, faults=[fault(error=429, retry_after=1.5)])) as (model, _):
        error = (await failure_of(model, request())).error
    assert error.details == {"status": 429, "retryAfter": 1.5}


@pytest.mark.parametrize("as_json", [False, True], ids=["stream", "whole"])
async def test_broken_arguments_are_kept_and_the_conversation_goes_on(as_json: bool) -> None:
    document = script({"calls": TWO_CALLS}, {"text": "Sorry."}, faults=[fault(malformed=True)])
    async with asking(document, as_json=as_json) as (model, _):
        response = await response_of(model, request())
        assert isinstance(response.calls[0].arguments, str)
        assert isinstance(response.calls[1].arguments, dict)
        after = await response_of(model, request(user(), *answered(response, 1, "not JSON", "B")))
    assert after.text == "Sorry."


async def test_the_server_refuses_a_call_that_is_not_answered() -> None:
    async with asking(script({"calls": TWO_CALLS}, {"text": "x"})) as (model, _):
        response = await response_of(model, request())
        assistant, results = answered(response, 1, "only one")
        error = (await failure_of(model, request(user(), assistant, results))).error
    assert error.code is ErrorCode.PROVIDER_ERROR
    assert "not answered" in error.message


async def test_cancelling_in_the_stream_is_prompt_and_the_server_sees_it() -> None:
    async with asking(script({"text": "abcdef"}), pause_ms=5000) as (model, server):
        started = trio.current_time()
        with trio.move_on_after(0.2) as scope:
            await chunks_of(model, request())
        assert scope.cancelled_caught
        assert trio.current_time() - started < 2
        assert await trio.to_thread.run_sync(server.disconnected.wait, 2)
        server.behaviour.pause_ms = 0
        assert (await response_of(model, request())).text == "abcdef"


async def test_stopping_after_the_first_chunk_closes_the_stream() -> None:
    async with asking(script({"text": "abcdef"}), pause_ms=60) as (model, server):
        async with model.respond(request()) as chunks:
            async for chunk in chunks:
                assert chunk == TextChunk("ab")
                break
        assert await trio.to_thread.run_sync(server.disconnected.wait, 2)


async def test_a_server_that_falls_silent_is_a_network_error_with_the_seconds() -> None:
    timeouts = Timeouts(idle=0.15)
    async with asking(script({"text": "abc"}), pause_ms=3000, timeouts=timeouts) as (model, _):
        error = (await failure_of(model, request())).error
    assert (error.code, error.retriable) == (ErrorCode.NETWORK_ERROR, True)
    assert "0.15 s" in error.message


async def test_a_connection_closed_by_the_server_after_its_answer_goes_unnoticed() -> None:
    async with asking(script({"text": "a"}), close_after_answer=True) as (model, server):
        for _ in range(3):
            assert (await response_of(model, request())).text == "a"
            await trio.sleep(0.02)
        assert server.connections == 3


async def test_many_conversations_at_once_stay_apart() -> None:
    agents = {f"a{n}": [{"calls": TWO_CALLS[:1]}, {"text": f"I am a{n}."}] for n in range(20)}
    found: dict[str, str] = {}

    async def converse(model: OpenAIChatModel, label: str) -> None:
        first = await response_of(model, request(label=label))
        second = await response_of(model, request(user(), *answered(first, 1, "R"), label=label))
        found[label] = second.text

    async with asking({"agents": agents}) as (model, server):
        async with trio.open_nursery() as nursery:
            for label in agents:
                nursery.start_soon(converse, model, label)
        assert server.connections <= 20
    assert found == {label: f"I am {label}." for label in agents}


# ── servers that answer in odd ways


@asynccontextmanager
async def answering(content_type: str, body: bytes) -> AsyncIterator[OpenAIChatModel]:
    """A model whose server always sends `body` and keeps the connection."""

    async def handle(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        await stream.send_all(head.encode() + body)

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(lambda task_status: _listen(handle, task_status))
        port = listeners[0].socket.getsockname()[1]
        async with HttpTransport({}) as transport:
            yield OpenAIChatModel("big", transport, f"http://127.0.0.1:{port}")
        nursery.cancel_scope.cancel()


async def _listen(handle: Any, task_status: Any) -> None:
    await trio.serve_tcp(handle, 0, host="127.0.0.1", task_status=task_status)


FINISHED = b'data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}\n\n'


@pytest.mark.parametrize("kind", ["text/event-stream", "TEXT/EVENT-STREAM; charset=utf-8", "text/plain"])
async def test_a_stream_that_ends_after_its_finish_without_done_is_whole(kind: str) -> None:
    async with answering(kind, FINISHED) as model:
        assert (await response_of(model, request())).text == "a"


async def test_a_stream_that_ends_before_its_finish_is_a_failed_stream() -> None:
    async with answering("text/event-stream", b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n') as model:
        error = (await failure_of(model, request())).error
    assert (error.code, error.retriable) == (ErrorCode.STREAM_FAILED, True)


async def test_an_error_inside_the_stream_has_the_providers_words() -> None:
    async with answering("text/event-stream", b'data: {"error": {"message": "boom"}}\n\n') as model:
        error = (await failure_of(model, request())).error
    assert error.code is ErrorCode.PROVIDER_ERROR
    assert "boom" in error.message


async def test_a_web_page_is_a_provider_error_that_names_the_option() -> None:
    async with answering("text/html", b"<html>") as model:
        error = (await failure_of(model, request())).error
    assert error.code is ErrorCode.PROVIDER_ERROR
    assert "--base-url" in error.message


async def test_an_answer_that_was_whole_when_the_connection_broke_is_kept() -> None:
    async def handle(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        await stream.send_all(head + f"{len(FINISHED):x}\r\n".encode() + FINISHED + b"\r\n")

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(lambda task_status: _listen(handle, task_status))
        async with HttpTransport({}) as transport:
            url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
            chunks = await chunks_of(OpenAIChatModel("big", transport, url), request())
        nursery.cancel_scope.cancel()
    assert isinstance(chunks[-1], FinishChunk)


# ── addresses


@pytest.mark.parametrize(
    ("base_url", "endpoint"),
    [
        ("http://h/v1", "http://h/v1/chat/completions"),
        ("http://h/v1/ ", "http://h/v1/chat/completions"),
        ("http://h/v1/chat/completions", "http://h/v1/chat/completions"),
        ("http://h/d?api-version=1", "http://h/d/chat/completions?api-version=1"),
        ("http://h", "http://h/chat/completions"),
    ],
)
async def test_the_endpoint_of_a_base_url(base_url: str, endpoint: str) -> None:
    assert OpenAIChatModel("big", HttpTransport({}), base_url)._url == endpoint


async def test_the_limit_has_the_name_that_the_server_knows() -> None:
    async with asking(script({"text": "a"})) as (model, server):
        await response_of(model, request(max_output_tokens=5))
    assert server.requests[0].body["max_tokens"] == 5
    assert OpenAIChatModel("big", HttpTransport({}))._limit_field == "max_completion_tokens"


async def test_the_models_name_and_provider() -> None:
    model = OpenAIChatModel("big:7b", HttpTransport({}))
    assert (model.name, model.provider) == ("openai-chat:big:7b", "openai")


async def test_a_turn_with_results_that_hold_anything_is_accepted_by_a_strict_server() -> None:
    odd = ("Bash", {"command": "printf '\\377'"}, "a\udcff\x00b")
    async with asking(script({"text": "1"}, {"text": "2"})) as (model, _):
        assert (await response_of(model, request(user(), *turn(1, odd)))).text == "2"
