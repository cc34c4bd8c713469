"""Edit: change, move or delete a file this agent was shown; lines go by number, the version by its tag."""

from __future__ import annotations

import os
from typing import Annotated, Any

import attrs
import msgspec
import trio

from agents.errors import ErrorCode, Failure, ToolError, failure
from agents.journal import read_if_there
from agents.permit import Permit
from agents.results import EditResult, FileChange, Hunk
from agents.rules import diffs
from agents.rules.edits import Planned, Refused, digest_of, plan_edit
from agents.rules.ops import (
    MAX_OPS,
    MAX_TEXT_BYTES,
    DeleteFile,
    EditRequest,
    MoveFile,
    move_target,
    parse_request,
)
from agents.rules.paths import PathKind, ResolvedPath
from agents.tools.base import CallGroup, PathUse, Preview, Risk, Target, ToolContext, ToolOutput
from agents.tools.write import HARD_LINK_WARNING
from agents.workspace import FileBytes
from telemetry import attributes as names


class EditInput(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """`tag` and `ops` are checked by the rules, which answer with codes of their own."""

    path: Annotated[str, msgspec.Meta(description="An existing text file.")]
    tag: Any = None
    ops: Any = None


def _op(name: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"op": {"const": name}, **properties},
        "required": ["op", *required],
        "additionalProperties": False,
    }


MAX_EDIT_BYTES = 32 << 20
"""A larger file would need ten times its size in memory for its lines."""

_LINE = {"type": "integer", "minimum": 1}
_TEXT = {
    "type": "string",
    "minLength": 1,
    "description": "The final lines, separated by \\n; a trailing newline is optional and means nothing.",
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "An existing text file."},
        "tag": {
            "type": "string",
            "pattern": "^[0-9A-F]{4}$",
            "description": "The tag of the version whose line numbers you use, as you were given it.",
        },
        "ops": {
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_OPS,
            "items": {
                "oneOf": [
                    _op("replace", {"start": _LINE, "end": _LINE, "text": _TEXT}, ["start", "text"]),
                    _op("insert", {"before": _LINE, "text": _TEXT}, ["before", "text"]),
                    _op(
                        "insert",
                        {"after": {"type": "integer", "minimum": 0}, "text": _TEXT},
                        ["after", "text"],
                    ),
                    _op("append", {"text": _TEXT}, ["text"]),
                    _op("delete", {"start": _LINE, "end": _LINE}, ["start"]),
                    _op("replaceBlock", {"line": _LINE, "text": _TEXT}, ["line", "text"]),
                    _op("deleteBlock", {"line": _LINE}, ["line"]),
                    _op("insertAfterBlock", {"line": _LINE, "text": _TEXT}, ["line", "text"]),
                    _op("moveFile", {"to": {"type": "string", "description": "The new path."}}, ["to"]),
                    _op("deleteFile", {}, []),
                ]
            },
        },
    },
    "required": ["path", "tag", "ops"],
    "additionalProperties": False,
}


class EditTool:
    """The native tool `Edit`."""

    name = "Edit"
    description = (
        "Change lines of an existing text file by number. `tag` is the four digits you were given with the "
        "file's lines; every line number refers to that version, never shifted by another operation of the "
        f"same call. `ops` holds 1 to {MAX_OPS} operations, at most {MAX_TEXT_BYTES // 1024} KiB of text: "
        "`replace` (`start`, `end` inclusive, `text`), `insert` (`before` or `after` a line, `text`; "
        "`after: 0` is the head), `append` (`text`, at the end), `delete` (`start`, `end`); `replaceBlock`, "
        "`insertAfterBlock` (`line`, `text`) and `deleteBlock` (`line`) mean the whole statement, "
        "declaration or Markdown section that opens at `line`, without decorators and comments above it "
        "(`spans` in the result says which lines those were); `moveFile` (`to`, which must not exist yet) "
        "comes after the others; `deleteFile` stands alone. Operations may neither overlap nor share a line. "
        f"Files up to {MAX_EDIT_BYTES >> 20} MiB. "
        "Each line that is replaced, deleted or named must have been shown to you. Either all "
        "operations are applied or none. A failed call says what to send instead, with the current lines and "
        "tag where it needs them. "
        "Other lines keep every byte. The result carries the new tag for the next call."
    )
    risk: Risk = "high"
    group = CallGroup.MUTATION
    input = EditInput
    schema = SCHEMA
    timeout_seconds: float | None = None

    def targets(self, arguments: EditInput) -> tuple[Target, ...]:
        to = move_target(arguments.tag, arguments.ops)
        named = (arguments.path,) if to is None else (arguments.path, to)
        return tuple(Target(path, PathUse.WRITE) for path in named)

    async def check(
        self, arguments: EditInput, paths: tuple[ResolvedPath, ...], context: ToolContext
    ) -> Preview | None:
        attempt = _attempt(arguments, paths, context)
        return Preview(await trio.to_thread.run_sync(attempt.preview))

    async def run(self, arguments: EditInput, permit: Permit, context: ToolContext) -> ToolOutput:
        attempt = _attempt(arguments, permit.paths, context)
        match attempt.request.file:
            case None:
                return await _edit(attempt)
            case MoveFile():
                return await _move(attempt)
            case DeleteFile():
                return await _delete(attempt)


