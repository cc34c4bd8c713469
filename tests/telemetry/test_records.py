"""Values of spans: whatever comes in, what goes out can be exported and stored."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.records import (
    MAX_ATTRIBUTES,
    MAX_VALUE_CHARS,
    SpanRecord,
    clean_attributes,
    clean_record,
    clean_text,
    clean_value,
)
from tests.telemetry.spans import span_records


class Hostile:
    """Raises from everything a cleaner might try."""

    def __str__(self) -> str:
        raise RuntimeError("no text for you")

    __repr__ = __str__

    def __iter__(self) -> Any:
        raise RuntimeError("no items for you")


class HostileText(str):
    def encode(self, *args: Any) -> bytes:
        raise RuntimeError("no bytes for you")


anything = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(st.characters()),
        st.binary(),
        st.builds(Hostile),
        st.just(HostileText("x")),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=5), st.tuples(inner, inner), st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=8,
)


def is_plain(value: Any) -> bool:
    match value:
        case bool():
            return True
        case int():
            return -(2**63) <= value < 2**63
        case float():
            return math.isfinite(value)
        case str():
            return len(value) <= MAX_VALUE_CHARS and value.encode().decode() == value
        case list():
            same_type = len({type(item) for item in value}) <= 1
            return (
                same_type and not any(isinstance(item, list) for item in value) and all(map(is_plain, value))
            )
        case _:
            return False


@given(anything)
def test_any_value_becomes_one_that_every_exporter_takes(value: Any) -> None:
    assert is_plain(clean_value(value))


@given(anything)
def test_cleaning_twice_changes_nothing(value: Any) -> None:
    once = clean_value(value)
    assert once == clean_value(once)


@given(span_records)
def test_a_record_survives_json(record: SpanRecord) -> None:
    assert record == msgspec.json.decode(msgspec.json.encode(record), type=SpanRecord)


@given(span_records)
def test_a_clean_record_is_left_as_it_is(record: SpanRecord) -> None:
    assert record == clean_record(record)


@given(st.text(st.characters(), max_size=300), st.integers(40, 200))
def test_cut_text_keeps_to_its_limit_and_says_how_long_it_was(text: str, limit: int) -> None:
    cut = clean_text(text, limit)
    assert len(cut) <= limit
    if len(text) > limit:
        assert cut.endswith(f"[{len(text)} characters]")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2**63, str(2**63)),
        (math.inf, "inf"),
        ([1, 2], [1, 2]),
        ([True, 2], ["True", "2"]),
        ({"b", "a"}, ["a", "b"]),
        ([], []),
        ("\ud800", "?"),
    ],
)
def test_odd_values_turn_into_text_and_plain_lists_stay(value: Any, expected: Any) -> None:
    assert expected == clean_value(value)


def test_a_long_list_is_cut_and_says_so() -> None:
    cut = clean_value(["x" * 1000] * 50)
    assert isinstance(cut, list)
    assert sum(map(len, cut)) <= MAX_VALUE_CHARS + 40
    assert cut[-1] == "… [50 items]"


def test_attributes_beyond_the_limit_and_none_are_left_out() -> None:
    cleaned = clean_attributes({"none": None, **{f"key{n}": n for n in range(MAX_ATTRIBUTES + 5)}})
    assert len(cleaned) == MAX_ATTRIBUTES
    assert "none" not in cleaned
