"""Where a shell line would write: redirections, and the arguments of known file commands. Pure.

A program that is not known here (an interpreter, a build tool) has no place: only a sandbox can hold it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import attrs

from agents.rules.shell_syntax import ShellLine, SimpleCommand, join_directory
from agents.rules.shell_words import UNKNOWN, Word, made_of

HARMLESS = re.compile(r"/dev/(?:null|zero|full|stdin|stdout|stderr|tty|fd/\d+)")
"""Devices that a redirection may name without being about a file."""


@attrs.frozen
class WriteTarget:
    """One place that a line names.

    Resolve `directory` first (to its canonical path), then `path` from there: that is what the kernel does.
    """

    path: str | None
    """As the line spells it, quotes removed; None where only the run can tell."""
    directory: str | None
    """What `path` is relative to: relative to the line's start (`""`), or absolute; None: unknown."""
    write: bool = True
    """False for a source that a file command only reads (`cp SOURCE …`)."""
    command: str = ""
    """The command that names it, for the question."""


_PATCH_FILE = re.compile(
    r"^(?:\*\*\* (?:(?:Add|Update|Delete) File|Move to): |\+\+\+ |--- |rename (?:from|to) )([^\t\n]+)",
    re.MULTILINE,
)

Places = Iterator[tuple[Word, bool]]
"""Words that name places, and whether they are written."""


def write_targets(line: ShellLine) -> tuple[WriteTarget, ...]:
    """The places of a line, in order, each once.

    A pattern (`rm build/*`) gives the directory before it and an unknown place beside it.
    """
    found: dict[WriteTarget, None] = {}
    for command in line.simple:
        for redirect in command.redirects:
            if redirect.write and redirect.target is not None:
                _add(found, redirect.target, True, command, command.directories)
        for word, write, directories in _arguments(command):
            _add(found, word, write, command, directories)
    return tuple(found)


def _add(
    found: dict[WriteTarget, None],
    word: Word,
    write: bool,
    command: SimpleCommand,
    places: tuple[str | None, ...],
) -> None:
    for path in _spellings(word):
        if path is not None and HARMLESS.fullmatch(path):
            continue
        for directory in places:
            found[WriteTarget(path, directory, write, command.text)] = None


def _spellings(word: Word) -> tuple[str | None, ...]:
    """The literal path of a word, and None beside it where that is not the whole truth."""
    text = word.text
    if text is None or (word.tilde and re.match(r"~[^/]", text)):
        return (None,)
    if text == "":
        return ()
    if not word.tilde and text.startswith("~"):
        text = f"./{text}"
    if word.pattern:
        before = re.split(r"[*?\[]", text, maxsplit=1)[0]
        return (before[: before.rfind("/") + 1] or ".", None)
    # `link/..` is the parent of what the link names, which no lexical rule can know
    return (text, None) if re.search(r"[^./][^/]*/+\.\.(?:/|\Z)|\.\.\.+/+\.\.", text) else (text,)


def _arguments(command: SimpleCommand) -> Iterator[tuple[Word, bool, tuple[str | None, ...]]]:
    name = command.name
    if name is None:
        return
    if name == "git":
        yield from _git(command)
        return
    known = _KNOWN.get(name)
    if known is not None:
        for word, write in known(command):
            yield word, write, command.directories


@attrs.frozen
class _Options:
    """A command's arguments, taken apart."""

    operands: tuple[Word, ...]
    values: tuple[tuple[str, Word], ...]
    """(option, value) in order; options without a value have `UNKNOWN`."""

    def all(self, *names: str) -> list[Word]:
        return [value for name, value in self.values if name in names]

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.values)


