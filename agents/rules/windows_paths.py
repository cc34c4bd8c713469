"""Comparing Windows paths: which spelling lies below which root. Pure, and the same on every platform."""

from __future__ import annotations

import ntpath

import attrs

from agents.errors import ErrorCode, failure

_VERBATIM = "\\\\?\\"
_VERBATIM_SHARE = "\\\\?\\UNC\\"
_DEVICE = "\\\\.\\"
_RESERVED = frozenset(
    {"con", "prn", "aux", "nul", *(f"com{n}" for n in range(1, 10)), *(f"lpt{n}" for n in range(1, 10))}
)


@attrs.frozen
class WindowsPath:
    """An absolute Windows path, ready to be compared: all parts in one case."""

    volume: str
    """`c:` or `\\\\server\\share`."""
    parts: tuple[str, ...]


def parse_windows(path: str) -> WindowsPath | None:
    """Split an absolute path; None for one that is relative to a drive (`C:a`) or to the current folder.

    Raises `Failure` INVALID_ARGUMENT for a device, a reserved name and an alternate data stream.
    """
    spelled = path.replace("/", "\\")
    if spelled.startswith(_DEVICE):
        raise _refused(path, "names a device")
    if spelled[: len(_VERBATIM_SHARE)].upper() == _VERBATIM_SHARE:
        spelled = "\\\\" + spelled[len(_VERBATIM_SHARE) :]
    elif spelled.startswith(_VERBATIM):
        spelled = spelled[len(_VERBATIM) :]
    volume, rest = ntpath.splitdrive(ntpath.normpath(spelled))
    if ":" in rest:
        raise _refused(path, "names an alternate data stream (`:` in a file name)")
    parts = tuple(part.rstrip(". ").casefold() for part in rest.split("\\") if part)
    if any(part.split(".")[0] in _RESERVED for part in parts):
        raise _refused(path, "holds a reserved device name")
    if not volume or not (rest.startswith("\\") or volume.startswith("\\\\")):
        return None
    return WindowsPath(volume.casefold(), parts)


def windows_contains(root: str, path: str) -> bool:
    """Whether `path` is `root` or lies below it. A path that is not absolute is never inside."""
    outer, inner = parse_windows(root), parse_windows(path)
    if outer is None or inner is None:
        return False
    return outer.volume == inner.volume and inner.parts[: len(outer.parts)] == outer.parts


def _refused(path: str, why: str) -> Exception:
    return failure(
        ErrorCode.INVALID_ARGUMENT, f"The path `{path}` {why}; give the path of a regular file instead."
    )
