"""Write, decided: may the file be replaced, and by which bytes? Pure."""

from __future__ import annotations

import attrs

from agents.errors import ErrorCode, ToolError
from agents.results import Hunk
from agents.rules import diffs
from agents.rules.edits import Snapshot, digest_of, tag_of_digest
from agents.rules.ops import refusal
from agents.rules.text import TextFile, decode, split_lines
from agents.rules.text import refusal as encoding_problem

_MARK = "\ufeff"


@attrs.frozen
class PlannedWrite:
    """The write can be made."""

    data: bytes
    before: TextFile | None
    after: TextFile
    warnings: tuple[str, ...]
    hunks: tuple[Hunk, ...]
    additions: int
    deletions: int


def plan_write(
    content: str, before: bytes | None, latest: Snapshot | None, *, path: str
) -> PlannedWrite | ToolError:
    """Decide the call. `before` is what is there now (None: nothing), `latest` what this agent saw last.

    A new file is UTF-8 and holds exactly `content`. A replaced one keeps its encoding, its byte order mark
    and, where all its lines end in `\\r\\n`, that ending; nothing else is added or taken away.
    """
    if before is None:
        return _planned(content, None, _EMPTY, path)
    stale = _stale(before, latest, path)
    if stale is not None:
        return stale
    old = decode(before)
    return _planned(content, old, old, path)


_EMPTY = TextFile(lines=(), endings=(), encoding="utf-8", bom=False)


def _planned(content: str, old: TextFile | None, like: TextFile, path: str) -> PlannedWrite | ToolError:
    kept = content.removeprefix(_MARK) if like.bom else content
    warnings: tuple[str, ...] = ()
    if like.newline == "\r\n":
        turned = kept.replace("\r\n", "\n").replace("\n", "\r\n")
        if turned != kept:
            warnings = ("The file's line endings are \\r\\n, and the new content was written with them.",)
        kept = turned
    reason = encoding_problem(kept, like.encoding)
    if reason is not None:
        return refusal(
            ErrorCode.INVALID_ARGUMENT,
            f"The content cannot be written to {path}: {reason}. Nothing was written.",
            "Send content without that character, or remove the file with Bash and write it anew as UTF-8.",
            details={"reason": "encoding"},
        )
    lines, endings = split_lines(kept)
    after = attrs.evolve(like, lines=lines, endings=endings)
    hunks = diffs.changes(old or _EMPTY, after)
    additions, deletions = diffs.counts(hunks)
    return PlannedWrite(
        data=after.encode(),
        before=old,
        after=after,
        warnings=warnings,
        hunks=hunks,
        additions=additions,
        deletions=deletions,
    )


def _stale(before: bytes, latest: Snapshot | None, path: str) -> ToolError | None:
    digest = digest_of(before)
    if latest is not None and latest.digest == digest and latest.data in (None, before):
        return None
    tag = tag_of_digest(digest)
    if latest is None:
        problem = f"{path} exists already and you have not seen its content (tag {tag})."
    else:
        problem = (
            f"{path} changed after the version that you saw last (tag {latest.tag}); its tag now is {tag}."
        )
    if b"\0" in before[:4096] and decode(before).encoding not in ("utf-16-le", "utf-16-be"):
        step = "It is a binary file: write to another path, or remove it with Bash first if it shall go."
    else:
        step = (
            "Read it, then send Write again with everything that shall stay, or use Edit for a small change."
        )
    return refusal(ErrorCode.WRITE_STALE, f"{problem} Nothing was written.", step, details={"tag": tag})
