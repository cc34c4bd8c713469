"""Files too large to keep in memory: read in a stream, hashed once per version, entered at any line."""

from __future__ import annotations

import bisect
import codecs
import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import attrs

from agents.rules.text import Encoding, Newline, marked

_CHUNK = 1 << 20
_MAX_KNOWN = 64
_MARKS: tuple[tuple[bytes, Encoding], ...] = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_Identity = tuple[int, int, int, int, int]


@attrs.frozen
class LargeFacts:
    """What one pass over a file found out."""

    digest: str
    """SHA-256 hex of the bytes."""
    size: int
    total_lines: int
    encoding: Encoding
    newline: Newline
    starts: tuple[int, ...]
    """Byte offsets at which reading may start."""
    lines_before: tuple[int, ...]
    """How many line ends lie before each of them."""


@attrs.frozen
class WindowLine:
    """One line, cut to a length."""

    text: str
    clipped: bool


class LargeFiles:
    """Remembers the facts of the files last read (by device, inode, size and times). Safe in threads."""

    def __init__(self) -> None:
        self._known: OrderedDict[_Identity, LargeFacts] = OrderedDict()
        self._guard = threading.Lock()

    def facts(self, descriptor: int, check: Callable[[], None]) -> LargeFacts:
        """The facts of the open file; one pass over it unless this version is known. `check` may raise."""
        status = os.fstat(descriptor)
        key = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        with self._guard:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
                return known
        found = _Pass(status.st_size).run(descriptor, check)
        with self._guard:
            self._known[key] = found
            if len(self._known) > _MAX_KNOWN:
                self._known.popitem(last=False)
        return found


class _Pass:
    """One pass: hash, count, note where lines lie. Only the first `size` bytes count: a log may grow on."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._hash = hashlib.sha256()
        self._starts: list[int] = []
        self._before: list[int] = []
        self._ends = 0
        self._crlf = 0
        self._last = ""

    def run(self, descriptor: int, check: Callable[[], None]) -> LargeFacts:
        mark, encoding = _mark(os.pread(descriptor, 4, 0))
        self._hash.update(mark)
        wide = encoding in ("utf-16-le", "utf-16-be")
        decoder = codecs.getincrementaldecoder(encoding or "utf-8")("replace" if wide else "strict")
        valid = True
        at = len(mark)
        with ThreadPoolExecutor(max_workers=1) as hasher:  # hashing is half of the work and needs no lock
            hashed: Future[None] | None = None
            while at < self._size:
                check()
                chunk = os.pread(descriptor, min(_CHUNK, self._size - at), at)
                if not chunk:
                    break
                if hashed is not None:
                    hashed.result()
                hashed = hasher.submit(self._hash.update, chunk)
                self._starts.append(at)
                self._before.append(self._ends)
                if wide:
                    self._count_text(decoder.decode(chunk))
                else:
                    self._count_bytes(chunk)
                    valid = valid and _decodes(decoder, chunk)
                at += len(chunk)
        valid = valid and _decodes(decoder, b"", final=True)
        return self._facts(at, encoding or "utf-8" if valid else "unknown-8bit")

    def _count_bytes(self, chunk: bytes) -> None:
        self._ends += chunk.count(b"\n")
        # Looking for one byte first is much faster than looking for two.
        self._crlf += chunk.count(b"\r\n") if b"\r" in chunk else 0
        self._crlf += self._last == "\r" and chunk.startswith(b"\n")
        self._last = chr(chunk[-1])

    def _count_text(self, text: str) -> None:
        self._ends += text.count("\n")
        self._crlf += text.count("\r\n") + (self._last == "\r" and text.startswith("\n"))
        self._last = text[-1:] or self._last

    def _facts(self, size: int, encoding: Encoding) -> LargeFacts:
        newline: Newline = "mixed"
        if self._ends == 0:
            newline = "none"
        elif self._crlf in (0, self._ends):
            newline = "\r\n" if self._crlf else "\n"
        return LargeFacts(
            digest=self._hash.hexdigest(),
            size=size,
            total_lines=self._ends + (self._last not in ("", "\n")),
            encoding=encoding,
            newline=newline,
            starts=tuple(self._starts),
            lines_before=tuple(self._before),
        )


def read_window(
    descriptor: int, facts: LargeFacts, *, first: int, take: Callable[[WindowLine], bool], max_chars: int
) -> None:
    """Hand the lines from number `first` on to `take`, until it returns False or the file ends.

    Of a longer line only `max_chars` characters are kept, in memory too.
    """
    # One line end before the wanted line must lie behind the start: the start may split a character.
    block = max(0, bisect.bisect_left(facts.lines_before, first - 1) - 1)
    number = facts.lines_before[block] + 1 if facts.starts else 1
    at = facts.starts[block] if facts.starts else facts.size
    eight_bit = facts.encoding in ("utf-8", "unknown-8bit")
    decoder = codecs.getincrementaldecoder("utf-8" if eight_bit else facts.encoding)(
        "surrogateescape" if eight_bit else "replace"
    )
    line = _Partial(max_chars)
    while at < facts.size:
        chunk = os.pread(descriptor, min(_CHUNK, facts.size - at), at)
        if not chunk:
            break
        at += len(chunk)
        # The last bytes may begin a character that never ends: they are shown all the same.
        pieces = decoder.decode(chunk, at >= facts.size).split("\n")
        for piece in pieces[:-1]:
            line.add(piece)
            if number >= first and not take(line.finish(ended=True)):
                return
            number += 1
            line = _Partial(max_chars)
        line.add(pieces[-1])
    if line.length and number >= first:
        take(line.finish(ended=False))


class _Partial:
    """A line that arrives in pieces, of which only the beginning is kept."""

    def __init__(self, max_chars: int) -> None:
        self._max = max_chars
        self._text = ""
        self._tail = ""
        self.length = 0

    def add(self, piece: str) -> None:
        self.length += len(piece)
        self._tail = piece[-1:] or self._tail
        if len(self._text) <= self._max:
            self._text += piece[: self._max + 1 - len(self._text)]

    def finish(self, *, ended: bool) -> WindowLine:
        """The line without its ending: a `\\r` belongs to the ending where a `\\n` follows."""
        returned = ended and self._tail == "\r"
        length = self.length - returned
        text = marked(self._text[: min(length, self._max)])
        return WindowLine(text, clipped=length > self._max)


def _mark(head: bytes) -> tuple[bytes, Encoding | None]:
    """The byte order mark that a file starts with, and what it says."""
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return mark, encoding
    return b"", None


def _decodes(decoder: codecs.IncrementalDecoder, chunk: bytes, *, final: bool = False) -> bool:
    try:
        decoder.decode(chunk, final)
    except UnicodeDecodeError:
        return False
    return True
