"""What a shell line runs, where it writes, and whether a rule covers it. Pure.

`parse_line` (from `shell_syntax`) and `write_targets` (from `shell_writes`) are re-exported here: this is the
one module that others ask about a Bash line.

**How a pattern matches.** A pattern is cut into words as a shell would cut it. Its words stand for the words
of one simple command, in order and as a whole: a word matches the same word; a `*` inside a word matches any
characters of that one word; a `*` that stands alone matches any number of words, also none. `:*` at the end
is the same as a last ` *`. Words that only the run can tell (`$x`, `$(…)`, `{a,b}`) are matched by a lone
`*` and by nothing else. Assignments in front of a command must be spelt by as many words in front of the
pattern (`PATH=* make`); a lone `*` never stands for one.
"""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Iterable

import attrs

from agents.rules.shell_syntax import Redirect as Redirect
from agents.rules.shell_syntax import ShellLine as ShellLine
from agents.rules.shell_syntax import SimpleCommand as SimpleCommand
from agents.rules.shell_syntax import parse_line as parse_line
from agents.rules.shell_words import Word, plain
from agents.rules.shell_writes import HARMLESS
from agents.rules.shell_writes import WriteTarget as WriteTarget
from agents.rules.shell_writes import write_targets as write_targets

_PATCHES = frozenset({"apply_patch", "applypatch", "patch"})
_OWN = re.compile(r"orchestrator(?:\.[\w.]+)?|orc")
_ANSWERS = frozenset({"approve", "deny", "stop", None})
_RUNNERS = frozenset({"run", "exec", "-m", "--", "uvx", "pipx"})
_GIT_VALUED = frozenset(
    {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env"}
)
_DRY = frozenset({"--check", "--stat", "--cached"})


def matches(pattern: str, command: SimpleCommand) -> bool:
    """Whether the pattern of a `Bash(pattern)` rule covers one simple command, as an allow rule reads it.

    The rule is in the module's docstring. A command without words and assignments is matched by nothing.
    """
    parts = _cut(pattern)
    set_first = len(command.assignments)
    if len(parts) < set_first or not (set_first or command.words):
        return False
    spelt = all(
        _same(part, word, 1) for part, word in zip(parts, command.assignments, strict=False) if part != "*"
    )
    if not spelt or "*" in parts[:set_first]:
        return False
    return _match(parts[set_first:], command.words)


def allows(patterns: Iterable[str], line: ShellLine) -> bool:
    """Whether allow rules cover the whole line: every simple command, no doubt, no redirection to a file.

    A wrapper that only times or limits (`timeout 5 git status`) needs no rule of its own; what it runs does.
    """
    known = tuple(patterns)
    if line.problem is not None or not line.simple:
        return False
    return all(_writes_nothing(c) and _covered(known, c) for c in line.simple)


def denies(patterns: Iterable[str], line: ShellLine) -> bool:
    """Whether a deny rule names any simple command of the line.

    Read more widely than an allow rule: an assignment in front and the folder of the program (`/bin/rm`) do
    not hide a command.
    """
    known = tuple(patterns)
    return any(matches(p, face) for c in line.simple for face in _faces(c) for p in known)


def patch_command(line: ShellLine) -> bool:
    """Whether the line runs a recognised patch command.

    `apply_patch`, `applypatch`, `patch`, and `git apply` without `--check`, `--stat` or `--cached`; wherever
    in the line, also behind wrappers. Text in a quoted heredoc or an argument is no command.
    """
    return any(command.name in _PATCHES or _git_apply(command) for command in line.simple)


def calls_own_command(line: ShellLine) -> bool:
    """Whether the line answers permission requests itself: `orchestrator approve …`, `orc deny …`,
    `python -m orchestrator approve …`. A subcommand that only the run can tell counts."""
    return any(_answers(command.words) for command in line.simple)


def _covered(patterns: tuple[str, ...], command: SimpleCommand) -> bool:
    if not command.words and not command.assignments:
        return True  # redirections alone, none of which writes a file
    if command.neutral and not command.assignments:
        return True
    return any(matches(pattern, command) for pattern in patterns)


def _writes_nothing(command: SimpleCommand) -> bool:
    for redirect in command.redirects:
        text = None if redirect.target is None else redirect.target.text
        if redirect.write and (text is None or not HARMLESS.fullmatch(text)):
            return False
    return True


def _faces(command: SimpleCommand) -> tuple[SimpleCommand, ...]:
    """A command as a deny rule may see it: as written, without assignments, by its base name."""
    bare = attrs.evolve(command, assignments=())
    name = command.name
    if name is None:
        return (command, bare)
    return (command, bare, attrs.evolve(bare, words=(plain(name), *command.words[1:])))


@functools.lru_cache(maxsize=512)
def _cut(pattern: str) -> tuple[str, ...]:
    """The pattern's words; one that no shell would cut is one word, which matches nothing but itself."""
    text = pattern.strip()
    text = text[:-2] + " *" if text.endswith(":*") else text
    try:
        return tuple(shlex.split(text))
    except ValueError:
        return (text,)


def _match(pattern: tuple[str, ...], words: tuple[Word, ...]) -> bool:
    """Match word by word; `eaten` holds how many words each alternative has used up so far."""
    eaten = {0}
    for part in pattern:
        if part == "*":
            eaten = set(range(min(eaten), len(words) + 1))
        else:
            eaten = {count + 1 for count in eaten if count < len(words) and _same(part, words[count], count)}
        if not eaten:
            return False
    return len(words) in eaten


def _same(part: str, word: Word, index: int) -> bool:
    if word.text is None or (word.pattern and index == 0 and part != word.text):
        return False
    if "*" not in part:
        return part == word.text
    expression = ".*".join(re.escape(piece) for piece in part.split("*"))
    return re.fullmatch(expression, word.text, re.DOTALL) is not None


def _git_apply(command: SimpleCommand) -> bool:
    if command.name != "git":
        return False
    words = command.words
    index = 1
    while index < len(words) and (words[index].text or "").startswith("-"):
        index += 2 if words[index].text in _GIT_VALUED else 1
    if index >= len(words) or words[index].text != "apply":
        return False
    return not any(word.text in _DRY for word in words[index + 1 :])


def _answers(words: tuple[Word, ...]) -> bool:
    for index, word in enumerate(words):
        text = word.text or ""
        named = text.removeprefix("-m") if text.startswith("-m") else word.name or ""
        if not _OWN.fullmatch(named):
            continue
        called = index == 0 or text.startswith("-m") or words[index - 1].text in _RUNNERS
        if called and any(later.text in _ANSWERS for later in words[index + 1 :]):
            return True
    return False
