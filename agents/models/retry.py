"""The one retry policy: how long to wait before a failed request is sent again, or not at all. Pure.

| failure | retries | wait |
|---|---|---|
| PROVIDER_RATE_LIMITED (429, overloaded) | 5 | what `retryAfter` asks, else exponential, full jitter |
| NETWORK_ERROR, STREAM_FAILED, PROVIDER_ERROR marked retriable (5xx) | 2 | the same, shorter |
| everything else, or not retriable, or a tool call was already complete | 0 | |
"""

from __future__ import annotations

import datetime
import email.utils
import math
from collections.abc import Mapping

from agents.errors import ErrorCode, ToolError

RATE_LIMIT_RETRIES = 5
FAULT_RETRIES = 2
MAX_WAIT_SECONDS = 60.0
"""Longest single wait; a provider that asks for more is asked again after this."""

_FIRST_WAIT = {ErrorCode.PROVIDER_RATE_LIMITED: 1.0}
_FIRST_FAULT_WAIT = 0.5
_RETRIES = {
    ErrorCode.PROVIDER_RATE_LIMITED: RATE_LIMIT_RETRIES,
    ErrorCode.NETWORK_ERROR: FAULT_RETRIES,
    ErrorCode.STREAM_FAILED: FAULT_RETRIES,
    ErrorCode.PROVIDER_ERROR: FAULT_RETRIES,
}


def next_attempt(
    error: ToolError, attempt: int, jitter: float, *, call_complete: bool = False
) -> float | None:
    """Seconds to wait before attempt number `attempt + 1`; None: give up.

    `attempt` is the number of the attempt that failed, from 1. `jitter` is a random number in [0, 1).
    `call_complete` says that the cut response had already given a whole tool call: asking again could do its
    work twice. `error.details["retryAfter"]` (seconds) goes before the exponential wait.
    """
    if not error.retriable or call_complete or attempt > _RETRIES.get(error.code, 0):
        return None
    asked = error.details.get("retryAfter")
    if isinstance(asked, int | float) and math.isfinite(asked) and asked >= 0:
        return min(float(asked), MAX_WAIT_SECONDS)
    longest: float = _FIRST_WAIT.get(error.code, _FIRST_FAULT_WAIT) * 2.0 ** (attempt - 1)
    return min(longest, MAX_WAIT_SECONDS) * jitter


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds the provider asks to wait, from `retry-after-ms` or `retry-after` (seconds or HTTP date).

    `headers` has lower-case names; `now` is seconds since the epoch. None where neither header makes sense.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    seconds = _number(text)
    if seconds is not None or text is None:
        return seconds
    try:
        moment = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return max(0.0, moment.timestamp() - now)


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else -1.0
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
