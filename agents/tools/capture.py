"""Bounded capture of one output stream: head and tail in memory, on overflow the whole in a spill file."""

from __future__ import annotations

import os
from pathlib import Path

import attrs

CHUNK_BYTES = 64 * 1024


@attrs.frozen
class Limits:
    """What is kept of one stream."""

    head_bytes: int
    tail_bytes: int
    lines: int = 4000
    """Over head and tail together."""
    spill_bytes: int = 64 * 1024 * 1024
    """Bound of the spill file; what comes after it is counted and dropped."""


STDOUT_LIMITS = Limits(head_bytes=32 * 1024, tail_bytes=64 * 1024)
STDERR_LIMITS = Limits(head_bytes=0, tail_bytes=96 * 1024)


@attrs.frozen
class Captured:
    """What became of one stream."""

    text: str
    """Decoded as UTF-8 with replacement marks; where something is left out, a marker line says so."""
    total_bytes: int
    truncated: bool
    spill: Path | None = None
    """The file with the whole output (up to the limit), when not all of it is in `text`."""


class Capture:
    """Takes the bytes of one stream in memory that is bounded by the limits."""

    def __init__(self, limits: Limits, spill: Path | None) -> None:
        """`spill`: file for the whole output should it overflow, in a folder that exists; None: nowhere."""
        self._limits = limits
        self._path = spill
        self._file: int | None = None
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0
        self._lines = 0
        self._spilled = 0
        self._lost: str | None = None if spill is not None else "there is no folder for it"

    @property
    def overflows(self) -> bool:
        """Whether not everything fits in the result."""
        return (
            self._total > self._limits.head_bytes + self._limits.tail_bytes
            or self._lines > self._limits.lines
        )

    def fits(self, chunk: bytes) -> bool:
        """Whether `add` will stay in memory."""
        room = self._limits.head_bytes + self._limits.tail_bytes
        return self._total + len(chunk) <= room and self._lines + chunk.count(b"\n") <= self._limits.lines

    def add(self, chunk: bytes) -> None:
        """Take the next bytes; writes to the spill file unless they `fits`."""
        overflowed = self.overflows
        self._total += len(chunk)
        self._lines += chunk.count(b"\n")
        if self.overflows:
            if not overflowed:
                self._spill(bytes(self._head + self._tail))
            self._spill(chunk)
        room = self._limits.head_bytes - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk
        if len(self._tail) > self._limits.tail_bytes:
            del self._tail[: -self._limits.tail_bytes]

    def close(self) -> None:
        """Close the spill file. Nothing may be added afterwards."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def result(self, stream: str) -> Captured:
        """What was kept; `stream` names it in the marker."""
        if not self.overflows:
            return Captured(_text(self._head + self._tail), self._total, truncated=False)
        head, tail = self._ends()
        omitted = self._total - len(head) - len(tail)
        marker = f"[{omitted} bytes of {stream} are left out here{self._where()}]"
        parts = [_text(head).rstrip("\n"), marker, _text(tail)]
        return Captured(
            "\n".join(part for part in parts if part),
            self._total,
            truncated=True,
            spill=self._path if self._spilled else None,
        )

    def _ends(self) -> tuple[bytes, bytes]:
        """Head and tail, cut to their share of the lines and to whole characters."""
        kept = self._limits
        head_lines = kept.lines * kept.head_bytes // (kept.head_bytes + kept.tail_bytes)
        everything = self._total == len(self._head) + len(self._tail)
        head = bytes(self._head + self._tail) if everything else bytes(self._head)
        tail = head if everything else bytes(self._tail)
        head = _first_lines(head[: kept.head_bytes], head_lines)
        tail = _last_lines(tail[-kept.tail_bytes :], kept.lines - head_lines)
        if everything:  # the two are cut from the same bytes and must not overlap
            tail = tail[max(0, len(head) + len(tail) - self._total) :]
        return _whole_end(head), _whole_start(tail)

    def _where(self) -> str:
        if not self._spilled:
            return f"; the whole output could not be kept: {self._lost}" if self._lost else ""
        if self._lost:
            return f"; its first {self._spilled} bytes are in {self._path}, the rest is lost: {self._lost}"
        return f"; the whole output is in {self._path}, which Read can page through"

    def _spill(self, chunk: bytes) -> None:
        """Append to the spill file, up to its limit; a disk that refuses ends it, never the command."""
        if self._lost is not None or self._path is None or not chunk:
            return
        room = self._limits.spill_bytes - self._spilled
        try:
            if self._file is None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
                self._file = os.open(self._path, flags, 0o600)
            view = memoryview(chunk)[:room]
            while view:
                written = os.write(self._file, view)
                self._spilled += written
                view = view[written:]
        except OSError as error:
            self._lost = error.strerror or type(error).__name__
            return
        if len(chunk) > room:
            self._lost = f"a file takes at most {self._limits.spill_bytes} bytes"


def _text(data: bytes | bytearray) -> str:
    return data.decode("utf-8", "replace")


def _first_lines(data: bytes, lines: int) -> bytes:
    position = 0
    for _ in range(lines):
        end = data.find(b"\n", position)
        if end < 0:
            return data
        position = end + 1
    return data[:position]


def _last_lines(data: bytes, lines: int) -> bytes:
    position = len(data) - 1 if data.endswith(b"\n") else len(data)
    for _ in range(lines):
        start = data.rfind(b"\n", 0, position)
        if start < 0:
            return data
        position = start
    return data[position + 1 :]


def _whole_end(data: bytes) -> bytes:
    """Without a character that is cut in two at the end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte < 0x80:
            return data
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if needed > back else data
    return data


def _whole_start(data: bytes) -> bytes:
    """Without the end of a character that is cut in two at the start."""
    start = 0
    while start < min(3, len(data)) and 0x80 <= data[start] < 0xC0:
        start += 1
    return data[start:]
