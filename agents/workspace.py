"""The file-system shell: answers the path walk, opens without following, writes atomically."""

from __future__ import annotations

import contextlib
import difflib
import errno
import hashlib
import os
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import attrs

from agents import descriptors
from agents.errors import ErrorCode, Failure, failure
from agents.large_files import LargeFiles
from agents.rules.guarded import DenyList, denied_name
from agents.rules.hidden import Hidden
from agents.rules.paths import (
    MAX_PATH_BYTES,
    Ask,
    Fact,
    NodeKind,
    Places,
    ResolvedPath,
    Root,
    Walked,
    absolute_spelling,
    begin,
    classify,
    contains,
    step,
)

_HINT_NAMES = 5000
"""How many names of a directory are looked at for look-alikes."""


@attrs.frozen
class FileBytes:
    """A file's whole content with the facts that belong to it, read on one descriptor."""

    data: bytes
    stat: os.stat_result


@attrs.frozen
class Landed:
    """What an atomic write left behind."""

    sha256: str
    """Hex digest of the bytes that landed."""
    broke_hard_link: bool
    """Whether the file had other names, which keep the old bytes."""


@attrs.frozen
class MissingHint:
    """What to say about a path that does not exist."""

    nearest: str
    """The nearest existing directory, as displayed."""
    similar: tuple[str, ...]
    """Up to three look-alikes in it, as displayed."""


