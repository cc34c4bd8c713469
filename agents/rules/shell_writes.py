"""Which places a shell line names: redirections, and the arguments of known file commands. Pure.

Where only the run can tell a word, its literal beginning still counts (`.git/hooks/$(…)` is in `.git/hooks`),
and so does what the line itself spells for a variable (`d=.git/hooks; … > "$d/x"`), or what `PWD` and `HOME`
stand for. What the line takes from elsewhere (its input, a file, another program) has no place, nor has a
program that is not known here (an interpreter, a build tool): only a sandbox can hold those.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Literal

import attrs

from agents.rules.guarded import denied_name, protected_place
from agents.rules.shell_options import Options, after, take_apart
from agents.rules.shell_reads import READERS, Places
from agents.rules.shell_syntax import ShellLine, SimpleCommand, join_directory
from agents.rules.shell_words import HOLE, UNKNOWN, VARIABLE, Word, made_of

HARMLESS = re.compile(r"/dev/(?:null|zero|full|random|urandom|stdin|stdout|stderr|tty|fd/\d+)")
"""Devices that a line may name without being about a file."""
MAX_SPELLINGS = 16
"""Of one word with variables in it."""
MAX_FOLLOWED = 4
"""How long a chain of variables is followed."""

Values = dict[str, tuple[str, ...]]
"""What variables may stand for."""
_EVERYWHERE: Values = {"PWD": (".",), "HOME": ("~",)}
_PATTERN = re.compile(r"[*?\[]")
_REMOVERS = frozenset({"rm", "rmdir", "unlink"})


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
    removes: Literal["", "itself", "below"] = ""
    """Whether what stands there goes away with everything in it, or what a pattern finds below."""


_PATCH_FILE = re.compile(
    r"^(?:\*\*\* (?:(?:Add|Update|Delete) File|Move to): |\+\+\+ |--- |rename (?:from|to) )([^\t\n]+)",
    re.MULTILINE,
)


def write_targets(line: ShellLine) -> tuple[WriteTarget, ...]:
    """The places of a line, in order, each once.

    A pattern (`rm build/*`) gives the directory before it and an unknown place beside it, and so does a word
    that only the run can tell (`rm build/$x`).
    """
    values = _EVERYWHERE | {name: (*_EVERYWHERE.get(name, ()), *spelt) for name, spelt in line.values}
    found: dict[WriteTarget, None] = {}
    for command in line.simple:
        for redirect in command.redirects:
            if redirect.target is not None and (redirect.write or redirect.operator == "<"):
                _add(found, redirect.target, redirect.write, command, command.directories, values)
        for word, write, directories in _arguments(command):
            _add(found, word, write, command, directories, values)
    return tuple(found)


def _add(
    found: dict[WriteTarget, None],
    word: Word,
    write: bool,
    command: SimpleCommand,
    places: tuple[str | None, ...],
    values: Values,
) -> None:
    for path in _spellings(word, values):
        if path is not None and HARMLESS.fullmatch(path):
            continue
        removes: Literal["", "itself", "below"] = ""
        if write and command.name in _REMOVERS:
            removes = "below" if word.pattern else "itself"
        for directory in places:
            if path is None and directory and word.sketch.startswith(HOLE):
                # relative or not, nobody knows; if it is, it lies here
                found[WriteTarget(".", directory, write, command.text)] = None
            found[WriteTarget(path, directory, write, command.text, removes)] = None


def _spellings(word: Word, values: Values) -> tuple[str | None, ...]:
    """The literal paths of a word, and None beside them where they are not the whole truth."""
    if word.text is None:
        filled = (path for each in _filled(word, values) for path in _spellings(each, {}))
        return (*dict.fromkeys((*_beginnings(word), *filled, None)),)
    text = _from_here(word.text, word)
    if text is None:
        return (None,)
    if text == "":
        return ()
    if word.pattern:
        return (_folder(_PATTERN.split(text, maxsplit=1)[0]) or ".", *_guarded_name(text), None)
    # `link/..` is the parent of what the link names, which no lexical rule can know
    return (text, None) if re.search(r"[^./][^/]*/+\.\.(?:/|\Z)|\.\.\.+/+\.\.", text) else (text,)


def _from_here(text: str, word: Word) -> str | None:
    """A spelling with a leading `~` only where it is the user's home; None for somebody else's."""
    if word.tilde:
        return None if re.match(r"~[^/]", text) else text
    return f"./{text}" if text.startswith("~") else text


def _folder(text: str) -> str:
    return text[: text.rfind("/") + 1]


def _beginnings(word: Word) -> tuple[str, ...]:
    """What is literal in front of the first unknown part, and its folder."""
    literal = word.sketch.partition(HOLE)[0]
    if word.pattern:
        literal = _PATTERN.split(literal, maxsplit=1)[0]
    text = _from_here(literal, word)
    return () if not text else tuple(path for path in (_folder(text), text) if path)


def _guarded_name(pattern: str) -> tuple[str, ...]:
    """The name without its pattern signs where that is a guarded one: `.env*` is about `.env`, too."""
    pattern = pattern.rstrip("/")
    last = pattern.rpartition("/")[2]
    last = re.sub(r"\[\[:\w+:\]\]", "?", last).replace("[^", "[!")  # as a shell means them
    plain = re.sub(r"\*|\?|\[[^\]]*\]", "", last)
    name = ".git" if last.startswith(".") and fnmatchcase(".git", last) else plain
    if not name or (denied_name(name) is None and protected_place((name,), (name,)) is None):
        return ()
    return (_folder(_PATTERN.split(pattern, maxsplit=1)[0]) + name,)


def _filled(word: Word, values: Values) -> tuple[Word, ...]:
    """The word with the values that its variables may have, as far as the line spells them."""
    spelt = [word.spelt]
    for _ in range(MAX_FOLLOWED):
        spelt = [text for each in spelt for text in _one_filled(each, values)][:MAX_SPELLINGS]
    return tuple(
        made_of(text, text, pattern=word.pattern, tilde=text.startswith("~"))
        for text in dict.fromkeys(spelt)
        if text != word.spelt
    )


def _one_filled(spelt: str, values: Values) -> list[str]:
    for found in VARIABLE.finditer(spelt):
        if found[1] in values:
            return [spelt[: found.start()] + value + spelt[found.end() :] for value in values[found[1]]]
    return [spelt]


def _arguments(command: SimpleCommand) -> Iterator[tuple[Word, bool, tuple[str | None, ...]]]:
    name = command.name
    if name is None:
        return
    if name == "git":
        yield from _git(command)
        return
    for known in (_KNOWN.get(name), READERS.get(name)):
        if known is not None:
            for word, write in known(command):
                yield word, write, command.directories


def _every_operand(
    valued: str = "", long_valued: tuple[str, ...] = (), skip: int = 0
) -> Callable[[SimpleCommand], Places]:
    """All operands but the first `skip` are written."""

    def places(command: SimpleCommand) -> Places:
        options = take_apart(command.words, valued, long_valued)
        first = 0 if options.has("--reference") else skip
        for word in options.operands[first:]:
            yield word, True

    return places


def _first_operand(command: SimpleCommand) -> Places:
    for word in take_apart(command.words, "").operands[:1]:
        yield word, True


def _second_operand(valued: str) -> Callable[[SimpleCommand], Places]:
    """`uniq INPUT OUTPUT` and the like."""

    def places(command: SimpleCommand) -> Places:
        for word in take_apart(command.words, valued).operands[1:2]:
            yield word, True

    return places


def _copy(moves: bool) -> Callable[[SimpleCommand], Places]:
    """Sources, then the destination; a move writes both; so does a link, which is a door to its source.

    Where the last word may turn out to be none at all (`cp a b $x`, or what xargs adds), the one before it
    may be the destination.
    """

    def places(command: SimpleCommand) -> Places:
        options = take_apart(
            command.words, "tSmgo", ("--target-directory", "--suffix", "--mode", "--owner", "--group")
        )
        into = options.all("-t", "--target-directory")
        for word in into:
            yield word, True
        last = len(options.operands) - 1
        unsure = last >= 0 and not into and options.operands[-1].sketch == HOLE
        for index, word in enumerate(options.operands):
            if index != last or into:
                yield word, False
            if moves or unsure or (index == last and not into):
                yield word, True

    return places


def _dd(command: SimpleCommand) -> Places:
    for word in command.words[1:]:
        if word.spelt.startswith(("of=", "if=")):
            yield after(word, 3), word.spelt.startswith("of=")
        elif word.text is None:
            yield UNKNOWN, True


def _sed(command: SimpleCommand) -> Places:
    """Files are written with -i, else read; so is a script's file."""
    options = take_apart(command.words, "efl", ("--expression", "--file", "--line-length"))
    scripted = options.has("-e", "-f", "--expression", "--file")
    writes = options.has("-i", "--in-place")
    for word in options.operands[0 if scripted else 1 :]:
        yield word, False
        if writes:
            yield word, True
    for word in options.all("-f", "--file"):
        yield word, False


