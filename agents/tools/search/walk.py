"""Walking a tree by descriptors: no link is followed, nothing that is not a regular file is touched."""

from __future__ import annotations

import contextlib
import os
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterator

import attrs

from agents import descriptors
from agents.rules.guarded import PROCESS_SECRETS, denied_name, guarded_names
from agents.rules.hidden import Hidden
from agents.rules.ignore import MAX_RULES_BYTES, Scope, compile_rules
from agents.rules.paths import Places, ResolvedPath, contains, relative_to
from agents.tools.search.scopes import GIT_RULES, scope_at, with_own_rules
from agents.tools.search.worker import Clock
from agents.workspace import Workspace

MAX_DEPTH = 64
MAX_ENTRIES = 200_000
MOST_IN_RUN = 512
_CHECK_EVERY = 256


class TooManyEntries(Exception):
    """The tree is larger than a search looks at."""


@attrs.define
class Tally:
    """What a search passed over, by reason."""

    ignored: int = 0
    links: int = 0
    denied: int = 0
    """By the deny list or a deny rule."""
    unreadable: int = 0
    special: int = 0
    """FIFOs, sockets, devices."""
    binary: int = 0
    too_large: int = 0
    too_deep: int = 0

    def add(self, other: Tally) -> None:
        """Count what another passed over as well."""
        for field in attrs.fields(Tally):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))

    def words(self) -> str:
        """`3 entries by ignore rules, 1 symbolic link`; empty where nothing was passed over."""
        counts = (
            (self.ignored, "entry by ignore rules", "entries by ignore rules"),
            (self.links, "symbolic link", "symbolic links"),
            (self.denied, "denied entry", "denied entries"),
            (self.unreadable, "unreadable entry", "unreadable entries"),
            (self.special, "special file", "special files"),
            (self.binary, "binary file", "binary files"),
            (self.too_large, "file that is too large", "files that are too large"),
            (self.too_deep, "directory that lies too deep", "directories that lie too deep"),
        )
        return ", ".join(f"{count} {one if count == 1 else many}" for count, one, many in counts if count)


@attrs.define
class Run:
    """Regular files of one directory that follow each other in a walk. An object for each file would cost more
    than looking at it.
    """

    parent: int
    """Descriptor of their directory; valid until the walk goes on."""
    prefix: str
    """What comes before their names below the root of the walk: empty, or ending in `/`."""
    names: list[str]


@attrs.define
class _Level:
    descriptor: int
    prefix: str
    scope: Scope
    files: list[str]
    """Names, sorted."""
    directories: Iterator[str]
    """What is left of them: names that end in `/`, sorted."""
    at: int = 0
    """The first file that has not been handed out."""

    def next_run(self) -> tuple[list[str], str | None]:
        """The files before the next directory, and that directory; None at the end."""
        directory = next(self.directories, None)
        begin, self.at = self.at, len(self.files) if directory is None else bisect_left(self.files, directory)
        return self.files[begin : self.at], None if directory is None else directory[:-1]


