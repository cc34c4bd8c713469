"""Which lines the syntactic block has that opens at a line. Pure.

The one rule: of all statements, declarations, members and clauses whose first token is the first thing on
the line, the outermost one is meant. It ends with its last token. Blank lines after it are not part of it;
a `;`, a `,` or a comment that follows on its last line goes with that line. Whatever else shares its first or
last line makes it unresolved, and so does any syntax error in the file, wherever it is: an error that is far
away moves the borders of blocks as well.

Decorators, annotations, attributes and comments above a declaration are nodes of their own: a declaration
opens at its own first line below them. A Markdown heading opens its section: up to the next heading of the
same or a higher level that is not itself inside a list or a quotation.
"""

from __future__ import annotations

import functools
import importlib
import posixpath
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import attrs

from agents.rules.narrowed import narrowed

MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 2000
"""Nodes inside each other that are looked through; real code stays far below."""


class Lines(Protocol):
    """What is needed of a text file."""

    @property
    def shown_lines(self) -> Sequence[str]:
        """The lines without their endings, free of lone surrogates."""
        ...


@attrs.frozen
class Block:
    """A block by its lines, 1-based and inclusive."""

    start: int
    end: int
    language: str


@attrs.frozen
class Unresolved:
    """No block can be told."""

    why: str
    """A clause in words, with the line number in it."""


def resolve_block(path_name: str, text: Lines, line: int) -> Block | Unresolved:
    """The block that opens at `line` (1-based, within the text). `path_name` tells the language."""
    return resolve_blocks(path_name, text, [line])[0]


def resolve_blocks(path_name: str, text: Lines, lines: Sequence[int]) -> tuple[Block | Unresolved, ...]:
    """The same for several lines; the text is parsed once."""
    language = _language_of(path_name, text)
    if language is None:
        shown = posixpath.basename(path_name)
        return _all(lines, f"there is no grammar for the language of {shown}")
    # Always with a last newline: Go has an error without it.
    source = "".join(f"{line}\n" for line in text.shown_lines).encode("utf-8", "replace")
    if len(source) > MAX_BYTES:
        return _all(lines, f"the file is larger than {MAX_BYTES // 1024 // 1024} MiB")
    if language is _MARKDOWN:
        sections = _sections(text.shown_lines)
        return tuple(_section(sections, line) for line in lines)
    tree = _parse(language, source)
    if tree.root_node.has_error:
        at = _first_error(tree.root_node)
        return _all(lines, f"the file does not parse as {language.name}: the first error is at line {at}")
    code = _Code(language, tree.root_node, source)
    return tuple(code.block(line) for line in lines)


# languages


@attrs.frozen
class _Language:
    name: str
    module: str
    """The grammar's package; imported when a file of the language is looked at."""
    holders: frozenset[str]
    """Nodes whose children are blocks."""
    function: str = "language"


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _language(name: str, module: str, holders: str, function: str = "language") -> _Language:
    return _Language(name, module, _names(holders), function)


_SCRIPT = (
    "program statement_block class_body class_static_block switch_body switch_case switch_default object "
    "interface_body object_type enum_body"
)
_C_LIKE = (
    "translation_unit compound_statement declaration_list field_declaration_list enumerator_list "
    "case_statement preproc_if preproc_ifdef preproc_else preproc_elif"
)
_MARKDOWN = _language("Markdown", "markdown_it", "")
_PYTHON = _language("Python", "tree_sitter_python", "module block dictionary")
_JAVASCRIPT = _language("JavaScript", "tree_sitter_javascript", _SCRIPT)
_TYPESCRIPT = _language("TypeScript", "tree_sitter_typescript", _SCRIPT, "language_typescript")
_TSX = _language("TSX", "tree_sitter_typescript", _SCRIPT, "language_tsx")
_C = _language("C", "tree_sitter_c", _C_LIKE)
_CPP = _language("C++", "tree_sitter_cpp", _C_LIKE)
_GO = _language(
    "Go",
    "tree_sitter_go",
    "source_file statement_list import_spec_list const_declaration var_declaration var_spec_list "
    "type_declaration field_declaration_list interface_type literal_value",
)
_RUST = _language(
    "Rust",
    "tree_sitter_rust",
    "source_file block declaration_list field_declaration_list enum_variant_list match_block",
)
_JAVA = _language(
    "Java",
    "tree_sitter_java",
    "program class_body interface_body enum_body enum_body_declarations annotation_type_body block "
    "constructor_body switch_block switch_block_statement_group",
)
_BASH = _language(
    "Bash",
    "tree_sitter_bash",
    "program compound_statement do_group subshell if_statement elif_clause else_clause case_item",
)
_JSON = _language("JSON", "tree_sitter_json", "document object array")
_CSS = _language("CSS", "tree_sitter_css", "stylesheet block keyframe_block_list")
_HTML = _language("HTML", "tree_sitter_html", "")
_YAML = _language("YAML", "tree_sitter_yaml", "block_mapping block_sequence")

