"""What one agent has seen: tags, versions and seen lines of the files it read. In memory only."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable

import attrs

from agents.rules.edits import Snapshot, digest_of, tag_of_digest
from agents.rules.line_set import LineSet
from agents.rules.text import decode

__all__ = ["MAX_KEPT_BYTES", "Snapshot", "SnapshotStore"]

MAX_VERSIONS = 4
MAX_PATHS = 64
MAX_TEXT_BYTES = 8 * 1024 * 1024
MAX_KEPT_BYTES = 2 * 1024 * 1024
"""A larger file is hashed, but its bytes are not kept."""


class SnapshotStore:
    """Canonical path → up to 4 versions this agent was shown. Dies with the agent, never shared.

    At most 64 paths and 8 MiB of text, least recently used out first. What Grep showed has a ring of the same
    size of its own, so that a wide search never pushes out what was read. Safe to use from worker threads.
    """

    def __init__(self) -> None:
        self._read = _Ring()
        self._grep = _Ring()
        self._clock = 0
        self._guard = threading.RLock()

    def record_read(self, canonical: str, data: bytes, *, seen: Iterable[int]) -> str:
        """The agent was shown the lines `seen` (1-based) of this version. Returns its tag."""
        return self._record(self._read, canonical, digest_of(data), data, LineSet.of(seen))

    def record_read_large(self, canonical: str, *, tag: str, digest: str, seen: Iterable[int]) -> str:
        """The same for a file that was hashed in a stream; `digest` is its SHA-256 hex."""
        assert tag == tag_of_digest(digest)
        return self._record(self._read, canonical, digest, None, LineSet.of(seen))

    def record_grep(self, canonical: str, data: bytes | None, *, digest: str, seen: Iterable[int]) -> str:
        """Grep showed the matched lines `seen` of the version with this SHA-256 hex. Returns the tag."""
        with self._guard:
            ring = self._read if self._read.get(canonical, digest) else self._grep
            return self._record(ring, canonical, digest, data, LineSet.of(seen))

    def record_written(self, canonical: str, data: bytes, *, seen: Iterable[int] | None = None) -> str:
        """The agent wrote this version. `seen` None: it wrote all of it, so all is seen. Returns the tag."""
        lines = LineSet.of(range(1, len(decode(data).lines) + 1) if seen is None else seen)
        return self._record(self._read, canonical, digest_of(data), data, lines)

    def find(self, canonical: str, tag: str) -> Snapshot | None:
        """The newest recorded version with this tag. None: nothing recorded (not: nothing seen)."""
        return self._newest(version for version in self._versions(canonical) if version.tag == tag)

    def latest(self, canonical: str) -> Snapshot | None:
        """The version this agent was shown last, by whatever tool."""
        return self._newest(self._versions(canonical))

    def mark_seen(self, canonical: str, digest: str, lines: Iterable[int]) -> None:
        """Add to the seen lines of a recorded version; does nothing for one that is gone."""
        with self._guard:
            for ring in (self._read, self._grep):
                version = ring.get(canonical, digest)
                if version is not None:
                    version.seen |= LineSet.of(lines)

    def version(self, canonical: str, digest: str) -> Snapshot | None:
        """The recorded version with exactly this content."""
        return self._newest(version for version in self._versions(canonical) if version.digest == digest)

    def _record(self, ring: _Ring, canonical: str, digest: str, data: bytes | None, seen: LineSet) -> str:
        kept = None if data is None or len(data) > MAX_KEPT_BYTES else data
        tag = tag_of_digest(digest)
        with self._guard:
            if ring is self._read:
                searched = self._grep.pop(canonical, digest)
                seen = seen if searched is None else seen | searched.seen
            self._clock += 1
            ring.put(canonical, _Version(tag, digest, kept, seen, self._clock))
        return tag

    def _versions(self, canonical: str) -> list[_Version]:
        with self._guard:
            return [version for ring in (self._read, self._grep) for version in ring.of(canonical)]

    def _newest(self, versions: Iterable[_Version]) -> Snapshot | None:
        newest = max(versions, key=lambda version: version.at, default=None)
        if newest is None:
            return None
        return Snapshot(tag=newest.tag, digest=newest.digest, data=newest.data, seen=newest.seen)


@attrs.define(eq=False)
class _Version:
    tag: str
    digest: str
    data: bytes | None
    seen: LineSet
    at: int

    @property
    def size(self) -> int:
        return 0 if self.data is None else len(self.data)


class _Ring:
    """Versions by path, in order of use; paths in order of use too."""

    def __init__(self) -> None:
        self._paths: OrderedDict[str, OrderedDict[str, _Version]] = OrderedDict()
        self._bytes = 0
        """Of all texts that are kept."""

    def of(self, canonical: str) -> tuple[_Version, ...]:
        """The versions of a path; asking for them counts as use of the path."""
        versions = self._paths.get(canonical)
        if versions is None:
            return ()
        self._paths.move_to_end(canonical)
        return tuple(versions.values())

    def get(self, canonical: str, digest: str) -> _Version | None:
        versions = self._paths.get(canonical)
        return None if versions is None else versions.get(digest)

    def pop(self, canonical: str, digest: str) -> _Version | None:
        versions = self._paths.get(canonical)
        if versions is None:
            return None
        version = versions.pop(digest, None)
        if version is not None:
            self._bytes -= version.size
        if not versions:
            del self._paths[canonical]
        return version

    def put(self, canonical: str, version: _Version) -> None:
        known = self.pop(canonical, version.digest)
        if known is not None:
            version.seen |= known.seen
        versions = self._paths.setdefault(canonical, OrderedDict())
        versions[version.digest] = version
        self._bytes += version.size
        self._paths.move_to_end(canonical)
        if len(versions) > MAX_VERSIONS:
            self.pop(canonical, next(iter(versions)))
        while len(self._paths) > MAX_PATHS:
            self._drop_oldest()
        while self._bytes > MAX_TEXT_BYTES:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        """The oldest version of the path that was used longest ago."""
        canonical = next(iter(self._paths))
        self.pop(canonical, next(iter(self._paths[canonical])))