@attrs.define
class Walk:
    """One walk over the tree below a directory, in path order.

    `wants` says which names of files are asked for, `enters` which sub-directories (by path) may hold some:
    both spare work and are never counted as passed over. What deny rules hide is counted before either is
    asked: the count must not tell whether a hidden name fits a pattern. `runs` raises `Failure` for the root, and what
    `clock.check` raises.
    """

    workspace: Workspace
    root: ResolvedPath
    clock: Clock
    tally: Tally
    wants: Callable[[str], bool] | None = None
    enters: Callable[[str], bool] | None = None
    hidden: Hidden | None = None
    """What deny rules hide; None: nothing."""
    since: str = ""
    """The first path that is handed out."""
    _seen: int = 0
    _barred: frozenset[str] = frozenset()
    _secrets: frozenset[str] = frozenset()

    def __attrs_post_init__(self) -> None:
        self._barred = _barred_below(self.workspace.places, self.root.canonical)
        self._secrets = PROCESS_SECRETS if contains("/proc", self.root.canonical) else frozenset()

    def runs(self) -> Generator[Run, None, None]:
        """The regular files, sorted by their whole path."""
        scope = scope_at(self.workspace, self.root)
        with self.workspace.listing(self.root) as descriptor, contextlib.ExitStack() as stack:
            if scope.frames and self.root.canonical == str(self.workspace.root):
                scope = with_own_rules(scope, self.root.canonical, self.workspace, nested=False)
            levels = [self._level(descriptor, "", scope)]
            stack.callback(_close_all, levels)
            while levels:
                level = levels[-1]
                names, directory = level.next_run()
                for begin in range(0, len(names), MOST_IN_RUN):
                    yield Run(level.descriptor, level.prefix, names[begin : begin + MOST_IN_RUN])
                if directory is not None:
                    below = self._below(level, directory, level.prefix + directory, len(levels))
                    if below is not None:
                        levels.append(below)
                    continue
                levels.pop()
                if levels:
                    os.close(level.descriptor)

    def _below(self, level: _Level, name: str, path: str, depth: int) -> _Level | None:
        if depth >= MAX_DEPTH:
            self.tally.too_deep += 1
            return None
        try:
            descriptor = descriptors.open_listing(level.descriptor, name)
        except OSError:
            self.tally.unreadable += 1
            return None
        try:
            return self._level(descriptor, path + "/", level.scope.enter(name))
        except OSError:
            os.close(descriptor)
            self.tally.unreadable += 1
            return None
        except BaseException:
            os.close(descriptor)
            raise

    def _level(self, descriptor: int, prefix: str, scope: Scope) -> _Level:
        """List one directory: what is left of it, sorted so that the walk comes out in path order."""
        self.clock.check()
        with os.scandir(descriptor) as listing:
            entries = list(listing)
        self._seen += len(entries)
        if self._seen > MAX_ENTRIES:
            raise TooManyEntries
        names = [entry.name for entry in entries]
        if scope.frames and GIT_RULES in names:
            with contextlib.suppress(OSError):
                rules = descriptors.read_plain(descriptor, GIT_RULES, MAX_RULES_BYTES)
                scope = scope.with_rules(compile_rules(rules))
        doubtful = self._doubtful(names, scope)
        wants, enters = self.wants, self.enters
        files, directories = [], []
        for at, entry in enumerate(entries, start=1):
            if at % _CHECK_EVERY == 0:
                self.clock.check()
            name = entry.name
            try:
                if entry.is_dir(follow_symlinks=False):
                    if name in doubtful:
                        entered = self._enters(name, prefix, scope)
                    else:
                        entered = enters is None or enters(prefix + name)
                    if entered:
                        directories.append(name + "/")
                elif name not in doubtful and entry.is_file(follow_symlinks=False):
                    if wants is None or wants(name):
                        files.append(name)
                elif self._hands_out(entry, prefix, scope):
                    files.append(name)
            except OSError:
                self.tally.unreadable += 1
        if self.since and self.since.startswith(prefix):
            files = [name for name in files if prefix + name >= self.since]
            directories = [name for name in directories if self._may_reach(prefix + name)]
        return _Level(descriptor, prefix, scope, sorted(files), iter(sorted(directories)))

    def _may_reach(self, directory: str) -> bool:
        """Whether something below a directory comes at `since` or later."""
        return directory >= self.since or self.since.startswith(directory)

    def _doubtful(self, names: list[str], scope: Scope) -> set[str]:
        """The names in a directory of which some rule may speak: most are spared the closer look."""
        if self.hidden is not None or self._barred or self._secrets:
            return set(names)
        return guarded_names(names, self.workspace.places.deny) | scope.spoken_of(set(names))

    def _enters(self, name: str, prefix: str, scope: Scope) -> bool:
        """Whether a directory is walked; counts it where it is passed over."""
        if name[0] == "." and name.casefold() == ".git":
            return False
        if self.hidden is not None and self._hides(prefix + name, True):
            return False
        if self.enters is not None and not self.enters(prefix + name):
            return False
        if self._denies(name, prefix):
            self.tally.denied += 1
        elif scope.ignored(name, True):
            self.tally.ignored += 1
        else:
            return True
        return False

    def _hands_out(self, entry: os.DirEntry[str], prefix: str, scope: Scope) -> bool:
        """Whether an entry that is no directory is a file to hand out; counts it where it is passed over."""
        name = entry.name
        is_file = entry.is_file(follow_symlinks=False)
        if name[0] == "." and name.casefold() == ".git":
            return False
        if self.hidden is not None and self._hides(prefix + name, False):
            return False
        # A link counts as passed over whatever it is called: nobody knows what it would have led to.
        if self.wants is not None and not self.wants(name) and (is_file or not entry.is_symlink()):
            return False
        if self._denies(name, prefix):
            self.tally.denied += 1
        elif scope.ignored(name, False):
            self.tally.ignored += 1
        elif is_file:
            return True
        elif entry.is_symlink():
            self.tally.links += 1
        else:
            self.tally.special += 1
        return False

    def _hides(self, path: str, is_directory: bool) -> bool:
        if self.hidden is None or not self.hidden(f"{self.root.canonical.rstrip('/')}/{path}", is_directory):
            return False
        self.tally.denied += 1
        return True

    def _denies(self, name: str, prefix: str) -> bool:
        if denied_name(name, self.workspace.places.deny) is not None or name in self._secrets:
            return True
        return bool(self._barred) and prefix + name in self._barred


def _barred_below(places: Places, root: str) -> frozenset[str]:
    """Directories below `root` that no walk enters: the program's own data, and the kernel's views."""
    return frozenset(
        relative_to(root, directory)
        for directory in (places.data_dir, "/proc", "/sys", "/dev")
        if contains(root, directory) and directory != root
    )


def _close_all(levels: list[_Level]) -> None:
    """Close what a walk that was left early still holds; the first belongs to the caller."""
    for level in levels[1:]:
        os.close(level.descriptor)
