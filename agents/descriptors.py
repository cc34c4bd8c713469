"""File descriptors that follow no link. POSIX only.

Every operation hangs on the descriptor of a directory that was walked component by component, so a component
swapped for a link is found out instead of followed.

Functions raise `Failure` CONFLICT for such a swap and plain `OSError` for everything else.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator

from agents.errors import ErrorCode, Failure, failure
from agents.rules.paths import components

_SEARCH = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
"""Opens a directory for going through it; with O_PATH (Linux) even one that may not be listed."""
_LIST = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_RDONLY
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1 << 20


def swapped(path: str) -> Failure:
    """The failure for a path that is no longer what was classified."""
    return failure(
        ErrorCode.CONFLICT,
        f"`{path}` changed while the call was prepared (something on the way became a symbolic link); "
        "repeat the call, it will be checked again.",
        retriable=True,
        details={"reason": "path-changed"},
    )


@contextlib.contextmanager
def directory(canonical: str, *, create: bool = False) -> Iterator[int]:
    """The descriptor of a canonical directory, reached without following a link; closed after the block.

    `create` makes missing directories (umask mode) and takes those back when the block fails.
    """
    made: list[tuple[int, str]] = []
    descriptor = os.open("/", _SEARCH)
    try:
        for name in components(canonical):
            below = _enter(descriptor, name, canonical, made if create else None)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    except BaseException:
        for parent, name in reversed(made):
            with contextlib.suppress(OSError):
                os.rmdir(name, dir_fd=parent)
        raise
    finally:
        os.close(descriptor)
        for parent, _ in made:
            os.close(parent)


def _enter(parent: int, name: str, canonical: str, made: list[tuple[int, str]] | None) -> int:
    try:
        return os.open(name, _SEARCH, dir_fd=parent)
    except FileNotFoundError:
        if made is None:
            raise
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=parent)
            made.append((os.dup(parent), name))
            sync_directory(parent)
        return _enter(parent, name, canonical, None)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP) and is_link(parent, name):
            os.readlink(name, dir_fd=parent)  # one that may not be read never was classified: PermissionError
            raise swapped(canonical) from error
        raise


def is_link(parent: int, name: str) -> bool:
    """Whether `name` is a symbolic link now."""
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    except OSError:
        return False


def open_listing(parent: int, name: str) -> int:
    """Open a directory below `parent` so that it can be listed (`os.scandir` takes the descriptor)."""
    return os.open(name, _LIST, dir_fd=parent)


@contextlib.contextmanager
def listing(parent: int, name: str) -> Iterator[int]:
    """The same, closed after the block."""
    descriptor = open_listing(parent, name)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_regular(parent: int, name: str) -> int | None:
    """Open a regular file for reading; None when something else stands there. Never blocks on a FIFO."""
    # Looked at first: merely opening a device can have effects.
    if not stat.S_ISREG(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
        return None
    opened = open_listed(parent, name)
    return None if opened is None else opened[0]


def open_listed(parent: int, name: str) -> tuple[int, os.stat_result] | None:
    """The same for what the directory's listing has just called a regular file, with its facts."""
    descriptor = os.open(name, _READ, dir_fd=parent)
    facts = os.fstat(descriptor)
    if stat.S_ISREG(facts.st_mode):
        return descriptor, facts
    os.close(descriptor)
    return None


def read_plain(parent: int, name: str, limit: int) -> bytes:
    """At most `limit` bytes of a regular file; none of anything else that stands there."""
    descriptor = open_regular(parent, name)
    if descriptor is None:
        return b""
    try:
        return read_all(descriptor, limit)
    finally:
        os.close(descriptor)


def read_all(descriptor: int, limit: int | None = None) -> bytes:
    """Read to the end, or at most `limit` bytes."""
    chunks: list[bytes] = []
    left = limit
    while left is None or left > 0:
        chunk = os.read(descriptor, _CHUNK if left is None else min(_CHUNK, left))
        if not chunk:
            break
        chunks.append(chunk)
        left = None if left is None else left - len(chunk)
    return b"".join(chunks)


def write_temporary(parent: int, name: str, data: bytes, like: os.stat_result | int | None) -> None:
    """Write `data` to a new file and fsync it.

    `like` gives mode and, where possible, owner; as a number the permission bits alone; None: umask.
    """
    descriptor = os.open(name, _CREATE, 0o666 if like is None else 0o600, dir_fd=parent)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        if isinstance(like, int):
            # Whose file it was is not known here: it gets no right to act as anybody.
            os.fchmod(descriptor, like & ~(stat.S_ISUID | stat.S_ISGID))
        elif like is not None:
            _take_after(descriptor, like)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _take_after(descriptor: int, like: os.stat_result) -> None:
    mode = stat.S_IMODE(like.st_mode)
    mine = os.fstat(descriptor)
    if (mine.st_uid, mine.st_gid) != (like.st_uid, like.st_gid):
        try:
            os.fchown(descriptor, like.st_uid, like.st_gid)
        except OSError:
            # Without its owner a file must not keep the right to act as that owner.
            mode &= ~(stat.S_ISUID | stat.S_ISGID)
            with contextlib.suppress(OSError):  # its group may still be given, and keeps the others' access
                os.fchown(descriptor, -1, like.st_gid)
    os.fchmod(descriptor, mode)


def put_new(parent: int, temporary: str, target_parent: int, name: str) -> None:
    """Give a finished temporary file its name. Raises FileExistsError if the name is taken."""
    try:
        os.link(temporary, name, src_dir_fd=parent, dst_dir_fd=target_parent, follow_symlinks=False)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
            raise
        # A file system without hard links: the check and the rename are two steps there.
        if _exists(target_parent, name):
            raise FileExistsError(errno.EEXIST, "exists", name) from error
        os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=target_parent)
        return
    os.unlink(temporary, dir_fd=parent)


def _exists(parent: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def sync_directory(parent: int) -> None:
    """Make the names in a directory durable, as far as the file system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
