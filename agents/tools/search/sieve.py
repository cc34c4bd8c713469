"""Leaving out files without a match many at a time. Pure.

Calling an expression costs more than searching a small file with it: so neighbouring files are read into one
buffer and searched as one text, and only those in which something was found are looked at one by one.
"""

from __future__ import annotations

import bisect
import codecs
from collections.abc import Iterator

from agents.rules.binary import has_binary_sign
from agents.tools.search.lines import Text, is_utf8, searchable
from agents.tools.search.patterns import Pattern

FIRST_FILES = 8
MOST_FILES = 128
MOST_BYTES = 512 << 10
"""Of a batch: between two looks at the clock no more is searched."""
SMALL_BYTES = 256 << 10
"""A larger file is not joined with others."""

_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_MARKS = (codecs.BOM_UTF8, *_UTF_16)
_LINE_END = ord("\n")


class Sieve:
    """Holds one batch of small files after the other, and lets through those in which `pattern` may match."""

    def __init__(self, pattern: Pattern) -> None:
        self._expressions = pattern.sieve()
        self._plain = self._expressions is not None and pattern.has_plain_sieve
        own = pattern.ignore_case if pattern.literal is not None else not pattern.joinable
        self._apart = own or self._expressions is None
        """Whether a file has to stand alone to be looked at."""
        self._proves = self._plain and pattern.required is None
        self._marks = _UTF_16 if self._plain else _MARKS
        # A file whose bytes are searched in another form may need half as much room again.
        self._buffer = bytearray(MOST_BYTES + 2 * SMALL_BYTES + 2)
        self._view = memoryview(self._buffer)
        self._files: list[tuple[str, str, int, int]] = []
        """Directory, name, end of the text, modification time."""
        self._starts: list[int] = []
        self._foreign: set[int] = set()
        """Files that are no UTF-8, where that matters before something is found."""
        self._originals: dict[int, bytes] = {}
        """The content of files that are searched in another form."""
        self._end = 0
        self._wanted = FIRST_FILES
        self.room = self._view
        """Where the next file is read to: more than a small file can fill."""
        self.is_full = False
        self.reached = ""
        """Every file up to this path has been looked at."""

    def add(self, prefix: str, name: str, size: int, mtime_ns: int) -> bool:
        """Take the first `size` bytes of `room` as the content of a file. False: it is binary, and left out."""
        buffer, start = self._buffer, self._end
        end = start + size
        if has_binary_sign(buffer, start, end):
            return False
        # Plain text is found whatever the lines end with.
        if buffer.startswith(self._marks, start, end) or (
            not self._plain and buffer.find(b"\r", start, end) >= 0
        ):
            end = self._rewrite(start, end)
        self._files.append((prefix, name, end, mtime_ns))
        self._starts.append(start)
        buffer[end] = _LINE_END
        self._end = end = end + 1
        self.room = self._view[end:]
        self.is_full = end >= MOST_BYTES or len(self._starts) >= self._wanted
        return True

    def sifted(self) -> Iterator[tuple[int, Text | None]]:
        """The files that may match, in their order, each with the number of files before it that do not.

        A text is valid until the next one is asked for. After the last comes None; the sieve is empty then.
        """
        count = len(self._starts)
        after = 0
        for at in sorted(self._hits()) if self._expressions is not None else range(count):
            yield at - after, self._text(at)
            after = at + 1
        if count:
            prefix, name, _, _ = self._files[-1]
            self.reached = prefix + name
        if after < count:
            yield count - after, None
        self._files.clear()
        self._starts.clear()
        self._foreign.clear()
        self._originals.clear()
        self._end = 0
        self.room = self._view
        self.is_full = False
        self._wanted = min(MOST_FILES, self._wanted * 2)  # a search that is cut early reads little in vain

    def _rewrite(self, start: int, end: int) -> int:
        """Put the searchable form of a file in the place of its bytes; gives its end."""
        data = bytes(self._view[start:end])
        text = searchable(data)
        if text is not data:
            self._originals[len(self._starts)] = data
            end = start + len(text)
            self._view[start:end] = text
        return end

    def _text(self, at: int) -> Text:
        prefix, name, end, mtime_ns = self._files[at]
        start, original = self._starts[at], self._originals.get(at)
        if self._plain or self._apart or at in self._foreign:
            data = bytes(self._view[start:end]) if original is None else original
            text = Text.of(prefix + name, data, mtime_ns)
            text.matches = self._proves and text.buffer is data
            return text
        return Text(prefix + name, self._buffer, start, end, original, mtime_ns)

    def _find_foreign(self) -> None:
        if not self._buffer[: self._end].isascii():
            spans = enumerate(zip(self._starts, self._files, strict=True))
            self._foreign = {at for at, (start, file) in spans if not is_utf8(self._buffer[start : file[2]])}

    def _hits(self) -> set[int]:
        """In which of the files some expression matches, or may once the file is in another form."""
        if not self._plain:
            self._find_foreign()
        hits = set(self._foreign)
        for expression in self._expressions or ():
            at = 0
            while at < len(self._starts):
                if at in hits:
                    at += 1
                    continue
                found = expression.search(self._buffer, self._starts[at], self._end)
                if found is None:
                    break
                # What matches behind the last line break belongs to the last file.
                at = min(bisect.bisect_right(self._starts, found.start()), len(self._starts)) - 1
                hits.add(at)
                at += 1
        return hits