_ANYWHERE = _names(
    "elif_clause else_clause except_clause except_group_clause finally_clause case_clause catch_clause "
    "switch_case switch_default switch_rule switch_block_statement_group expression_case default_case "
    "type_case communication_case case_item jsx_element jsx_self_closing_element element script_element "
    "style_element"
)
"""Blocks wherever they stand: clauses of a statement, elements of markup. Comments are too."""
_ABOVE = _names("decorator annotation marker_annotation attribute_declaration")
"""What stands above a declaration inside the declaration's own node."""
_NEVER = _names("statement_list enum_body_declarations")
"""Mere lists: their first member opens at the same place, and is what is meant."""

_BY_SUFFIX = {
    suffix: language
    for suffixes, language in (
        (".py .pyi .pyw", _PYTHON),
        (".js .mjs .cjs .jsx", _JAVASCRIPT),
        (".ts .mts .cts", _TYPESCRIPT),
        (".tsx", _TSX),
        (".go", _GO),
        (".rs", _RUST),
        (".java", _JAVA),
        (".c", _C),
        (".h .cc .cpp .cxx .hh .hpp .hxx", _CPP),  # nearly all C is C++ to the grammar, but not the reverse
        (".sh .bash", _BASH),
        (".json", _JSON),
        (".html .htm", _HTML),
        (".css", _CSS),
        (".yaml .yml", _YAML),
        (".md .markdown", _MARKDOWN),
    )
    for suffix in suffixes.split()
}
_BY_INTERPRETER = {"python": _PYTHON, "bash": _BASH, "sh": _BASH, "node": _JAVASCRIPT}


def _language_of(path_name: str, text: Lines) -> _Language | None:
    suffix = posixpath.splitext(posixpath.basename(path_name))[1].lower()
    if suffix or not text.shown_lines:
        return _BY_SUFFIX.get(suffix)
    first = text.shown_lines[0]
    words = first[2:].split() if first.startswith("#!") else []
    programs = [posixpath.basename(word) for word in words if not word.startswith("-")]
    if programs[:1] == ["env"]:
        del programs[0]
    return _BY_INTERPRETER.get(programs[0].rstrip("0123456789.")) if programs else None


def _all(lines: Sequence[int], why: str) -> tuple[Unresolved, ...]:
    return tuple(Unresolved(why) for _ in lines)


# code


@functools.cache
def _grammar(module: str, function: str) -> Any:
    from tree_sitter import Language  # compiled, and needed only where a block is named

    return Language(getattr(importlib.import_module(module), function)())


def _parse(language: _Language, source: bytes) -> Any:
    from tree_sitter import Parser  # as above

    readable = narrowed(source) if language.name == "Bash" else source
    return Parser(_grammar(language.module, language.function)).parse(readable)


def _first_error(root: Any) -> int:
    """The line of the first error, found by going down where there is one."""
    node = root
    while not (node.is_error or node.is_missing):
        below = next((child for child in node.children if child.has_error or child.is_missing), None)
        if below is None:
            break
        node = below
    return int(node.start_point[0]) + 1


