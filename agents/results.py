"""Results of tools and of delegated tasks: one class each, camelCase on the wire. Pure.

A field named in `BODY` is long text: the model reads it as text below the JSON object instead of as a
JSON string inside it (`model_text`).
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from agents.errors import ToolError
from agents.messages import Usage

RootName = Literal["workspace", "scratch", "external"]


class Result(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all tool results."""

    BODY: ClassVar[tuple[str, ...]] = ()


class ReadResult(Result, frozen=True, kw_only=True, rename="camel"):
    """A window of one text file. `content` starts with `[<path>#<TAG>]`, then `N:text` rows."""

    BODY: ClassVar[tuple[str, ...]] = ("content",)
    path: str
    root: RootName
    content: str
    tag: str
    offset: int
    line_count: int
    total_lines: int
    file_bytes: int
    encoding: str
    newline: str
    truncated: bool
    notice: str | None = None


class GlobResult(Result, frozen=True, kw_only=True, rename="camel"):
    """Matching paths, newest first."""

    matches: tuple[str, ...]
    count: int
    truncated: bool
    notice: str | None = None


class GrepMatch(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One matching line (1-based)."""

    path: str
    line: int
    text: str


class GrepContentResult(Result, frozen=True, kw_only=True, rename="camel"):
    """`outputMode: content`, in path order."""

    matches: tuple[GrepMatch, ...]
    tags: dict[str, str]
    count: int
    files: int
    truncated: bool
    notice: str | None = None


class GrepFilesResult(Result, frozen=True, kw_only=True, rename="camel"):
    """`outputMode: filesWithMatches`, newest first."""

    files: tuple[str, ...]
    count: int
    truncated: bool
    notice: str | None = None


class GrepCount(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Matching lines of one file."""

    path: str
    count: int


class GrepCountResult(Result, frozen=True, kw_only=True, rename="camel"):
    """`outputMode: count`, in path order."""

    counts: tuple[GrepCount, ...]
    count: int
    truncated: bool
    notice: str | None = None


class WriteResult(Result, frozen=True, kw_only=True, rename="camel"):
    """A file was created or replaced."""

    path: str
    root: RootName
    tag: str
    created: bool
    bytes: int
    additions: int
    deletions: int
    warnings: tuple[str, ...] = ()


class Hunk(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One changed region, 1-based, as in a unified diff header."""

    old_start: int
    old_lines: int
    new_start: int
    new_lines: int


class EditResult(Result, frozen=True, kw_only=True, rename="camel"):
    """A file was edited; `tag` is computed from the bytes that landed.

    Of a moved file `path`, `root` and `tag` are those of the new place.
    """

    path: str
    root: RootName
    tag: str | None
    """None: the file was deleted."""
    warnings: tuple[str, ...]
    additions: int
    deletions: int
    hunks: tuple[Hunk, ...]
    spans: tuple[str, ...] | None = None
    """The lines of the tagged version that each block operation came to, as `replaceBlock 12-40`."""
    moved_from: str | None = None
    deleted: bool = False


class BashResult(Result, frozen=True, kw_only=True, rename="camel"):
    """A shell command ended (or was ended)."""

    BODY: ClassVar[tuple[str, ...]] = ("stdout", "stderr")
    exit_code: int | None
    stdout: str
    stderr: str
    timed_out: bool
    truncated: bool
    duration_ms: int
    signal: str | None = None
    spill: dict[str, str] | None = None
    """Stream name → path of the spill file in scratch, for streams that were cut."""
    survivors: tuple[str, ...] = ()
    """What the command left running and was killed, as `pid name`."""


class FoundTool(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One tool that was activated."""

    name: str
    summary: str


class ToolSearchResult(Result, frozen=True, kw_only=True, rename="camel"):
    """Which tools can be called from now on, until the person's prompt has been answered."""

    activated: tuple[FoundTool, ...]
    already_active: tuple[str, ...]
    notice: str


class ValueResult(Result, frozen=True, kw_only=True, rename="camel"):
    """What a custom or plugin tool returned: any JSON value."""

    value: Any


TaskStatus = Literal["completed", "truncated", "failed", "stopped", "aborted", "interrupted"]
"""How a run ended. The set is closed; `interrupted` is only ever found at start-up."""


class Waits(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Milliseconds spent waiting, by what for."""

    model: int = 0
    tool: int = 0
    permission: int = 0
    lock: int = 0

    def __add__(self, other: Waits) -> Waits:
        return Waits(
            model=self.model + other.model,
            tool=self.tool + other.tool,
            permission=self.permission + other.permission,
            lock=self.lock + other.lock,
        )


class FileChange(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One file inside the workspace that a run changed. `before`/`after` are SHA-256 hex, None: no file."""

    path: str
    change: Literal["created", "modified", "deleted"]
    before: str | None
    after: str | None


def merge_changes(first: FileChange, second: FileChange) -> FileChange:
    """One change with the first's `before` and the second's `after`."""
    kind: Literal["created", "modified", "deleted"]
    kind = "created" if first.before is None else "deleted" if second.after is None else "modified"
    return FileChange(path=first.path, change=kind, before=first.before, after=second.after)


class TaskResult(Result, frozen=True, kw_only=True, rename="camel"):
    """What one delegate run left behind; computed once, by settlement."""

    BODY: ClassVar[tuple[str, ...]] = ("report",)
    task_id: str
    run_id: str
    chain_id: str
    agent: str
    label: str
    status: TaskStatus
    report: str
    turns: int
    tool_calls: int
    usage: Usage
    duration_ms: int
    waits: Waits
    files_changed: tuple[FileChange, ...]
    resumable: bool
    error: ToolError | None = None


class TaskStarted(Result, frozen=True, kw_only=True, rename="camel"):
    """The delegate runs in the background."""

    task_id: str
    run_id: str
    label: str
    status: Literal["running"] = "running"


class TaskLive(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One line of TaskList: a running or settled task as it is now."""

    task_id: str
    label: str
    agent: str
    status: str
    """`running` or a TaskStatus."""
    elapsed_ms: int
    turns: int
    tool_calls: int
    last_tool: str | None = None
    waiting_for_permission: bool = False


class TaskListResult(Result, frozen=True, kw_only=True, rename="camel"):
    """Every task of the session."""

    tasks: tuple[TaskLive, ...]


class TaskWaitResult(Result, frozen=True, kw_only=True, rename="camel"):
    """Settled results, and the live status of the rest. A timeout is not an error."""

    results: tuple[TaskResult, ...]
    running: tuple[TaskLive, ...]
    timed_out: bool


class TaskStopResult(Result, frozen=True, kw_only=True, rename="camel"):
    """The tasks that were stopped, and the ones that had already ended."""

    stopped: tuple[str, ...]
    already_settled: tuple[str, ...]


def model_text(result: msgspec.Struct | None, error: ToolError | None, *, terminate: bool = False) -> str:
    """What the model reads of a finished call: one JSON object, long texts below it under their names.

    `result` and `error` may both be given (a failed Bash keeps its whole result).
    """
    head: dict[str, Any] = {}
    bodies: list[tuple[str, str]] = []
    if result is not None:
        head.update(_without_bodies(result, "", bodies))
    if error is not None:
        head["error"] = msgspec.to_builtins(error)
    if terminate:
        head["terminate"] = True
    lines = [msgspec.json.encode(head).decode("utf-8")]
    for name, text in bodies:
        if text:
            lines.append(f"--- {name}\n{text}")
    return "\n".join(lines)


def _without_bodies(value: msgspec.Struct, prefix: str, bodies: list[tuple[str, str]]) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(value)
    for name in getattr(value, "BODY", ()):
        plain.pop(name, None)
        bodies.append((f"{prefix}{name}", getattr(value, name)))
    if isinstance(value, TaskWaitResult):
        plain["results"] = [_without_bodies(r, f"{r.label} ({r.task_id}) ", bodies) for r in value.results]
    return plain
