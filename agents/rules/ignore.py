"""Ignore rules: which entries a walk leaves out, with git's own meaning. Pure.

A file of rules is compiled once into a `RuleList`. A walk carries a `Scope`: the rule lists that hold in its
current directory, strongest first. The walk asks `Scope.ignored` of each entry and never enters an excluded
directory, which is how git makes it impossible to re-include a file below one. Each line is translated by
pathspec's own compiler, but judged here, entry by entry: only so do dir-only rules and negations come out
as in git.
"""

from __future__ import annotations

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
*.py[cod]
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


@attrs.frozen
class _Rule:
    negated: bool
    directories_only: bool


class _Table:
    """Rules that are matched against the same string: an entry's name, or its path below the rule file."""

    def __init__(self) -> None:
        self._literals: dict[str, list[int]] = {}
        self._endings: dict[str, list[int]] = {}
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
        plain = pattern.startswith("*.") and not _GLOB_CHARACTERS.search(ending) and "." not in ending[1:]
        if plain and not anchored:
            self._endings.setdefault(ending, []).append(index)
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
            dot = subject.rfind(".")
            if dot >= 0:
                found += self._endings.get(subject[dot:], ())
        if self._set is not None:
            found += [self._globs[at][0] for at in self._set.Match(os.fsencode(subject)) or ()]
        return found


class RuleList:
    """The rules of one ignore file, or of one built-in list. Make it with `compile_rules`."""

    def __init__(self) -> None:
        self._rules: list[_Rule] = []
        self._by_name = _Table()
        self._by_path = _Table()

    def __bool__(self) -> bool:
        return bool(self._by_name or self._by_path)

    @property
    def needs_path(self) -> bool:
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

    def compile(self) -> None:
        self._by_name.compile()
        self._by_path.compile()

    def verdict(self, name: str, path: str, is_directory: bool) -> bool | None:
        """True: ignored; False: re-included; None: no rule speaks of it. `path` is below the rule file."""
        matching = self._by_name.matching(name)
        if self._by_path:
            matching += self._by_path.matching(path)
        deciding = max(
            (at for at in matching if is_directory or not self._rules[at].directories_only), default=None
        )
        return None if deciding is None else not self._rules[deciding].negated


def compile_rules(data: bytes) -> RuleList:
    """Compile the bytes of an ignore file."""
    rules = RuleList()
    text = os.fsdecode(data[:MAX_RULES_BYTES]).removeprefix("\ufeff")
    for line in text.split("\n"):
        rules.add(line.removesuffix("\r"))
    rules.compile()
    return rules


@attrs.frozen
class _Frame:
    rules: RuleList
    prefix: str
    """The current directory below the rule file, empty or ending in `/`."""


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
        strong, middle, weak = ([_Frame(rules, "")] if rules else [] for rules in (first, repository, last))
        return cls((*strong, *middle, *weak), len(strong), len(strong) + len(middle))

    def with_rules(self, own: RuleList) -> Scope:
        """The same directory with the rules of a file that lies in it."""
        return self._put(own, self.nested_at) if own else self

    def with_weaker(self, own: RuleList) -> Scope:
        """The same directory with rules that lie in it and yield to the repository's files."""
        return attrs.evolve(self._put(own, self.weaker_at), weaker_at=self.weaker_at) if own else self

    def _put(self, own: RuleList, at: int) -> Scope:
        frames = (*self.frames[:at], _Frame(own, ""), *self.frames[at:])
        return Scope(frames, self.nested_at, self.weaker_at + 1)

    def enter(self, name: str) -> Scope:
        """The scope in a sub-directory, before its own rule file is read."""
        frames = tuple(_Frame(frame.rules, f"{frame.prefix}{name}/") for frame in self.frames)
        return Scope(frames, self.nested_at, self.weaker_at)

    def ignored(self, name: str, is_directory: bool) -> bool:
        """Whether an entry of this directory is left out. A symbolic link is no directory."""
        for frame in self.frames:
            verdict = frame.rules.verdict(name, frame.prefix + name, is_directory)
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
