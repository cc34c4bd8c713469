"""The event-stream parser: what is an event, and that it never matters how the bytes are cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.errors import ErrorCode, Failure
from agents.models.sse import MAX_EVENT_BYTES, SseParser


def parse(*chunks: bytes) -> list[str]:
    parser = SseParser()
    return [data for chunk in chunks for data in parser.feed(chunk)]


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({0, len(stream), *(place % (len(stream) + 1) for place in places)})
    return [stream[start:end] for start, end in pairwise(ends)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_every_line_end_of_the_standard_ends_a_line(end: bytes) -> None:
    assert parse(b"data: a" + end + end + b"data: b" + end + end) == ["a", "b"]


def test_several_data_lines_are_one_event_with_line_ends_between() -> None:
    assert parse(b"data: a\ndata:\ndata: b\n\n") == ["a\n\nb"]


def test_comments_and_other_fields_are_passed_over() -> None:
    assert parse(b": ping\n\nevent: delta\nid: 7\nretry: 10\ndata: x\nunknown\n\n") == ["x"]


def test_only_the_first_space_after_the_colon_is_dropped() -> None:
    assert parse(b"data:  a\n\ndata:b\n\n") == [" a", "b"]


def test_a_byte_order_mark_before_the_first_line_is_dropped() -> None:
    assert parse(b"\xef\xbb", b"\xbfdata: a\n\n") == ["a"]


def test_an_event_that_the_end_cuts_off_is_dropped() -> None:
    assert parse(b"data: a\n\ndata: b\n") == ["a"]


def test_a_carriage_return_and_its_line_feed_may_come_apart() -> None:
    assert parse(b"data: a\r", b"\n\r", b"\n", b"data: b\r", b"\r") == ["a", "b"]


def test_an_endless_event_is_refused_before_it_fills_the_memory() -> None:
    parser = SseParser()
    block = b"data: " + b"x" * (1024 * 1024) + b"\n"
    for _ in range(MAX_EVENT_BYTES // len(block)):
        parser.feed(block)
    with pytest.raises(Failure) as caught:
        parser.feed(block + block)
    assert caught.value.error.code is ErrorCode.PROVIDER_ERROR


_LINES = st.sampled_from(
    ["data: é", 'data: {"a": 1}', "data:", ": comment", "event: x", "", "", "data: 日本語 ", "id: 1", "data"]
)


@given(
    lines=st.lists(st.tuples(_LINES, st.sampled_from(["\n", "\r", "\r\n"])), max_size=12),
    places=st.lists(st.integers(0, 400), max_size=12),
)
def test_any_cut_of_a_stream_gives_the_same_events(lines: list[tuple[str, str]], places: list[int]) -> None:
    stream = "".join(line + end for line, end in lines).encode()
    assert parse(*cut(stream, places)) == parse(stream)
    assert parse(*(stream[i : i + 1] for i in range(len(stream)))) == parse(stream)


@given(st.lists(st.text(st.characters(exclude_characters="\r\n", codec="utf-8")), max_size=6))
def test_what_was_written_as_data_is_what_is_read(texts: list[str]) -> None:
    stream = "".join(f"data: {text}\n\n" for text in texts).encode()
    assert parse(stream) == texts
