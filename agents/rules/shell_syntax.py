"""A shell line as the simple commands that it would run, wherever they stand in it. Pure.

`parse_line` walks the tree once. On the way it follows literal `cd`s, so that each command knows the
directories it may run in, and looks through wrappers (`env`, `xargs`, `bash -c` …): the wrapper and what it
runs are both listed. Whatever the walk is not sure of becomes `ShellLine.problem`.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from agents.rules.narrowed import narrowed
from agents.rules.shell_guard import heredoc_problem, text_problem, tree_problem
from agents.rules.shell_words import (
    HOLE,
    UNKNOWN,
    Node,
    Word,
    assignment_of,
    made_of,
    plain,
    slice_of,
    word_of,
)
from agents.rules.shell_wrappers import Inside, look_inside

MAX_BYTES = 64 * 1024
MAX_COMMANDS = 200
MAX_NESTING = 20
MAX_READS = 60_000
"""How often the parser may ask for a piece of the line: its error recovery is quadratic."""

_CHUNK = 512
_MAX_DIRECTORIES = 8
_SEPARATORS = frozenset({";", "\n", "&", ";;", ";&", ";;&"})
_SIMPLE = frozenset(
    {"command", "declaration_command", "unset_command", "variable_assignment", "variable_assignments",
     "test_command"}
)  # fmt: skip
_SUBSTITUTIONS = frozenset({"command_substitution", "process_substitution"})
_GROUPS = frozenset(
    {"subshell", "compound_statement", "if_statement", "while_statement", "for_statement",
     "c_style_for_statement", "case_statement", "function_definition"}
)  # fmt: skip
_STATEMENTS = _SIMPLE | _GROUPS | {
    "list", "pipeline", "redirected_statement", "negated_command", "do_group", "elif_clause", "else_clause",
    "case_item",
}  # fmt: skip
_RESERVED = frozenset(
    {"{", "}", "(", ")", "!", "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done",
     "case", "esac", "in", "select", "function", "coproc", "[[", "(("}
)  # fmt: skip
_EVALUATORS = frozenset(
    {"let", "printf", "read", "unset", "declare", "typeset", "local", "export", "readonly", "test", "[",
     "wait", "mapfile", "readarray", "getopts"}
)  # fmt: skip
_ASSIGNING = re.compile(r"(?<![=!<>])=(?!=)|\+\+|--|\[")
_WRITES = frozenset({">", ">>", ">|", "&>", "&>>", ">&", "<>"})
_MOVERS = frozenset({"cd", "pushd", "popd"})
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOVES = re.compile(r"\b(?:cd|pushd|popd)\b")

Directories = frozenset[str | None]
"""Where a command may run, relative to the start (`""`) or absolute; None: nobody can tell."""
Ends = tuple[Directories, Directories]
"""Where the shell may stand after a success, and after a failure."""


@attrs.frozen
class Redirect:
    """One redirection of a simple command."""

    fd: str | None
    operator: str
    target: Word | None
    """None for a closed descriptor (`>&-`)."""
    write: bool
    """Whether a file named by `target` is opened for writing (not: a descriptor doubled)."""


@attrs.frozen
class SimpleCommand:
    """One command without separators in it."""

    words: tuple[Word, ...]
    """The name and its arguments; empty for a bare assignment or a bare redirection."""
    assignments: tuple[Word, ...] = ()
    """`NAME=value` in front of it, each as one word."""
    redirects: tuple[Redirect, ...] = ()
    text: str = ""
    """Its source with single blanks between the parts."""
    heredoc: str | None = None
    """The body of its heredoc: text, never commands."""
    directories: tuple[str | None, ...] = ("",)
    """Every directory it may run in, relative to the line's start; None: unknown."""
    neutral: bool = False
    """A wrapper that only times, limits or names what it runs; the inner command is listed too."""

    @property
    def name(self) -> str | None:
        """Base name of the program; None where there is none or it is unknown."""
        return self.words[0].name if self.words else None