async def _edit(attempt: _Attempt) -> ToolOutput:
    context, path = attempt.context, attempt.path
    mutation = await context.journal.mutate(
        path,
        attempt.compute,
        call_id=context.call_id,
        workspace=context.workspace,
        locks=context.locks,
        waiting=context.waiting,
        describe=attempt.hunks,
    )
    changes = () if mutation.change is None else (mutation.change,)
    return _landed(attempt, path, mutation.after.data, changes, mutation.broke_hard_link)


async def _move(attempt: _Attempt) -> ToolOutput:
    context, to = attempt.context, attempt.to
    assert to is not None
    move = await context.journal.move(
        attempt.path,
        to,
        attempt.compute,
        call_id=context.call_id,
        workspace=context.workspace,
        locks=context.locks,
        waiting=context.waiting,
    )
    return _landed(attempt, to, move.after.data, move.changes, move.broke_hard_link)


def _landed(
    attempt: _Attempt,
    place: ResolvedPath,
    data: bytes,
    changes: tuple[FileChange, ...],
    broke_hard_link: bool,
) -> ToolOutput:
    planned = attempt.done
    tag = attempt.context.snapshots.record_written(place.canonical, data, seen=planned.seen)
    return ToolOutput(
        EditResult(
            path=place.display,
            root=place.root.value,
            tag=tag,
            warnings=planned.warnings + ((HARD_LINK_WARNING,) if broke_hard_link else ()),
            additions=planned.additions,
            deletions=planned.deletions,
            hunks=planned.hunks,
            spans=planned.spans or None,
            moved_from=None if attempt.to is None else attempt.path.display,
        ),
        attributes={names.BYTES: len(data), names.PATH_ROOT: place.root.value},
        files_changed=changes,
        mutated=attempt.path.canonical,
    )


async def _delete(attempt: _Attempt) -> ToolOutput:
    context, path = attempt.context, attempt.path
    deletion = await context.journal.delete(
        path,
        attempt.compute,
        call_id=context.call_id,
        workspace=context.workspace,
        locks=context.locks,
        waiting=context.waiting,
    )
    planned = attempt.done
    return ToolOutput(
        EditResult(
            path=path.display,
            root=path.root.value,
            tag=None,
            warnings=(HARD_LINK_WARNING,) if deletion.broke_hard_link else (),
            additions=0,
            deletions=planned.deletions,
            hunks=planned.hunks,
            deleted=True,
        ),
        attributes={names.BYTES: 0, names.PATH_ROOT: path.root.value},
        files_changed=() if deletion.change is None else (deletion.change,),
        mutated=path.canonical,
    )


def _attempt(arguments: EditInput, paths: tuple[ResolvedPath, ...], context: ToolContext) -> _Attempt:
    """Raises `Failure` for a call that is not well formed."""
    request = parse_request(arguments.tag, arguments.ops)
    if isinstance(request, ToolError):
        raise Failure(request)
    path, *others = paths
    _refuse_large(path)
    return _Attempt(request, path, others[0] if others else None, context)


