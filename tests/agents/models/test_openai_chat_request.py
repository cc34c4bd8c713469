"""Encoding a request as chat completions."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agents.messages import Message, Part, Reasoning, Text, ToolCall, ToolResult
from agents.models.base import ModelRequest, ToolSpec
from agents.models.openai_chat import encode


def ask(
    *messages: Message, system: str = "Be brief.", tools: tuple[ToolSpec, ...] = (), **more: Any
) -> ModelRequest:
    return ModelRequest(
        system=system, messages=messages, tools=tools, agent_name="main", agent_label="main", **more
    )


def user(*texts: str) -> Message:
    return Message(id="u", role="user", parts=tuple(Text(text=text) for text in texts))


def assistant(*parts: Part) -> Message:
    return Message(id="a", role="assistant", parts=parts)


def call(call_id: str, provider: str | None = None, tool: str = "Read", arguments: Any = None) -> ToolCall:
    return ToolCall(call_id=call_id, tool=tool, arguments=arguments or {}, provider_call_id=provider)


def results(*pairs: tuple[str, str]) -> Message:
    return Message(
        id="t",
        role="tool",
        parts=tuple(ToolResult(call_id=call_id, ok=True, text=text) for call_id, text in pairs),
    )


def wire(request: ModelRequest, **options: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(encode(request, "big", stream=options.pop("stream", True), **options))
    return body


def test_the_system_message_comes_first() -> None:
    assert wire(ask(user("hi")))["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
    ]


def test_an_empty_system_prompt_is_left_out() -> None:
    assert wire(ask(user("hi"), system=""))["messages"] == [{"role": "user", "content": "hi"}]


def test_several_texts_are_one_content() -> None:
    assert wire(ask(user("a", "b"), system=""))["messages"][0]["content"] == "a\nb"


def test_a_stream_asks_for_its_usage() -> None:
    body = wire(ask(user("hi")))
    assert (body["model"], body["stream"], body["stream_options"]) == ("big", True, {"include_usage": True})


def test_without_a_stream_there_are_no_stream_options() -> None:
    body = wire(ask(user("hi")), stream=False)
    assert body["stream"] is False
    assert "stream_options" not in body


def test_tools_are_functions_and_none_is_no_key() -> None:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    tool = ToolSpec(name="Read", description="Reads.", schema=schema)
    assert wire(ask(user("hi"), tools=(tool,)))["tools"] == [
        {"type": "function", "function": {"name": "Read", "description": "Reads.", "parameters": schema}}
    ]
    assert "tools" not in wire(ask(user("hi")))


def test_the_output_limit_has_the_servers_name_for_it() -> None:
    assert wire(ask(user("hi"), max_output_tokens=9))["max_completion_tokens"] == 9
    assert wire(ask(user("hi"), max_output_tokens=9), limit_field="max_tokens")["max_tokens"] == 9


def test_each_result_is_one_tool_message_with_the_providers_id() -> None:
    request = ask(
        user("go"),
        assistant(Text(text="ok"), call("c1", "p1"), call("c2", "p2")),
        results(("c1", "A"), ("c2", "B")),
    )
    assistant_message, *tool_messages = wire(request)["messages"][2:]
    assert assistant_message["content"] == "ok"
    assert [c["id"] for c in assistant_message["tool_calls"]] == ["p1", "p2"]
    assert tool_messages == [
        {"role": "tool", "tool_call_id": "p1", "content": "A"},
        {"role": "tool", "tool_call_id": "p2", "content": "B"},
    ]


def test_a_call_without_a_providers_id_has_ours() -> None:
    request = ask(user("go"), assistant(call("c1"), call("c2", "")), results(("c1", "A"), ("c2", "B")))
    assert [m["tool_call_id"] for m in wire(request)["messages"][3:]] == ["c1", "c2"]


def test_an_id_that_the_provider_repeats_is_ours_from_the_second_time_on() -> None:
    request = ask(
        user("go"),
        assistant(call("c1", "call_0")),
        results(("c1", "A")),
        assistant(call("c2", "call_0")),
        results(("c2", "B")),
    )
    messages = wire(request)["messages"]
    assert [m["tool_call_id"] for m in messages if m["role"] == "tool"] == ["call_0", "c2"]
    assert [m["tool_calls"][0]["id"] for m in messages if m["role"] == "assistant"] == ["call_0", "c2"]


def test_an_answer_of_calls_alone_has_null_content_and_an_empty_one_an_empty_text() -> None:
    request = ask(user("go"), assistant(call("c1")), results(("c1", "A")), assistant(), user("and?"))
    contents = [m["content"] for m in wire(request)["messages"] if m["role"] == "assistant"]
    assert contents == [None, ""]


def test_arguments_are_sent_as_json_text() -> None:
    request = ask(user("go"), assistant(call("c1", arguments={"path": "é"})), results(("c1", "A")))
    function = wire(request)["messages"][2]["tool_calls"][0]["function"]
    assert (function["name"], json.loads(function["arguments"])) == ("Read", {"path": "é"})


def test_broken_arguments_go_back_inside_a_valid_object() -> None:
    request = ask(user("go"), assistant(call("c1", arguments='{"path": "a')), results(("c1", "A")))
    arguments = wire(request)["messages"][2]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(arguments) == {"invalid_arguments": '{"path": "a'}


def test_reasoning_goes_back_under_its_own_name_to_its_own_provider_only() -> None:
    own = Reasoning(provider="openai-chat", data={"reasoning_content": "hm"})
    other = Reasoning(provider="anthropic", data={"reasoning_content": "signed"})
    first, second = (
        m
        for m in wire(
            ask(user("go"), assistant(own, Text(text="x")), user("?"), assistant(other, Text(text="y")))
        )["messages"]
        if m["role"] == "assistant"
    )
    assert first["reasoning_content"] == "hm"
    assert "reasoning_content" not in second


def test_lone_surrogates_are_replaced_everywhere_and_pairs_joined() -> None:
    request = ask(
        user("a\ud800b", "\ud83d\ude00"),
        assistant(call("c1", arguments={"k\udcff": ["\udcff"]})),
        results(("c1", "\udc80")),
        system="\udfff",
    )
    body = encode(request, "big", stream=True).decode("utf-8")
    messages = json.loads(body)["messages"]
    assert messages[0]["content"] == "\ufffd"
    assert messages[1]["content"] == "a\ufffdb\n😀"
    assert json.loads(messages[2]["tool_calls"][0]["function"]["arguments"]) == {"k\ufffd": ["\ufffd"]}
    assert messages[3]["content"] == "\ufffd"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters()), inner, max_size=3),
    max_leaves=6,
)


@given(text=st.text(st.characters()), arguments=_JSON, result=st.text(st.characters()))
def test_the_body_is_valid_utf_8_json_whatever_it_holds(text: str, arguments: Any, result: str) -> None:
    request = ask(
        user(text),
        assistant(Text(text=text), call("c", arguments=arguments)),
        results(("c", result)),
        system=text,
    )
    body = json.loads(encode(request, "big", stream=True).decode("utf-8"))
    assert isinstance(json.loads(body["messages"][-2]["tool_calls"][0]["function"]["arguments"]), dict)
