"""Read: a window of one text file, with the tag of the whole file and absolute line numbers."""

from __future__ import annotations

import os
from typing import Annotated, Any

import attrs
import msgspec

from agents import descriptors
from agents.errors import ErrorCode, Failure, failure
from agents.large_files import WindowLine, read_window
from agents.permit import Permit
from agents.results import ReadResult
from agents.rules.binary import HEAD_BYTES, content_type, is_binary
from agents.rules.contract import PATH_CONTRACT
from agents.rules.edits import tag_of_digest
from agents.rules.paths import ResolvedPath
from agents.rules.text import MAX_LINE_CHARS, decode
from agents.snapshots import MAX_KEPT_BYTES, SnapshotStore
from agents.tools.active import SEARCH, ActiveTools
from agents.tools.base import CallGroup, PathUse, Preview, Risk, Target, ToolContext, ToolOutput
from agents.tools.search.lines import CUT
from agents.tools.search.worker import Clock, OutOfTime, in_worker
from agents.workspace import Workspace
from telemetry import attributes as names

DEFAULT_LINES = 500
MAX_LINES = 2000
MAX_CONTENT_BYTES = 48 * 1024
READ_SECONDS = 60.0
_MAX_UNSIZED = 64 << 20
"""Of a file that claims to be empty (as the kernel's views do) at most so much is read."""


class ReadInput(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    path: Annotated[str, msgspec.Meta(description="An existing regular text file.")]
    offset: Annotated[int, msgspec.Meta(ge=1, description="First line, 1-based.")] = 1
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_LINES, description="How many lines.")] = DEFAULT_LINES


class ReadTool:
    name = "Read"
    description = (
        "Read a text file. The content starts with `[<path>#<TAG>]`, the tag of this version, then come "
        "`N:text` rows with absolute line numbers. A call returns "
        f"{DEFAULT_LINES} lines unless `limit` says otherwise (at most {MAX_LINES}), and at most 48 KiB; a "
        "longer file is paged with `offset`, and `totalLines` is always given. A line is cut at "
        f"{MAX_LINE_CHARS} characters. Binary content is refused. {PATH_CONTRACT['Read']}"
    )
    risk: Risk = "low"
    group = CallGroup.TOGETHER
    input = ReadInput
    timeout_seconds: float | None = READ_SECONDS + 5

    def targets(self, arguments: ReadInput) -> tuple[Target, ...]:
        return (Target(arguments.path, PathUse.READ),)

    async def check(
        self, arguments: ReadInput, paths: tuple[ResolvedPath, ...], context: ToolContext
    ) -> Preview | None:
        return None

    async def run(self, arguments: ReadInput, permit: Permit, context: ToolContext) -> ToolOutput:
        """Raises `Failure`: INVALID_ARGUMENT (a directory, not a regular file), NOT_FOUND, TOOL_DENIED,
        TOOL_BINARY_CONTENT, CONFLICT, TOOL_FAILED, TOOL_TIMEOUT.
        """
        path = permit.paths[0]
        room = MAX_CONTENT_BYTES - len(_header(path, "0000").encode("utf-8", "replace"))
        window = _Window(first=arguments.offset, limit=arguments.limit, room=room)

        def work(clock: Clock) -> ReadResult:
            return _read(context.workspace, path, window, context.snapshots, clock)

        try:
            result = await in_worker(work, READ_SECONDS, "read")
        except Failure as refused:
            raise _with_suggestion(refused, arguments, context.active) from refused
        except OutOfTime as error:
            raise failure(
                ErrorCode.TOOL_TIMEOUT,
                f"`{path.display}` could not be read through in {READ_SECONDS:.0f} s; read a smaller file.",
            ) from error
        return ToolOutput(
            result,
            attributes={
                names.PATH_ROOT: result.root,
                names.BYTES: result.file_bytes,
                names.TRUNCATED: result.truncated,
            },
        )


@attrs.define
class _Window:
    """The rows of one answer, as they come."""

    first: int
    limit: int
    room: int
    """Bytes that are left for rows."""
    rows: list[str] = attrs.field(factory=list)
    seen: list[int] = attrs.field(factory=list)
    clipped: int = 0
    full: bool = False
    """Whether the size limit, not `limit`, ended it."""

    def take(self, line: WindowLine) -> bool:
        """Add the next line; False when no more is wanted."""
        number = self.first + len(self.rows)
        row = f"{number}:{line.text}"
        row += CUT if line.clipped else ""
        size = len(row.encode("utf-8", "replace")) + 1
        if size > self.room:
            self.full = True
            return False
        self.rows.append(row)
        self.room -= size
        if line.clipped:
            self.clipped += 1
        else:
            self.seen.append(number)
        return len(self.rows) < self.limit


@attrs.frozen
class _File:
    """What is said of the whole file."""

    tag: str
    total_lines: int
    file_bytes: int
    encoding: str
    newline: str


