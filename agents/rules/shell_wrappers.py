"""Commands that run another command: where the inner one begins. Pure.

An option that the table does not know may or may not take a value, so what follows it is unknown: the
inner command is then one that no rule can name.
"""

from __future__ import annotations

import re

import attrs

from agents.rules.shell_words import UNKNOWN, Word, made_of

ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
SHELLS = frozenset({"bash", "sh", "dash", "zsh", "ksh", "ash", "rbash"})


@attrs.frozen
class Inside:
    """What one wrapper runs: either words, or a text that a shell parses."""

    words: tuple[Word, ...] = ()
    assignments: tuple[Word, ...] = ()
    script: Word | None = None
    directory: Word | None = None
    """Where it runs, when the wrapper changes that."""
    neutral: bool = False
    """Whether the wrapper only times, limits or names the inner command."""
    same_shell: bool = False
    """Whether a `cd` inside moves the rest of the line."""


@attrs.frozen
class _Wrapper:
    """How one wrapper is called. Short options as letters; long ones with their two dashes."""

    flags: str = ""
    valued: str = ""
    long_flags: tuple[str, ...] = ()
    long_valued: tuple[str, ...] = ()
    operands: int = 0
    """How many operands stand before the inner command."""
    assigns: bool = False
    """Whether `NAME=value` words before the command set its environment."""
    numeric: bool = False
    """Whether `-10` is an option."""
    directory: tuple[str, ...] = ()
    """Options whose value is where the inner command runs."""
    queries: str = ""
    """Options with which nothing is run."""
    neutral: bool = False
    same_shell: bool = False
    open_end: bool = False
    """Whether further words are added when it runs."""


_WRAPPERS: dict[str, _Wrapper] = {
    "env": _Wrapper(
        flags="i0v", valued="uC", long_flags=("--ignore-environment", "--null", "--debug"),
        long_valued=("--unset", "--chdir"), assigns=True, directory=("C", "--chdir"),
    ),
    "command": _Wrapper(flags="p", queries="vV", neutral=True, same_shell=True),
    "builtin": _Wrapper(neutral=True, same_shell=True),
    "exec": _Wrapper(flags="cl", valued="a"),
    "nice": _Wrapper(valued="n", long_valued=("--adjustment",), numeric=True, neutral=True),
    "nohup": _Wrapper(neutral=True),
    "time": _Wrapper(flags="p", neutral=True),
    "timeout": _Wrapper(
        flags="vfp", valued="sk", long_flags=("--foreground", "--preserve-status", "--verbose"),
        long_valued=("--signal", "--kill-after"), operands=1, neutral=True,
    ),
    "stdbuf": _Wrapper(valued="ioe", long_valued=("--input", "--output", "--error"), neutral=True),
    "ionice": _Wrapper(flags="t", valued="cn", long_valued=("--class", "--classdata"), neutral=True),
    "setsid": _Wrapper(flags="cfw", long_flags=("--ctty", "--fork", "--wait")),
    "busybox": _Wrapper(),
    "xargs": _Wrapper(
        flags="0rtpox", valued="IiLnPdEsa",
        long_flags=("--null", "--no-run-if-empty", "--verbose", "--interactive", "--exit", "--open-tty"),
        long_valued=("--replace", "--max-lines", "--max-args", "--max-procs", "--delimiter", "--max-chars",
                     "--arg-file"),
        open_end=True,
    ),
    "sudo": _Wrapper(
        flags="AbEHnPSkK", valued="ugphCDTUrt", assigns=True, directory=("D", "--chdir"),
        long_flags=("--preserve-env", "--non-interactive", "--set-home"),
        long_valued=("--user", "--group", "--prompt", "--host", "--chdir"),
    ),
    "doas": _Wrapper(flags="n", valued="uC"),
}  # fmt: skip
_SHELL_VALUED = ("-o", "+o", "-O", "+O", "--rcfile", "--init-file")


def look_inside(words: tuple[Word, ...]) -> tuple[Inside, ...]:
    """The commands that `words` run in turn; empty for a command that is no wrapper."""
    name = words[0].name if words else None
    if name is None:
        return ()
    if name in SHELLS:
        return _shell(words)
    if name == "eval":
        return (Inside(script=_joined(words[1:]), same_shell=True),) if len(words) > 1 else ()
    if name == "trap":
        return _trap(words)
    if name == "find":
        return _find(words)
    wrapper = _WRAPPERS.get(name)
    return () if wrapper is None else _wrapped(words, wrapper)


