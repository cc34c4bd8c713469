"""What a refusal means."""

from __future__ import annotations

import json

import pytest

from agents.errors import ErrorCode
from agents.models.provider_errors import Asked, error_in_answer, refusal

ASKED = Asked(model="openai-chat:big", address="https://api.example/v1", key_variable="OPENAI_API_KEY")


def said(message: str, **more: object) -> str:
    return json.dumps({"error": {"message": message, **more}})


@pytest.mark.parametrize(
    ("status", "body", "code", "retriable"),
    [
        (401, "", ErrorCode.PROVIDER_UNAUTHORIZED, False),
        (403, said("no"), ErrorCode.PROVIDER_UNAUTHORIZED, False),
        (404, said("The model does not exist"), ErrorCode.MODEL_NOT_CONFIGURED, False),
        (400, said("x", code="model_not_found"), ErrorCode.MODEL_NOT_CONFIGURED, False),
        (429, said("slow down"), ErrorCode.PROVIDER_RATE_LIMITED, True),
        (429, said("x", code="insufficient_quota"), ErrorCode.PROVIDER_RATE_LIMITED, False),
        (529, "", ErrorCode.PROVIDER_RATE_LIMITED, True),
        (503, said("Overloaded"), ErrorCode.PROVIDER_RATE_LIMITED, True),
        (400, said("x", code="context_length_exceeded"), ErrorCode.CONTEXT_OVERFLOW, False),
        (400, said("This model's maximum context length is 8192"), ErrorCode.CONTEXT_OVERFLOW, False),
        (400, said("prompt is too long: 9 tokens"), ErrorCode.CONTEXT_OVERFLOW, False),
        (400, said("exceeds the available context size"), ErrorCode.CONTEXT_OVERFLOW, False),
        (400, said("unknown field"), ErrorCode.PROVIDER_ERROR, False),
        (422, "", ErrorCode.PROVIDER_ERROR, False),
        (408, "", ErrorCode.PROVIDER_ERROR, True),
        (500, "<html>", ErrorCode.PROVIDER_ERROR, True),
        (503, "", ErrorCode.PROVIDER_ERROR, True),
        (302, "", ErrorCode.PROVIDER_ERROR, False),
        (204, "", ErrorCode.PROVIDER_ERROR, False),
    ],
)
def test_status_and_body_choose_the_code(status: int, body: str, code: ErrorCode, retriable: bool) -> None:
    error = refusal(ASKED, status, body)
    assert (error.code, error.retriable) == (code, retriable)
    assert error.details["status"] == status


def test_a_missing_key_names_the_variable() -> None:
    assert "OPENAI_API_KEY" in refusal(ASKED, 401, "").message


def test_an_unknown_model_names_the_model_and_both_options() -> None:
    message = refusal(ASKED, 404, "").message
    assert all(word in message for word in ("openai-chat:big", "--model", "--base-url"))


def test_the_providers_own_sentence_is_shown_instead_of_its_json() -> None:
    assert "status 400: Bad thing. " in refusal(ASKED, 400, said("Bad thing.", code=1)).message


@pytest.mark.parametrize("body", ["plain words", '{"error": "plain words"}', '{"message": "plain words"}'])
def test_other_shapes_of_refusal_are_read_too(body: str) -> None:
    assert "status 400: plain words. " in refusal(ASKED, 400, body).message


def test_a_long_body_is_cut_and_brought_to_one_line() -> None:
    message = refusal(ASKED, 500, "a\nb\t" + "x" * 5000).message
    assert "a b xxx" in message
    assert "x" * 496 + "…" in message
    assert len(message) < 800


def test_the_wait_that_is_asked_for_is_kept_in_seconds() -> None:
    error = refusal(ASKED, 429, "", headers={"retry-after-ms": "1500"})
    assert error.details == {"status": 429, "retryAfter": 1.5}


@pytest.mark.parametrize(
    ("inside", "code", "retriable"),
    [
        ({"message": "boom"}, ErrorCode.PROVIDER_ERROR, True),
        ("boom", ErrorCode.PROVIDER_ERROR, True),
        ({"code": 429, "message": "x"}, ErrorCode.PROVIDER_RATE_LIMITED, True),
        ({"code": "rate_limit_exceeded"}, ErrorCode.PROVIDER_RATE_LIMITED, True),
        ({"type": "overloaded_error"}, ErrorCode.PROVIDER_RATE_LIMITED, True),
        ({"code": "context_length_exceeded"}, ErrorCode.CONTEXT_OVERFLOW, False),
        ({"type": "invalid_request_error", "message": "x"}, ErrorCode.PROVIDER_ERROR, False),
        ({"code": "400", "message": "x"}, ErrorCode.PROVIDER_ERROR, False),
        ({"code": 401}, ErrorCode.PROVIDER_UNAUTHORIZED, False),
        ([1], ErrorCode.PROVIDER_ERROR, True),
    ],
)
def test_an_error_inside_an_answer_is_judged_by_what_it_says(
    inside: object, code: ErrorCode, retriable: bool
) -> None:
    error = error_in_answer(ASKED, inside)
    assert (error.code, error.retriable) == (code, retriable)