def _read(
    workspace: Workspace, path: ResolvedPath, window: _Window, snapshots: SnapshotStore, clock: Clock
) -> ReadResult:
    with workspace.open(path) as descriptor:
        size = os.fstat(descriptor).st_size
        head = os.pread(descriptor, HEAD_BYTES, 0)
        name = os.path.basename(path.canonical)
        if is_binary(head, name):
            raise _binary(path, head, size, name)
        if size <= MAX_KEPT_BYTES:
            data = descriptors.read_all(descriptor, MAX_KEPT_BYTES + 1 if size else _MAX_UNSIZED)
            file = _take_small(path, data, window, snapshots, clock)
        else:
            file = _take_large(workspace, path, descriptor, window, snapshots, clock)
    return _result(path, file, window)


def _take_small(
    path: ResolvedPath, data: bytes, window: _Window, snapshots: SnapshotStore, clock: Clock
) -> _File:
    text = decode(data)
    for line in text.shown_lines[window.first - 1 :]:
        if not window.take(WindowLine(line[:MAX_LINE_CHARS], len(line) > MAX_LINE_CHARS)):
            break
    clock.check()
    tag = snapshots.record_read(path.canonical, data, seen=window.seen)
    return _File(tag, len(text.lines), len(data), text.encoding, text.newline)


def _take_large(
    workspace: Workspace,
    path: ResolvedPath,
    descriptor: int,
    window: _Window,
    snapshots: SnapshotStore,
    clock: Clock,
) -> _File:
    facts = workspace.large_files.facts(descriptor, clock.check)
    if window.first <= facts.total_lines:
        read_window(descriptor, facts, first=window.first, take=window.take, max_chars=MAX_LINE_CHARS)
    clock.check()
    tag = snapshots.record_read_large(
        path.canonical, tag=tag_of_digest(facts.digest), digest=facts.digest, seen=window.seen
    )
    return _File(tag, facts.total_lines, facts.size, facts.encoding, facts.newline)


def _result(path: ResolvedPath, file: _File, window: _Window) -> ReadResult:
    last = window.first + len(window.rows) - 1
    more = bool(window.rows) and last < file.total_lines
    return ReadResult(
        path=path.display,
        root=path.root.value,
        content="\n".join([_header(path, file.tag), *window.rows]),
        tag=file.tag,
        offset=window.first,
        line_count=len(window.rows),
        total_lines=file.total_lines,
        file_bytes=file.file_bytes,
        encoding=file.encoding,
        newline=file.newline,
        truncated=more or window.clipped > 0,
        notice=_notice(path, file, window, last, more) or None,
    )


def _header(path: ResolvedPath, tag: str) -> str:
    # A name may hold a line break; in the header it must not start a row.
    shown = path.display.replace("\r", "\\r").replace("\n", "\\n")
    return f"[{shown}#{tag}]"


def _notice(path: ResolvedPath, file: _File, window: _Window, last: int, more: bool) -> str:
    if file.total_lines == 0:
        return f"The file is empty ({file.file_bytes} bytes, no line)."
    if not window.rows:
        return (
            f"Offset {window.first} is past the end: the file has {file.total_lines} "
            f"{'line' if file.total_lines == 1 else 'lines'}. "
            f"Read it with an offset from 1 to {file.total_lines}."
        )
    parts = []
    if more:
        why = " (the answer's limit of 48 KiB is reached)" if window.full else ""
        parts.append(
            f"Lines {window.first}-{last} of {file.total_lines} are shown{why}; go on with offset {last + 1}."
        )
    if window.clipped:
        lines = "1 line is" if window.clipped == 1 else f"{window.clipped} lines are"
        parts.append(
            f"{lines} longer than {MAX_LINE_CHARS} characters, cut (`…`) and not counted as seen; "
            "search the file for the part you need."
        )
    if file.encoding == "unknown-8bit":
        parts.append("Bytes that are not UTF-8 are shown as `\ufffd`; they stay in the file as they are.")
    return " ".join(parts)


def _binary(path: ResolvedPath, head: bytes, size: int, name: str) -> Failure:
    kind = content_type(head)
    named = ""
    if kind.endswith("text") or kind.endswith("(text)") or not head:
        named = f", although its name ends in `.{name.rpartition('.')[2]}`"
    return failure(
        ErrorCode.TOOL_BINARY_CONTENT,
        f"`{path.display}` is not readable as text: by its bytes it is {kind}{named}, {size} bytes long. "
        "Go on without its content, or use a program that is made for this type.",
        details={"type": kind, "bytes": size},
    )


def _with_suggestion(refused: Failure, arguments: ReadInput, active: ActiveTools | None) -> Failure:
    """A directory gets the call that lists it, where the agent can make it; all else stays as it is."""
    error = refused.error
    if error.code is not ErrorCode.INVALID_ARGUMENT or error.details.get("kind") != "directory":
        return refused
    details: dict[str, Any] = {"kind": "directory"}
    advice = "Name a file in it."
    if active is None or active.has("Glob"):
        details["suggestedTool"] = "Glob"
        details["suggestedArgs"] = {"path": arguments.path, "pattern": "**/*"}
        advice = "Name a file in it; Glob with `details.suggestedArgs` lists its files."
        if active is not None and "Glob" not in active:
            advice += f" Glob is not active yet: call {SEARCH} with the query `Glob` first."
    return failure(
        ErrorCode.INVALID_ARGUMENT,
        f"`{arguments.path}` is a directory, and Read takes one regular text file. {advice}",
        details=details,
    )