@attrs.frozen
class ShellLine:
    """What one line would run."""

    command: str
    simple: tuple[SimpleCommand, ...]
    """All that were found, also when there is a problem."""
    problem: str | None = None
    """Why the list may be incomplete: the caller must ask. None: it is complete."""
    values: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Variables that the line sets, with the values it spells for them; they may have further ones."""


def parse_line(command: str) -> ShellLine:
    """Parse `command` as bash. Never raises; a line that is too large is not parsed at all."""
    encoded = command.encode("utf-8", "replace")
    if len(encoded) > MAX_BYTES:
        return ShellLine(command, (), f"it is larger than {MAX_BYTES // 1024} KiB")
    work = _Work(problem=text_problem(command), moves=bool(_MOVES.search(command)))
    try:
        _Reader(encoded, work, nesting=0).read(frozenset({""}))
    except _Refused as refused:
        work.doubt(str(refused))
    except RecursionError:
        work.doubt("it is nested too deep")
    values = tuple((name, tuple(spelt)) for name, spelt in work.values.items())
    return ShellLine(command, tuple(work.commands), work.problem, values)


class _Refused(Exception):
    """A limit was passed."""


@attrs.define
class _Work:
    """What all readers of one line (nested texts have their own) add to."""

    problem: str | None
    moves: bool
    """Whether any directory change stands in the line."""
    commands: list[SimpleCommand] = attrs.field(factory=list)
    values: dict[str, dict[str, None]] = attrs.field(factory=dict)
    """What variables of the line are set to, as it is spelt."""
    roaming: set[str] = attrs.field(factory=set)
    """Functions of the line that change the directory."""

    def doubt(self, problem: str | None) -> None:
        self.problem = self.problem or problem

    def sets(self, assignment: Word) -> None:
        """Note a `NAME=value`."""
        name, _, value = assignment.spelt.partition("=")
        if _VARIABLE_NAME.fullmatch(name):
            self.values.setdefault(name, {})[value] = None

    def add(self, command: SimpleCommand) -> None:
        if len(self.commands) >= MAX_COMMANDS:
            raise _Refused(f"it has more than {MAX_COMMANDS} commands")
        self.commands.append(command)


@functools.cache
def _parser() -> Any:
    # loaded with the first line that is parsed: a shared library that most starts never need
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def _parse(source: bytes) -> Node | None:
    """The tree's root, or None where the parser needed more than its share."""
    reads = 0
    source = narrowed(source)

    def read(offset: int, _point: object) -> bytes:
        nonlocal reads
        reads += 1
        return b"" if reads > MAX_READS else source[offset : offset + _CHUNK]

    root = _parser().parse(read).root_node
    return None if reads > MAX_READS else root


@attrs.define
class _Parts:
    """A simple command while its pieces are gathered."""

    words: list[Word] = attrs.field(factory=list)
    assignments: list[Word] = attrs.field(factory=list)
    redirects: list[Redirect] = attrs.field(factory=list)
    sources: list[str] = attrs.field(factory=list)
    heredoc: str | None = None
    later: list[Node] = attrs.field(factory=list)
    """What follows the command on a heredoc's first line."""

    def word(self, word: Word) -> None:
        self.words.append(word)
        self.sources.append(word.source)


