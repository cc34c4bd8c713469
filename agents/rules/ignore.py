"""Ignore rules: which entries a walk leaves out, with git's own meaning. Pure.

A file of rules is compiled once into a `RuleList`. A walk carries a `Scope`: the rule lists that hold in its
current directory, strongest first. The walk asks `Scope.ignored` of each entry and never enters an excluded
directory, which is how git makes it impossible to re-include a file below one. Each line is translated by
pathspec's own compiler, but judged here, entry by entry: only so do dir-only rules and negations come out
as in git.
"""

from __future__ import annotations

import functools
import os
import re
from typing import Any

import attrs

APP_DEFAULTS = b"""
node_modules/
bower_components/
dist/
build/
.venv/
venv/
__pycache__/
*.pyc
*.pyo
*.pyd
*.egg-info/
.eggs/
.tox/
.nox/
.mypy_cache/
.pytest_cache/
.ruff_cache/
.hypothesis/
.cache/
.gradle/
.next/
.nuxt/
.turbo/
.parcel-cache/
.terraform/
.hg/
.svn/
.DS_Store
"""
"""What the program itself leaves out of every walk."""

MAX_RULES_BYTES = 1 << 20
"""A larger ignore file is read only so far."""

_GLOB_CHARACTERS = re.compile(r"[*?\[\\]")
_POSIX_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": " \t",
    "digit": "0-9",
    "lower": "a-z",
    "space": " \t-\r",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}
_POSIX_CLASS = re.compile(r"\[:(" + "|".join(_POSIX_CLASSES) + r"):\]")
_SET_MEMORY = 32 << 20
_MAX_NAMES = 16384
"""How many names a rule list remembers its verdict of."""
_MAX_LISTS = 16
"""How many rule lists are kept for the next search; one from a larger file is compiled anew."""
_MAX_KEPT_BYTES = 64 << 10
_NONE = -1


@attrs.frozen
class _Rule:
    negated: bool
    directories_only: bool


class _Table:
    """Rules that are matched against the same string: an entry's name, or its path below the rule file."""

    def __init__(self) -> None:
        self._literals: dict[str, list[int]] = {}
        self._endings: dict[str, list[tuple[str, int]]] = {}
        """By what follows the last dot."""
        self._globs: list[tuple[int, bytes]] = []
        self._set: Any = None

    def __bool__(self) -> bool:
        return bool(self._literals or self._endings or self._globs)

    def add(self, index: int, pattern: str, *, anchored: bool) -> bool:
        """Take one pattern; False when git would drop it as invalid."""
        if not _GLOB_CHARACTERS.search(pattern):
            self._literals.setdefault(pattern, []).append(index)
            return True
        ending = pattern[1:]
        if pattern.startswith("*.") and not _GLOB_CHARACTERS.search(ending) and not anchored:
            self._endings.setdefault(ending.rpartition(".")[2], []).append((ending, index))
            return True
        regex = _regex(pattern, anchored=anchored)
        if regex is not None:
            self._globs.append((index, regex))
        return regex is not None

    def compile(self) -> None:
        """Build the one automaton of all glob rules."""
        if not self._globs:
            return
        import re2  # only a repository that has glob rules pays for loading it

        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        options.log_errors = False
        options.max_mem = _SET_MEMORY
        kept: list[tuple[int, bytes]] = []
        rules = re2.Set.FullMatchSet(options)
        for index, regex in self._globs:
            try:
                rules.Add(regex)
            except re2.error:  # git drops what it cannot compile as well
                continue
            kept.append((index, regex))
        self._globs = kept
        if kept:
            rules.Compile()
            self._set = rules

    def matching(self, subject: str) -> list[int]:
        """The rules that match, in no order."""
        found = list(self._literals.get(subject, ()))
        if self._endings:
            for ending, index in self._endings.get(subject.rpartition(".")[2], ()):
                if subject.endswith(ending):
                    found.append(index)
        if self._set is not None:
            found += [self._globs[at][0] for at in self._set.Match(os.fsencode(subject)) or ()]
        return found


