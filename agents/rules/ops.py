"""What an Edit call asks for: its tag and its operations, checked for shape. Pure.

Nothing here knows the file. A call that is not well formed is answered before anything is read.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import attrs

from agents.errors import ErrorCode, ToolError

MAX_OPS = 200
MAX_TEXT_BYTES = 256 * 1024

_TAG = re.compile(r"[0-9A-F]{4}\Z")


@attrs.frozen
class Replace:
    """Lines `start`..`end` become `lines`."""

    number: int
    """Position in the call, from 1, for messages."""
    start: int
    end: int
    lines: tuple[str, ...]


@attrs.frozen
class Insert:
    """`lines` go in before or after line `anchor`; after 0 is the head of the file."""

    number: int
    anchor: int
    side: Literal["before", "after"]
    lines: tuple[str, ...]
    opener: int | None = None
    """First line of the block whose last line the anchor is; None: the call names the anchor itself."""

    @property
    def gap(self) -> int:
        """How many lines stand before the insertion."""
        return self.anchor if self.side == "after" else self.anchor - 1


@attrs.frozen
class Append:
    """`lines` go to the end of the file."""

    number: int
    lines: tuple[str, ...]


@attrs.frozen
class Delete:
    """Lines `start`..`end` go."""

    number: int
    start: int
    end: int


LineOp = Replace | Insert | Append | Delete


@attrs.frozen
class ReplaceBlock:
    """The block that opens at `line` becomes `lines`."""

    number: int
    line: int
    lines: tuple[str, ...]


@attrs.frozen
class DeleteBlock:
    """The block that opens at `line` goes."""

    number: int
    line: int


@attrs.frozen
class InsertAfterBlock:
    """`lines` go in after the last line of the block that opens at `line`."""

    number: int
    line: int
    lines: tuple[str, ...]


BlockOp = ReplaceBlock | DeleteBlock | InsertAfterBlock
Op = LineOp | BlockOp


@attrs.frozen
class MoveFile:
    """The file goes to the path `to`, after the other operations."""

    number: int
    to: str
    """As the model wrote it."""


@attrs.frozen
class DeleteFile:
    """The file goes; stands alone in its call."""

    number: int


FileOp = MoveFile | DeleteFile


def anchored(op: Op) -> tuple[int, int] | None:
    """First and last line that `op` stands on; None where it is the head or the end of the file."""
    match op:
        case Replace(start=start, end=end) | Delete(start=start, end=end):
            return start, end
        case Insert(anchor=anchor) if anchor != 0:
            return anchor, anchor
        case ReplaceBlock(line=line) | DeleteBlock(line=line) | InsertAfterBlock(line=line):
            return line, line
        case _:
            return None


def ground(op: Op) -> tuple[int, int] | None:
    """The lines that must be what they were for `op` to mean the same: what it stands on, or its block."""
    if isinstance(op, Insert) and op.opener is not None:
        return op.opener, op.anchor
    return anchored(op)


def to_have_seen(op: Op) -> tuple[int, int] | None:
    """The lines that must have been shown: those that go, the anchor of an insertion, a block's opener."""
    if isinstance(op, Insert) and op.opener is not None:
        return op.opener, op.opener
    return anchored(op)


@attrs.frozen
class EditRequest:
    """A well-formed call."""

    tag: str
    ops: tuple[Op, ...]
    """What changes the content; the file's own operation is not among them."""
    file: FileOp | None = None


def parse_request(tag: Any, ops: Any) -> EditRequest | ToolError:
    """Check the shape of a call. EDIT_TAG_REQUIRED comes before EDIT_PARSE_FAILED.

    The order of the operations means nothing: a moveFile comes last wherever it stands.
    """
    if not isinstance(tag, str) or not _TAG.match(tag):
        given = "is missing" if tag is None else f"{_short(tag)} is not a tag"
        return refusal(
            ErrorCode.EDIT_TAG_REQUIRED,
            f"The tag {given}: a tag is four upper-case hex digits.",
            "Read the file and send the four digits that stand after # in the first line of the result.",
        )
    try:
        return _sorted(tag, _parse_ops(ops))
    except _Malformed as problem:
        return refusal(ErrorCode.EDIT_PARSE_FAILED, f"{problem.what} Nothing was written.", problem.step)