class _Reader:
    """Walks the tree of one text."""

    def __init__(self, source: bytes, work: _Work, nesting: int) -> None:
        self.source = source
        self.work = work
        self.nesting = nesting

    def read(self, directories: Directories) -> Ends:
        """List the commands of the whole text."""
        root = _parse(self.source)
        if root is None:
            self.work.doubt("it is too tangled to be parsed")
            return directories, directories
        self.work.doubt(tree_problem(root, self.source))
        return self.sequence(root.children, directories)

    # statements

    def sequence(self, children: Sequence[Node], directories: Directories) -> Ends:
        """Statements one after the other; one that ends in `&` runs in a shell of its own."""
        ends: Ends = (directories, directories)
        for index, child in enumerate(children):
            if not child.is_named or child.type == "comment":
                continue
            here = ends[0] | ends[1]
            after = self.visit(child, here)
            background = index + 1 < len(children) and children[index + 1].type == "&"
            ends = (here, here) if background else after
        return ends

    def visit(self, node: Node, directories: Directories, extra: Sequence[Node] = ()) -> Ends:
        """List the commands of one statement; `extra` are redirections that belong to its last command."""
        with self.deeper(int(node.type in _GROUPS)):
            return self._visit(node, directories, extra)

    def _visit(self, node: Node, directories: Directories, extra: Sequence[Node]) -> Ends:
        kind = node.type
        if kind in _SIMPLE or kind in ("file_redirect", "herestring_redirect", "heredoc_redirect"):
            return self.simple(node, directories, extra)
        if kind == "list" or (kind == "redirected_statement" and _body(node) is not None):
            return self.joined(node, directories, extra)
        if kind == "redirected_statement":
            return self.simple(node, directories, extra)
        if kind == "negated_command":
            if self.source[node.start_byte + 1 : node.start_byte + 2] not in (b" ", b"\t"):
                self.work.doubt("a `!` of it was not understood")
            ends = (directories, directories)
            for child in _statements(node):
                ends = self.visit(child, directories, extra)
            return ends[1], ends[0]
        if kind == "pipeline":
            parts = _statements(node)
            for index, part in enumerate(parts):
                self.visit(part, directories, extra if index + 1 == len(parts) else ())
            return directories, directories
        return self.compound(node, directories, extra)

    def joined(self, node: Node, directories: Directories, extra: Sequence[Node]) -> Ends:
        """`a && b || c`, flattened: the tree leans to the left, as deep as the line is long."""
        parts: list[tuple[str, Node, Sequence[Node]]] = []
        while True:
            body = _body(node) if node.type == "redirected_statement" else None
            if body is not None:
                self.one_line(node.children)
                extra = [*(c for c in node.children if c.id != body.id), *extra]
                node = body
            elif node.type == "list":
                left, right = _statements(node)[0], _statements(node)[-1]
                operator = next((c.type for c in node.children if not c.is_named), "&&")
                parts.append((operator, right, extra))
                node, extra = left, ()
            else:
                break
        success, failure = self.visit(node, directories, extra)
        for operator, part, redirects in reversed(parts):
            if operator == "||":
                good, bad = self.visit(part, failure, redirects)
                success, failure = success | good, bad
            else:
                good, bad = self.visit(part, success, redirects)
                success, failure = good, failure | bad
        return success, failure

    def compound(self, node: Node, directories: Directories, extra: Sequence[Node]) -> Ends:
        """Groups, loops, conditions, functions, and whatever else the grammar knows."""
        kind = node.type
        if extra:
            self.bare_redirects(extra, directories)
        if kind == "compound_statement" and node.children[0].type == "((":
            self.arithmetic(self.text(node), directories)
            self.substitutions(node, directories)
            return directories, directories
        if kind == "subshell":
            self.sequence(node.children, directories)
            return directories, directories
        if kind == "function_definition":
            self.function(node, directories)
            return directories, directories
        if kind in ("for_statement", "c_style_for_statement"):
            self.loop_head(node, directories)
        start = directories
        if "while" in kind or "for" in kind:
            start = frozenset({None}) if self.moves_in(node) else directories
        if kind in ("compound_statement", "do_group"):
            return self.sequence(node.children, start)
        return self.branches(node, start)

    def branches(self, node: Node, directories: Directories) -> Ends:
        """Children that may each run or not, in order; what is no statement is searched for substitutions."""
        seen = directories
        for child in node.children:
            if not child.is_named or child.type == "comment":
                continue
            if _is_statement(child):
                good, bad = self.visit(child, seen)
                seen = seen | good | bad
            else:
                self.substitutions(child, directories)
        return seen, seen

    def function(self, node: Node, directories: Directories) -> None:
        """A body runs where the function is called: anywhere, once the line moves at all."""
        name = node.child_by_field_name("name")
        if self.moves_in(node) and name is not None:
            self.work.roaming.add(self.text(name))
        start = frozenset({None}) if self.work.moves else directories
        redirects = [c for c in node.children if c.type.endswith("_redirect")]
        body = node.child_by_field_name("body")
        if body is not None:
            self.visit(body, start, redirects)

    def loop_head(self, node: Node, directories: Directories) -> None:
        """`for NAME in …` sets a variable, which may be one that programs read (PATH, GIT_PAGER)."""
        if node.type == "c_style_for_statement":
            self.arithmetic("(( … ))", directories)
            return
        name = node.child_by_field_name("variable")
        text = "?" if name is None else self.text(name)
        words = [c for c in node.children if c.type != "do_group"]
        source = slice_of(self.source, node.start_byte, words[-1].end_byte)
        for value in words:
            if value.is_named and (name is None or value.id != name.id):
                self.work.sets(made_of(text, f"{text}={word_of(value, self.source).spelt}"))
        self.work.add(
            SimpleCommand(
                words=(),
                assignments=(made_of(f"{text}=…", f"{text}={HOLE}"),),
                text=source,
                directories=_ordered(directories),
            )
        )

    def arithmetic(self, text: str, directories: Directories) -> None:
        """An expression that may set variables, or run what stands in a subscript."""
        words = (plain("(("), UNKNOWN)
        self.work.add(SimpleCommand(words=words, text=text, directories=_ordered(directories)))

    def moves_in(self, node: Node) -> bool:
        return bool(_MOVES.search(self.text(node)))

    def text(self, node: Node) -> str:
        return slice_of(self.source, node.start_byte, node.end_byte)

    @contextlib.contextmanager
    def deeper(self, levels: int = 1) -> Iterator[None]:
        """Count a level of nesting for the block."""
        self.nesting += levels
        if self.nesting > MAX_NESTING:
            raise _Refused(f"it is nested more than {MAX_NESTING} deep")
        yield
        self.nesting -= levels

    # simple commands

    def simple(self, node: Node, directories: Directories, extra: Sequence[Node] = ()) -> Ends:
        """One simple command, then the substitutions in its words, then what it wraps."""
        parts = _Parts()
        if node.type == "test_command":
            self.test(node, parts)
        elif node.type in ("variable_assignment", "file_redirect", "herestring_redirect", "heredoc_redirect"):
            self.piece(node, parts)
        else:
            self.pieces(node, parts)
        for redirect in extra:
            self.piece(redirect, parts)
        command = SimpleCommand(
            words=tuple(parts.words),
            assignments=tuple(parts.assignments),
            redirects=tuple(parts.redirects),
            text=" ".join(parts.sources),
            heredoc=parts.heredoc,
            directories=_ordered(directories),
        )
        ends = self.listed(command, directories)
        self.substitutions(node, directories)
        for redirect in extra:
            self.substitutions(redirect, directories)
        for follower in parts.later:
            good, bad = self.visit(follower, ends[0] | ends[1])
            ends = (ends[0] | good, ends[1] | bad)
        return ends

    def bare_redirects(self, nodes: Sequence[Node], directories: Directories) -> None:
        """Redirections of a whole group: a command of its own, without words."""
        parts = _Parts()
        for node in nodes:
            self.piece(node, parts)
            self.substitutions(node, directories)
        if parts.words:
            self.work.doubt("words follow a group")
        self.work.add(
            SimpleCommand(
                words=(),
                redirects=tuple(parts.redirects),
                text=" ".join(parts.sources),
                heredoc=parts.heredoc,
                directories=_ordered(directories),
            )
        )
        for follower in parts.later:
            self.visit(follower, directories)

    def pieces(self, node: Node, parts: _Parts) -> None:
        """The children of a command, each a piece of it; they must stand apart, and on one line."""
        self.one_line(node.children)
        for before, after in itertools.pairwise(node.children):
            redirects = "redirect" in before.type or "redirect" in after.type
            if before.end_byte == after.start_byte and not redirects:
                self.work.doubt("its words were not understood")
        for child in node.children:
            self.piece(child, parts)

    def one_line(self, nodes: Sequence[Node]) -> None:
        """The parts of one command are never divided by a line's end."""
        for before, after in itertools.pairwise(nodes):
            gap = self.source[before.end_byte : after.start_byte]
            if b"\n" in gap.replace(b"\\\n", b"") and before.type != "heredoc_redirect":
                self.work.doubt("its words were not understood")

    def piece(self, node: Node, parts: _Parts) -> None:
        """Add one child to the command."""
        kind = node.type
        if kind == "variable_assignment":
            # behind `export` and its like an assignment is an argument
            self.check_assignment(node)
            word = assignment_of(node, self.source)
            self.work.sets(word)
            if parts.words:
                parts.word(word)
            else:
                parts.assignments.append(word)
                parts.sources.append(word.source)
        elif kind == "file_redirect":
            self.file_redirect(node, parts)
        elif kind == "herestring_redirect":
            word = word_of(node.children[-1], self.source)
            parts.redirects.append(Redirect(None, "<<<", word, write=False))
            parts.sources.append(self.text(node))
        elif kind == "heredoc_redirect":
            self.heredoc(node, parts)
        elif kind == "subshell":
            self.work.doubt("a group stands where a word should")
        elif not node.is_named and node.type == "$":
            self.work.doubt("a `$` of it was not understood")
        elif kind != "comment":
            parts.word(word_of(node, self.source))

    def check_assignment(self, node: Node) -> None:
        """The grammar takes more for a name than bash does, and lets blanks stand before the value."""
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        text = "" if name is None else self.text(name)
        if not re.match(r"[A-Za-z_][A-Za-z0-9_]*(?:\[|\Z)", text):
            self.work.doubt("an assignment of it was not understood")
        if value is not None and self.source[value.start_byte - 1 : value.start_byte] != b"=":
            self.work.doubt("an assignment of it was not understood")

    def file_redirect(self, node: Node, parts: _Parts) -> None:
        """The first word behind the operator is the target; the grammar puts later arguments there too."""
        self.one_line(node.children)
        fd = next((c for c in node.children if c.type == "file_descriptor"), None)
        operator = next((c.type for c in node.children if not c.is_named), ">")
        targets = [c for c in node.children if c.is_named and c.type != "file_descriptor"]
        closing = operator.endswith("-")
        target = word_of(targets[0], self.source) if targets and not closing else None
        doubled = (
            operator in (">&", "<&")
            and target is not None
            and bool(re.fullmatch(r"\d+-?", target.text or ""))
        )
        end = targets[0].end_byte if targets and not closing else node.end_byte
        parts.redirects.append(
            Redirect(
                fd=None if fd is None else self.text(fd),
                operator=operator,
                target=target,
                write=operator in _WRITES and not doubled,
            )
        )
        parts.sources.append(slice_of(self.source, node.start_byte, end))
        for word in targets if closing else targets[1:]:
            parts.word(word_of(word, self.source))

    def heredoc(self, node: Node, parts: _Parts) -> None:
        """Keep the body as text; take in what else stands on the heredoc's first line."""
        self.work.doubt(heredoc_problem(node, self.source))
        before = self.source[: node.start_byte]
        if re.search(rb"[ \t]-[ \t]+\Z", before) and parts.words and parts.words[-1].text != "-":
            parts.word(plain("-"))  # dropped by the grammar
        for child in node.children:
            if child.type == "heredoc_body":
                parts.heredoc = self.text(child)
            elif child.type == "heredoc_start":
                parts.redirects.append(Redirect(None, "<<", word_of(child, self.source), write=False))
                parts.sources.append("<<" + self.text(child))
            elif not child.is_named or child.type in ("heredoc_end", "file_descriptor", "comment"):
                continue
            elif _is_statement(child):
                parts.later.append(child)
            else:
                self.piece(child, parts)

    def test(self, node: Node, parts: _Parts) -> None:
        """`[[ … ]]` and `[ … ]`: the opening as the name, the expression as one unknown word."""
        opening = node.children[0]
        if self.source[opening.end_byte : opening.end_byte + 1] not in (b" ", b"\t", b"\n", b"\\"):
            self.work.doubt(f"a `{opening.type}` of it was not understood")
        bare = re.sub(r"'[^']*'|\"[^\"]*\"", "", self.text(node))
        if opening.type == "[" and re.search(r"[\n;|&<>()]", bare):
            self.work.doubt("a `[` of it was not understood")
        parts.word(plain(opening.type))
        inner = slice_of(self.source, node.children[0].end_byte, node.end_byte).strip()
        parts.word(made_of(inner, HOLE))

    def listed(self, command: SimpleCommand, directories: Directories) -> Ends:
        """Add a command to the list, then what it runs inside; say where the shell may stand afterwards."""
        self.doubt_words(command)
        insides = look_inside(command.words)
        command = attrs.evolve(command, neutral=bool(insides) and all(inside.neutral for inside in insides))
        self.work.add(command)
        ends = self.moved(command, directories)
        for inside in insides:
            # a trap runs at the end, wherever the line stands then
            start = frozenset({None}) if command.name == "trap" and self.work.moves else directories
            if inside.directory is not None:
                start = _joined_all(directories, inside.directory)
            after = self.inside(inside, command, start)
            if inside.same_shell:
                ends = after
        return ends

    def inside(self, inside: Inside, outer: SimpleCommand, directories: Directories) -> Ends:
        """What a wrapper runs: a text to be parsed, or words."""
        with self.deeper():
            if inside.script is not None:
                return self.script(inside.script, directories)
            words = (*inside.assignments, *inside.words)
            for assignment in inside.assignments:
                self.work.sets(assignment)
            command = SimpleCommand(
                words=inside.words,
                assignments=(*outer.assignments, *inside.assignments),
                redirects=outer.redirects,
                text=" ".join(word.source for word in words),
                heredoc=outer.heredoc,
                directories=_ordered(directories),
            )
            return self.listed(command, directories)

    def script(self, script: Word, directories: Directories) -> Ends:
        """A text that a shell parses; where parts of it are unknown, what can be seen is still listed."""
        if script.sketch == HOLE:
            return directories | {None}, directories | {None}
        self.work.doubt(text_problem(script.sketch))
        good, bad = self.nested(script.spelt, directories)
        unsure: Directories = frozenset({None} if script.text is None else ())
        return good | unsure, bad | unsure

    def nested(self, text: str, directories: Directories) -> Ends:
        """Read another text as part of this line."""
        return _Reader(text.encode("utf-8", "replace"), self.work, self.nesting).read(directories)

    def doubt_words(self, command: SimpleCommand) -> None:
        """Names that bash reads as syntax, and arguments that a builtin evaluates a second time."""
        name = command.name
        first = command.words[0].source if command.words else ""
        if first in _RESERVED and first not in ("[[", "(("):
            self.work.doubt(f"`{first}` stands where a command should")
        if name in _EVALUATORS:
            for word in command.words[1:]:
                if "[" in word.sketch and ("$(" in word.sketch or "`" in word.sketch):
                    self.work.doubt("it hides a substitution in a subscript")

    def moved(self, command: SimpleCommand, directories: Directories) -> Ends:
        """Follow `cd`; be unsure after whatever may change the directory unseen."""
        if not command.words:
            return directories, directories
        name = command.name
        if name in ("cd", "pushd"):
            return _joined_all(directories, _cd_target(command.words)), directories
        unsure = name is None or name in ("popd", "source", ".") or name in self.work.roaming
        if unsure:
            return directories | {None}, directories | {None}
        return directories, directories

    # substitutions

    def substitutions(self, node: Node, directories: Directories) -> None:
        """Visit the substitutions below `node` that no statement of their own covers."""
        pending = [node]
        while pending:
            current = pending.pop()
            if current.type in _SUBSTITUTIONS:
                self.substitution(current, directories)
                continue
            if current is not node and current.type != "variable_assignment" and _is_statement(current):
                continue
            if current.type == "arithmetic_expansion":
                text = self.text(current)
                if _ASSIGNING.search(text[2:]):
                    self.arithmetic(text, directories)
            pending.extend(reversed(current.children))

    def substitution(self, node: Node, directories: Directories) -> None:
        """A shell of its own. Backticks undo one level of backslashes first, so their text is parsed anew."""
        text = self.text(node)
        with self.deeper():
            if text.startswith("`") and "\\" in text:
                self.nested(re.sub(r"\\([\\`$\"])", r"\1", text[1:-1]), directories)
            else:
                self.sequence(node.children, directories)


