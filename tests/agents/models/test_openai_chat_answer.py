"""Decoding chat-completion answers, streamed and whole."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.errors import ErrorCode, Failure
from agents.messages import Reasoning, Text, Usage
from agents.models.base import (
    CallChunk,
    Chunk,
    FinishChunk,
    ModelResponse,
    ReasoningChunk,
    TextChunk,
    assemble,
)
from agents.models.openai_chat import ChatDecoder
from agents.models.provider_errors import Asked
from agents.models.sse import SseParser
from tests.fakes.chat_wire import streamed_answer, whole_answer

ASKED = Asked(model="openai-chat:big", address="http://host/v1", key_variable="OPENAI_API_KEY")


def delta(content: dict[str, Any], reason: str | None = None, **more: Any) -> str:
    choice = {"index": 0, "delta": content, "finish_reason": reason}
    return json.dumps({"id": "r1", "model": "big-1", "choices": [choice], **more})


def calls(*deltas: dict[str, Any], reason: str | None = None) -> str:
    return delta({"tool_calls": list(deltas)}, reason)


def piece(
    arguments: Any = "", *, index: int | None = None, id: str | None = None, name: str | None = None
) -> dict[str, Any]:
    function = {"arguments": arguments} | ({"name": name} if name is not None else {})
    entry: dict[str, Any] = {"function": function}
    return entry | ({"index": index} if index is not None else {}) | ({"id": id} if id is not None else {})


def stream(*events: str) -> list[Chunk]:
    decoder = ChatDecoder(ASKED)
    return [chunk for event in events for chunk in decoder.feed(event)] + decoder.close()


def call_chunks(*events: str) -> list[CallChunk]:
    chunks = stream(*events, delta({}, "tool_calls"))
    return [chunk for chunk in chunks if isinstance(chunk, CallChunk)]


def whole(message: dict[str, Any], reason: str | None = "stop", **more: Any) -> list[Chunk]:
    body = {"id": "r1", "model": "big-1", "choices": [{"message": message, "finish_reason": reason}], **more}
    return ChatDecoder(ASKED).decode_whole(json.dumps(body).encode())


def response(chunks: Sequence[Chunk]) -> ModelResponse | None:
    return assemble(list(chunks))


# ── text, finish, usage


def test_text_comes_as_it_is_streamed_and_the_finish_last() -> None:
    assert stream(
        delta({"role": "assistant", "content": ""}),
        delta({"content": "a"}),
        delta({"content": "b"}),
        delta({}, "stop"),
        "[DONE]",
    ) == [
        TextChunk("a"),
        TextChunk("b"),
        FinishChunk("stop", Usage(), "r1", "big-1"),
    ]


def test_usage_comes_after_the_finish_reason() -> None:
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    chunks = stream(delta({"content": "a"}, "stop"), json.dumps({"choices": [], "usage": usage}), "[DONE]")
    assert isinstance(chunks[-1], FinishChunk)
    assert chunks[-1].usage == Usage(
        input_tokens=10, output_tokens=5, cache_read_tokens=4, reasoning_tokens=3
    )


def test_usage_may_be_null_partial_or_named_otherwise() -> None:
    odd = {
        "prompt_tokens": 7,
        "completion_tokens": None,
        "prompt_tokens_details": None,
        "prompt_cache_hit_tokens": 2,
    }
    chunks = stream(delta({"content": "a"}, usage=None), delta({}, "stop", usage=odd))
    assert isinstance(chunks[-1], FinishChunk)
    assert chunks[-1].usage == Usage(input_tokens=7, cache_read_tokens=2)


def test_a_stream_without_a_finish_reason_has_no_finish() -> None:
    assert stream(delta({"content": "a"})) == [TextChunk("a")]
    assert stream(delta({"content": "a"}), "[DONE]") == [TextChunk("a")]


def test_a_finish_reason_without_the_done_event_is_a_finish() -> None:
    assert response(stream(delta({"content": "a"}), delta({}, "length"))) == ModelResponse(
        (Text(text="a"),), FinishChunk("length", Usage(), "r1", "big-1")
    )


def test_there_is_one_finish_however_often_it_is_said() -> None:
    chunks = stream(delta({}, "stop"), delta({}, "stop"), "[DONE]", "[DONE]", delta({"content": "late"}))
    assert [type(chunk) for chunk in chunks] == [FinishChunk]


def test_content_may_be_null_or_a_list_of_parts() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "image"}, "odd", {"type": "text", "text": "b"}]
    assert whole({"content": parts})[0] == TextChunk("ab")
    assert [type(chunk) for chunk in whole({"content": None})] == [FinishChunk]


def test_a_refusal_is_visible_text() -> None:
    assert stream(delta({"refusal": "I cannot."}))[0] == TextChunk("I cannot.")


def test_events_without_choices_and_other_choices_are_passed_over() -> None:
    other = json.dumps({"choices": [{"index": 1, "delta": {"content": "x"}}]})
    assert stream(json.dumps({"prompt_filter_results": []}), json.dumps({"choices": None}), other) == []


# ── reasoning


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_one_block_before_the_text_under_its_own_name(field: str) -> None:
    chunks = stream(
        delta({field: "h"}), delta({field: "m", "content": None}), delta({"content": "a"}), delta({}, "stop")
    )
    assert chunks[:2] == [
        ReasoningChunk(Reasoning(provider="openai-chat", data={field: "hm"})),
        TextChunk("a"),
    ]


def test_reasoning_under_both_names_is_kept_once() -> None:
    chunks = whole({"reasoning_content": "hm", "reasoning": "hm", "content": "a"})
    assert chunks[0] == ReasoningChunk(Reasoning(provider="openai-chat", data={"reasoning_content": "hm"}))
    assert chunks[1] == TextChunk("a")


def test_reasoning_comes_before_the_calls_of_an_answer_without_text() -> None:
    chunks = stream(
        delta({"reasoning": "hm"}), calls(piece("{}", index=0, id="a", name="T")), delta({}, "tool_calls")
    )
    assert [type(chunk) for chunk in chunks] == [ReasoningChunk, CallChunk, FinishChunk]


# ── tool calls


def test_arguments_may_be_cut_anywhere_and_the_id_come_only_once() -> None:
    assert call_chunks(
        calls(piece(index=0, id="a", name="Read")),
        calls(piece('{"pa', index=0)),
        calls(piece('th": "x"}', index=0)),
    ) == [CallChunk("Read", {"path": "x"}, "a")]


def test_parallel_calls_may_interleave() -> None:
    assert call_chunks(
        calls(piece(index=0, id="a", name="Read"), piece(index=1, id="b", name="Grep")),
        calls(piece('{"x"', index=1)),
        calls(piece('{"y"', index=0), piece(": 1}", index=1)),
        calls(piece(": 2}", index=0)),
    ) == [CallChunk("Read", {"y": 2}, "a"), CallChunk("Grep", {"x": 1}, "b")]


def test_calls_come_in_the_order_of_their_indices() -> None:
    found = call_chunks(
        calls(piece("{}", index=2, id="c", name="C")), calls(piece("{}", index=0, id="a", name="A"))
    )
    assert [call.tool for call in found] == ["A", "C"]


def test_whole_calls_in_one_delta_need_no_index() -> None:
    assert call_chunks(calls(piece("{}", id="a", name="A"), piece('{"x": 1}', id="b", name="B"))) == [
        CallChunk("A", {}, "a"),
        CallChunk("B", {"x": 1}, "b"),
    ]


def test_whole_calls_in_one_delta_need_neither_index_nor_id() -> None:
    found = call_chunks(calls(piece("", name="A"), piece("", name="B")), calls(piece('{"x": 1}', name="C")))
    assert [(call.tool, call.arguments, call.provider_call_id) for call in found] == [
        ("A", {}, None),
        ("B", {}, None),
        ("C", {"x": 1}, None),
    ]


def test_several_whole_calls_may_share_one_index() -> None:
    assert call_chunks(
        calls(piece('{"x": 1}', index=0, id="a", name="T")),
        calls(piece('{"x": 2}', index=0, id="b", name="T")),
    ) == [CallChunk("T", {"x": 1}, "a"), CallChunk("T", {"x": 2}, "b")]


def test_pieces_without_an_index_go_on_with_the_call_of_their_id_or_the_last_one() -> None:
    assert call_chunks(
        calls(piece("", id="a", name="A")), calls(piece('{"x":')), calls(piece(" 1}", id="a"))
    ) == [CallChunk("A", {"x": 1}, "a")]


def test_a_new_id_in_every_piece_does_not_make_new_calls() -> None:
    assert call_chunks(
        calls(piece("", index=0, id="a", name="A")), calls(piece("{}", index=0, id="zzz"))
    ) == [CallChunk("A", {}, "a")]


def test_a_name_that_is_repeated_in_every_piece_is_one_name() -> None:
    assert call_chunks(
        calls(piece("{", index=0, id="a", name="A")), calls(piece("}", index=0, id="a", name="A"))
    ) == [CallChunk("A", {}, "a")]


def test_arguments_may_come_as_an_object() -> None:
    assert call_chunks(calls(piece({"x": 1}, index=0, id="a", name="A"))) == [CallChunk("A", {"x": 1}, "a")]


@pytest.mark.parametrize(
    "text", ['{"x": ', "nonsense", "[1]", "7", '"{}"', "null", '{"a": 1} x', "[" * 100_000]
)
def test_arguments_that_are_no_object_are_kept_as_they_were_written(text: str) -> None:
    assert call_chunks(calls(piece(text, index=0, id="a", name="A")))[0].arguments == text


@pytest.mark.parametrize("text", ["", "  ", None])
def test_no_arguments_at_all_are_an_empty_object(text: str | None) -> None:
    assert call_chunks(calls(piece(text, index=0, id="a", name="A")))[0].arguments == {}


def test_a_call_without_a_name_is_still_a_call() -> None:
    assert call_chunks(calls(piece("{}", index=0, id="a"))) == [CallChunk("", {}, "a")]
    assert call_chunks(calls(piece("{}", id="a", name="A")), calls(piece('{"x": 1}', id="b", name=""))) == [
        CallChunk("A", {}, "a"),
        CallChunk("", {"x": 1}, "b"),
    ]


def test_arguments_that_are_nested_too_deep_are_kept_as_they_were_written() -> None:
    text = '{"a":' * 800 + "1" + "}" * 800
    assert call_chunks(calls(piece(text, index=0, id="a", name="A")))[0].arguments == text


def test_a_stream_that_is_cut_gives_no_call() -> None:
    assert stream(calls(piece("{}", index=0, id="a", name="A"))) == []


# ── whole answers


def test_a_whole_answer_gives_the_same_chunks_as_a_stream() -> None:
    message = {
        "content": "a",
        "tool_calls": [{"id": "x", "type": "function", "function": {"name": "T", "arguments": '{"y": 1}'}}],
    }
    assert whole(message, "tool_calls", usage={"prompt_tokens": 3, "completion_tokens": 2}) == [
        TextChunk("a"),
        CallChunk("T", {"y": 1}, "x"),
        FinishChunk("tool_calls", Usage(input_tokens=3, output_tokens=2), "r1", "big-1"),
    ]


@pytest.mark.parametrize(
    ("message", "reason"),
    [({"content": "a"}, "stop"), ({"tool_calls": [piece("{}", id="a", name="A")]}, "tool_calls")],
)
def test_a_whole_answer_without_a_finish_reason_is_whole_all_the_same(
    message: dict[str, Any], reason: str
) -> None:
    finish = whole(message, None)[-1]
    assert isinstance(finish, FinishChunk)
    assert finish.reason == reason


# ── what cannot be read


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"{}", b'{"choices": []}', b'{"choices": [{}]}', b"\xff", b"[" * 100_000]
)
def test_an_unreadable_body_is_a_provider_error(body: bytes) -> None:
    with pytest.raises(Failure) as caught:
        ChatDecoder(ASKED).decode_whole(body)
    assert caught.value.error.code is ErrorCode.PROVIDER_ERROR
    assert "--base-url" in caught.value.error.message


@pytest.mark.parametrize("data", ["", "nonsense", "[]", "1"])
def test_an_unreadable_event_is_a_provider_error(data: str) -> None:
    with pytest.raises(Failure) as caught:
        stream(data)
    assert caught.value.error.code is ErrorCode.PROVIDER_ERROR


@pytest.mark.parametrize(
    "event",
    [
        {"error": {"message": "boom", "code": 500}},
        {"error": "boom"},
        {"object": "error", "message": "boom", "code": 500},
    ],
)
def test_an_error_inside_a_stream_is_a_provider_error_with_its_words(event: dict[str, Any]) -> None:
    with pytest.raises(Failure, match="boom") as caught:
        stream(delta({"content": "a"}), json.dumps(event))
    assert caught.value.error.code is ErrorCode.PROVIDER_ERROR
    assert caught.value.error.retriable


def test_half_a_surrogate_pair_is_replaced_and_the_answer_kept() -> None:
    halves = [json.dumps({"choices": [{"delta": {"content": half}}]}) for half in ("a\ud83d", "\ude00b")]
    assert stream(*halves) == [TextChunk("a\ufffd"), TextChunk("\ufffdb")]
    found = call_chunks(calls(piece('{"x": "\\ud83d"}', index=0, id="a", name="A")))
    assert found[0].arguments == {"x": "\ufffd"}


# ── properties

_NAMES = st.sampled_from(["Read", "Edit", "Grep"])
_ARGUMENTS = st.dictionaries(st.text(max_size=4), st.text(max_size=8) | st.integers(), max_size=3)
_CHUNKS = st.builds(
    lambda texts, asked, usage: (
        *(TextChunk(text) for text in texts),
        *(CallChunk(name, arguments, f"call_{n}") for n, (name, arguments) in enumerate(asked)),
        FinishChunk("tool_calls" if asked else "stop", Usage(input_tokens=usage), "r", "m"),
    ),
    st.lists(st.text(min_size=1, max_size=8), max_size=3),
    st.lists(st.tuples(_NAMES, _ARGUMENTS), max_size=4),
    st.integers(0, 9),
)


def read(pieces: list[bytes]) -> list[Chunk]:
    parser, decoder = SseParser(), ChatDecoder(ASKED)
    return [chunk for piece in pieces for data in parser.feed(piece) for chunk in decoder.feed(data)]


@given(chunks=_CHUNKS, places=st.lists(st.integers(0, 5000), max_size=20))
def test_any_cut_of_a_stream_into_pieces_gives_the_same_chunks(
    chunks: tuple[Chunk, ...], places: list[int]
) -> None:
    sent = b"".join(streamed_answer(chunks, "r", "m"))
    ends = sorted({0, len(sent), *(place % (len(sent) + 1) for place in places)})
    assert read([sent[start:end] for start, end in pairwise(ends)]) == list(chunks)


@given(chunks=_CHUNKS)
def test_stream_and_whole_answer_add_up_to_the_same_response(chunks: tuple[Chunk, ...]) -> None:
    body = json.dumps(whole_answer(chunks, "r", "m")).encode()
    assert response(ChatDecoder(ASKED).decode_whole(body)) == response(chunks)


@given(chunks=_CHUNKS, data=st.data())
def test_a_stream_cut_before_its_finish_never_has_one(chunks: tuple[Chunk, ...], data: st.DataObject) -> None:
    events = list(streamed_answer(chunks, "r", "m"))[:-3]
    kept = events[: data.draw(st.integers(0, len(events)))]
    assert response(read(kept)) is None


_FIELDS = (
    *("choices", "index", "delta", "message", "content", "tool_calls", "id", "function", "name"),
    *("arguments", "usage", "finish_reason", "error", "text", "reasoning"),
)
_WILD = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(_FIELDS),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(st.lists(_WILD, max_size=4))
def test_whatever_is_sent_gives_chunks_or_a_failure_and_no_other_exception(events: list[Any]) -> None:
    decoder = ChatDecoder(ASKED)
    with contextlib.suppress(Failure):
        for event in events:
            decoder.feed(json.dumps(event))
        decoder.close()
    with contextlib.suppress(Failure):
        ChatDecoder(ASKED).decode_whole(json.dumps(events[:1]).encode()[1:-1])
