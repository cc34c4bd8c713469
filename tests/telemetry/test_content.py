"""Content in spans: only when asked for, without secrets, short, and always valid JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.content import MAX_JSON_CHARS, REDACTED, captured, redact

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters()), inner, max_size=4),
    max_leaves=20,
)


def test_nothing_is_captured_unless_it_is_asked_for() -> None:
    assert captured({"a": 1}, False) is None
    assert captured(None, True) is None


@given(json_values)
def test_whatever_is_captured_is_valid_json_of_bounded_length(value: Any) -> None:
    text = captured(value, True)
    assert (text is None) == (value is None)
    if text is not None:
        json.loads(text)
        assert len(text) <= MAX_JSON_CHARS


@pytest.mark.parametrize(
    "text",
    [
        "sk-0123456789abcdef",
        "export OPENAI_API_KEY=hunter2hunter2",
        "Authorization: Bearer abcdefgh12345678",
        "password: correct-horse",
        "ghp_0123456789abcdefghij",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-def_1",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEabc\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_what_looks_like_a_key_is_masked_wherever_it_stands(text: str) -> None:
    told = captured({"command": f"run {text} now", "list": [text]}, True)
    assert told is not None
    secret = max(text.replace("\n", " ").split(), key=len).split("=")[-1]
    assert secret not in told
    assert told.count(REDACTED) == 2


def test_a_value_is_masked_by_its_name_alone() -> None:
    told = json.loads(captured({"api_key": "plain", "inputTokens": 5, "path": "a.txt"}, True) or "")
    assert told == {"api_key": REDACTED, "inputTokens": 5, "path": "a.txt"}


def test_a_long_text_says_how_long_it_was() -> None:
    told = json.loads(captured({"content": "x" * 200_000}, True) or "")
    assert told["content"].endswith("… [200000 characters]")
    assert len(told["content"]) < 1100


def test_a_large_object_keeps_its_beginning_and_its_size() -> None:
    told = json.loads(captured([f"{n}" * 500 for n in range(40)], True) or "")
    assert told["cut"] is True
    assert told["characters"] > MAX_JSON_CHARS


def test_deep_values_and_odd_ones_are_told_shortly() -> None:
    deep: Any = "bottom"
    for _ in range(5000):
        deep = [deep]
    for value in (deep, object(), {"x": object}, {1, 2}, 2**80, {"\ud800": "\udfff"}):
        told = captured(value, True)
        assert told is not None
        assert len(told) <= 2 * MAX_JSON_CHARS
        json.loads(told)


def test_no_text_keeps_the_patterns_busy() -> None:
    """Quadratic ones would take hours over these."""
    for text in ("x-" * 3_000_000, "token" * 1_000_000, "a" * 6_000_000, "password=" * 600_000):
        captured(text, True)
        assert redact(text[:8192])
