"""Write: create a file, or replace one whose current version this agent has seen."""

from __future__ import annotations

from typing import Annotated

import attrs
import msgspec
import trio

from agents.errors import ErrorCode, Failure, ToolError, failure
from agents.journal import read_if_there
from agents.permit import Permit
from agents.results import Hunk, WriteResult
from agents.rules import diffs
from agents.rules.paths import ResolvedPath
from agents.rules.text import decode
from agents.rules.writes import PlannedWrite, plan_write
from agents.tools.base import CallGroup, PathUse, Preview, Risk, Target, ToolContext, ToolOutput
from agents.workspace import FileBytes
from telemetry import attributes as names

HARD_LINK_WARNING = "The file had other names (hard links); they keep the old content."


class WriteInput(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    path: Annotated[str, msgspec.Meta(description="The file to create or replace.")]
    content: Annotated[str, msgspec.Meta(description="The whole content, written exactly as given.")]


class WriteTool:
    """The native tool `Write`."""

    name = "Write"
    description = (
        "Create a text file with exactly `content` (parent directories are created, no newline is added), "
        "or replace a whole existing one. An existing file must have been shown to you in its current "
        "version, else the answer is WRITE_STALE with its tag: read it first. A replaced file keeps its "
        "encoding, byte order mark, mode, and `\\r\\n` line endings where all its lines have them. The "
        "result carries the tag of the new version."
    )
    risk: Risk = "high"
    group = CallGroup.MUTATION
    input = WriteInput
    timeout_seconds: float | None = None

    def targets(self, arguments: WriteInput) -> tuple[Target, ...]:
        return (Target(arguments.path, PathUse.WRITE),)

    async def check(
        self, arguments: WriteInput, paths: tuple[ResolvedPath, ...], context: ToolContext
    ) -> Preview | None:
        attempt = _Attempt(arguments, paths[0], context)
        return Preview(await trio.to_thread.run_sync(attempt.preview))

    async def run(self, arguments: WriteInput, permit: Permit, context: ToolContext) -> ToolOutput:
        path = permit.paths[0]
        attempt = _Attempt(arguments, path, context)
        mutation = await context.journal.mutate(
            path,
            attempt.compute,
            call_id=context.call_id,
            workspace=context.workspace,
            locks=context.locks,
            waiting=context.waiting,
            describe=attempt.hunks,
        )
        tag = context.snapshots.record_written(path.canonical, mutation.after.data)
        planned = attempt.planned
        assert planned is not None
        return ToolOutput(
            WriteResult(
                path=path.display,
                root=path.root.value,
                tag=tag,
                created=planned.before is None,
                bytes=len(mutation.after.data),
                additions=planned.additions,
                deletions=planned.deletions,
                warnings=planned.warnings + ((HARD_LINK_WARNING,) if mutation.broke_hard_link else ()),
            ),
            attributes={names.BYTES: len(mutation.after.data), names.PATH_ROOT: path.root.value},
            files_changed=() if mutation.change is None else (mutation.change,),
            mutated=path.canonical,
        )


@attrs.define
class _Attempt:
    """One call, decided on what is there at that moment. Blocking; used from a worker thread."""

    arguments: WriteInput
    path: ResolvedPath
    context: ToolContext
    planned: PlannedWrite | None = None

    def compute(self, before: FileBytes | None) -> bytes:
        """The bytes to write. Raises `Failure`."""
        if self.path.given.endswith(("/", "/.")):
            raise failure(
                ErrorCode.INVALID_ARGUMENT,
                f"`{self.path.given}` names a directory; give the path of a file in it, which makes the directory.",
            )
        planned = plan_write(
            self.arguments.content,
            None if before is None else before.data,
            self.context.snapshots.latest(self.path.canonical),
            path=self.path.display,
        )
        if isinstance(planned, ToolError):
            raise Failure(planned)
        self.planned = planned
        return planned.data

    def hunks(self) -> tuple[Hunk, ...]:
        """The regions that change, once `compute` has returned."""
        assert self.planned is not None
        return self.planned.hunks

    def preview(self) -> str:
        """The diff that the write would make. Raises `Failure`."""
        self.compute(read_if_there(self.context.workspace, self.path))
        assert self.planned is not None
        old = self.planned.before
        return diffs.unified(old or decode(b""), self.planned.after, self.path.display, created=old is None)
