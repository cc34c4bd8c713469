"""Edit, decided: may these operations be applied to the bytes that are there now, and what comes of it? Pure.

Three things are proven before anything is written, in this order: the version (the tag leads to a snapshot
whose whole content is compared), the provenance (this agent was shown every line it anchors on), and that
every operation resolves to one place only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import attrs

from agents.errors import ErrorCode, ToolError
from agents.results import Hunk
from agents.rules import diffs
from agents.rules.drift import LineMap, map_lines
from agents.rules.excerpts import Excerpt, around, excerpt
from agents.rules.line_set import LineSet
from agents.rules.ops import (
    Append,
    BlockOp,
    Delete,
    DeleteFile,
    EditRequest,
    Insert,
    LineOp,
    Op,
    anchored,
    ground,
    refusal,
    to_have_seen,
)
from agents.rules.ranges import Located, locate, range_problem
from agents.rules.splices import Spliced, place, splice
from agents.rules.text import MAX_LINE_CHARS, TextFile, decode


@attrs.frozen
class Snapshot:
    """One version of one file as one agent was shown it."""

    tag: str
    digest: str
    """SHA-256 hex of the raw bytes: what a decision compares; the tag only finds the snapshot."""
    data: bytes | None
    """The raw bytes; None where the file was too large to keep."""
    seen: LineSet


@attrs.frozen
class Planned:
    """The edit can be made."""

    data: bytes
    """What the file will hold; empty where it is deleted."""
    before: TextFile
    after: TextFile
    warnings: tuple[str, ...]
    hunks: tuple[Hunk, ...]
    additions: int
    deletions: int
    seen: LineSet
    """Lines of the new version that the agent has seen or written."""
    spans: tuple[str, ...] = ()
    """What each block operation came to, in lines of the tagged version."""


@attrs.frozen
class Refused:
    """The edit cannot be made, and what the agent was shown instead."""

    error: ToolError
    tagged_seen: LineSet = attrs.field(factory=LineSet)
    """Lines of the tagged version that the error reveals in full."""
    live_seen: LineSet | None = None
    """Lines of the live version that the error shows in full; None: it shows nothing of it."""


def digest_of(data: bytes) -> str:
    """SHA-256 of the raw bytes, hex."""
    return hashlib.sha256(data).hexdigest()


def tag_of(data: bytes) -> str:
    """The version's tag: the low 16 bits of its SHA-256, four upper-case hex digits."""
    return tag_of_digest(digest_of(data))


def tag_of_digest(digest: str) -> str:
    """The tag that belongs to a SHA-256 hex digest."""
    return digest[-4:].upper()


def plan_edit(
    request: EditRequest, tagged: Snapshot | None, live: bytes, *, path: str, known: Snapshot | None = None
) -> Planned | Refused:
    """Decide the call.

    `tagged` is the snapshot that this agent's tag leads to, `known` what it already knows of exactly the live
    version, `path` the file as results name it.
    """
    case = _Case(request, live, decode(live), digest_of(live), path, known)
    if known is not None and known.tag == request.tag:
        tagged = known  # two versions may share a tag; the one that is live wins
    if tagged is None:
        return _unknown(case)
    same = tagged.digest == case.digest and tagged.data in (None, live)
    base = case.text if same else None if tagged.data is None else decode(tagged.data)
    located = _located(case, base)
    if isinstance(located, Refused):
        return located
    case = attrs.evolve(case, ops=located.ops, spans=located.spans)
    if same:
        return _unseen(case, tagged, case.text) or _apply(case, offset=0, seen=tagged.seen, warning=None)
    return _drifted(case, tagged, base)


@attrs.frozen
class _Case:
    request: EditRequest
    live: bytes
    text: TextFile
    digest: str
    path: str
    known: Snapshot | None
    ops: tuple[LineOp, ...] = ()
    """The request's operations on lines, once every block is told."""
    spans: tuple[str, ...] = ()

    @property
    def tag(self) -> str:
        return tag_of_digest(self.digest)


def _located(case: _Case, base: TextFile | None) -> Located | Refused:
    ops = case.request.ops
    if base is not None:
        located = locate(ops, base, case.path)
        return Refused(located) if isinstance(located, ToolError) else located
    problem = range_problem(ops, None)
    if problem is not None:
        return Refused(problem)
    lines = tuple(op for op in ops if not isinstance(op, BlockOp))
    # The tagged text was not kept, so its blocks are not known either.
    return Located(lines) if len(lines) == len(ops) else _mismatch(case, None, None)