def _wrapped(words: tuple[Word, ...], wrapper: _Wrapper) -> tuple[Inside, ...]:
    start, options = _options(words, wrapper)
    if any(query in options for query in wrapper.queries):
        return ()
    if start is None or start + wrapper.operands > len(words):
        return (Inside(words=(UNKNOWN,)),)
    start += wrapper.operands
    assignments: list[Word] = []
    while wrapper.assigns and start < len(words) and ASSIGNMENT.match(words[start].sketch):
        assignments.append(words[start])
        start += 1
    inner = words[start:]
    if not inner:
        return ()
    return (
        Inside(
            words=(*inner, UNKNOWN) if wrapper.open_end else inner,
            assignments=tuple(assignments),
            directory=next((options[name] for name in wrapper.directory if name in options), None),
            neutral=wrapper.neutral,
            same_shell=wrapper.same_shell,
        ),
    )


def _options(words: tuple[Word, ...], wrapper: _Wrapper) -> tuple[int | None, dict[str, Word]]:
    """Where the options end (None: an unknown one), and their values."""
    found: dict[str, Word] = {}
    index = 1
    while index < len(words):
        text = words[index].text
        if text is None:
            return None, found
        if text == "--":
            return index + 1, found
        if not text.startswith("-") or text == "-":
            return index, found
        after = (
            _long(words, index, wrapper, found)
            if text.startswith("--")
            else _short(words, index, wrapper, found)
        )
        if after is None:
            return None, found
        index = after
    return index, found


def _long(words: tuple[Word, ...], index: int, wrapper: _Wrapper, found: dict[str, Word]) -> int | None:
    name, equals, value = (words[index].text or "").partition("=")
    if equals and (name in wrapper.long_valued or name in wrapper.long_flags):
        found[name] = made_of(value, value)
        return index + 1
    if name in wrapper.long_flags:
        return index + 1
    if name in wrapper.long_valued and index + 1 < len(words):
        found[name] = words[index + 1]
        return index + 2
    return None


def _short(words: tuple[Word, ...], index: int, wrapper: _Wrapper, found: dict[str, Word]) -> int | None:
    letters = (words[index].text or "")[1:]
    if wrapper.numeric and letters.isdecimal():
        return index + 1
    for position, letter in enumerate(letters):
        if letter in wrapper.valued:
            rest = letters[position + 1 :]
            if not rest and index + 1 >= len(words):
                return None
            found[letter] = made_of(rest, rest) if rest else words[index + 1]
            return index + 1 if rest else index + 2
        if letter not in wrapper.flags and letter not in wrapper.queries:
            return None
        found[letter] = UNKNOWN
    return index + 1


def _shell(words: tuple[Word, ...]) -> tuple[Inside, ...]:
    """`bash -c text`, with `-c` alone or among other letters (`-lc`, `-euxc`)."""
    runs_text = False
    index = 1
    while index < len(words):
        text = words[index].text
        if text is None:
            if not runs_text:
                return (Inside(script=UNKNOWN),)
            break
        if text in _SHELL_VALUED:
            index += 2
        elif text == "--":
            index += 1
            break
        elif len(text) > 1 and text[0] in "-+":
            if not text.startswith("--") and text[0] == "-":
                runs_text = runs_text or "c" in text
                # a cluster that ends in `o` takes the next word as the option's name
                index += 1 if text.endswith("o") else 0
            index += 1
        else:
            break
    return (Inside(script=words[index]),) if runs_text and index < len(words) else ()


def _trap(words: tuple[Word, ...]) -> tuple[Inside, ...]:
    operands = [word for word in words[1:] if word.text not in ("--", "-l", "-p")]
    return (Inside(script=operands[0]),) if len(operands) > 1 and operands[0].text not in ("-", "") else ()


def _find(words: tuple[Word, ...]) -> tuple[Inside, ...]:
    """`-exec command … ;` and its three sisters, any number of them."""
    found: list[Inside] = []
    index = 1
    while index < len(words):
        if words[index].text in ("-exec", "-execdir", "-ok", "-okdir"):
            end = index + 1
            while end < len(words) and words[end].text not in (";", "+"):
                end += 1
            found.append(Inside(words=(*words[index + 1 : end], UNKNOWN)))
            index = end
        index += 1
    return tuple(found)


def _joined(words: tuple[Word, ...]) -> Word:
    return made_of(" ".join(w.source for w in words), " ".join(w.spelt for w in words))
