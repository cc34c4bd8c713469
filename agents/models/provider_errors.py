"""What a provider's refusal means: status and body in, one error of ours out. Pure; one for every adapter."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import attrs
import msgspec

from agents.errors import ErrorCode, ToolError
from agents.models.retry import retry_after

MAX_BODY_CHARS = 500
"""How much of a provider's own words goes into a message."""

_TOO_LONG = re.compile(
    r"context_length_exceeded|(maximum )?context (length|window|size)|(prompt|input|request) is too long"
    r"|too many (input )?tokens|exceeds the maximum number of tokens|reduce the length of the",
    re.IGNORECASE,
)
_OUT_OF_CREDIT = re.compile(r"insufficient_quota|exceeded your current quota|credit balance", re.IGNORECASE)
_NO_SUCH_MODEL = re.compile(r"model_not_found|no such model|unknown model", re.IGNORECASE)
_OVERLOADED = re.compile(r"overloaded", re.IGNORECASE)

_RATE_LIMITED_STATUSES = frozenset({429, 529})
_TIMED_OUT_STATUSES = frozenset({408, 425})
_TOO_LONG_STATUSES = frozenset({400, 413, 422})


@attrs.frozen
class Asked:
    """Who was asked, for the messages."""

    model: str
    """`provider:name`."""
    address: str
    """Base URL without credentials."""
    key_variable: str
    """Environment variable that holds the provider's key."""


def refusal(
    asked: Asked, status: int, body: str, *, headers: Mapping[str, str] | None = None, now: float = 0.0
) -> ToolError:
    """The error of an answer with `status` (not 200). `headers` are lower-case, `now` is in epoch seconds.

    `details` holds `status` and, where the provider asks for a pause, `retryAfter` in seconds.
    """
    details: dict[str, Any] = {"status": status}
    pause = retry_after(headers or {}, now)
    if pause is not None:
        details["retryAfter"] = pause
    code, retriable, advice = _judge(asked, status, body)
    said = _words(body)
    message = f"{asked.model} answered with status {status}{f': {said}' if said else ''}. {advice}"
    return ToolError(code=code, message=message, details=details, retriable=retriable)


def error_in_answer(asked: Asked, error: Any) -> ToolError:
    """The error of an error object that came inside an answer that began well (status 200)."""
    body = error if isinstance(error, str) else msgspec.json.encode(error).decode("utf-8", "replace")
    status = _status_inside(error, body)
    code, retriable, advice = _judge(asked, status, body)
    message = (
        f"{asked.model} broke its answer off with an error: {_words(body) or 'no reason given'}. {advice}"
    )
    return ToolError(code=code, message=message, details={"status": status}, retriable=retriable)


def _judge(asked: Asked, status: int, body: str) -> tuple[ErrorCode, bool, str]:
    """Code, retriable, next step."""
    if status in (401, 403):
        advice = f"Set {asked.key_variable} to a key that may use this model at {asked.address}."
        return ErrorCode.PROVIDER_UNAUTHORIZED, False, advice
    if status in _TOO_LONG_STATUSES and _TOO_LONG.search(body):
        advice = "Start a new task with a shorter prompt, or choose a model with a larger context window."
        return ErrorCode.CONTEXT_OVERFLOW, False, advice
    if status == 404 or (status == 400 and _NO_SUCH_MODEL.search(body)):
        advice = f"Check the model's name (--model) and the address {asked.address} (--base-url)."
        return ErrorCode.MODEL_NOT_CONFIGURED, False, advice
    if status in _RATE_LIMITED_STATUSES or (status >= 500 and _OVERLOADED.search(body)):
        if _OUT_OF_CREDIT.search(body):
            return (
                ErrorCode.PROVIDER_RATE_LIMITED,
                False,
                "Add credit to the provider's account, or use another key.",
            )
        return ErrorCode.PROVIDER_RATE_LIMITED, True, "Wait and run it again, or run fewer delegates at once."
    if status >= 500 or status in _TIMED_OUT_STATUSES:
        return (
            ErrorCode.PROVIDER_ERROR,
            True,
            "Run it again; if it persists, look at the provider's status page.",
        )
    if status < 400:
        advice = f"Check --base-url: {asked.address} does not answer like a model provider."
        return ErrorCode.PROVIDER_ERROR, False, advice
    return (
        ErrorCode.PROVIDER_ERROR,
        False,
        "The request was refused as it is; change the model or its settings.",
    )


def _status_inside(error: Any, body: str) -> int:
    """The HTTP status that an error object names or amounts to; 502 (try again) where it says nothing."""
    if isinstance(error, dict):
        for key in ("status", "code", "status_code"):
            value = error.get(key)
            number = int(value) if isinstance(value, str) and value.isdecimal() else value
            if isinstance(number, int) and not isinstance(number, bool) and 400 <= number <= 599:
                return number
    for pattern, status in (
        (_TOO_LONG, 400),
        (_NO_SUCH_MODEL, 404),
        (_OUT_OF_CREDIT, 429),
        (_OVERLOADED, 529),
    ):
        if pattern.search(body):
            return status
    if "rate_limit" in body:
        return 429
    return 400 if "invalid_request" in body else 502


def _words(body: str) -> str:
    """The provider's own sentence if the body has one, else the body; on one line and cut."""
    text = body
    try:
        said = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        said = None
    error = said.get("error", said) if isinstance(said, dict) else None
    if isinstance(error, dict):
        error = error.get("message", error.get("detail"))
    if isinstance(error, str):
        text = error
    text = " ".join(text.split())
    if len(text) > MAX_BODY_CHARS:
        text = text[:MAX_BODY_CHARS] + "…"
    return text.removesuffix(".")