def refusal(
    code: ErrorCode, problem: str, step: str, *, retriable: bool = True, details: dict[str, Any] | None = None
) -> ToolError:
    """An error whose message ends in the next step; the step stands alone as `details.hint` too."""
    return ToolError(
        code=code,
        message=f"{problem} {step}",
        details={**(details or {}), "hint": step},
        retriable=retriable,
    )


class _Malformed(Exception):
    def __init__(self, what: str, step: str) -> None:
        super().__init__(what)
        self.what = what
        self.step = step


def move_target(tag: Any, ops: Any) -> str | None:
    """Where a well-formed call moves its file, as it is written; None for every other call."""
    request = parse_request(tag, ops)
    return (
        request.file.to if isinstance(request, EditRequest) and isinstance(request.file, MoveFile) else None
    )


def _sorted(tag: str, ops: tuple[Op | FileOp, ...]) -> EditRequest:
    content = tuple(op for op in ops if not isinstance(op, FileOp))
    about_file = [op for op in ops if isinstance(op, FileOp)]
    if len(about_file) > 1:
        first, second = about_file[0].number, about_file[1].number
        raise _Malformed(
            f"Operations {first} and {second} both move or delete the file.",
            "Send one moveFile at most, or one deleteFile alone.",
        )
    file = about_file[0] if about_file else None
    if isinstance(file, DeleteFile) and content:
        raise _Malformed(
            f"Operation {file.number}: deleteFile stands beside other operations, which would be lost.",
            "Send deleteFile as the only operation, or leave it out.",
        )
    return EditRequest(tag, content, file)


def _parse_ops(ops: Any) -> tuple[Op | FileOp, ...]:
    if not isinstance(ops, list):
        raise _Malformed(
            f"ops must be a list of objects, not {_kind(ops)}.",
            'Send ops as a JSON array, for example [{"op": "replace", "start": 3, "end": 4, "text": "…"}].',
        )
    if not ops:
        raise _Malformed("ops is empty.", "Send at least one operation.")
    if len(ops) > MAX_OPS:
        raise _Malformed(
            f"{len(ops)} operations are more than the {MAX_OPS} of one call.",
            f"Send the first {MAX_OPS}, then the rest with the tag that call returns.",
        )
    size = sum(_size(op) for op in ops)
    if size > MAX_TEXT_BYTES:
        raise _Malformed(
            f"The operations hold {size} bytes of text, more than the {MAX_TEXT_BYTES} of one call.",
            "Split them over several calls, each with the tag of the one before.",
        )
    return tuple(_parse_op(number, op) for number, op in enumerate(ops, 1))


def _parse_op(number: int, op: Any) -> Op | FileOp:
    if not isinstance(op, dict):
        raise _Malformed(f"Operation {number} is {_kind(op)}, not an object.", _shape_of("replace"))
    fields = dict(op)
    name = fields.pop("op", None)
    if not isinstance(name, str) or name not in _SHAPES:
        raise _Malformed(f"Operation {number}: op is {_short(name)}.", f"Use one of {', '.join(_SHAPES)}.")
    parsed = _read_fields(number, name, fields)
    if fields:
        unknown = ", ".join(sorted(str(key) for key in fields))
        raise _Malformed(f"Operation {number}: {name} has no field {unknown}.", _shape_of(name))
    return parsed