def _output(valued: str, *names: str) -> Callable[[SimpleCommand], Places]:
    """Only what the options `names` say is written."""

    def places(command: SimpleCommand) -> Places:
        options = take_apart(command.words, valued, tuple(n for n in names if n.startswith("--")))
        for word in options.all(*names):
            yield word, True

    return places


def _tar(command: SimpleCommand) -> Places:
    """The archive, the folder to unpack into, and what goes into a new archive."""
    options = take_apart(command.words, "fCTX", ("--file", "--directory", "--files-from", "--exclude-from"))
    for word in options.all("-C", "--directory"):
        yield word, True
    for word in options.all("-T", "--files-from"):
        yield word, False
    bundle = "" if options.values or not options.operands else options.operands[0].text or ""
    creates = options.has("-c", "--create", "-r", "--append", "-u", "--update") or bool(
        set(bundle) & set("cru")
    )
    names_archive = 2 if "f" in bundle else 1
    for word in (*options.all("-f", "--file"), *(options.operands[1:names_archive] if bundle else ())):
        if word.text != "-":
            yield word, creates
    if creates:
        for word in options.operands[names_archive if bundle else 0 :]:
            yield word, False


def _find(command: SimpleCommand) -> Places:
    """Where it looks; with -delete it writes there."""
    words = command.words
    deletes = any(word.text == "-delete" for word in words)
    for word in words[1:]:
        if (word.text or "").startswith("-") or word.text in ("(", "!"):
            break
        yield word, False
        if deletes:
            yield word, True
    for index, word in enumerate(words):
        if word.text in ("-fprint", "-fprint0", "-fprintf", "-fls") and index + 1 < len(words):
            yield words[index + 1], True


