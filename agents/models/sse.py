"""Server-Sent Events, read incrementally: bytes in, data strings out. Pure.

Follows the event-stream format of the WHATWG HTML standard, section 9.2.6. Only `data` matters here: the
event types that providers send are repeated inside their JSON.
"""

from __future__ import annotations

from agents.errors import ErrorCode, failure

MAX_EVENT_BYTES = 16 * 1024 * 1024
"""An event larger than this is refused instead of filling the memory."""

_BOM = b"\xef\xbb\xbf"


class SseParser:
    """One stream's parser. An event that the stream's end cuts off is dropped, as the standard asks."""

    def __init__(self) -> None:
        self._line = bytearray()
        """The line that has not ended yet."""
        self._data: list[str] = []
        self._size = 0
        """Bytes of `_data`."""
        self._after_cr = False
        """The last byte was a CR: an LF that follows belongs to the same line end."""
        self._first_line = True

    def feed(self, chunk: bytes) -> list[str]:
        """The data of every event that `chunk` completes, in order. Raises `Failure` with PROVIDER_ERROR."""
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        events: list[str] = []
        for piece in chunk.splitlines(keepends=True):
            self._line += piece
            if len(self._line) + self._size > MAX_EVENT_BYTES:
                raise failure(
                    ErrorCode.PROVIDER_ERROR,
                    f"The provider sent an event of more than {MAX_EVENT_BYTES} bytes. "
                    "Ask for a shorter answer.",
                )
            if piece.endswith((b"\n", b"\r")):
                line = bytes(self._line).rstrip(b"\r\n")
                self._line.clear()
                event = self._end_of_line(line)
                if event is not None:
                    events.append(event)
        self._after_cr = chunk.endswith(b"\r")
        return events

    def _end_of_line(self, line: bytes) -> str | None:
        if self._first_line:
            self._first_line = False
            line = line.removeprefix(_BOM)
        if not line:
            return self._dispatch()
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" ").decode("utf-8", "replace"))
            self._size += len(value)
        return None

    def _dispatch(self) -> str | None:
        if not self._data:
            return None
        data = "\n".join(self._data)
        self._data.clear()
        self._size = 0
        return data
