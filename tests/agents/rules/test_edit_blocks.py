"""Block operations and operations on the whole file, as the rules decide them."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.errors import ErrorCode
from agents.rules.blocks import Block, resolve_blocks
from agents.rules.edits import Planned, Refused, plan_edit, tag_of
from agents.rules.text import decode
from tests.agents.rules.edit_model import CALM, done, refused, request, snapshot

CODE = b"""\
import os


@cached
def first(x):
    if x:
        return 1
    return 2


class Second:
    def third(self):
        pass

    def fourth(self):
        pass
"""
ROWS = CODE.decode().splitlines(keepends=True)


def edit(
    live: bytes, *ops: dict[str, Any], tagged: bytes | None = None, seen: Any = None, name: str = "f.py"
) -> Planned | Refused:
    version = snapshot(live if tagged is None else tagged, seen)
    return plan_edit(request(list(ops), version.tag), version, live, path=name)


def lines(*numbers: int) -> bytes:
    return "".join(ROWS[number - 1] for number in numbers).encode()


def test_a_block_is_replaced_deleted_or_followed_and_its_span_is_echoed() -> None:
    planned = edit(
        CODE,
        {"op": "replaceBlock", "line": 5, "text": "def first(x):\n    return 3"},
        {"op": "deleteBlock", "line": 12},
        {"op": "insertAfterBlock", "line": 15, "text": "\n    x = 1"},
    )
    assert done(planned) == (
        lines(1, 2, 3, 4) + b"def first(x):\n    return 3\n" + lines(9, 10, 11, 14, 15, 16) + b"\n    x = 1\n"
    )
    assert isinstance(planned, Planned)
    assert planned.spans == ("replaceBlock 5-8", "deleteBlock 12-13", "insertAfterBlock 15-16")


def test_operations_on_lines_alone_have_no_spans() -> None:
    planned = edit(CODE, {"op": "delete", "start": 1})
    assert isinstance(planned, Planned)
    assert planned.spans == ()


SOURCES = st.sampled_from(
    [
        ("f.py", CODE),
        ("f.py", CODE.replace(b"\n", b"\r\n")),
        ("f.py", CODE.rstrip(b"\n")),
        ("f.js", b"f();\nfunction g() {\n  if (a) {\n    b();\n  }\n  else {\n    c();\n  }\n}\n\nh();\n"),
        ("f.md", b"# A\n\na\n\n## B\n\nb\n\n# C\nc\n"),
        ("f.json", b'{\n  "a": {\n    "b": 1\n  },\n  "c": [\n    1,\n    2\n  ]\n}\n'),
    ]
)
TEXTS = st.sampled_from(["new\n", "new\nlines", "    new"])


@CALM
@given(st.data())
def test_block_operations_equal_the_explicit_operations_on_their_lines(data: st.DataObject) -> None:
    name, source = data.draw(SOURCES)
    text = decode(source)
    numbers = range(1, len(text.lines) + 1)
    blocks = [block for block in resolve_blocks(name, text, numbers) if isinstance(block, Block)]
    by_block: list[dict[str, Any]] = []
    by_line: list[dict[str, Any]] = []
    for block in data.draw(st.lists(st.sampled_from(blocks), min_size=1, max_size=3, unique=True)):
        new = data.draw(TEXTS)
        match data.draw(st.sampled_from(["replaceBlock", "deleteBlock", "insertAfterBlock"])):
            case "replaceBlock":
                by_block.append({"op": "replaceBlock", "line": block.start, "text": new})
                by_line.append({"op": "replace", "start": block.start, "end": block.end, "text": new})
            case "deleteBlock":
                by_block.append({"op": "deleteBlock", "line": block.start})
                by_line.append({"op": "delete", "start": block.start, "end": block.end})
            case _:
                by_block.append({"op": "insertAfterBlock", "line": block.start, "text": new})
                by_line.append({"op": "insert", "after": block.end, "text": new})
    one, other = edit(source, *by_block, name=name), edit(source, *by_line, name=name)
    if isinstance(other, Refused):
        assert refused(one) == other.error
    else:
        assert isinstance(one, Planned)
        assert (one.data, one.hunks, one.seen) == (other.data, other.hunks, other.seen)


@pytest.mark.parametrize(
    ("op", "instead"),
    [
        ({"op": "replaceBlock", "line": 2, "text": "x"}, '{"op": "replace", "start": 2, "end": …'),
        ({"op": "deleteBlock", "line": 2}, '{"op": "delete", "start": 2, "end": …'),
        ({"op": "insertAfterBlock", "line": 2, "text": "x"}, '{"op": "insert", "after": …'),
    ],
)
def test_a_block_that_does_not_resolve_names_the_operation_with_explicit_lines(
    op: dict[str, Any], instead: str
) -> None:
    error = refused(edit(CODE, op))
    assert error.code is ErrorCode.EDIT_BLOCK_UNRESOLVED
    assert "line 2 is blank" in error.message
    assert instead in error.message
    assert error.message.endswith(error.details["hint"])


def test_one_block_that_does_not_resolve_leaves_the_file_whole() -> None:
    ops = [{"op": "deleteBlock", "line": 5}, {"op": "deleteBlock", "line": 2}]
    assert refused(edit(CODE, *ops)).code is ErrorCode.EDIT_BLOCK_UNRESOLVED


def test_ranges_are_judged_before_blocks_and_again_with_them() -> None:
    unresolved = {"op": "deleteBlock", "line": 2}
    for ops in (
        [unresolved, {"op": "delete", "start": 9, "end": 8}],
        [unresolved, {"op": "deleteBlock", "line": 17}],
        [unresolved, {"op": "deleteBlock", "line": 0}],
        [unresolved, {"op": "insert", "after": 2, "text": "x"}],
    ):
        assert refused(edit(CODE, *ops)).code is ErrorCode.EDIT_RANGE_INVALID
    error = refused(edit(CODE, {"op": "deleteBlock", "line": 5}, {"op": "replace", "start": 7, "text": "x"}))
    assert error.code is ErrorCode.EDIT_RANGE_INVALID
    assert "Operations 1 and 2 both stand on line 7" in error.message


def test_an_unknown_tag_is_answered_before_blocks_are_judged_and_shows_the_openers() -> None:
    asked = request([{"op": "deleteBlock", "line": 12}], "0000")
    planned = plan_edit(asked, None, CODE, path="f.py")
    assert refused(planned).code is ErrorCode.EDIT_TAG_UNKNOWN
    assert "12:    def third(self):" in refused(planned).details["content"]
    assert refused(planned).details["tag"] == tag_of(CODE)


@pytest.mark.parametrize(
    "op", [{"op": "replaceBlock", "line": 5, "text": "x"}, {"op": "deleteBlock", "line": 5}]
)
def test_every_line_of_a_replaced_or_deleted_block_must_have_been_seen(op: dict[str, Any]) -> None:
    planned = edit(CODE, op, seen=[5, 6, 8])
    assert refused(planned).code is ErrorCode.EDIT_LINES_UNSEEN
    assert "Line 7 of f.py" in refused(planned).message
    assert "7:        return 1" in refused(planned).details["content"]
    assert isinstance(edit(CODE, op, seen=[5, 6, 7, 8]), Planned)


def test_of_a_block_that_something_is_put_after_the_opener_must_have_been_seen() -> None:
    op = {"op": "insertAfterBlock", "line": 5, "text": "x"}
    assert refused(edit(CODE, op, seen=[4, 6, 7, 8])).code is ErrorCode.EDIT_LINES_UNSEEN
    assert isinstance(edit(CODE, op, seen=[5]), Planned)


def test_blocks_are_resolved_in_the_tagged_version_and_replayed_where_they_stand_now() -> None:
    live = b"# new\n" + CODE
    for op in (
        {"op": "replaceBlock", "line": 5, "text": "x"},
        {"op": "deleteBlock", "line": 5},
        {"op": "insertAfterBlock", "line": 5, "text": "x"},
    ):
        planned, fresh = edit(live, op, tagged=CODE), edit(CODE, op)
        assert done(planned) == b"# new\n" + done(fresh)
        assert isinstance(planned, Planned)
        assert planned.spans == (f"{op['op']} 5-8",)
        assert "moved by +1" in planned.warnings[0]


@pytest.mark.parametrize("op", ["replaceBlock", "deleteBlock", "insertAfterBlock"])
def test_a_block_that_somebody_changed_inside_is_a_mismatch(op: str) -> None:
    asked: dict[str, Any] = {"op": op, "line": 5}
    if op != "deleteBlock":
        asked["text"] = "x"
    live = CODE.replace(b"return 1", b"return 9")
    assert refused(edit(live, asked, tagged=CODE)).code is ErrorCode.EDIT_TAG_MISMATCH


def test_a_file_that_became_broken_elsewhere_still_has_the_blocks_of_its_tagged_version() -> None:
    live = CODE.replace(b"import os", b"import (")
    assert done(edit(live, {"op": "deleteBlock", "line": 12}, tagged=CODE)) == live.replace(
        lines(12, 13), b""
    )


def test_blocks_of_a_version_whose_text_was_not_kept_are_known_only_while_it_is_live() -> None:
    kept = attrs.evolve(snapshot(CODE), data=None)
    asked = request([{"op": "deleteBlock", "line": 12}], kept.tag)
    assert done(plan_edit(asked, kept, CODE, path="f.py")) == CODE.replace(lines(12, 13), b"")
    planned = plan_edit(asked, kept, CODE + b"x = 1\n", path="f.py")
    assert refused(planned).code is ErrorCode.EDIT_TAG_MISMATCH


# the file itself

MOVE = {"op": "moveFile", "to": "g.py"}
GONE = {"op": "deleteFile"}


def test_a_move_alone_changes_no_byte_and_is_a_change_all_the_same() -> None:
    planned = edit(CODE, MOVE)
    assert isinstance(planned, Planned)
    assert (planned.data, planned.hunks, planned.additions, planned.deletions) == (CODE, (), 0, 0)
    assert list(planned.seen) == list(range(1, 17))


def test_the_other_operations_are_done_before_the_move() -> None:
    assert done(edit(CODE, MOVE, {"op": "delete", "start": 1})) == CODE.removeprefix(b"import os\n")


def test_a_deletion_takes_every_line() -> None:
    planned = edit(CODE, GONE)
    assert isinstance(planned, Planned)
    assert (planned.data, planned.additions, planned.deletions) == (b"", 0, 16)
    assert isinstance(edit(b"", GONE), Planned)


def test_neither_needs_every_line_to_have_been_seen() -> None:
    assert isinstance(edit(CODE, MOVE, seen=[1]), Planned)
    assert isinstance(edit(CODE, GONE, seen=[]), Planned)


@pytest.mark.parametrize("ops", [[MOVE], [GONE], [MOVE, {"op": "append", "text": "x"}]])
def test_a_file_that_changed_is_neither_moved_nor_deleted(ops: list[dict[str, Any]]) -> None:
    live = CODE.replace(b"pass", b"...", 1)
    error = refused(edit(live, *ops, tagged=CODE))
    assert error.code is ErrorCode.EDIT_TAG_MISMATCH
    assert error.details["tag"] == tag_of(live)
    assert "13:        ..." in error.details["content"] or len(ops) == 2
    assert tag_of(live) in error.details["hint"]


def test_two_versions_with_one_tag_are_told_apart_before_a_file_goes() -> None:
    other = attrs.evolve(snapshot(b"other\n"), tag=tag_of(CODE))
    planned = plan_edit(request([GONE], tag_of(CODE)), other, CODE, path="f.py")
    assert refused(planned).code is ErrorCode.EDIT_TAG_MISMATCH


def test_with_an_unknown_tag_a_file_stays_and_its_first_lines_are_shown() -> None:
    error = refused(plan_edit(request([GONE], "0000"), None, CODE, path="f.py"))
    assert error.code is ErrorCode.EDIT_TAG_UNKNOWN
    assert "1:import os" in error.details["content"]
    assert f"send the call again with tag {tag_of(CODE)}" in error.message