@attrs.frozen
class _Code:
    """A parsed file. Rows and columns count from 0, columns in bytes, as the parser counts."""

    language: _Language
    root: Any
    source: bytes
    rows: list[bytes] = attrs.field(init=False)
    offsets: list[int] = attrs.field(init=False)
    """Where each row starts in the source."""

    def __attrs_post_init__(self) -> None:
        rows = self.source.split(b"\n")
        offsets = [0]
        for row in rows:
            offsets.append(offsets[-1] + len(row) + 1)
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "offsets", offsets)

    def block(self, line: int) -> Block | Unresolved:
        row = line - 1
        content = self.rows[row]
        column = len(content) - len(content.lstrip())
        if column == len(content):
            return Unresolved(f"line {line} is blank")
        around: Any = None
        for node in self._items(row, column):
            if self._opening(node) == (row, column):
                return self._span(node, line)
            around = node
        if around is None:
            return Unresolved(f"no block opens at line {line}")
        opening, last = self._opening(around)[0] + 1, self._last_row(around) + 1
        return Unresolved(f"no block opens at line {line}; the one around it is lines {opening}-{last}")

    def _items(self, row: int, column: int) -> Iterator[Any]:
        """The nodes over one place that are blocks, from the outermost inwards."""
        holder = self.root
        for node in self._chain(self.offsets[row] + column):
            if self._is_item(node, holder):
                yield node
            holder = node

    def _chain(self, byte: int) -> Iterator[Any]:
        cursor = self.root.walk()
        for _ in range(MAX_DEPTH):
            if cursor.goto_first_child_for_byte(byte) is None or cursor.node.start_byte > byte:
                return
            yield cursor.node

    def _is_item(self, node: Any, holder: Any) -> bool:
        kind = node.type
        if not node.is_named or kind in _NEVER:
            return False
        return (
            holder.type in self.language.holders or kind in _ANYWHERE or kind in _ABOVE or _is_comment(node)
        )

    def _opening(self, node: Any) -> tuple[int, int]:
        """Where a node starts, without what stands above it in lines of its own."""
        above: list[Any] = []
        inner = node
        while True:
            own = next((child for child in inner.children if not self._is_above(child, above)), None)
            if own is None or own.type != "modifiers":
                break
            inner = own
        if not above:
            return tuple(node.start_point)
        first = own or inner.next_sibling
        start = tuple((first or node).start_point)
        beside = [tuple(one.start_point) for one in above if one.start_point[0] == start[0]]
        return min([start, *beside])

    def _is_above(self, child: Any, above: list[Any]) -> bool:
        if child.type in _ABOVE:
            above.append(child)
            return True
        return bool(above) and _is_comment(child)

    def _last_row(self, node: Any) -> int:
        return self._end(node)[0]

    def _end(self, node: Any) -> tuple[int, int]:
        """Where the last token ends: some grammars count the line end, or blank lines, as part of a node."""
        row, column = node.end_point
        while row > node.start_point[0] and not self.rows[row][:column].strip():
            row -= 1
            column = len(self.rows[row])
        return row, column

    def _span(self, node: Any, line: int) -> Block | Unresolved:
        row, column = self._end(node)
        if not self._is_free(row, column):
            return Unresolved(
                f"the block at line {line} shares its last line {row + 1} with something that follows it"
            )
        return Block(line, row + 1, self.language.name)

    def _is_free(self, row: int, column: int) -> bool:
        """Whether nothing but `;`, `,` and comments stands in a row from `column` on."""
        rest = self.rows[row][column:].lstrip(b";, \t\r\f")
        while rest:
            byte = self.offsets[row + 1] - 1 - len(rest)
            comment = next((node for node in self._chain(byte) if _is_comment(node)), None)
            if comment is None or self._end(comment)[0] != row:
                return False
            rest = self.rows[row][self._end(comment)[1] :].lstrip()
        return True


def _is_comment(node: Any) -> bool:
    return bool(node.is_named and node.type.endswith("comment"))


# Markdown

_FRONT_MATTER_END = ("---", "...")


@attrs.frozen
class _Sections:
    headings: dict[int, int]
    """Level by line."""
    lines: Sequence[str]


def _sections(lines: Sequence[str]) -> _Sections:
    from markdown_it import MarkdownIt  # needed only where a section is named

    shown = [line.replace("\r", " ") for line in lines]  # a line end to Markdown, content to us
    if shown and shown[0].rstrip() == "---":
        closing = (at for at, line in enumerate(shown[1:], 1) if line.rstrip() in _FRONT_MATTER_END)
        for at in range(next(closing, -1) + 1):
            shown[at] = ""
    tokens = MarkdownIt("commonmark").disable("inline").parse("\n".join(shown))
    return _Sections(
        {token.map[0] + 1: int(token.tag[1:]) for token in tokens if _is_heading(token) and token.map}, lines
    )


def _is_heading(token: Any) -> bool:
    return bool(token.type == "heading_open" and token.level == 0)


def _section(sections: _Sections, line: int) -> Block | Unresolved:
    level = sections.headings.get(line)
    if level is None:
        return Unresolved(f"no heading stands at line {line}, and in Markdown only a heading opens a block")
    following = (at for at, other in sections.headings.items() if at > line and other <= level)
    end = min(following, default=len(sections.lines) + 1) - 1
    while end > line and not sections.lines[end - 1].strip():
        end -= 1
    return Block(line, end, _MARKDOWN.name)