def _refuse_large(path: ResolvedPath) -> None:
    try:
        size = os.lstat(path.canonical).st_size
    except OSError:  # what is wrong with it is said when it is opened
        return
    if size > MAX_EDIT_BYTES:
        raise failure(
            ErrorCode.INVALID_ARGUMENT,
            f"`{path.display}` is larger than the {MAX_EDIT_BYTES >> 20} MiB that Edit takes; nothing "
            "was written. Change it with Bash (`sed -i`, `mv`, `rm`, or a script).",
            details={"bytes": size, "limit": MAX_EDIT_BYTES},
        )


@attrs.define
class _Attempt:
    """One call, decided on what is there at that moment. Blocking; used from a worker thread."""

    request: EditRequest
    path: ResolvedPath
    to: ResolvedPath | None
    """Where the file goes, as the gate let it through."""
    context: ToolContext
    planned: Planned | None = None

    @property
    def done(self) -> Planned:
        """What was decided, once `compute` has returned."""
        assert self.planned is not None
        return self.planned

    def compute(self, before: FileBytes | None) -> bytes:
        """The bytes to write. Raises `Failure`, after noting what its error shows the agent."""
        if before is None:
            raise self._missing()
        snapshots, canonical = self.context.snapshots, self.path.canonical
        known = snapshots.version(canonical, digest_of(before.data))
        tagged = snapshots.find(canonical, self.request.tag)
        if known is None and tagged is None:
            _refuse_binary(before.data, self.path)
        plan = plan_edit(self.request, tagged, before.data, path=self.path.display, known=known)
        if isinstance(plan, Refused):
            if tagged is not None:
                snapshots.mark_seen(canonical, tagged.digest, plan.tagged_seen)
            if plan.live_seen is not None:
                snapshots.record_read(canonical, before.data, seen=plan.live_seen)
            raise Failure(plan.error)
        if self.request.file is not None:
            self._check_places(before)
        self.planned = plan
        return plan.data

    def hunks(self) -> tuple[Hunk, ...]:
        """The regions that change."""
        return self.done.hunks

    def preview(self) -> str:
        """The diff that the edit would make. Raises `Failure`."""
        self.compute(read_if_there(self.context.workspace, self.path))
        return diffs.unified(
            self.done.before,
            self.done.after,
            self.path.display,
            deleted=isinstance(self.request.file, DeleteFile),
            moved_to=None if self.to is None else self.to.display,
        )

    def _check_places(self, before: FileBytes) -> None:
        """A file that is moved or deleted is named by its own name, and goes where nothing is."""
        path, to, workspace = self.path, self.to, self.context.workspace
        if workspace.names_link(path):
            raise failure(
                ErrorCode.INVALID_ARGUMENT,
                f"{path.given} is a symbolic link, which would be left without its target. "
                f"Name the file itself, {path.display}, or remove the link with Bash.",
            )
        if to is not None and to.canonical == path.canonical:
            raise failure(
                ErrorCode.EDIT_NO_CHANGE,
                f"{path.display} is at that path already; nothing was written. Leave moveFile out.",
            )
        if to is not None and to.kind is not PathKind.MISSING:
            step = (
                "Give the whole new path, with the file's name"
                if to.kind is PathKind.DIRECTORY
                else "Choose another path; moveFile never overwrites"
            )
            raise failure(
                ErrorCode.CONFLICT,
                f"{to.display} exists already; nothing was written. {step}.",
                retriable=True,
            )
        workspace.check_replaceable(path, like=before.stat)

    def _missing(self) -> Failure:
        hint = self.context.workspace.list_missing_hint(self.path)
        alike = f" Did you mean {' or '.join(hint.similar)}?" if hint.similar else ""
        return failure(
            ErrorCode.NOT_FOUND,
            f"`{self.path.display}` does not exist; the nearest existing directory is `{hint.nearest}`.{alike} "
            "Edit never creates a file: use Write for a new one.",
            details={"nearest": hint.nearest, "similar": list(hint.similar)},
        )


def _refuse_binary(data: bytes, path: ResolvedPath) -> None:
    if b"\0" in data[:4096] and data[:2] not in (b"\xff\xfe", b"\xfe\xff"):
        raise failure(
            ErrorCode.TOOL_BINARY_CONTENT,
            f"{path.display} is a binary file of {len(data)} bytes, which has no lines to edit. "
            "Change it with the program that makes it, through Bash.",
        )