def _body(node: Node) -> Node | None:
    """The statement that a `redirected_statement` redirects."""
    return node.child_by_field_name("body")


def _statements(node: Node) -> list[Node]:
    return [c for c in node.children if c.is_named and c.type != "comment"]


def _is_statement(node: Node) -> bool:
    return node.type in _STATEMENTS


def _ordered(directories: Directories) -> tuple[str | None, ...]:
    known = sorted(d for d in directories if d is not None)
    if len(known) > _MAX_DIRECTORIES:
        return (None,)
    return (*known, None) if None in directories else tuple(known)


def _cd_target(words: tuple[Word, ...]) -> Word:
    operands = [
        w for w in words[1:] if w.text is None or not re.fullmatch(r"-[LPe@]*|--", w.text) or w.text == "-"
    ]
    physical = any(w.text is not None and re.fullmatch(r"-[Le@]*P[LPe@]*", w.text) for w in words[1:])
    if not operands:
        return Word(source="~", text="~", tilde=True, sketch="~")
    target = operands[0]
    if target.text == "-" or len(operands) > 1 or (physical and ".." in (target.text or "")):
        return UNKNOWN
    return target


def _joined_all(directories: Directories, target: Word) -> Directories:
    return frozenset(join_directory(directory, target) for directory in directories)


def join_directory(directory: str | None, target: Word) -> str | None:
    """Where `target` leads from `directory`; None where nobody can tell."""
    if target.text is None or target.pattern or re.match(r"~[^/]", target.text if target.tilde else ""):
        return None
    text = target.text if target.tilde or not target.text.startswith("~") else f"./{target.text}"
    if text.startswith("/") or target.tilde:
        return posixpath.normpath(text)
    if directory is None:
        return None
    joined = posixpath.normpath(posixpath.join(directory, text))
    return "" if joined == "." else joined