def _read_fields(number: int, name: str, fields: dict[str, Any]) -> Op | FileOp:
    """Take the fields of one operation out of `fields`; what is left there is unknown."""
    match name:
        case "replace":
            start, end = _range(number, fields)
            return Replace(number, start, end, _text(number, fields))
        case "delete":
            return Delete(number, *_range(number, fields))
        case "append":
            return Append(number, _text(number, fields))
        case "insert":
            return _insert(number, fields)
        case "replaceBlock":
            return ReplaceBlock(number, _line(number, fields, "line"), _text(number, fields))
        case "insertAfterBlock":
            return InsertAfterBlock(number, _line(number, fields, "line"), _text(number, fields))
        case "deleteBlock":
            return DeleteBlock(number, _line(number, fields, "line"))
        case "moveFile":
            return MoveFile(number, _to(number, fields))
        case _:
            return DeleteFile(number)


def _insert(number: int, fields: dict[str, Any]) -> Insert:
    if ("before" in fields) == ("after" in fields):
        raise _Malformed(
            f"Operation {number}: insert takes exactly one of before and after.", _shape_of("insert")
        )
    side: Literal["before", "after"] = "before" if "before" in fields else "after"
    return Insert(number, _line(number, fields, side), side, _text(number, fields))


def _range(number: int, fields: dict[str, Any]) -> tuple[int, int]:
    start = _line(number, fields, "start")
    if fields.get("end") is None:
        fields.pop("end", None)
        return start, start
    return start, _line(number, fields, "end")


def _line(number: int, fields: dict[str, Any], name: str) -> int:
    value = fields.pop(name, None)
    if not isinstance(value, int) or isinstance(value, bool):
        given = "is missing" if value is None else f"is {_short(value)}"
        raise _Malformed(
            f"Operation {number}: {name} {given}.", f"Give {name} as a line number, a JSON integer from 1."
        )
    return value


def _text(number: int, fields: dict[str, Any]) -> tuple[str, ...]:
    text = fields.pop("text", None)
    if not isinstance(text, str):
        given = "is missing" if text is None else f"is {_kind(text)}"
        raise _Malformed(f"Operation {number}: text {given}.", "Give the new lines as one string.")
    if not text:
        raise _Malformed(
            f"Operation {number}: text is empty, which could mean no line or one blank line.",
            'Use {"op": "delete"} to remove lines, or text "\\n" for one blank line.',
        )
    return split_text(text)


def _to(number: int, fields: dict[str, Any]) -> str:
    to = fields.pop("to", None)
    if not isinstance(to, str) or not to:
        given = "is missing" if to is None else f"is {_short(to)}"
        raise _Malformed(f"Operation {number}: to {given}.", "Give the new path as a string.")
    if to.endswith(("/", "/.")):
        raise _Malformed(
            f"Operation {number}: to {_short(to)} names a directory.", "Give the whole new path of the file."
        )
    return to


def split_text(text: str) -> tuple[str, ...]:
    """The lines of an operation's text: a trailing newline is meaningless, and so is a `\\r` before any."""
    return tuple(line.rstrip("\r") for line in text.removesuffix("\n").split("\n"))


_SHAPES = {
    "replace": '{"op": "replace", "start": 3, "end": 4, "text": "…"}',
    "insert": '{"op": "insert", "after": 3, "text": "…"}',
    "append": '{"op": "append", "text": "…"}',
    "delete": '{"op": "delete", "start": 3, "end": 4}',
    "replaceBlock": '{"op": "replaceBlock", "line": 3, "text": "…"}',
    "deleteBlock": '{"op": "deleteBlock", "line": 3}',
    "insertAfterBlock": '{"op": "insertAfterBlock", "line": 3, "text": "…"}',
    "moveFile": '{"op": "moveFile", "to": "…"}',
    "deleteFile": '{"op": "deleteFile"}',
}
"""An example of each operation, in the order in which messages name them."""


def _shape_of(name: str) -> str:
    return f"The shape is {_SHAPES[name]}."


def _size(op: Any) -> int:
    text = op.get("text") if isinstance(op, dict) else None
    return len(text.encode("utf-8", "surrogatepass")) if isinstance(text, str) else 0


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "a list"
        case dict():
            return "an object"
        case _:
            return "something else"