def _drifted(case: _Case, tagged: Snapshot, base: TextFile | None) -> Planned | Refused:
    lines = None if base is None else map_lines(base.lines, case.text.lines)
    seen = LineSet() if case.known is None else case.known.seen
    if lines is not None:
        seen |= LineSet.of(at for at in map(lines.new, tagged.seen) if at is not None)
    if case.request.file is not None:
        return _mismatch(case, lines, base)  # nobody's change is moved away or deleted unseen
    if all(_is_head_or_end(op) for op in case.ops):
        return _apply(case, offset=0, seen=seen, warning=_drift_warning(case, 0, only_ends=True))
    offset = None if lines is None else _one_offset(case.ops, lines)
    if base is None or offset is None:
        return _mismatch(case, lines, base)
    return _unseen(case, tagged, base) or _apply(
        case, offset=offset, seen=seen, warning=_drift_warning(case, offset, only_ends=False)
    )


def _apply(case: _Case, *, offset: int, seen: LineSet, warning: str | None) -> Planned | Refused:
    if isinstance(case.request.file, DeleteFile):
        return _deletion(case)
    for op in case.ops:
        reason = None if isinstance(op, Delete) else case.text.refusal("\n".join(op.lines))
        if reason is not None:
            return Refused(_not_encodable(case.path, op, reason))
    spliced = splice(case.text, (place(op, len(case.text.lines), offset) for op in case.ops))
    data = spliced.text.encode()
    if data == case.live and case.request.file is None:
        return Refused(_no_change(case, spliced), live_seen=seen)
    hunks = diffs.changes(case.text, spliced.text)
    additions, deletions = diffs.counts(hunks)
    return Planned(
        data=data,
        before=case.text,
        after=spliced.text,
        warnings=() if warning is None else (warning,),
        hunks=hunks,
        additions=additions,
        deletions=deletions,
        seen=spliced.carry(seen) | spliced.written,
        spans=case.spans,
    )


def _deletion(case: _Case) -> Planned:
    nothing = attrs.evolve(case.text, lines=(), endings=())
    hunks = diffs.changes(case.text, nothing)
    additions, deletions = diffs.counts(hunks)
    return Planned(
        data=b"",
        before=case.text,
        after=nothing,
        warnings=(),
        hunks=hunks,
        additions=additions,
        deletions=deletions,
        seen=LineSet(),
    )


def _is_head_or_end(op: LineOp) -> bool:
    return isinstance(op, Append) or (isinstance(op, Insert) and op.anchor == 0)


def _anchors(ops: Sequence[Op]) -> list[tuple[int, int]]:
    return [anchor for anchor in map(anchored, ops) if anchor is not None]


def _one_offset(ops: Sequence[LineOp], lines: LineMap) -> int | None:
    """By how much all lines that `ops` rest on moved; None where one is not certain or they do not agree."""
    offsets: set[int | None] = set()
    for first, last in (lines_of for lines_of in map(ground, ops) if lines_of is not None):
        for line in range(first, last + 1):
            if not lines.certain(line):
                return None
            offsets.add(lines.offset(line))
            if len(offsets) > 1:
                return None
    return offsets.pop()


def _unseen(case: _Case, tagged: Snapshot, base: TextFile) -> Refused | None:
    """The provenance gate: None where every anchored line was shown to this agent."""
    unseen = LineSet()
    for first, last in (lines for lines in map(to_have_seen, case.ops) if lines is not None):
        unseen |= tagged.seen.missing(first, last)
    if not unseen:
        return None
    shown = excerpt(base, unseen, path=case.path, tag=tagged.tag)
    first, last = unseen.ranges[0][0], unseen.ranges[-1][1]
    long = next((number for number in unseen if len(base.shown_lines[number - 1]) > MAX_LINE_CHARS), None)
    if long is not None:
        step = (
            f"Line {long} has {len(base.shown_lines[long - 1])} characters, more than Read ever shows "
            f"({MAX_LINE_CHARS}): change it with Bash (`sed`, or a script), or replace the whole file with Write."
        )
    elif shown.complete:
        step = f"Check them in details.content, then send the same call again with tag {tagged.tag}."
    else:
        step = (
            f"Read {case.path} with offset {first} and limit {min(last - first + 1, 2000)}, "
            "then send the call with the tag that Read returns."
        )
    error = refusal(
        ErrorCode.EDIT_LINES_UNSEEN,
        f"{_lines(unseen)} of {case.path} {'was' if len(unseen) == 1 else 'were'} never shown to you, so nothing "
        "was written.",
        step,
        details={"tag": tagged.tag, "content": shown.content, "complete": shown.complete},
    )
    return Refused(error, tagged_seen=unseen if shown.complete else LineSet())


