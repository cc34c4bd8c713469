"""Telling text from binary content by the first bytes. Pure.

A file's type comes from its bytes, never from its name: the name alone can only add suspicion.
"""

from __future__ import annotations

import codecs
import re

HEAD_BYTES = 4096
"""How much of a file is looked at."""
MAX_UNPRINTABLE = 0.30

_TEXT_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_EXTENSIONS = frozenset(
    {
        *("png", "jpg", "jpeg", "gif", "bmp", "ico", "webp", "tif", "tiff", "heic", "avif", "psd"),
        *("mp3", "mp4", "m4a", "mov", "avi", "mkv", "webm", "ogg", "flac", "wav"),
        *(
            "zip",
            "gz",
            "tgz",
            "bz2",
            "xz",
            "zst",
            "7z",
            "rar",
            "tar",
            "jar",
            "war",
            "whl",
            "egg",
            "deb",
            "rpm",
        ),
        *("pdf", "doc", "docx", "xls", "xlsx", "ppt", "pptx", "odt", "ods"),
        *("exe", "dll", "so", "dylib", "o", "a", "lib", "obj", "class", "pyc", "pyo", "wasm", "bin", "dat"),
        *("sqlite", "sqlite3", "db", "ttf", "otf", "woff", "woff2", "eot", "iso", "dmg", "img", "parquet"),
    }
)
_MAGIC: tuple[tuple[int, bytes, str], ...] = (
    (0, b"\x89PNG\r\n\x1a\n", "PNG image"),
    (0, b"\xff\xd8\xff", "JPEG image"),
    (0, b"GIF8", "GIF image"),
    (8, b"WEBP", "WebP image"),
    (0, b"BM", "BMP image"),
    (0, b"II*\0", "TIFF image"),
    (0, b"MM\0*", "TIFF image"),
    (0, b"\0\0\1\0", "icon"),
    (0, b"%PDF-", "PDF document"),
    (0, b"PK\x03\x04", "ZIP archive"),
    (0, b"PK\x05\x06", "ZIP archive"),
    (0, b"\x1f\x8b", "gzip data"),
    (0, b"BZh", "bzip2 data"),
    (0, b"\xfd7zXZ\0", "xz data"),
    (0, b"\x28\xb5\x2f\xfd", "zstd data"),
    (0, b"7z\xbc\xaf\x27\x1c", "7-Zip archive"),
    (257, b"ustar", "tar archive"),
    (0, b"!<arch>\n", "object archive"),
    (0, b"\x7fELF", "ELF program"),
    (0, b"MZ", "Windows program"),
    (0, b"\xcf\xfa\xed\xfe", "Mach-O program"),
    (0, b"\xca\xfe\xba\xbe", "Java class or Mach-O program"),
    (0, b"\0asm", "WebAssembly module"),
    (0, b"SQLite format 3\0", "SQLite database"),
    (4, b"ftyp", "MP4 media"),
    (0, b"ID3", "MP3 audio"),
    (0, b"OggS", "Ogg media"),
    (0, b"fLaC", "FLAC audio"),
    (8, b"WAVE", "WAV audio"),
    (0, b"\0\1\0\0\0", "TrueType font"),
    (0, b"OTTO", "OpenType font"),
    (0, b"wOFF", "WOFF font"),
    (0, b"wOF2", "WOFF2 font"),
    (0, b"PAR1", "Parquet table"),
)
_LATER = tuple(entry for entry in _MAGIC if entry[0] > 0)
_BY_FIRST_BYTE = {
    sign[:1]: tuple(entry for entry in _MAGIC if entry[0] == 0 and entry[1][:1] == sign[:1])
    for offset, sign, _ in _MAGIC
    if offset == 0
}
_SHORT_MAGIC = frozenset({b"BM", b"MZ", b"BZh", b"ID3"})
"""Signs that ordinary text can start with: they name a type only where the bytes are binary anyway."""
_LONG_SIGNS = re.compile(
    b"|".join(
        (b".{%d}" % offset if offset else b"") + re.escape(sign)
        for offset, sign, _ in _MAGIC
        if sign not in _SHORT_MAGIC
    ),
    re.DOTALL,
)
_CONTROL = bytes(range(0x09)) + bytes(range(0x0E, 0x1B)) + bytes(range(0x1C, 0x20)) + b"\x0b\x7f"
_HTML = re.compile(rb"\s*(?:<!doctype html|<html)", re.IGNORECASE)


def is_binary(head: bytes, name: str = "") -> bool:
    """Whether a file that starts with `head` (its first `HEAD_BYTES`) is not text.

    A NUL byte, more than 30 % unprintable characters, the sign of a binary format, or an extension of one.
    """
    return has_binary_name(name) or has_binary_sign(head) or is_unprintable(head)


def has_binary_name(name: str) -> bool:
    """The part of `is_binary` for which nothing needs to be read: the extension of a binary format."""
    dot = name.rfind(".")
    return dot > 0 and name[dot + 1 :].lower() in _EXTENSIONS and "." in name.lstrip(".")


def has_binary_sign(data: bytes | bytearray, start: int = 0, end: int | None = None) -> bool:
    """The quick part of it: a NUL byte or the sign of a format, where a file's bytes lie in `data[start:end]`."""
    end = len(data) if end is None else end
    if data.startswith(_TEXT_MARKS, start, end):
        return False
    head = min(end, start + HEAD_BYTES)
    return data.find(b"\0", start, head) >= 0 or _LONG_SIGNS.match(data, start, head) is not None


def is_unprintable(head: bytes) -> bool:
    """The slow part of `is_binary`: whether more than 30 % of the characters are unprintable."""
    if not head or head.startswith(_TEXT_MARKS):
        return False
    # Other encodings have letters where Latin-1 has control characters, so only those of ASCII count.
    unprintable = len(head) - len(head.translate(None, _CONTROL))
    return unprintable > MAX_UNPRINTABLE * len(head)


def content_type(head: bytes) -> str:
    """What the bytes are, in words; never guessed from a name."""
    if not head:
        return "nothing (0 bytes)"
    known = _sign(head, short=b"\0" in head)
    if known is not None:
        return known
    if b"\0" not in head or head.startswith(_TEXT_MARKS):
        if head.startswith(b"version https://git-lfs"):
            return "a Git LFS pointer (text)"
        if _HTML.match(head):
            return "HTML text"
        if head.startswith(_TEXT_MARKS) or _is_utf8(head):
            return "text"
    return "unknown binary data"


def _sign(head: bytes, *, short: bool) -> str | None:
    for offset, sign, name in _BY_FIRST_BYTE.get(head[:1], ()):
        if head.startswith(sign, offset) and (short or sign not in _SHORT_MAGIC):
            return name
    for offset, sign, name in _LATER:
        if head.startswith(sign, offset):
            return name
    return None


def _is_utf8(head: bytes) -> bool:
    if head.isascii():
        return True
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)  # the cut may split a character
    except UnicodeDecodeError:
        return False
    return True
