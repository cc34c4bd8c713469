"""Permission rules in the spelling `Tool` or `Tool(pattern)`, and session grants. Pure.

A path pattern is written like a line of a `.gitignore` file and is compared with the resolved place, never
with the spelling of the call. A relative pattern speaks of the workspace. A pattern that names an outside
path (absolute, `~` or a leading `..`) speaks of the whole file system; only such a rule can allow something
outside.

A deny rule for `Read` forbids reading, whichever file tool does it: Read, Grep, Glob, and Edit, whose answers
show the file. One for `Edit` forbids changing: Edit and Write. Every other rule is about its own tool. What
such a rule with a pattern forbids, a Grep or Glob of the folders above passes over, and a command line may
not name as an argument of a known file command or behind a redirection.
"""

from __future__ import annotations

import difflib
import functools
import re
import shlex
from collections.abc import Iterable
from typing import Any

import attrs

from agents.errors import ErrorCode, Failure, failure
from agents.rules.paths import PathKind, ResolvedPath, Root

MAX_RULE_CHARS = 2000

PATH_TOOLS = frozenset({"Read", "Glob", "Grep", "Write", "Edit"})
"""Tools whose rules take a path pattern."""
PLAIN_TOOLS = frozenset({"Task", "Agent", "TaskWait", "TaskList", "TaskStop", "ToolSearch"})
"""Tools whose rules take no pattern."""
KNOWN_TOOLS = PATH_TOOLS | PLAIN_TOOLS | {"Bash"}
PLUGIN_PREFIX = "mcp__"

_DENIES_TOO = {"Read": frozenset({"Grep", "Glob", "Edit"}), "Edit": frozenset({"Write"})}
"""Further tools that a deny rule of a tool is about; the module's docstring says why."""
_ALIASES = {"Agent": "Task"}

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]*\*?\Z")
_GLOB_SIGNS = re.compile(r"([\\*?\[\]!#])")


@attrs.frozen
class Rule:
    """One rule of a user or an administrator. Made by `Rule.parse`."""

    tool: str
    """The tool's name; `mcp__server` (or `mcp__server__*`) stands for all tools of a plugin server."""
    pattern: str | None = None
    """What the call must be about; None: every call of the tool (an allow rule: inside the roots only)."""

    @classmethod
    def parse(cls, text: str) -> Rule:
        """Read one rule. Raises `Failure` INVALID_ARGUMENT that says what is wrong with it."""
        spelled = text.strip()
        if not spelled or len(spelled) > MAX_RULE_CHARS or not spelled.isprintable():
            raise _refused(text, f"a rule is one printable line of 1 to {MAX_RULE_CHARS} characters")
        name, opened, rest = spelled.partition("(")
        if not opened and ")" in name:
            raise _refused(text, "the opening parenthesis is missing")
        if not _NAME.match(name) or ("*" in name and not name.startswith(PLUGIN_PREFIX)):
            raise _refused(text, f"{name!r} is not the name of a tool")
        if not opened:
            return cls(name)
        if not rest.endswith(")"):
            raise _refused(text, "the closing parenthesis is missing")
        pattern = rest[:-1]
        if not pattern.strip():
            raise _refused(text, f"the pattern is empty; `{name}` alone means every call")
        if name.startswith(PLUGIN_PREFIX) or name in PLAIN_TOOLS:
            raise _refused(text, f"rules for {name} take no pattern; write `{name}` alone")
        if name in PATH_TOOLS:
            _check_path_pattern(text, pattern)
        if name == "Bash":
            _check_command_pattern(text, pattern)
        return cls(name, pattern)

    @property
    def names_outside(self) -> bool:
        """Whether the pattern names an outside path: absolute, `~` or a leading `..`."""
        return self.pattern is not None and _names_outside(self.pattern)

    @property
    def names_only(self) -> bool:
        """Whether the pattern is about names wherever they stand: relative, without a `/` inside it."""
        return self.pattern is not None and "/" not in self.pattern.rstrip("/") and not self.names_outside

    def is_for(self, tool: str) -> bool:
        """Whether the rule speaks of this tool."""
        if _ALIASES.get(self.tool, self.tool) == _ALIASES.get(tool, tool):
            return True
        if not self.tool.startswith(PLUGIN_PREFIX) or not tool.startswith(PLUGIN_PREFIX):
            return False
        if self.tool.endswith("*"):
            return tool.startswith(self.tool[:-1])
        return "__" not in self.tool[len(PLUGIN_PREFIX) :] and tool.startswith(f"{self.tool}__")

    def denies_tool(self, tool: str) -> bool:
        """Whether the rule, as a deny rule, speaks of this tool."""
        return self.is_for(tool) or tool in _DENIES_TOO.get(self.tool, ())

    def misnamed(self, tools: Iterable[str] = ()) -> str | None:
        """What is wrong where the rule names no tool that exists, with the name that was meant; else None.

        `tools` are the names of own tools. Any plugin's tool may exist.
        """
        known = KNOWN_TOOLS.union(tools)
        if self.tool in known or self.tool.startswith(PLUGIN_PREFIX):
            return None
        folded = {name.casefold(): name for name in sorted(known)}
        near = difflib.get_close_matches(self.tool.casefold(), folded, 1, 0.6)
        meant = attrs.evolve(self, tool=folded[near[0]]) if near else None
        hint = f"did you mean `{meant}`?" if meant else f"the tools are {', '.join(sorted(known))}."
        return f"The permission rule `{self}` does nothing, because there is no tool `{self.tool}`; {hint}"

    def allows_path(self, path: ResolvedPath, *, workspace: str, home: str | None) -> bool:
        """Whether the rule, as an allow rule of its tool, covers this place."""
        if self.pattern is None:
            return not path.outside
        if path.outside and not self.names_outside:
            return False
        return _matches(self.pattern, path, workspace, home)

    def denies_path(self, path: ResolvedPath, *, workspace: str, home: str | None) -> bool:
        """Whether the rule, as a deny rule of its tool, covers this place.

        A relative pattern without a `/` inside it (`*.log`) is about names, and denies them outside as well.
        """
        if self.pattern is None:
            return True
        if _matches(self.pattern, path, workspace, home):
            return True
        return (
            self.names_only
            and path.root is not Root.WORKSPACE
            and _fits(self.pattern, path.canonical, path.kind)
        )

    def __str__(self) -> str:
        return self.tool if self.pattern is None else f"{self.tool}({self.pattern})"


