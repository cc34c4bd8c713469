"""The store's files: making them private, noticing that they are gone, keeping before-images beside them."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

import attrs

from agents.errors import ErrorCode, Failure, ToolError, failure
from orchestrator.store.schema import unreadable


class StoreGone(Exception):
    """The file under an open connection is no longer the one at its path."""


def write_failed(location: str, why: str, saved: str | None = None) -> ToolError:
    """STORE_WRITE_FAILED, with where the content was saved to, if it was."""
    details: dict[str, str] = {"path": location, "reason": why}
    if saved is None:
        step = "free or repair the place, or choose another one with --store PATH"
    else:
        step = f"what it held was saved to {saved}; open that with --store"
        details["saved"] = saved
    return ToolError(
        code=ErrorCode.STORE_WRITE_FAILED,
        message=f"The store {location} can no longer be written: {why}. "
        f"Nothing after this is stored; {step}.",
        details=details,
    )


def not_writable(path: Path, error: Exception) -> Failure:
    """The store's file cannot be opened for writing."""
    return failure(
        ErrorCode.STORE_WRITE_FAILED,
        f"The store {path} cannot be opened for writing ({error}); choose another place with --store PATH.",
        details={"path": str(path), "reason": str(error)},
    )


def prepare_file(path: Path) -> Path:
    """Make the file (0600) and its folders (0700) where missing; return the path that every link leads to.

    Raises `Failure`: STORE_WRITE_FAILED where that is not possible, STORE_UNREADABLE where an empty file
    stands beside what was once a store's.
    """
    try:
        real = path.expanduser().resolve()
        _make_folder(real.parent)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(real, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            return real
        found = real.stat()
    except (OSError, RuntimeError) as error:
        raise not_writable(path, error) from error
    if not stat.S_ISREG(found.st_mode):
        raise Failure(unreadable(str(real), "it is not a regular file"))
    if found.st_size == 0 and (_size(f"{real}-wal") or blob_folder(real).exists()):
        raise Failure(unreadable(str(real), "it is empty although a store's other files stand beside it"))
    return real


def make_private(path: Path) -> None:
    """Take other people's rights from a file that had them."""
    with contextlib.suppress(OSError):  # somebody else's file: then its owner decides
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)


@attrs.define
class FileGuard:
    """Device and inode of the database and its two companions, as they were when it was opened."""

    path: Path
    _known: dict[str, tuple[int, int]] = attrs.field(factory=dict)

    def remember(self) -> None:
        """Note what stands there now; called once the connection has used all its files."""
        self._known = {name: (found.st_dev, found.st_ino) for name, found in self._look()}

    def check(self) -> None:
        """Raise `StoreGone` when a file was deleted or replaced."""
        seen = {name: (found.st_dev, found.st_ino) for name, found in self._look()}
        for name, identity in self._known.items():
            if name not in seen:
                raise StoreGone(f"{name} was deleted")
            if seen[name] != identity:
                raise StoreGone(f"{name} was replaced by another file")

    def _look(self) -> Iterator[tuple[str, os.stat_result]]:
        for suffix in ("", "-wal", "-shm"):
            name = f"{self.path}{suffix}"
            with contextlib.suppress(OSError):
                yield name, os.stat(name)


def salvage_targets(path: Path, fallback: Path) -> Iterator[Path]:
    """New empty private files to save a store's content into: beside it, then in `fallback`."""
    for folder in (path.parent, fallback):
        target = folder / f"{path.stem}.saved-{secrets.token_hex(4)}{path.suffix or '.sqlite3'}"
        with contextlib.suppress(OSError):
            os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            yield target


def blob_folder(path: Path) -> Path:
    """Where the before-images of the store at `path` are kept, by their SHA-256."""
    return path.with_name(f"{path.name}.blobs")


def save_blob(folder: Path, content: bytes) -> str:
    """Keep `content` durably (0600, atomic) and return its SHA-256 hex. Raises `OSError`."""
    digest = hashlib.sha256(content).hexdigest()
    target = folder / digest[:2] / digest
    if target.exists():
        _sync_folder(target.parent)  # whoever wrote it may not have come that far
        return digest
    _make_folder(target.parent)
    temporary = target.with_name(f"{digest}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        temporary.rename(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)
    return digest


def load_blob(folder: Path, digest: str) -> bytes:
    """The content kept under `digest`. Raises `Failure` STORE_UNREADABLE where it is missing or altered."""
    target = folder / digest[:2] / digest
    try:
        content = target.read_bytes()
    except OSError as error:
        raise Failure(unreadable(str(target), str(error))) from error
    if hashlib.sha256(content).hexdigest() != digest:
        raise Failure(unreadable(str(target), "its content does not match its name"))
    return content


def _make_folder(folder: Path) -> None:
    missing = [folder] if not folder.exists() else []
    while missing and not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for new in reversed(missing):
        new.mkdir(mode=0o700, exist_ok=True)
        _sync_folder(new.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems that cannot sync a folder
            raise
    finally:
        os.close(descriptor)


def _size(name: str) -> int:
    try:
        return os.stat(name).st_size
    except OSError:
        return 0