def _unknown(case: _Case) -> Refused:
    return _with_live_lines(
        case,
        ErrorCode.EDIT_TAG_UNKNOWN,
        f"Tag {case.request.tag} is not one that you were given for {case.path}; its tag now is {case.tag}.",
        around(case.text, _anchors(case.request.ops) or [_ends(case)], path=case.path, tag=case.tag),
    )


def _mismatch(case: _Case, lines: LineMap | None, base: TextFile | None) -> Refused:
    anchors = _anchors(case.ops or case.request.ops)
    what = "at or near the lines you name"
    if not anchors:
        anchors = _changed(base, case.text)
        what = "and a file is moved or deleted only in the version that you know"
    elif lines is not None:
        anchors = [(lines.near(first), lines.near(last)) for first, last in anchors]
    return _with_live_lines(
        case,
        ErrorCode.EDIT_TAG_MISMATCH,
        f"{case.path} changed after tag {case.request.tag}, {what}; its tag now is {case.tag}.",
        around(case.text, anchors, path=case.path, tag=case.tag),
    )


def _changed(base: TextFile | None, now: TextFile) -> list[tuple[int, int]]:
    """The lines that are new since `base`; the first one where that is not known."""
    hunks = () if base is None else diffs.changes(base, now)
    return [(hunk.new_start, hunk.new_start + max(hunk.new_lines, 1) - 1) for hunk in hunks] or [(1, 1)]


def _with_live_lines(case: _Case, code: ErrorCode, problem: str, shown: Excerpt) -> Refused:
    if not case.request.ops:
        step = (
            "Look at details.content, and at the rest of the file if it matters: "
            f"if the file shall still be moved or deleted, send the call again with tag {case.tag}."
        )
    elif shown.lines:
        step = (
            f"{_lines(shown.lines)} as they are now stand in details.content: "
            f"send the call again with tag {case.tag} and those line numbers."
        )
    else:
        step = f'The file is empty now: send {{"op": "append"}} with tag {case.tag}.'
    error = refusal(
        code,
        f"{problem} Nothing was written.",
        step,
        details={"tag": case.tag, "content": shown.content, "totalLines": len(case.text.lines)},
    )
    return Refused(error, live_seen=shown.whole)


def _ends(case: _Case) -> tuple[int, int]:
    """Where a call looks that names no line."""
    ops = case.request.ops
    line = 1 if all(isinstance(op, Insert) for op in ops) else len(case.text.lines)
    return line, line


def _no_change(case: _Case, spliced: Spliced) -> ToolError:
    lines = spliced.written or LineSet.of(first for first, _ in _anchors(case.ops))
    return refusal(
        ErrorCode.EDIT_NO_CHANGE,
        f"{case.path} already has exactly this content at {_lines(lines).lower()}; nothing was written.",
        "If that is what you want, go on with the next step; else send the lines that shall differ, "
        f"with tag {case.tag}.",
        retriable=False,
        details={"tag": case.tag},
    )


def _not_encodable(path: str, op: LineOp, reason: str) -> ToolError:
    return refusal(
        ErrorCode.INVALID_ARGUMENT,
        f"Operation {op.number} cannot be written to {path}: {reason}. Nothing was written.",
        "Use characters that the file's encoding has, such as an escape of the file's own language.",
        details={"reason": "encoding"},
    )


def _drift_warning(case: _Case, offset: int, *, only_ends: bool) -> str:
    whose = (
        f"Tag {case.request.tag} was not the newest you know"
        if case.known is not None
        else f"Something else changed {case.path} after tag {case.request.tag}"
    )
    if only_ends:
        done = "the operations touch only its head or end and were applied to the file as it was now"
    elif offset:
        done = (
            f"your lines were unchanged and had moved by {offset:+d}, and the operations were applied there"
        )
    else:
        done = "your lines were unchanged and in place, and the operations were applied"
    return f"{whose}; {done}. Read the file before you rely on its other lines."


def _lines(lines: LineSet) -> str:
    return f"{'Line' if len(lines) == 1 else 'Lines'} {lines}"