class RuleList:
    """The rules of one ignore file, or of one built-in list. Make it with `compile_rules`.

    It never changes once it is compiled, apart from what it remembers; it may serve several searches at once.
    """

    def __init__(self) -> None:
        self._rules: list[_Rule] = []
        self._by_name = _Table()
        self._by_path = _Table()
        self._starts = _Table()
        """The first parts of the rules on paths."""
        self._anywhere = False
        """Whether a rule on paths may match at any depth."""
        self._names: dict[str, tuple[int, int]] = {}
        self._silent: set[str] = set()
        """Names of which no rule on names speaks."""

    def __bool__(self) -> bool:
        return bool(self._by_name or self._by_path)

    def looks_below(self, directory: str) -> bool:
        """Whether a rule on paths can match below this directory, which lies beside the rule file."""
        return bool(self._by_path) and (self._anywhere or bool(self._starts.matching(directory)))

    @property
    def looks_at_paths(self) -> bool:
        """Whether any rule looks at more than the entry's name."""
        return bool(self._by_path)

    def add(self, line: str) -> None:
        """Take one line as git does. A comment, an empty line and an invalid pattern add nothing."""
        pattern = _trimmed(line)
        if pattern.startswith("#"):
            return
        negated = pattern.startswith("!")
        pattern = pattern[1:] if negated else pattern
        directories_only = pattern.endswith("/")
        pattern = pattern[:-1] if directories_only else pattern
        anchored = "/" in pattern
        pattern = pattern.removeprefix("/")
        # git never matches an empty part.
        if (
            pattern
            and "//" not in pattern
            and (self._by_path if anchored else self._by_name).add(
                len(self._rules), pattern, anchored=anchored
            )
        ):
            self._rules.append(_Rule(negated, directories_only))
            if anchored:
                self._note_start(pattern.partition("/")[0])

    def _note_start(self, first: str) -> None:
        # Of all wildcards only two stars can cross a slash.
        if "**" in first or not self._starts.add(0, first, anchored=False):
            self._anywhere = True

    def compile(self) -> None:
        self._starts.compile()
        self._by_name.compile()
        self._by_path.compile()

    def verdict(self, name: str, path: str | None, is_directory: bool) -> bool | None:
        """True: ignored; False: re-included; None: no rule speaks of it.

        `path` is below the rule file; None where no rule on paths can match it.
        """
        deciding = (self._names.get(name) or self._look_up(name))[is_directory]
        if path is not None and self._by_path:
            deciding = max(deciding, self._deciding(self._by_path.matching(path))[is_directory])
        return None if deciding == _NONE else not self._rules[deciding].negated

    def spoken_of(self, names: set[str]) -> set[str]:
        """Those of the names of which some rule on names speaks."""
        unknown = names - self._silent
        if not unknown:
            return unknown
        spoken = {name for name in unknown if self._by_name.matching(name)}
        if len(self._silent) >= _MAX_NAMES:
            self._silent.clear()
        self._silent |= unknown - spoken
        return spoken

    def _look_up(self, name: str) -> tuple[int, int]:
        found = self._deciding(self._by_name.matching(name))
        if len(self._names) >= _MAX_NAMES:
            self._names.clear()
        self._names[name] = found
        return found

    def _deciding(self, matching: list[int]) -> tuple[int, int]:
        """The last rule that matches a file, and the last one that matches a directory."""
        if not matching:
            return _NONE, _NONE
        on_files = [at for at in matching if not self._rules[at].directories_only]
        return max(on_files, default=_NONE), max(matching)


def compile_rules(data: bytes) -> RuleList:
    """Compile the bytes of an ignore file."""
    return _kept(data) if len(data) <= _MAX_KEPT_BYTES else _compiled(data)


@functools.lru_cache(maxsize=_MAX_LISTS)
def _kept(data: bytes) -> RuleList:
    return _compiled(data)


def _compiled(data: bytes) -> RuleList:
    rules = RuleList()
    text = os.fsdecode(data[:MAX_RULES_BYTES]).removeprefix("\ufeff")
    for line in text.split("\n"):
        rules.add(line.removesuffix("\r"))
    rules.compile()
    return rules


@attrs.frozen
class _Frame:
    rules: RuleList
    prefix: str | None
    """The current directory below the rule file, empty or ending in `/`; None: no rule on paths matters."""

    def below(self, name: str) -> _Frame:
        """The frame in a sub-directory."""
        if self.prefix is None or (self.prefix == "" and not self.rules.looks_below(name)):
            return self if self.prefix is None else _Frame(self.rules, None)
        return _Frame(self.rules, f"{self.prefix}{name}/")


def _at_home(rules: RuleList) -> _Frame:
    return _Frame(rules, "" if rules.looks_at_paths else None)


