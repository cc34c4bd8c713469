"""Grep: lines, files or counts that match a pattern, in one file or a tree."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from agents.errors import ErrorCode, failure
from agents.permit import Permit
from agents.results import (
    GrepContentResult,
    GrepCount,
    GrepCountResult,
    GrepFilesResult,
    GrepMatch,
    Result,
)
from agents.rules.contract import PATH_CONTRACT
from agents.rules.paths import PathKind, ResolvedPath
from agents.rules.text import MAX_LINE_CHARS
from agents.tools.base import CallGroup, PathUse, Preview, Risk, Target, ToolContext, ToolOutput
from agents.tools.search.content import MAX_NAMED_BYTES, Found, grep
from agents.tools.search.globs import parse_include
from agents.tools.search.patterns import parse_pattern
from agents.tools.search.query import Query
from agents.tools.search.rows import FileHits
from agents.tools.search.worker import SEARCH_SECONDS, Clock, in_worker
from telemetry import attributes as names

DEFAULT_HEAD = 200
MAX_HEAD = 2000
MAX_RESULT_BYTES = 46 * 1024
"""Of all rows together, so that the whole answer stays below 48 KiB."""

Mode = Literal["content", "filesWithMatches", "count"]
MODES: tuple[Mode, ...] = ("content", "filesWithMatches", "count")
_ALIASES = {"files_with_matches": "filesWithMatches", "files-with-matches": "filesWithMatches"}


class GrepInput(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    pattern: Annotated[str, msgspec.Meta(description="A regular expression in RE2 syntax.")]
    path: Annotated[
        str | None, msgspec.Meta(description="One file or a directory; default: the workspace.")
    ] = None
    include: Annotated[
        str | None, msgspec.Meta(description="A glob on the base name, such as `*.{ts,tsx}`.")
    ] = None
    output_mode: Mode = "content"
    head_limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_HEAD, description="How many rows.")] = DEFAULT_HEAD
    case_insensitive: bool = False


class GrepTool:
    name = "Grep"
    description = (
        "Search file contents line by line for a regular expression in RE2 syntax (no look-around, no back "
        "references; `\\w \\d \\s \\b` know ASCII only). `content` gives lines with their numbers and each "
        "file's tag, in path order; `filesWithMatches` gives paths, last modified first; `count` gives "
        f"matching lines per file. At most {DEFAULT_HEAD} rows unless `headLimit` says otherwise (at most "
        f"{MAX_HEAD}), 48 KiB and 10 seconds; a line is cut at {MAX_LINE_CHARS} characters around the match. "
        "Binary files, symbolic links, files over 10 MiB (64 MiB when named as `path`) and ignored files are "
        "passed over, and counted in the notice; an ignored `path` that is named itself is searched. "
        f"{PATH_CONTRACT['Grep']}"
    )
    risk: Risk = "low"
    group = CallGroup.TOGETHER
    input = GrepInput
    timeout_seconds: float | None = SEARCH_SECONDS + 5

    def normalise(self, raw: dict[str, Any]) -> dict[str, Any]:
        """Accept other spellings of `outputMode`. Raises `msgspec.ValidationError` naming the three modes."""
        mode = raw.get("outputMode", "content")
        mode = _ALIASES.get(mode, mode) if isinstance(mode, str) else mode
        if mode not in MODES:
            allowed = ", ".join(f"`{name}`" for name in MODES)
            raise msgspec.ValidationError(f"`outputMode` must be one of {allowed}, not {mode!r}")
        return {**raw, "outputMode": mode} if "outputMode" in raw else raw

    def targets(self, arguments: GrepInput) -> tuple[Target, ...]:
        if arguments.path is None:
            return (Target(".", PathUse.READ, explicit=False),)
        return (Target(arguments.path, PathUse.READ),)

    async def check(
        self, arguments: GrepInput, paths: tuple[ResolvedPath, ...], context: ToolContext
    ) -> Preview | None:
        return None

    async def run(self, arguments: GrepInput, permit: Permit, context: ToolContext) -> ToolOutput:
        """Raises `Failure`: INVALID_ARGUMENT (pattern, include, not a regular file), NOT_FOUND, TOOL_DENIED,
        CONFLICT, TOOL_FAILED, TOOL_TIMEOUT.
        """
        query = Query(
            pattern=parse_pattern(arguments.pattern, ignore_case=arguments.case_insensitive),
            mode=arguments.output_mode,
            limit=arguments.head_limit,
            max_bytes=MAX_RESULT_BYTES,
            include=None if arguments.include is None else parse_include(arguments.include),
            hidden=permit.hidden,
        )
        path = permit.paths[0]

        def record(canonical: str, hits: FileHits) -> str:
            return context.snapshots.record_grep(canonical, hits.data, digest=hits.digest, seen=hits.seen())

        def work(clock: Clock) -> Found:
            return grep(context.workspace, path, query, clock=clock, record=record, helpers=context.helpers)

        found = await in_worker(work)
        if found.timed_out and not found.hits:
            raise failure(
                ErrorCode.TOOL_TIMEOUT,
                f"{found.stopped}: {found.searched} files were searched without a match. Give a directory "
                "further down as `path`, an `include`, or a simpler pattern.",
                details={"searched": found.searched},
            )
        truncated = found.full or found.stopped is not None or _clipped(found) > 0
        return ToolOutput(
            _result(
                query,
                found,
                truncated,
                _notice(query, found, named=path.kind is not PathKind.DIRECTORY) or None,
            ),
            attributes={names.PATH_ROOT: path.root.value, names.TRUNCATED: truncated},
        )


def _clipped(found: Found) -> int:
    return sum(len(hit.clipped) for hit in found.hits)


def _result(query: Query, found: Found, truncated: bool, notice: str | None) -> Result:
    if query.mode == "filesWithMatches":
        return GrepFilesResult(
            files=tuple(hit.path for hit in found.hits),
            count=found.total,
            truncated=truncated,
            notice=notice,
        )
    if query.mode == "count":
        counts = tuple(GrepCount(path=hit.path, count=hit.count) for hit in found.hits)
        return GrepCountResult(counts=counts, count=found.lines, truncated=truncated, notice=notice)
    matches = tuple(
        GrepMatch(path=hit.path, line=number, text=text)
        for hit in found.hits
        for number, text in zip(hit.numbers, hit.texts, strict=True)
    )
    return GrepContentResult(
        matches=matches,
        tags={hit.path: hit.tag for hit in found.hits},
        count=len(matches),
        files=len(found.hits),
        truncated=truncated,
        notice=notice,
    )


def _notice(query: Query, found: Found, *, named: bool) -> str:
    parts = []
    if found.excluded:
        parts.append("Nothing was searched: `include` leaves out the one file that `path` names.")
    elif found.tally.too_large and not found.searched and named:
        return (
            f"Nothing was searched: the file is larger than {MAX_NAMED_BYTES >> 20} MiB. Read it in parts, or "
            "search it with Bash (`grep -n`)."
        )
    elif found.tally.binary and not found.searched and named:
        return "Nothing was searched: the file is binary. Bash can look at it (`grep -a`, `strings`, `xxd`)."
    elif not found.hits:
        files = "1 file" if found.searched == 1 else f"{found.searched} files"
        parts.append(f"No match; {files} searched.")
        if query.pattern.ascii_words_only:
            parts.append("`\\b` and `\\w` know ASCII letters only: leave them out beside other letters.")
    if found.full:
        parts.append(_cut_words(query, found))
    if found.stopped is not None:
        parts.append(f"{found.stopped}: there may be more. Give a directory further down as `path`.")
    clipped = _clipped(found)
    if clipped:
        lines = "1 line is" if clipped == 1 else f"{clipped} lines are"
        parts.append(
            f"{lines} longer than {MAX_LINE_CHARS} characters, cut (`…`) around the match "
            "and not counted as seen."
        )
    passed_over = found.tally.words()
    if passed_over and not found.full:  # of a search that was cut it says nothing
        parts.append(f"Passed over: {passed_over}.")
    return " ".join(parts)


def _cut_words(query: Query, found: Found) -> str:
    advice = "give a narrower pattern, an `include`, or a directory further down as `path`"
    if found.full_of_rows and query.limit < MAX_HEAD:
        advice = f"raise `headLimit` (at most {MAX_HEAD}), or {advice}"
    elif not found.full_of_rows:
        advice = f"the answer is full (48 KiB); {advice}"
    if query.mode == "filesWithMatches":
        return f"The {len(found.hits)} files modified last are shown, of {found.total}; {advice}."
    if query.mode == "count":
        return (
            f"The first {len(found.hits)} files in path order are shown, of {found.total}; `count` is the sum "
            f"of all {found.total}. For more rows {advice}."
        )
    return f"The first matching lines in path order are shown, there are more; {advice}."
