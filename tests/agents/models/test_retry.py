"""The retry policy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.errors import ErrorCode, ToolError
from agents.models.retry import MAX_WAIT_SECONDS, next_attempt, retry_after

FAULTS = [ErrorCode.NETWORK_ERROR, ErrorCode.STREAM_FAILED, ErrorCode.PROVIDER_ERROR]
NOW = 1_792_000_000.0


def error(code: ErrorCode, *, retriable: bool = True, **details: object) -> ToolError:
    return ToolError(code=code, message="…", retriable=retriable, details=dict(details))


def retries(problem: ToolError) -> int:
    return sum(next_attempt(problem, attempt, 0.5) is not None for attempt in range(1, 20))


def test_a_rate_limit_is_retried_five_times() -> None:
    assert retries(error(ErrorCode.PROVIDER_RATE_LIMITED)) == 5


@pytest.mark.parametrize("code", FAULTS)
def test_a_fault_is_retried_twice(code: ErrorCode) -> None:
    assert retries(error(code)) == 2


@pytest.mark.parametrize("code", [*FAULTS, ErrorCode.PROVIDER_RATE_LIMITED])
def test_what_is_not_retriable_is_never_retried(code: ErrorCode) -> None:
    assert retries(error(code, retriable=False)) == 0


@pytest.mark.parametrize(
    "code", [ErrorCode.PROVIDER_UNAUTHORIZED, ErrorCode.MODEL_NOT_CONFIGURED, ErrorCode.CONTEXT_OVERFLOW]
)
def test_other_codes_are_never_retried_even_if_marked(code: ErrorCode) -> None:
    assert retries(error(code)) == 0


def test_nothing_is_retried_once_a_tool_call_was_complete() -> None:
    assert next_attempt(error(ErrorCode.STREAM_FAILED), 1, 0.5, call_complete=True) is None


def test_the_wait_that_the_provider_asks_for_goes_first_and_has_no_jitter() -> None:
    assert next_attempt(error(ErrorCode.PROVIDER_RATE_LIMITED, retryAfter=7.5), 3, 0.1) == 7.5


def test_a_wait_of_an_hour_is_cut_to_the_longest_wait() -> None:
    assert next_attempt(error(ErrorCode.PROVIDER_RATE_LIMITED, retryAfter=3600), 1, 0.1) == MAX_WAIT_SECONDS


@pytest.mark.parametrize("nonsense", ["soon", -1, float("nan"), float("inf"), None])
def test_a_wait_that_makes_no_sense_is_ignored(nonsense: object) -> None:
    wait = next_attempt(error(ErrorCode.PROVIDER_RATE_LIMITED, retryAfter=nonsense), 1, 0.5)
    assert wait == 0.5


def test_the_wait_doubles() -> None:
    limited = error(ErrorCode.PROVIDER_RATE_LIMITED)
    assert [next_attempt(limited, attempt, 0.5) for attempt in range(1, 6)] == [0.5, 1, 2, 4, 8]


@given(
    code=st.sampled_from(list(ErrorCode)),
    attempt=st.integers(1, 100),
    jitter=st.floats(0, 1, exclude_max=True),
    asked=st.none() | st.floats() | st.integers(-(10**6), 10**6),
)
def test_a_wait_is_never_negative_nor_longer_than_the_longest(
    code: ErrorCode, attempt: int, jitter: float, asked: float | None
) -> None:
    wait = next_attempt(error(code, retryAfter=asked), attempt, jitter)
    assert wait is None or 0 <= wait <= MAX_WAIT_SECONDS


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after-ms": "200"}, 0.2),
        ({"retry-after-ms": "200", "retry-after": "9"}, 0.2),
        ({"retry-after-ms": "x", "retry-after": "9"}, 9.0),
        ({"retry-after": "Wed, 14 Oct 2026 17:46:45 GMT"}, 5.0),
        ({"retry-after": "Wed, 14 Oct 2026 17:46:45"}, 5.0),
        ({"retry-after": "Tue, 13 Oct 2026 00:00:00 GMT"}, 0.0),
        ({"retry-after": "tomorrow"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": ""}, None),
        ({}, None),
    ],
)
def test_the_headers_that_ask_for_a_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds
