"""What calls changed in files, as diffs: from the before-images that the journal keeps, after the fact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import trio

from agents.rules.diffs import unified
from agents.rules.edits import digest_of
from agents.rules.reviews import Review, reviews
from agents.rules.text import decode
from orchestrator.store.base import EffectRow, Store

MAX_BYTES = 2 * 1024 * 1024
"""A larger file is not compared."""


async def stored_diffs(store: Store, session_id: str) -> dict[str, list[str]]:
    """The changes of each call of a session, by call id: lines of unified diffs, without their file headers.

    What a file held after a call is what the next one found there, or what stands there still. Where neither
    is so any more, the changed regions are named instead.
    """
    effects = await store.effects(session_id)
    origins: dict[str | None, EffectRow] = {
        row.intent.before_hash: row for row in effects if row.intent.before_hash is not None
    }
    found: dict[str, list[str]] = {}
    for review in reviews(effects):
        found.setdefault(review.call_id, []).extend(await _lines(store, review, origins))
    return found


async def _lines(store: Store, review: Review, origins: Mapping[str | None, EffectRow]) -> Sequence[str]:
    before = b"" if review.before_hash is None else await store.before_image(review.review_id)
    after = b"" if review.after_hash is None else await _after(store, review, origins)
    if before is None or after is None or max(len(before), len(after)) > MAX_BYTES:
        large = any(data is not None and len(data) > MAX_BYTES for data in (before, after))
        why = (
            "is larger than 2 MiB"
            if large
            else "was changed again since, so its lines are not known any more"
        )
        regions = [f"@@ -{h.old_start},{h.old_lines} +{h.new_start},{h.new_lines} @@" for h in review.hunks]
        return [*regions, f"({review.path} {why})"]
    created, deleted = review.before_hash is None, review.after_hash is None
    diff = unified(decode(before), decode(after), review.path, created=created, deleted=deleted)
    return diff.splitlines()[2:]


async def _after(store: Store, review: Review, origins: Mapping[str | None, EffectRow]) -> bytes | None:
    known = origins.get(review.after_hash)
    image = None if known is None else await store.before_image(known.intent.effect_id)
    if image is not None:
        return image
    now = await trio.to_thread.run_sync(_bytes_of, Path(review.canonical))
    return now if now is not None and digest_of(now) == review.after_hash else None


def _bytes_of(path: Path) -> bytes | None:
    try:
        if not path.is_file() or path.stat().st_size > MAX_BYTES:
            return None
        return path.read_bytes()
    except OSError:
        return None