def _patch(command: SimpleCommand) -> Places:
    """The file or folder named; what the patch itself names, where its text stands in the line."""
    options = take_apart(
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


_GIT_SHOWS = frozenset({"diff", "show", "log", "blame", "grep", "cat-file"})
"""What shows the content of files that are named."""


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
    options = take_apart(words[index:], "oC", ("--output", "--output-directory")) if verb else Options((), ())
    for word in options.all(
        "--output", "--output-directory", *(("-o",) if verb in ("format-patch", "archive") else ())
    ):
        yield word, True, directories
    made = {"clone": options.operands[1:2], "init": options.operands[:1], "worktree": options.operands[1:2]}
    for word in made.get(verb or "", ()):
        yield word, True, directories
    if verb in _GIT_SHOWS:
        for word in options.operands[1 if verb == "grep" else 0 :]:
            yield word, False, directories
            revision, colon, path = word.spelt.partition(":")
            if colon and HOLE not in revision:
                yield made_of(path, path), False, directories
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
    "curl": _output("oHXdFuAbcDemrTxYyzKE", "-o", "--output", "--output-dir", "-D", "-c"),
    "gzip": _every_operand(),
    "gunzip": _every_operand(),
    "bzip2": _every_operand(),
    "xz": _every_operand(),
    "uniq": _second_operand("fsw"),
    "xxd": _second_operand("closg"),
    "split": _second_operand("abClnt"),
    "zip": _first_operand,
    "wget": _output("OPoeiUTt", "-O", "-P", "-o", "--output-document", "--directory-prefix"),
    "unzip": _output("dx", "-d"),
    "tar": _tar,
    "find": _find,
    "patch": _patch,
    "apply_patch": _patch_text,
    "applypatch": _patch_text,
}
