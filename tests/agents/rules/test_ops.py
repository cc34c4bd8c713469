from __future__ import annotations

from typing import Any

import pytest

from agents.errors import ErrorCode, ToolError
from agents.rules.ops import (
    Append,
    Delete,
    DeleteBlock,
    DeleteFile,
    EditRequest,
    Insert,
    InsertAfterBlock,
    MoveFile,
    Replace,
    ReplaceBlock,
    move_target,
    parse_request,
)

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


def test_the_four_operations_on_lines_are_understood() -> None:
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
        [{"op": "replaceBlock", "line": 3}],
        [{"op": "replaceBlock", "text": "x"}],
        [{"op": "replaceBlock", "line": 3, "end": 4, "text": "x"}],
        [{"op": "deleteBlock", "line": "3"}],
        [{"op": "deleteBlock", "line": 3, "text": "x"}],
        [{"op": "insertAfterBlock", "line": True, "text": "x"}],
        [{"op": "moveFile"}],
        [{"op": "moveFile", "to": ""}],
        [{"op": "moveFile", "to": ["x"]}],
        [{"op": "moveFile", "to": "folder/"}],
        [{"op": "moveFile", "to": "x"}, {"op": "moveFile", "to": "y"}],
        [{"op": "deleteFile", "path": "x"}],
        [{"op": ["append"]}],
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


def test_block_operations_name_the_line_at_which_the_block_opens() -> None:
    ops = [
        {"op": "replaceBlock", "line": 2, "text": "a\nb\n"},
        {"op": "deleteBlock", "line": 9},
        {"op": "insertAfterBlock", "line": 12, "text": "c"},
    ]
    assert parse_request("00AF", ops) == EditRequest(
        "00AF", (ReplaceBlock(1, 2, ("a", "b")), DeleteBlock(2, 9), InsertAfterBlock(3, 12, ("c",)))
    )


def test_a_move_comes_after_the_other_operations_wherever_it_stands() -> None:
    move = {"op": "moveFile", "to": "b/c.txt"}
    for ops in ([APPEND, move], [move, APPEND]):
        parsed = parse_request("ABCD", ops)
        assert isinstance(parsed, EditRequest)
        assert [type(op) for op in parsed.ops] == [Append]
        assert isinstance(parsed.file, MoveFile)
        assert parsed.file.to == "b/c.txt"


def test_a_deletion_stands_alone() -> None:
    gone = {"op": "deleteFile"}
    assert parse_request("ABCD", [gone]) == EditRequest("ABCD", (), DeleteFile(1))
    for ops in ([APPEND, gone], [gone, {"op": "moveFile", "to": "x"}], [gone, gone]):
        assert error("ABCD", ops).code is ErrorCode.EDIT_PARSE_FAILED


def test_only_a_well_formed_call_names_a_second_path() -> None:
    move = {"op": "moveFile", "to": "x"}
    assert move_target("ABCD", [APPEND, move]) == "x"
    assert move_target("ABCD", [APPEND]) is None
    assert move_target(None, [move]) is None
    assert move_target("ABCD", [move, move]) is None
    assert move_target("ABCD", "moveFile") is None


@pytest.mark.parametrize(
    "op",
    [
        {"op": "append"},
        {"op": "replace", "start": 1},
        {"op": "insert", "after": 0},
        {"op": "replaceBlock", "line": 1},
    ],
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
