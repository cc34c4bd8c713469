"""Does the parse tree account for every byte of the line as bash would? Pure.

The grammar is close to bash and not bash. Where both disagree without a parse error, a command could hide
in what looks like text. So each leaf is checked for signs that bash would act on, and each gap between
leaves must be blank. A doubt is a problem of the line, and the line then asks.
"""

from __future__ import annotations

import re
from collections.abc import Set

from agents.rules.shell_words import Node

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x85\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_BLANK = re.compile(rb"(?:[ \t\n]|\\\n)*\Z")
_LOST_DASH = re.compile(rb"[ \t]+-[ \t]+")
"""A lone `-` before a heredoc (`python3 - <<EOF`), which the grammar drops."""
_UNESCAPED = r"(?<!\\)(?:\\\\)*"
_RUNS = re.compile(_UNESCAPED + r"(?:`|\$[({\[])")
_EXPANDS = re.compile(_UNESCAPED + r"(?:`|\$[({\[A-Za-z_0-9@*#?!-])")
_BREAKS = re.compile(_UNESCAPED + r"[ \t\n;|&<>()'\"`]")
_SPLITS = re.compile(_UNESCAPED + r"[\n;`]|[<>]\(")
_HIDDEN = re.compile(r"`|\$[({\[]")
_EVALUATED = frozenset(
    {"arithmetic_expansion", "test_command", "subscript", "binary_expression", "unary_expression"}
)
_SPLIT_OPERATOR = re.compile(r"\$(?:\\\n)+[^ \t\n]|[<>&|;(](?:\\\n)+[<>&|;()]")
_WITHOUT_BLANKS = frozenset({"concatenation", "simple_expansion", "variable_assignment"})
_BEFORE_COMMENT = b" \t\n;&|("
_SIGNS = frozenset({b";", b"&", b"|", b"<", b">", b""})


def text_problem(command: str) -> str | None:
    """Signs that bash, the grammar and a person's eye read differently."""
    if _SPLIT_OPERATOR.search(command):
        return "an operator of it goes on over the end of a line"
    found = _CONTROL.search(command)
    return None if found is None else f"it contains the control character U+{ord(found[0]):04X}"


def tree_problem(root: Node, source: bytes) -> str | None:
    """The first doubt about the tree of `source`, or None."""
    cursor = root.walk()
    above: list[Node] = []  # kept here: a node finds its own parent by walking down from the root
    position = 0
    while True:
        node = cursor.node
        if node.is_error or node.is_missing:
            return "it cannot be parsed"
        if cursor.goto_first_child():
            above.append(node)
            continue
        problem = _leaf_problem(node, above, source, position)
        if problem:
            return problem
        position = max(position, node.end_byte)
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return None if _BLANK.match(source[position:]) else "a part of it was not understood"
            above.pop()


def _leaf_problem(node: Node, above: list[Node], source: bytes, position: int) -> str | None:
    if not above:
        return None
    if node.start_byte > position and (doubt := _gap_problem(node, above, source, position)):
        return doubt
    beside = source[node.end_byte : node.end_byte + 1]
    if node.type == "$" and beside in (b'"', b"'") and above[-1].type not in ("string", "heredoc_body"):
        return "a `$` of it was not understood"
    if not node.is_named or node.start_byte == node.end_byte:
        return None
    kind = node.type
    text = source[node.start_byte : node.end_byte].decode("utf-8", "replace")
    if kind == "comment":
        return _comment_problem(source, node.start_byte)
    if kind == "heredoc_body" and _quoted_heredoc(above[-1], source):
        return None
    quoted = kind in ("raw_string", "ansi_c_string", "string_content")
    if quoted and _HIDDEN.search(text) and _within(above, _EVALUATED):
        return "it hides a substitution in an expression"
    if kind in ("raw_string", "ansi_c_string"):
        return None
    return _text_problem(kind, text)


