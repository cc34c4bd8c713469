"""Edit: change lines of a file this agent was shown, named by number and verified by tag."""

from __future__ import annotations

from typing import Annotated, Any

import attrs
import msgspec
import trio

from agents.errors import ErrorCode, Failure, ToolError, failure
from agents.journal import read_if_there
from agents.permit import Permit
from agents.results import EditResult
from agents.rules import diffs
from agents.rules.edits import Planned, Refused, digest_of, plan_edit
from agents.rules.ops import MAX_OPS, MAX_TEXT_BYTES, EditRequest, parse_request
from agents.rules.paths import ResolvedPath
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
        "`after: 0` is the head), `append` (`text`, at the end), `delete` (`start`, `end`). Operations may "
        "neither overlap nor share a line. Each line you name must have been shown to you. Either all "
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
        return (Target(arguments.path, PathUse.WRITE),)

    async def check(
        self, arguments: EditInput, paths: tuple[ResolvedPath, ...], context: ToolContext
    ) -> Preview | None:
        attempt = _Attempt(_parsed(arguments), paths[0], context)
        return Preview(await trio.to_thread.run_sync(attempt.preview))

    async def run(self, arguments: EditInput, permit: Permit, context: ToolContext) -> ToolOutput:
        path = permit.paths[0]
        attempt = _Attempt(_parsed(arguments), path, context)
        mutation = await context.journal.mutate(
            path,
            attempt.compute,
            call_id=context.call_id,
            workspace=context.workspace,
            locks=context.locks,
            waiting=context.waiting,
        )
        planned = attempt.planned
        assert planned is not None
        tag = context.snapshots.record_written(path.canonical, mutation.after.data, seen=planned.seen)
        return ToolOutput(
            EditResult(
                path=path.display,
                root=path.root.value,
                tag=tag,
                warnings=planned.warnings + ((HARD_LINK_WARNING,) if mutation.broke_hard_link else ()),
                additions=planned.additions,
                deletions=planned.deletions,
                hunks=planned.hunks,
            ),
            attributes={names.BYTES: len(mutation.after.data), names.PATH_ROOT: path.root.value},
            files_changed=() if mutation.change is None else (mutation.change,),
            mutated=path.canonical,
        )


def _parsed(arguments: EditInput) -> EditRequest:
    request = parse_request(arguments.tag, arguments.ops)
    if isinstance(request, ToolError):
        raise Failure(request)
    return request


@attrs.define
class _Attempt:
    """One call, decided on what is there at that moment. Blocking; used from a worker thread."""

    request: EditRequest
    path: ResolvedPath
    context: ToolContext
    planned: Planned | None = None

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
        self.planned = plan
        return plan.data

    def preview(self) -> str:
        """The diff that the edit would make. Raises `Failure`."""
        self.compute(read_if_there(self.context.workspace, self.path))
        assert self.planned is not None
        return diffs.unified(self.planned.before, self.planned.after, self.path.display)

    def _missing(self) -> Failure:
        hint = self.context.workspace.list_missing_hint(self.path)
        alike = f" Did you mean {' or '.join(hint.similar)}?" if hint.similar else ""
        return failure(
            ErrorCode.NOT_FOUND,
            f"{self.path.display} does not exist; the nearest existing directory is {hint.nearest}.{alike} "
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