@attrs.frozen
class Scope:
    """The rule lists that hold in one directory, strongest first."""

    frames: tuple[_Frame, ...] = ()
    nested_at: int = 0
    """Where a deeper directory's own rules go in: after the application's, before its parents'."""
    weaker_at: int = 0
    """Where rules go in that yield to every rule file of the repository."""

    @classmethod
    def of(cls, first: RuleList, *, repository: RuleList, last: RuleList) -> Scope:
        """The scope at the top. `first` overrules every nested file; `repository` (git's exclude file) yields
        to them; `last` (the user's own) yields to everything.
        """
        strong, middle, weak = ([_at_home(rules)] if rules else [] for rules in (first, repository, last))
        return cls((*strong, *middle, *weak), len(strong), len(strong) + len(middle))

    def with_rules(self, own: RuleList) -> Scope:
        """The same directory with the rules of a file that lies in it."""
        return self._put(own, self.nested_at) if own else self

    def with_weaker(self, own: RuleList) -> Scope:
        """The same directory with rules that lie in it and yield to the repository's files."""
        return attrs.evolve(self._put(own, self.weaker_at), weaker_at=self.weaker_at) if own else self

    def _put(self, own: RuleList, at: int) -> Scope:
        frames = (*self.frames[:at], _at_home(own), *self.frames[at:])
        return Scope(frames, self.nested_at, self.weaker_at + 1)

    def enter(self, name: str) -> Scope:
        """The scope in a sub-directory, before its own rule file is read."""
        if all(frame.prefix is None for frame in self.frames):
            return self
        return Scope(tuple(frame.below(name) for frame in self.frames), self.nested_at, self.weaker_at)

    def spoken_of(self, names: set[str]) -> set[str]:
        """Those of this directory's names of which some rule may speak; no other is left out."""
        if any(frame.prefix is not None for frame in self.frames):
            return names  # a rule on paths
        spoken: set[str] = set()
        for frame in self.frames:
            spoken |= frame.rules.spoken_of(names)
        return spoken

    def ignored(self, name: str, is_directory: bool) -> bool:
        """Whether an entry of this directory is left out. A symbolic link is no directory."""
        for frame in self.frames:
            prefix = frame.prefix
            path = None if prefix is None else prefix + name
            verdict = frame.rules.verdict(name, path, is_directory)
            if verdict is not None:
                return verdict
        return False


def _trimmed(line: str) -> str:
    """Without trailing blanks, except one that a backslash quotes."""
    stripped = line.rstrip(" ")
    backslashes = len(stripped) - len(stripped.rstrip("\\"))
    if len(stripped) < len(line) and backslashes % 2 == 1:
        return stripped + " "
    return stripped


def _regex(pattern: str, *, anchored: bool) -> bytes | None:
    """One pattern as a regular expression over the whole subject, in bytes; None if it is invalid."""
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern  # loading it takes 40 ms

    if pattern.endswith("/**"):
        # Everything below, at any depth: the compiler stops at the slash.
        head, tail = pattern[:-3], b"/(?s:.+)"
        if head in ("", "**"):
            return tail[1:] if not head else b"(?s:.+)"
    else:
        head, tail = pattern, b""
    if set(head) == {"*"} and (not anchored or head == "**"):
        return b"(?s:.*)"
    try:
        regex, _ = GitIgnoreSpecPattern.pattern_to_regex(os.fsencode(_prepared(head, anchored=anchored)))
    except ValueError:
        return None
    if regex is None:
        return None
    if regex == b".":  # the compiler's short form of "everything"
        regex = b"(?s:.+)"
    whole: bytes = regex.removesuffix(b"(?:(?P<ps_d>/)|$)")
    return b"(?s)" + whole + tail


def _prepared(pattern: str, *, anchored: bool) -> str:
    """The pattern in a spelling whose every detail the compiler keeps."""
    pattern = _POSIX_CLASS.sub(lambda found: _POSIX_CLASSES[found[1]], pattern)
    if pattern[-1:].isspace():
        # The compiler strips white space at the end, quoted or not.
        head = pattern[:-1]
        if (len(head) - len(head.rstrip("\\"))) % 2 == 1:
            head = head[:-1]
        pattern = f"{head}[{pattern[-1]}]"
    if anchored:
        return "/" + pattern
    return "\\" + pattern if pattern[0] in "!#" else pattern