def _text_problem(kind: str, text: str) -> str | None:
    """What a leaf that bash would expand must not contain."""
    if kind == "word" and text.isascii() and text.isalnum():
        return None  # every doubt below is about a sign; most words have none
    if kind == "word" and (_BREAKS.search(text) or _EXPANDS.search(text)):
        return "a word of it was not understood"
    if kind == "file_descriptor" and not text.isdecimal():
        return "a redirection of it was not understood"
    if kind == "extglob_pattern" and _SPLITS.search(text):
        return "a pattern of it was not understood"
    if _RUNS.search(text) or (kind == "regex" and "(" in text and _SPLITS.search(text)):
        return "it contains a substitution that was not understood"
    return None


def _gap_problem(node: Node, above: list[Node], source: bytes, position: int) -> str | None:
    gap = source[position : node.start_byte]
    if not _BLANK.match(gap):
        lost_dash = node.type in ("<<", "<<-") and _LOST_DASH.fullmatch(gap)
        text = _within(above, {"heredoc_body"}) and not _RUNS.search(gap.decode("utf-8", "replace"))
        return None if lost_dash or text else "a part of it was not understood"
    if not gap.replace(b"\\\n", b"") and not _stands_apart(source, position, node.start_byte):
        return "a word of it goes on over the end of a line"
    # the innermost node that begins before this one is where the gap lies
    holder = next((n for n in reversed(above) if n.start_byte < node.start_byte), None)
    if holder is not None and holder.type in _WITHOUT_BLANKS:
        return "a blank of it was not understood"
    return None


def _stands_apart(source: bytes, start: int, end: int) -> bool:
    """Whether the tokens around line continuations end by themselves (bash joins the lines)."""
    escaped = source[start - 2 : start - 1] == b"\\"
    return (source[start - 1 : start] in _SIGNS and not escaped) or source[end : end + 1] in _SIGNS


def _quoted_heredoc(heredoc: Node, source: bytes) -> bool:
    """Whether the delimiter is quoted, so that the body is plain text to bash."""
    start = next((c for c in heredoc.children if c.type == "heredoc_start"), None)
    return start is not None and bool(re.search(rb"[\\'\"]", source[start.start_byte : start.end_byte]))


def _within(above: list[Node], kinds: Set[str]) -> bool:
    """Whether one of `kinds` stands above, as a part of the same command."""
    for node in reversed(above):
        if node.type in kinds:
            return True
        if node.type in ("command", "program"):
            return False
    return False


def _comment_problem(source: bytes, start: int) -> str | None:
    """A comment begins a word; a line continuation before it is no break."""
    while start >= 2 and source[start - 2 : start] == b"\\\n":
        start -= 2
    if start == 0 or source[start - 1] in _BEFORE_COMMENT:
        return None
    return "what looks like a comment is not one"


def heredoc_problem(node: Node, source: bytes) -> str | None:
    """Whether bash ends this heredoc where the tree does."""
    parts = {child.type: child for child in node.children}
    start, body, end = parts.get("heredoc_start"), parts.get("heredoc_body"), parts.get("heredoc_end")
    if start is None or end is None:
        return "a heredoc of it does not end"
    word = source[start.start_byte : start.end_byte].decode("utf-8", "replace")
    delimiter = re.sub(r"\\(.)|['\"]", lambda m: m[1] or "", word)
    if "$" in word or "`" in word or not delimiter:
        return "a heredoc of it has an unusual delimiter"
    first = end if body is None else body
    opening, newline, after = source[start.end_byte : first.start_byte].partition(b"\n")
    if not newline or opening.endswith(b"\\") or after.strip():
        return "a heredoc of it begins unclearly"
    begin = start.end_byte + len(opening) + 1
    tabs = source[node.start_byte : start.start_byte].strip().endswith(b"-")
    true_end = _heredoc_end(source, begin, delimiter.encode(), tabs=tabs, quoted=delimiter != word)
    return None if end.end_byte == true_end else "a heredoc of it ends unclearly"


def _heredoc_end(source: bytes, begin: int, delimiter: bytes, *, tabs: bool, quoted: bool) -> int | None:
    """Where the line of `delimiter` ends; None where there is none, or one that a continuation swallows."""
    position = begin
    continued = False
    for line in source[begin:].split(b"\n"):
        if (line.lstrip(b"\t") if tabs else line) == delimiter:
            return None if continued else position + len(line)
        continued = not quoted and (len(line) - len(line.rstrip(b"\\"))) % 2 == 1
        position += len(line) + 1
    return None
