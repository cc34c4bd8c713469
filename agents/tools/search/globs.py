"""File patterns: `Glob.pattern` over paths and `Grep.include` over base names. Pure.

`*` and `?` stop at `/`, `**` as a whole part crosses any number of directories, `[…]` is one character,
`{a,b}` are alternatives. A pattern without `/` is matched against the base name at any depth.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import attrs

from agents.errors import ErrorCode, Failure, failure

MAX_GLOB_CHARS = 1000
MAX_ALTERNATIVES = 256

_SIGNS = frozenset("*?[]{}\\")
_SIMPLE_ENDING = re.compile(r"(?:\*\*/)?\*(\.[^*?\[\]{}\\/]+)")


@attrs.frozen
class PathGlob:
    """A checked pattern over paths below a directory."""

    source: str
    prefix: tuple[str, ...]
    """Directories that every match lies below: the walk need not look elsewhere."""
    depth: int | None
    """How many parts every match has; None: any number."""
    matches: Callable[[str], bool]
    """Whether a path (with `/`, relative to the directory) matches."""
    endings: tuple[str, ...] | None = None
    """What the base name of every match ends in; None: not known."""

    def may_be_called(self, name: str) -> bool:
        """Whether a match may have this base name."""
        return self.endings is None or name.endswith(self.endings)

    def may_hold(self, directory: str) -> bool:
        """Whether a match may lie below this sub-directory (with `/`, relative)."""
        parts = tuple(directory.split("/"))
        if self.depth is not None and len(parts) >= self.depth:
            return False
        return all(mine == wanted for mine, wanted in zip(parts, self.prefix, strict=False))


def parse_path_glob(source: str) -> PathGlob:
    """Check and compile a `Glob.pattern`. Raises `Failure` INVALID_ARGUMENT."""
    _check(source, "pattern")
    if source.startswith(("/", "~/", "\\\\")) or re.match(r"[A-Za-z]:[\\/]", source):
        raise _invalid(
            "pattern", source, "it is absolute", "give the directory as `path` and a pattern relative to it"
        )
    if ".." in re.split(r"[/{},]", source):
        raise _invalid("pattern", source, "it leaves its root with `..`", "give that directory as `path`")
    parts = [part for part in source.split("/") if part not in ("", ".")]
    if source.endswith("/") or not parts:
        parts.append("**")
    if "/" not in source:
        parts.insert(0, "**")
    pattern = "/".join(parts)
    simple = _SIMPLE_ENDING.fullmatch(pattern)
    if simple and parts[0] == "**":
        ending = simple[1]
        return PathGlob(source, (), None, lambda path: path.endswith(ending), (ending,))
    prefix = []
    for part in parts[:-1]:
        if _SIGNS & set(part):
            break
        prefix.append(part)
    fixed = "**" not in pattern and "{" not in pattern
    return PathGlob(
        source=source,
        prefix=tuple(prefix),
        depth=len(parts) if fixed else None,
        matches=_matcher(pattern, "pattern", source),
        endings=_endings(pattern),
    )


def _endings(pattern: str) -> tuple[str, ...] | None:
    """The plain text that every match ends in, by alternative; None where some alternative tells of none."""
    if not pattern.isascii():  # bytes that are no text are matched as replacement marks
        return None
    found = []
    for spelled in _expanded(pattern, "pattern", pattern):
        last = spelled.rpartition("/")[2]
        plain = re.split(r"[*?\[\]{}\\]", last)[-1]
        if not plain:
            return None
        found.append(plain)
    return tuple(found)


@attrs.frozen
class Include:
    """A checked pattern over base names."""

    source: str
    matches: Callable[[str], bool]


def parse_include(source: str) -> Include:
    """Check and compile a `Grep.include`. Raises `Failure` INVALID_ARGUMENT."""
    _check(source, "include")
    if "/" in source or (".." in re.split(r"[{},]", source)):
        raise _invalid(
            "include",
            source,
            "it holds a separator, but is matched against the base name alone",
            "give the directory as `path`",
        )
    simple = _SIMPLE_ENDING.fullmatch(source)
    if simple:
        ending = simple[1]
        return Include(source, lambda name: name.endswith(ending))
    return Include(source, _matcher(source, "include", source))


def _check(source: str, argument: str) -> None:
    if not source.strip():
        raise _invalid(argument, source, "it is empty", "give a pattern such as `**/*.py`")
    if "\0" in source:
        raise _invalid(argument, source, "it holds a NUL byte", "remove it")
    if len(source) > MAX_GLOB_CHARS:
        raise _invalid(argument, source, f"it is longer than {MAX_GLOB_CHARS} characters", "shorten it")


def _invalid(argument: str, source: str, reason: str, advice: str) -> Failure:
    shown = source if len(source) <= 100 else source[:99] + "…"
    return failure(
        ErrorCode.INVALID_ARGUMENT,
        f"The `{argument}` {shown!a} cannot be used: {reason}; {advice}.",
        details={"argument": argument, "reason": reason},
    )


def _matcher(pattern: str, argument: str, source: str) -> Callable[[str], bool]:
    import re2  # loaded only when something is searched

    alternatives = [_translate(spelled) for spelled in _expanded(pattern, argument, source)]
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    try:
        regex: Any = re2.compile(f"(?s)(?:{'|'.join(alternatives)})".encode(), options)
    except (re2.error, UnicodeEncodeError):
        raise _invalid(
            argument, source, "its brackets are not a valid set of characters", "write `[[]` for a bracket"
        ) from None
    return lambda path: regex.fullmatch(path.encode("utf-8", "replace")) is not None


def _expanded(pattern: str, argument: str, source: str) -> list[str]:
    """The alternatives of all braces, spelled out. A brace without a partner stands for itself."""
    done: list[str] = []
    todo = [pattern]
    while todo:
        current = todo.pop()
        span = _first_braces(current)
        if span is None:
            done.append(current)
        else:
            start, end, options = span
            todo += [current[:start] + option + current[end:] for option in options]
        if len(done) + len(todo) > MAX_ALTERNATIVES:
            raise _invalid(
                argument, source, f"its braces stand for more than {MAX_ALTERNATIVES} patterns", "use `*`"
            )
    return done


def _first_braces(pattern: str) -> tuple[int, int, list[str]] | None:
    """The first complete `{a,b}`: where it starts and ends, and its options."""
    for start in (at for at, sign in enumerate(pattern) if sign == "{"):
        if pattern[start - 1 : start] == "\\" or (pattern[start - 1 : start + 2] == "[{]"):
            continue
        depth, option, options = 0, start + 1, []
        for at in range(start, len(pattern)):
            sign = pattern[at]
            depth += (sign == "{") - (sign == "}")
            if sign == "," and depth == 1:
                options.append(pattern[option:at])
                option = at + 1
            elif depth == 0:
                if options:
                    return start, at + 1, [*options, pattern[option:at]]
                break
    return None


def _translate(pattern: str) -> str:
    """One pattern without braces as a regular expression over the whole path."""
    parts = pattern.split("/")
    regex = ""
    for at, part in enumerate(parts):
        last = at == len(parts) - 1
        if part == "**":
            regex += ".+" if last else "(?:[^/]+/)*"
        else:
            regex += _translate_part(part) + ("" if last else "/")
    return regex


def _translate_part(part: str) -> str:
    regex = ""
    at = 0
    while at < len(part):
        sign = part[at]
        at += 1
        if sign == "*":
            regex += "[^/]*"
        elif sign == "?":
            regex += "[^/]"
        elif sign == "\\" and at < len(part):
            regex += re.escape(part[at])
            at += 1
        elif sign == "[" and "]" in part[at + 1 :]:
            negated = part[at] in "!^"
            at += negated
            end = part.index("]", at + 1)
            body = part[at:end].replace("\\", "\\\\").replace("[", "\\[").replace("^", "\\^")
            regex += f"[^/{body}]" if negated else f"[{body}]"
            at = end + 1
        else:
            regex += re.escape(sign)
    return regex
