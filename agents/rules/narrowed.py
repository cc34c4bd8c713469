"""Shell source as the bash grammar can bear it. Pure.

The grammar's scanner looks characters up in C tables that end at 255: a character beyond them, after `{` for
instance, reads past the table and can end the whole process.
"""

from __future__ import annotations

_ASCII = bytes(range(0x80)) + b"%" * 0x80


def narrowed(source: bytes) -> bytes:
    """`source` with a `%` for each byte of a character beyond ASCII, so that every offset stays the same.

    A word stays a word, and a name with such a character stays none, as in bash: `%` is neither part of a
    name nor special at the start of a word or inside one. Texts are cut from the original.
    """
    return source if source.isascii() else source.translate(_ASCII)
