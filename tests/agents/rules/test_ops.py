from __future__ import annotations

from typing import Any

import pytest

from agents.errors import ErrorCode, ToolError
from agents.rules.ops import Append, Delete, EditRequest, Insert, Replace, parse_request

APPEND = {"op": "append", "text": "x"}


def error(tag: Any, ops: Any) -> ToolError:
    parsed = parse_request(tag, ops)
    assert isinstance(parsed, ToolError)
    return parsed


@pytest.mark.parametrize("tag", [None, "", "abcd", "12345", "ABC", "ABCG", "#ABCD", "ABCD\n", 1234, True])
def test_a_missing_or_malformed_tag_is_tag_required(tag: Any) -> None:
    assert error(tag, [APPEND]).code is ErrorCode.EDIT_TAG_REQUIRED
    assert "Read" in error(tag, [APPEND]).message


def test_the_tag_is_judged_before_the_operations() -> None:
    assert error(None, "nonsense").code is ErrorCode.EDIT_TAG_REQUIRED


def test_the_four_operations_are_understood() -> None:
    ops = [
        {"op": "replace", "start": 2, "text": "a\nb\n"},
        {"op": "insert", "before": 5, "text": "c"},
        {"op": "insert", "after": 0, "text": "\n"},
        {"op": "append", "text": "d\n\n"},
        {"op": "delete", "start": 7, "end": 9},
    ]
    assert parse_request("00AF", ops) == EditRequest(
        "00AF",
        (
            Replace(1, 2, 2, ("a", "b")),
            Insert(2, 5, "before", ("c",)),
            Insert(3, 0, "after", ("",)),
            Append(4, ("d", "")),
            Delete(5, 7, 9),
        ),
    )


@pytest.mark.parametrize(
    "ops",
    [
        None,
        "[]",
        {},
        [],
        ["append"],
        [{}],
        [{"op": "rewrite", "text": "x"}],
        [{"op": "append"}],
        [{"op": "append", "text": None}],
        [{"op": "append", "text": "x", "start": 1}],
        [{"op": "replace", "text": "x"}],
        [{"op": "replace", "start": "3", "text": "x"}],
        [{"op": "replace", "start": True, "text": "x"}],
        [{"op": "replace", "start": 1.0, "text": "x"}],
        [{"op": "replace", "start": 1, "end": "2", "text": "x"}],
        [{"op": "delete", "start": 1, "text": ""}],
        [{"op": "insert", "text": "x"}],
        [{"op": "insert", "before": 1, "after": 1, "text": "x"}],
        [APPEND, {"op": "delete"}],
    ],
)
def test_malformed_operations_are_parse_failed_with_a_next_step(ops: Any) -> None:
    problem = error("ABCD", ops)
    assert problem.code is ErrorCode.EDIT_PARSE_FAILED
    assert problem.message.endswith(problem.details["hint"])
    assert problem.details["hint"]


@pytest.mark.parametrize(
    "name", ["replaceBlock", "deleteBlock", "insertAfterBlock", "moveFile", "deleteFile"]
)
def test_an_operation_that_this_version_lacks_says_what_to_use_instead(name: str) -> None:
    problem = error("ABCD", [{"op": name, "line": 3, "to": "x", "text": "y"}])
    assert problem.code is ErrorCode.EDIT_PARSE_FAILED
    assert f"{name} is not available in this version" in problem.message
    assert "Instead" in problem.message


@pytest.mark.parametrize(
    "op", [{"op": "append"}, {"op": "replace", "start": 1}, {"op": "insert", "after": 0}]
)
def test_empty_text_is_refused_whole_because_it_could_mean_two_things(op: dict[str, Any]) -> None:
    problem = error("ABCD", [APPEND, {**op, "text": ""}])
    assert problem.code is ErrorCode.EDIT_PARSE_FAILED
    assert "Operation 2" in problem.message
    assert "delete" in problem.message


def test_200_operations_and_256_kib_of_text_are_the_most() -> None:
    assert isinstance(parse_request("ABCD", [APPEND] * 200), EditRequest)
    assert "201" in error("ABCD", [APPEND] * 201).message
    half = {"op": "append", "text": "é" * (64 * 1024)}
    assert isinstance(parse_request("ABCD", [half, half]), EditRequest)
    assert "262145" in error("ABCD", [half, half, APPEND]).message


def test_carriage_returns_before_newlines_are_no_part_of_a_line() -> None:
    parsed = parse_request("ABCD", [{"op": "append", "text": "a\r\nb\rc\r\n"}])
    assert isinstance(parsed, EditRequest)
    assert parsed.ops == (Append(1, ("a", "b\rc")),)