def misnamed(rules: Iterable[str], tools: Iterable[str] = ()) -> tuple[str, ...]:
    """A warning for each spelled rule that names no tool. Raises `Failure` as `Rule.parse`."""
    known = frozenset(tools)
    found = (Rule.parse(rule).misnamed(known) for rule in rules)
    return tuple(dict.fromkeys(warning for warning in found if warning is not None))


@attrs.frozen
class Grant:
    """What a person allowed for the rest of the session, whoever asks."""

    tool: str
    outside: bool
    """True covers the tool's outside paths and nothing else; False everything but them."""
    commands: tuple[str, ...] | None = None
    """For Bash: these commands only, compared as written; None: every command."""


def _refused(text: str, why: str) -> Failure:
    shown = text if len(text) <= 80 else text[:77] + "…"
    return failure(
        ErrorCode.INVALID_ARGUMENT,
        f"The permission rule {shown!r} cannot be used: {why}. "
        "Write `Tool` or `Tool(pattern)`, such as `Read(docs/**)`, `Bash(git status)`, `mcp__db__query`.",
    )


def _names_outside(pattern: str) -> bool:
    return (
        pattern.startswith("/") or pattern == "~" or pattern.startswith("~/") or pattern.split("/")[0] == ".."
    )


def _check_path_pattern(text: str, pattern: str) -> None:
    if pattern.startswith(("!", "#")):
        raise _refused(text, f"a pattern that begins with {pattern[0]!r} must be written `\\{pattern[0]}…`")
    if pattern.startswith("~") and not _names_outside(pattern):
        raise _refused(text, "only the user's own home can be named, as `~/…`")
    parts = pattern.split("/")
    while parts and parts[0] == "..":
        parts.pop(0)
    if ".." in parts or any(part == "." for part in parts[1:]):
        raise _refused(text, "`..` may stand at its beginning only, and `.` not at all inside it")
    try:
        usable = _compiled(anchored(pattern, workspace="/w/x", home="/h"))
    except Exception as wrong:
        raise _refused(text, f"the pattern is not valid ({wrong})") from wrong
    if not any(line.include for line in usable.patterns):
        raise _refused(text, "the pattern can never match anything")


def _check_command_pattern(text: str, pattern: str) -> None:
    words = shlex.shlex(pattern, posix=False, punctuation_chars=";&|<>")
    words.whitespace_split = True
    words.commenters = ""
    try:
        separators = [word for word in words if set(word) <= set(";&|")]
    except ValueError:
        raise _refused(text, "a quote in it is never closed") from None
    if separators:
        raise _refused(text, f"a pattern is one simple command, and {separators[0]!r} separates two")


def anchored(pattern: str, *, workspace: str, home: str) -> str:
    """A pattern for paths below `/`: `~` and leading `..` replaced by the places they name."""
    if pattern == "~" or pattern.startswith("~/"):
        return _literal(home).rstrip("/") + pattern[1:]
    parts = pattern.split("/")
    if parts[0] != "..":
        return pattern
    base = [part for part in workspace.split("/") if part]
    while parts and parts[0] == "..":
        parts.pop(0)
        base = base[:-1]
    return "/" + "/".join([*(_literal(part) for part in base), *(parts or ["**"])])


def _literal(text: str) -> str:
    return _GLOB_SIGNS.sub(r"\\\1", text)


def _matches(pattern: str, path: ResolvedPath, workspace: str, home: str | None) -> bool:
    if _names_outside(pattern):
        if home is None and pattern.startswith("~"):
            return False
        return _fits(anchored(pattern, workspace=workspace, home=home or "/"), path.canonical, path.kind)
    if path.root is not Root.WORKSPACE:
        return False
    inside = path.canonical == workspace or path.canonical.startswith(workspace.rstrip("/") + "/")
    if not inside:  # an added directory: a relative pattern speaks of the workspace itself
        return False
    return _fits(pattern.removeprefix("./"), path.canonical[len(workspace.rstrip("/")) :] or "/", path.kind)


def _fits(pattern: str, absolute: str, kind: PathKind) -> bool:
    spec = _compiled(pattern)
    relative = absolute.strip("/") or "."
    # `docs/**` and `docs/` cover the directory itself where that is what a call names.
    spellings = (relative, f"{relative}/") if kind is PathKind.DIRECTORY else (relative,)
    return any(spec.match_file(spelling) for spelling in spellings)


def expression(pattern: str) -> re.Pattern[str]:
    """What a pattern comes to: found in a path below its base (without a leading `/`; a folder's also with a
    `/` at its end)."""
    (line,) = _compiled(pattern).patterns
    found: re.Pattern[str] = line.regex
    return found


@functools.lru_cache(maxsize=512)
def _compiled(pattern: str) -> Any:
    from pathspec import GitIgnoreSpec  # 20 ms, and only users of rules need it

    return GitIgnoreSpec.from_lines([pattern], backend="simple")
