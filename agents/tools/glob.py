"""Glob: the files below a directory whose path matches a pattern, newest first."""

from __future__ import annotations

import os
import re
from typing import Annotated

import msgspec

from agents.errors import ErrorCode, Failure, failure
from agents.permit import Permit
from agents.results import GlobResult
from agents.rules.contract import PATH_CONTRACT
from agents.rules.paths import PathKind, ResolvedPath
from agents.tools.base import CallGroup, PathUse, Preview, Risk, Target, ToolContext, ToolOutput
from agents.tools.search.files import FoundFiles, find_files
from agents.tools.search.globs import parse_path_glob
from agents.tools.search.worker import SEARCH_SECONDS, Clock, in_worker
from telemetry import attributes as names

DEFAULT_FILES = 100
MAX_FILES = 1000
MAX_RESULT_BYTES = 46 * 1024
"""Of all paths together, so that the whole answer stays below 48 KiB."""


class GlobInput(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    pattern: Annotated[str, msgspec.Meta(description="Such as `**/*.py` or `src/**/test_*.{ts,tsx}`.")]
    path: Annotated[str | None, msgspec.Meta(description="A directory; default: the workspace.")] = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_FILES, description="How many paths.")] = DEFAULT_FILES


class GlobTool:
    name = "Glob"
    description = (
        "List files whose path matches a pattern, last modified first. `*` and `?` stop at `/`, `**` crosses "
        "directories, `[…]` is one character, `{a,b}` are alternatives; a pattern without `/` is matched "
        "against the base name at any depth (`./*.py` is not). Only files are listed, at most "
        f"{DEFAULT_FILES} unless `limit` says otherwise (most: {MAX_FILES}), sorted before the cut. Ignored "
        "files are left out unless `path` itself is ignored; the notice counts what was passed over. "
        f"{PATH_CONTRACT['Glob']}"
    )
    risk: Risk = "low"
    group = CallGroup.TOGETHER
    input = GlobInput
    timeout_seconds: float | None = SEARCH_SECONDS + 5

    def targets(self, arguments: GlobInput) -> tuple[Target, ...]:
        if arguments.path is None:
            return (Target(".", PathUse.READ, explicit=False),)
        return (Target(arguments.path, PathUse.READ),)

    async def check(
        self, arguments: GlobInput, paths: tuple[ResolvedPath, ...], context: ToolContext
    ) -> Preview | None:
        return None

    async def run(self, arguments: GlobInput, permit: Permit, context: ToolContext) -> ToolOutput:
        """Raises `Failure`: INVALID_ARGUMENT (the pattern, a file as `path`), NOT_FOUND, TOOL_DENIED,
        CONFLICT, TOOL_FAILED, TOOL_TIMEOUT.
        """
        glob = parse_path_glob(arguments.pattern)
        path = permit.paths[0]

        def work(clock: Clock) -> FoundFiles:
            return find_files(
                context.workspace, path, glob, limit=arguments.limit, clock=clock, hidden=permit.hidden
            )

        if path.kind is PathKind.FILE:
            raise _a_file(arguments)
        found = await in_worker(work)
        if found.timed_out and not found.paths:
            raise failure(
                ErrorCode.TOOL_TIMEOUT,
                f"{found.stopped}, and no match was found so far. Give a directory further down as `path`.",
            )
        result = _result(found)
        return ToolOutput(
            result, attributes={names.PATH_ROOT: path.root.value, names.TRUNCATED: result.truncated}
        )


def _result(found: FoundFiles) -> GlobResult:
    shown: list[str] = []
    size = 0
    for path in found.paths:
        size += len(path.encode("utf-8", "replace")) + 4
        if size > MAX_RESULT_BYTES:
            break
        shown.append(path)
    cut = len(shown) < found.total
    parts = []
    if not shown:
        parts.append("No file matches.")
    elif cut:
        parts.append(
            f"The {len(shown)} files modified last are shown, of {found.total} that match; "
            "give a narrower pattern or a directory further down as `path`."
        )
    if found.stopped is not None:
        parts.append(f"{found.stopped}: there may be more. Give a directory further down as `path`.")
    passed_over = found.tally.words()
    if passed_over:
        parts.append(f"Passed over: {passed_over}.")
    return GlobResult(
        matches=tuple(shown),
        count=found.total,
        truncated=cut or found.stopped is not None,
        notice=" ".join(parts) or None,
    )


def _a_file(arguments: GlobInput) -> Failure:
    given = (arguments.path or ".").rstrip("/")
    suggested = {
        "path": os.path.dirname(given) or ("/" if given.startswith("/") else "."),
        "pattern": re.sub(r"([*?\[\]{}\\])", r"[\1]", os.path.basename(given)),
    }
    return failure(
        ErrorCode.INVALID_ARGUMENT,
        f"`{given}` is a file, and Glob takes a directory as `path`. Give its directory, and its name as "
        "`pattern`: see `details.suggestedArgs`.",
        details={"kind": "file", "suggestedTool": "Glob", "suggestedArgs": suggested},
    )