class Workspace:
    """The roots of one session. Blocking: call its methods through `trio.to_thread.run_sync`,
    except `resolve`, which costs microseconds (it may run inline).

    Attributes
    ----------
    root: Path          the workspace, canonical
    scratch: Path       the session's scratch directory (created on first use)
    added: tuple[Path, ...]   directories given with --add-dir, judged as workspace
    data_dir: Path      the orchestrator's own data directory: denied, except this session's scratch
    global_ignore: Path | None   the user's own ignore file (git's, unless another is given)
    places: Places      the same directories as the pure rules take them
    hidden: Hidden | None   what deny rules for Read keep from hints about names; set by who knows the rules
    large_files: LargeFiles   what is known of large files, shared by the session's agents
    """

    def __init__(
        self,
        root: Path,
        *,
        scratch: Path,
        data_dir: Path,
        added: Sequence[Path] = (),
        home: Path | None = None,
        config_dirs: Iterable[Path] = (),
        deny: DenyList | None = None,
        global_ignore: Path | None = None,
    ) -> None:
        self.home = _home() if home is None else home
        self.root = _canonical(root)
        self.scratch = _canonical(scratch)
        self.data_dir = _canonical(data_dir)
        self.added = tuple(_canonical(path) for path in added)
        self.global_ignore = global_ignore
        if global_ignore is None and self.home is not None:
            self.global_ignore = self.home / ".config" / "git" / "ignore"
        self.places = Places(
            workspace=str(self.root),
            scratch=str(self.scratch),
            data_dir=str(self.data_dir),
            added=tuple(str(path) for path in self.added),
            config_dirs=tuple(str(_canonical(path)) for path in config_dirs),
            repository_dirs=_repository_dirs(self.root),
            deny=deny or DenyList(),
        )
        self.hidden: Hidden | None = None
        self.large_files = LargeFiles()
        self.case_insensitive = _ignores_case(self.root)

    def __getstate__(self) -> dict[str, object]:
        """For another process: the roots, without what only this one knows."""
        return {**vars(self), "hidden": None, "large_files": None}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state, large_files=LargeFiles())

    def resolve(self, path: str) -> ResolvedPath:
        """Resolve and classify one spelling. Raises `Failure` INVALID_ARGUMENT (NUL, empty, over-long)."""
        spelled = absolute_spelling(
            path, start=str(self.root), home=None if self.home is None else str(self.home)
        )
        return classify(path, _walk(spelled), self.places)

    def names_link(self, path: ResolvedPath) -> bool:
        """Whether the last part of the spelling is a symbolic link itself, now."""
        home = None if self.home is None else str(self.home)
        spelled = absolute_spelling(path.given, start=str(self.root), home=home)
        return _look(spelled.rstrip("/") or "/").kind is NodeKind.LINK

    def lock_key(self, path: ResolvedPath) -> str:
        """One key for all spellings of a file: the case is folded where the volume folds it."""
        return path.canonical.casefold() if self.case_insensitive else path.canonical

    def show(self, canonical: str) -> str:
        """A canonical path as results show it."""
        return classify(canonical, Walked(canonical, NodeKind.OTHER), self.places).display

    # reading

    @contextlib.contextmanager
    def open(self, path: ResolvedPath) -> Iterator[int]:
        """The descriptor of a regular file, opened without following any link; closed after the block.

        Raises `Failure`: NOT_FOUND, INVALID_ARGUMENT (`details.kind` says what stands there), TOOL_DENIED,
        CONFLICT (the path is no longer what was classified), TOOL_FAILED.
        """
        _refuse_denied(path)
        with self._explained(path), descriptors.directory(os.path.dirname(path.canonical)) as parent:
            name = _last(path)
            descriptor = None if path.canonical == "/" else descriptors.open_regular(parent, name)
            if descriptor is None:
                raise _not_regular(path, parent, name)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def read(self, path: ResolvedPath, limit: int | None = None) -> FileBytes:
        """The bytes of a regular file, opened without following links below the checked parent.

        `limit`: read at most this many bytes. Raises `Failure`: NOT_FOUND, INVALID_ARGUMENT (directory or not
        a regular file), TOOL_DENIED, CONFLICT (the path is no longer what was classified).
        """
        with self.open(path) as descriptor:
            facts = os.fstat(descriptor)
            return FileBytes(descriptors.read_all(descriptor, limit), facts)

    @contextlib.contextmanager
    def listing(self, path: ResolvedPath) -> Iterator[int]:
        """The descriptor of a directory for `os.scandir`, opened without following any link.

        Raises `Failure` as `open` does; INVALID_ARGUMENT where a file stands.
        """
        _refuse_denied(path)
        with self._explained(path), descriptors.directory(path.canonical) as found:
            descriptor = descriptors.open_listing(found, ".")
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    # writing

    def write(
        self,
        path: ResolvedPath,
        data: bytes,
        *,
        temporary: str,
        like: os.stat_result | None,
        take_after: os.stat_result | int | None = None,
    ) -> Landed:
        """Write `data` atomically: temporary file `temporary` (a name in the same directory) → fsync → rename
        → fsync of the directory. `like`: the stat of the file replaced, whose mode and owner are kept; None
        creates (parents too, umask mode) and fails with CONFLICT if something is there now. `take_after`
        gives another file whose mode and owner are taken instead, or permission bits alone.

        Raises `Failure` as `open` does; CONFLICT also when the file is no longer what `like` describes.
        """
        _refuse_denied(path)
        if path.root is Root.SCRATCH:
            self.ensure_scratch()
        name = _last(path)
        parent_path = os.path.dirname(path.canonical)
        with self._explained(path), descriptors.directory(parent_path, create=like is None) as parent:
            if like is not None:
                _check_replaceable(path, parent, name, like)
            try:
                descriptors.write_temporary(
                    parent, temporary, data, like if take_after is None else take_after
                )
                if like is None:
                    descriptors.put_new(parent, temporary, parent, name)
                else:
                    os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=parent)
                raise
            descriptors.sync_directory(parent)
        return Landed(hashlib.sha256(data).hexdigest(), like is not None and like.st_nlink > 1)

    def check_replaceable(self, path: ResolvedPath, *, like: os.stat_result) -> None:
        """Raise the `Failure` that replacing or deleting the file that `like` describes would end in, if any
        can be told beforehand."""
        _refuse_denied(path)
        with self._explained(path), descriptors.directory(os.path.dirname(path.canonical)) as parent:
            _check_replaceable(path, parent, _last(path), like)

    def delete(self, path: ResolvedPath, *, like: os.stat_result) -> None:
        """Delete the regular file that `like` describes. Raises `Failure` as `write` does."""
        _refuse_denied(path)
        with self._explained(path), descriptors.directory(os.path.dirname(path.canonical)) as parent:
            _check_replaceable(path, parent, _last(path), like)
            os.unlink(_last(path), dir_fd=parent)
            descriptors.sync_directory(parent)

    def move(self, path: ResolvedPath, to: ResolvedPath, *, like: os.stat_result) -> None:
        """Rename the regular file that `like` describes; creates the parents of `to`, never overwrites.

        Raises `Failure` as `write` does; CONFLICT when `to` exists, TOOL_FAILED across file systems.
        """
        _refuse_denied(path)
        _refuse_denied(to)
        with (
            self._explained(path),
            descriptors.directory(os.path.dirname(path.canonical)) as source,
            self._explained(to),
            descriptors.directory(os.path.dirname(to.canonical), create=True) as target,
        ):
            _check_replaceable(path, source, _last(path), like)
            descriptors.put_new(source, _last(path), target, _last(to))
            descriptors.sync_directory(target)
            descriptors.sync_directory(source)

    def remove_directory(self, path: ResolvedPath) -> bool:
        """Remove a directory that is empty; False where it is not, or is not there.

        Raises `Failure` as `open` does.
        """
        _refuse_denied(path)
        with self._explained(path), contextlib.suppress(FileNotFoundError):
            with descriptors.directory(os.path.dirname(path.canonical)) as parent:
                try:
                    os.rmdir(_last(path), dir_fd=parent)
                except OSError as error:
                    if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                        raise
                    return False
                descriptors.sync_directory(parent)
                return True
        return False

    # scratch

    def ensure_scratch(self) -> Path:
        """Create the session's scratch directory (mode 0700) if it is not there yet."""
        self.scratch.parent.mkdir(parents=True, exist_ok=True)
        self.scratch.mkdir(mode=0o700, exist_ok=True)
        return self.scratch

    def remove_scratch(self) -> None:
        """Remove the scratch directory with everything in it. Links in it are removed, not followed."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.scratch)

    # hints

    def list_missing_hint(self, path: ResolvedPath) -> MissingHint:
        """The nearest existing directory above a missing path, and names there that look like the wanted.

        No link is followed: what one leads to lies somewhere else than was asked about.
        """
        directory, wanted = os.path.split(path.canonical)
        similar: list[str] = []
        while directory != "/":
            with contextlib.suppress(OSError, Failure), descriptors.directory(directory) as found:
                similar = self._look_alikes(found, directory, wanted)
                break
            directory, wanted = os.path.split(directory)
        shown = (self.show(os.path.join(directory, name)) for name in similar)
        return MissingHint(self.show(directory), tuple(shown))

    def _look_alikes(self, directory: int, canonical: str, wanted: str) -> list[str]:
        names: dict[str, str] = {}
        with contextlib.suppress(OSError), descriptors.listing(directory, ".") as listing:
            with os.scandir(listing) as entries:
                for entry in entries:
                    if not self._keeps_quiet(entry, canonical):
                        names.setdefault(entry.name.casefold(), entry.name)
                    if len(names) >= _HINT_NAMES:
                        break
        close = difflib.get_close_matches(wanted.casefold(), names, n=3, cutoff=0.6)
        return [names[name] for name in close]

    def _keeps_quiet(self, entry: os.DirEntry[str], directory: str) -> bool:
        """Whether a hint must not name an entry of this directory."""
        if denied_name(entry.name, self.places.deny) is not None:
            return True
        path = f"{directory.rstrip('/')}/{entry.name}"
        return self.hidden is not None and self.hidden(path, entry.is_dir(follow_symlinks=False))

    @contextlib.contextmanager
    def _explained(self, path: ResolvedPath) -> Iterator[None]:
        """Turn the `OSError`s of opening and writing `path` into `Failure`s that name the next step."""
        try:
            yield
        except OSError as error:
            raise self._explain(error, path) from error

    def _explain(self, error: OSError, path: ResolvedPath) -> Failure:
        shown = path.display
        match error.errno:
            case errno.ENOENT:
                return self._not_found(path)
            case errno.ENOTDIR:
                return failure(
                    ErrorCode.INVALID_ARGUMENT,
                    f"`{shown}` cannot be reached: a part of the path is a file, not a directory; "
                    f"the nearest directory is `{self.list_missing_hint(path).nearest}`.",
                    details={"kind": "file"},
                )
            case errno.EEXIST:
                return failure(
                    ErrorCode.CONFLICT,
                    f"`{shown}` exists now, though it did not when the call was checked; read it first.",
                    retriable=True,
                )
            case errno.ELOOP:
                return descriptors.swapped(shown)
            case errno.ENAMETOOLONG:
                return failure(ErrorCode.INVALID_ARGUMENT, f"A name in `{shown}` is too long; shorten it.")
            case errno.EMFILE | errno.ENFILE | errno.ENOMEM:
                return failure(
                    ErrorCode.PROCESS_RESOURCE_EXHAUSTED,
                    f"The system is out of resources ({os.strerror(error.errno)}); try again later.",
                    retriable=True,
                )
            case errno.EACCES | errno.EPERM:
                return _failed(
                    path, "the operating system denies permission", "work on a path that is yours", error
                )
            case errno.EXDEV:
                return _failed(
                    path,
                    "both ends lie on different file systems",
                    "write the new file, then delete the old",
                    error,
                )
            case errno.ENOSPC | errno.EDQUOT:
                return _failed(path, "there is no space left", "free some space, then repeat the call", error)
            case errno.EROFS:
                return _failed(
                    path, "its file system is read-only", "choose a path that can be written", error
                )
        return _failed(path, os.strerror(error.errno or 0), "check the path, then repeat the call", error)

    def _not_found(self, path: ResolvedPath) -> Failure:
        hint = self.list_missing_hint(path)
        similar = ", ".join(f"`{name}`" for name in hint.similar)
        advice = f"did you mean {similar}?" if similar else "list that directory to find the right name."
        where = f"The nearest existing directory is `{hint.nearest}`; {advice}"
        if path.root is Root.SCRATCH and not similar:
            where = (
                "What is in the scratch directory lasts as long as the process that works on the session: run "
                "the command that made it again."
            )
        return failure(
            ErrorCode.NOT_FOUND,
            f"`{path.display}` does not exist. {where}",
            details={"nearest": hint.nearest, "similar": list(hint.similar)},
        )


def _failed(path: ResolvedPath, why: str, advice: str, error: OSError) -> Failure:
    name = errno.errorcode.get(error.errno or 0, "EIO")
    return failure(
        ErrorCode.TOOL_FAILED, f"`{path.display}`: {why}; {advice}.", details={"reason": name.lower()}
    )


def _refuse_denied(path: ResolvedPath) -> None:
    if path.denied is not None:
        raise failure(
            ErrorCode.TOOL_DENIED,
            f"`{path.display}` is on the deny list: {path.denied}. No file tool opens it; go on without it.",
            details={"reason": "deny-list"},
        )


def _not_regular(path: ResolvedPath, parent: int, name: str) -> Failure:
    mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    if stat.S_ISLNK(mode):
        return descriptors.swapped(path.display)
    kind = "directory" if stat.S_ISDIR(mode) else _KIND_NAMES.get(stat.S_IFMT(mode), "special file")
    return failure(
        ErrorCode.INVALID_ARGUMENT,
        f"`{path.display}` is a {kind}, not a regular file; give the path of a regular file.",
        details={"kind": kind},
    )


_KIND_NAMES = {
    stat.S_IFIFO: "FIFO",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


def _check_replaceable(path: ResolvedPath, parent: int, name: str, like: os.stat_result) -> None:
    now = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if not stat.S_ISREG(now.st_mode):
        raise _not_regular(path, parent, name)
    if _identity(now) != _identity(like):
        raise failure(
            ErrorCode.CONFLICT,
            f"`{path.display}` was changed by somebody else a moment ago; read it again before you write.",
            retriable=True,
            details={"reason": "changed"},
        )
    if not now.st_mode & stat.S_IWUSR:
        mode = stat.S_IMODE(now.st_mode)
        raise failure(
            ErrorCode.TOOL_FAILED,
            f"`{path.display}` is read-only (mode {mode:04o}); leave it, or have its mode changed first "
            f"(`chmod u+w`).",
            details={"reason": "read-only", "mode": f"{mode:04o}"},
        )


def _identity(facts: os.stat_result) -> tuple[int, int, int, int]:
    return (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns)


def _walk(absolute: str) -> Walked:
    state = begin(absolute)
    while isinstance(state, Ask):
        state = step(state, _look(state.path))
    return state


def _look(path: str) -> Fact:
    """What stands at one path, without following it. What cannot be looked at counts as missing."""
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            return Fact(NodeKind.LINK, os.readlink(path))
    except (OSError, ValueError):
        return Fact(NodeKind.MISSING)
    if stat.S_ISREG(mode):
        return Fact(NodeKind.FILE)
    if stat.S_ISDIR(mode):
        return Fact(NodeKind.DIRECTORY)
    return Fact(NodeKind.DEVICE if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else NodeKind.OTHER)


def _canonical(path: Path) -> Path:
    return Path(_walk(os.path.abspath(path)).canonical)


def _home() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:
        return None


def _last(path: ResolvedPath) -> str:
    return os.path.basename(path.canonical) or "."


def read_pointer(path: Path) -> str:
    """The text of a file that only names a directory. Raises OSError and ValueError; reads no more than a path."""
    with path.open("rb") as file:
        return file.read(MAX_PATH_BYTES + 16).decode("utf-8")


def _repository_dirs(root: Path) -> tuple[str, ...]:
    """The git directories that the workspace's `.git` file names (a worktree, a separate git directory)."""
    found: list[str] = []
    with contextlib.suppress(OSError, ValueError):
        text = read_pointer(root / ".git")
        if text.startswith("gitdir:"):
            own = _canonical(root / text.removeprefix("gitdir:").strip())
            found.append(str(own))
            common = read_pointer(own / "commondir").strip()
            found.append(str(_canonical(own / common)))
    # A pointer to a directory above the workspace would protect everything in it.
    return tuple(path for path in found if not contains(path, str(root)))


def _ignores_case(root: Path) -> bool:
    """Whether the volume of `root` takes another capitalisation for the same file. Found without writing."""
    candidates = [root]
    with contextlib.suppress(OSError), os.scandir(root) as entries:
        candidates.extend(root / entry.name for entry, _ in zip(entries, range(50), strict=False))
    for path in candidates:
        other = path.with_name(path.name.swapcase()) if path.name else path
        if other != path:
            with contextlib.suppress(OSError):
                here, there = path.lstat(), other.lstat()
                return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)
            return False
    return sys.platform in ("darwin", "win32")