def _take_apart(words: tuple[Word, ...], valued: str, long_valued: tuple[str, ...] = ()) -> _Options:
    """Split arguments into operands and options; `valued` and `long_valued` ones take the next word."""
    operands: list[Word] = []
    values: list[tuple[str, Word]] = []
    index = 1
    only_operands = False
    while index < len(words):
        word = words[index]
        text = word.text
        index += 1
        if only_operands or text is None or not text.startswith("-") or text == "-":
            operands.append(word)
        elif text == "--":
            only_operands = True
        elif text.startswith("--"):
            name, equals, value = text.partition("=")
            if equals:
                values.append((name, made_of(value, value)))
            elif name in long_valued and index < len(words):
                values.append((name, words[index]))
                index += 1
            else:
                values.append((name, UNKNOWN))
        else:
            index += _cluster(text[1:], words[index:], valued, values)
    return _Options(tuple(operands), tuple(values))


def _cluster(letters: str, rest: tuple[Word, ...], valued: str, values: list[tuple[str, Word]]) -> int:
    """Short options in one word; returns how many further words they took."""
    for position, letter in enumerate(letters):
        if letter in valued:
            value = letters[position + 1 :]
            if value:
                values.append((f"-{letter}", made_of(value, value)))
                return 0
            values.append((f"-{letter}", rest[0] if rest else UNKNOWN))
            return 1 if rest else 0
        values.append((f"-{letter}", UNKNOWN))
    return 0


def _every_operand(
    valued: str = "", long_valued: tuple[str, ...] = (), skip: int = 0
) -> Callable[[SimpleCommand], Places]:
    """All operands but the first `skip` are written."""

    def places(command: SimpleCommand) -> Places:
        options = _take_apart(command.words, valued, long_valued)
        first = 0 if options.has("--reference") else skip
        for word in options.operands[first:]:
            yield word, True

    return places


def _copy(moves: bool) -> Callable[[SimpleCommand], Places]:
    """Sources, then the destination; a move writes both; so does a link, which is a door to its source."""

    def places(command: SimpleCommand) -> Places:
        options = _take_apart(
            command.words, "tSmgo", ("--target-directory", "--suffix", "--mode", "--owner", "--group")
        )
        into = options.all("-t", "--target-directory")
        for word in into:
            yield word, True
        last = len(options.operands) - 1
        for index, word in enumerate(options.operands):
            yield word, moves or (index == last and not into)

    return places


def _dd(command: SimpleCommand) -> Places:
    for word in command.words[1:]:
        if word.text is None:
            yield UNKNOWN, True
        elif word.text.startswith(("of=", "if=")):
            yield made_of(word.text[3:], word.text[3:]), word.text.startswith("of=")


def _sed(command: SimpleCommand) -> Places:
    """Files are written with -i; with -E or -n alone sed reads."""
    options = _take_apart(command.words, "efl", ("--expression", "--file", "--line-length"))
    scripted = options.has("-e", "-f", "--expression", "--file")
    if options.has("-i", "--in-place"):
        for word in options.operands[0 if scripted else 1 :]:
            yield word, True


def _output(valued: str, *names: str) -> Callable[[SimpleCommand], Places]:
    """Only what the options `names` say is written."""

    def places(command: SimpleCommand) -> Places:
        options = _take_apart(command.words, valued, tuple(n for n in names if n.startswith("--")))
        for word in options.all(*names):
            yield word, True

    return places


def _tar(command: SimpleCommand) -> Places:
    options = _take_apart(command.words, "fCTX", ("--file", "--directory"))
    for word in options.all("-C", "--directory"):
        yield word, True
    bundled = options.operands[:1] if options.operands and not options.values else ()
    creates = options.has("-c", "--create", "-r", "-u") or any(
        re.match("[cru]", w.text or "") for w in bundled
    )
    for word in (*options.all("-f", "--file"), *(options.operands[1:2] if bundled else ())):
        yield word, creates


def _find(command: SimpleCommand) -> Places:
    words = command.words
    deletes = any(word.text == "-delete" for word in words)
    for word in words[1:]:
        if (word.text or "").startswith("-") or word.text in ("(", "!"):
            break
        if deletes:
            yield word, True
    for index, word in enumerate(words):
        if word.text in ("-fprint", "-fprint0", "-fprintf", "-fls") and index + 1 < len(words):
            yield words[index + 1], True


