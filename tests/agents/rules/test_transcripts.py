"""What is sent to a provider is valid, whatever the store holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agents.messages import Message, Text, ToolCall, ToolResult
from agents.rules.transcripts import LEFT_OUT, after_overflows, for_request, shortened


def user(text: str = "go") -> Message:
    return Message(id="u", role="user", parts=(Text(text=text),))


def assistant(*call_ids: str, text: str = "") -> Message:
    parts = [Text(text=text)] if text else []
    made = [ToolCall(call_id=i, tool="Read", arguments={}) for i in call_ids]
    return Message(id="a", role="assistant", parts=(*parts, *made))


def results(*call_ids: str) -> Message:
    return Message(
        id="t", role="tool", parts=tuple(ToolResult(call_id=i, ok=True, text="fine") for i in call_ids)
    )


def test_an_ordinary_conversation_is_sent_as_it_is() -> None:
    messages = (user(), assistant("1", "2"), results("1", "2"), assistant(text="done"))
    assert for_request(messages) == messages


def test_a_call_without_a_result_is_answered_as_interrupted() -> None:
    sent = for_request([user(), assistant("1"), user("again")])
    assert [message.role for message in sent] == ["user", "assistant", "tool", "user"]
    assert "INTERRUPTED" in sent[2].results[0].text


def test_a_missing_result_of_a_batch_is_added_in_call_order() -> None:
    sent = for_request([user(), assistant("1", "2", "3"), results("3", "1")])
    assert [result.call_id for result in sent[2].results] == ["1", "2", "3"]
    assert [result.ok for result in sent[2].results] == [True, False, True]


def test_a_result_without_its_call_is_left_out() -> None:
    assert for_request([user(), results("9"), assistant(text="x")]) == (user(), assistant(text="x"))


def test_neighbouring_user_messages_become_one() -> None:
    (sent,) = for_request([user("one"), user("two")])
    assert sent.text == "one\ntwo"


MESSAGES = st.lists(
    st.one_of(
        st.just(user()),
        st.just(assistant(text="words")),
        st.lists(st.sampled_from("1234"), unique=True, min_size=1).map(lambda ids: assistant(*ids)),
        st.lists(st.sampled_from("1234"), unique=True, min_size=1).map(lambda ids: results(*ids)),
    ),
    max_size=12,
)


@given(MESSAGES)
def test_every_call_is_answered_exactly_once_and_roles_alternate(messages: list[Message]) -> None:
    sent = for_request([user(), *messages])
    assert sent[0].role == "user"
    for before, after in zip(sent, (*sent[1:], None), strict=False):
        if before.calls:
            assert after is not None
            assert [call.call_id for call in before.calls] == [r.call_id for r in after.results]
        if after is not None:
            assert before.role != after.role or before.role not in ("user", "assistant", "tool")
            assert after.role != "tool" or before.calls


@given(MESSAGES)
def test_a_valid_conversation_stays_valid(messages: list[Message]) -> None:
    sent = for_request([user(), *messages])
    assert for_request(sent) == sent


def long_results(*sizes: int) -> list[Message]:
    """A conversation of one call per size, each with a result of so many characters."""
    messages = [user("the task")]
    for number, size in enumerate(sizes):
        result = ToolResult(call_id=str(number), ok=True, text="x" * size)
        messages += [assistant(str(number)), Message(id="t", role="tool", parts=(result,))]
    return messages


def test_the_oldest_long_results_are_left_out_first_and_the_brief_stays() -> None:
    kept = shortened(long_results(5000, 5000, 5000), 7000)
    assert [message.results[0].text for message in kept if message.results] == [
        LEFT_OUT,
        LEFT_OUT,
        "x" * 5000,
    ]
    assert kept[0].text == "the task"


def test_a_conversation_that_was_never_too_long_stays_as_it_is() -> None:
    messages = long_results(5000, 5000)
    assert after_overflows(messages, 0) == tuple(messages)


def test_each_overflow_halves_what_is_sent() -> None:
    messages = long_results(*[10_000] * 8)
    sizes = [
        sum(len(result.text) for message in after_overflows(messages, n) for result in message.results)
        for n in range(4)
    ]
    assert sizes[1] < sizes[0] * 0.55
    assert sizes[2] < sizes[0] * 0.30
    assert sizes[3] < sizes[0] * 0.17


@given(st.lists(st.integers(min_value=0, max_value=3000), max_size=8), st.integers(0, 20_000))
def test_shortening_keeps_every_call_every_answer_and_their_order(sizes: list[int], most: int) -> None:
    messages = long_results(*sizes)
    kept = shortened(messages, most)
    assert [[p.call_id for p in m.results] for m in kept] == [
        [p.call_id for p in m.results] for m in messages
    ]
    assert [(m.role, m.text, m.calls) for m in kept] == [(m.role, m.text, m.calls) for m in messages]
    assert for_request(kept) == kept