def _patch(command: SimpleCommand) -> Places:
    """The file or folder named; what the patch itself names, where its text stands in the line."""
    options = _take_apart(
        command.words, "pdioBDFrVYz", ("--directory", "--input", "--output", "--strip", "--reject-file")
    )
    for word in (
        *options.all("-d", "--directory", "-o", "--output", "-r", "--reject-file"),
        *options.operands[:1],
    ):
        yield word, True
    if not options.operands:
        yield from _patch_body(command)


def _patch_body(command: SimpleCommand) -> Places:
    """Files that a patch in a heredoc names; unknown where it comes from elsewhere."""
    named = _PATCH_FILE.findall(command.heredoc or "")
    for path in named:
        spelt = re.sub(r"\A[ab]/", "", path.strip())
        if spelt != "/dev/null":
            yield made_of(spelt, spelt), True
    if not named:
        yield UNKNOWN, True


_GIT_READS = frozenset(
    {"status", "log", "diff", "show", "rev-parse", "ls-files", "ls-tree", "blame", "grep", "describe",
     "cat-file", "rev-list", "shortlog"}
)  # fmt: skip


def _git(command: SimpleCommand) -> Iterator[tuple[Word, bool, tuple[str | None, ...]]]:
    """`-C` moves git; `--output` writes; clone, init, worktree make folders; apply writes what it names."""
    index, directories, moved_to = 1, command.directories, []
    words = command.words
    while index < len(words) and (words[index].text or "").startswith("-"):
        text = words[index].text or ""
        value = words[index + 1] if index + 1 < len(words) else UNKNOWN
        if text == "-C":
            moved_to.append((value, directories))
            directories = tuple(dict.fromkeys(join_directory(d, value) for d in directories))
        elif text.startswith(("--git-dir=", "--work-tree=")):
            path = text.partition("=")[2]
            moved_to.append((made_of(path, path), directories))
        index += 2 if text in ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path") else 1
    verb = words[index].text if index < len(words) else None
    if verb not in _GIT_READS:
        for word, places in moved_to:
            yield word, True, places
    options = (
        _take_apart(words[index:], "oC", ("--output", "--output-directory")) if verb else _Options((), ())
    )
    for word in options.all(
        "--output", "--output-directory", *(("-o",) if verb in ("format-patch", "archive") else ())
    ):
        yield word, True, directories
    made = {"clone": options.operands[1:2], "init": options.operands[:1], "worktree": options.operands[1:2]}
    for word in made.get(verb or "", ()):
        yield word, True, directories
    if verb == "apply":
        for word, write in _patch_body(command):
            yield word, write, directories


def _patch_text(command: SimpleCommand) -> Places:
    yield from _patch_body(command)


_KNOWN: dict[str, Callable[[SimpleCommand], Places]] = {
    "cp": _copy(moves=False),
    "install": _copy(moves=False),
    "mv": _copy(moves=True),
    "ln": _copy(moves=True),
    "link": _copy(moves=True),
    "rsync": _copy(moves=False),
    "scp": _copy(moves=False),
    "tee": _every_operand(),
    "touch": _every_operand("dtr", ("--date", "--reference")),
    "mkdir": _every_operand("m", ("--mode",)),
    "rm": _every_operand(),
    "rmdir": _every_operand(),
    "unlink": _every_operand(),
    "shred": _every_operand("ns", ("--iterations", "--size")),
    "truncate": _every_operand("sr", ("--size", "--reference")),
    "mkfifo": _every_operand("m", ("--mode",)),
    "chmod": _every_operand(skip=1),
    "chown": _every_operand(skip=1),
    "chgrp": _every_operand(skip=1),
    "dd": _dd,
    "sed": _sed,
    "sort": _output("oktST", "-o", "--output"),
    "curl": _output("oHXdFuAbcDemrTxYyzK", "-o", "--output", "--output-dir", "-D", "-c"),
    "wget": _output("OPoeiUTt", "-O", "-P", "-o", "--output-document", "--directory-prefix"),
    "unzip": _output("dx", "-d"),
    "tar": _tar,
    "find": _find,
    "patch": _patch,
    "apply_patch": _patch_text,
    "applypatch": _patch_text,
}
