from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.rules.blocks import MAX_BYTES, Block, Unresolved, resolve_block, resolve_blocks
from agents.rules.text import decode
from tests.agents.rules.edit_model import CALM


def blocks(name: str, source: str) -> dict[int, tuple[int, int]]:
    """The block of every line that opens one."""
    text = decode(source.encode())
    lines = range(1, len(text.lines) + 1)
    found = zip(lines, resolve_blocks(name, text, lines), strict=True)
    return {line: (block.start, block.end) for line, block in found if isinstance(block, Block)}


def why(name: str, source: str, line: int) -> str:
    unresolved = resolve_block(name, decode(source.encode()), line)
    assert isinstance(unresolved, Unresolved), unresolved
    return unresolved.why


PYTHON = """\
import os

@cached
# why
def f(x):
    # first
    if x:
        return 1
    elif x is None:
        return 2

    return {
        "a": 1,
    }  # done

class A:
    def m(self): return 1

    async def n(self):
        pass
"""


def test_a_block_is_the_outermost_statement_whose_first_token_is_the_first_thing_on_the_line() -> None:
    assert blocks("a.py", PYTHON) == {
        1: (1, 1),
        3: (3, 3),
        4: (4, 4),
        5: (5, 14),
        6: (6, 6),
        7: (7, 10),
        8: (8, 8),
        9: (9, 10),
        10: (10, 10),
        12: (12, 14),
        13: (13, 13),
        16: (16, 20),
        17: (17, 17),
        19: (19, 20),
        20: (20, 20),
    }


def test_the_result_names_the_language() -> None:
    assert resolve_block("dir/a.PY", decode(b"x = 1\n"), 1) == Block(1, 1, "Python")


def test_what_opens_no_block_says_which_block_is_around_it() -> None:
    assert why("a.py", PYTHON, 14) == "no block opens at line 14; the one around it is lines 12-14"
    assert why("a.py", PYTHON, 15) == "line 15 is blank"
    assert why("a.js", "f(\n  1,\n)\n", 3) == "no block opens at line 3; the one around it is lines 1-3"


def test_a_decorator_or_a_comment_above_is_its_own_node() -> None:
    assert blocks("a.py", "@a(\n    1,\n)\n@b\nclass A:\n    pass\n") == {
        1: (1, 3),
        4: (4, 4),
        5: (5, 6),
        6: (6, 6),
    }
    java = "class A {\n  /** doc */\n  @Override\n  @X public void f() {\n  }\n}\n"
    assert blocks("A.java", java) == {1: (1, 6), 2: (2, 2), 3: (3, 3), 4: (4, 5)}
    rust = "/// doc\n#[derive(Debug)]\nstruct A {\n    b: i32,\n}\n"
    assert blocks("a.rs", rust) == {1: (1, 1), 2: (2, 2), 3: (3, 5), 4: (4, 4)}
    angular = "@Component({\n  a: 1,\n})\nexport class A {\n  @Input()\n  b = 1;\n}\n"
    assert blocks("a.ts", angular) == {1: (1, 3), 2: (2, 2), 4: (4, 7), 5: (5, 5), 6: (6, 6)}


def test_an_annotation_on_the_declarations_own_line_belongs_to_it() -> None:
    assert blocks("A.java", "class A {\n  @X(\n    1) int b;\n}\n") == {1: (1, 4)}
    assert blocks("a.ts", "class A {\n  @Input() b: string;\n}\n") == {1: (1, 3), 2: (2, 2)}


@pytest.mark.parametrize(
    ("name", "source", "expected"),
    [
        (
            "a.js",
            "const o = {\n  m() {\n    f();\n  },\n};\nif (a) {\n  b();\n}\nelse {\n  c();\n}\n",
            {1: (1, 5), 2: (2, 4), 3: (3, 3), 6: (6, 11), 7: (7, 7), 9: (9, 11), 10: (10, 10)},
        ),
        (
            "a.tsx",
            "const a = (\n  <p>\n    <b />\n    text\n  </p>\n);\n",
            {1: (1, 6), 2: (2, 5), 3: (3, 3)},
        ),
        (
            "a.go",
            'package a\n\nimport (\n\t"os"\n)\n\nfunc f() {\n\tx()\n\n\tswitch y {\n\tcase 1:\n\t\tz()\n'
            "\n\t}\n}\n\ntype T struct {\n\tA int\n}",
            {
                1: (1, 1),
                3: (3, 5),
                4: (4, 4),
                7: (7, 15),
                8: (8, 8),
                10: (10, 14),
                11: (11, 12),
                12: (12, 12),
                17: (17, 19),
                18: (18, 18),
            },
        ),
        (
            "a.rs",
            "fn f() -> i32 {\n  match x {\n    1 => {\n      2\n    }\n    _ => 3,\n  }\n}\n",
            {1: (1, 8), 2: (2, 7), 3: (3, 5), 4: (4, 4), 6: (6, 6)},
        ),
        (
            "a.c",
            "#ifdef A\nint f(void)\n{\n  switch (x) {\n  case 1:\n    y();\n  }\n}\n#endif\n"
            "struct S {\n  int a;\n};\n",
            {1: (1, 9), 2: (2, 8), 4: (4, 7), 5: (5, 6), 6: (6, 6), 10: (10, 12), 11: (11, 11)},
        ),
        (
            "a.h",
            "namespace a {\ntemplate <typename T>\nclass B {\n  void f();\n};\n}  // namespace a\n",
            {1: (1, 6), 2: (2, 5), 4: (4, 4)},
        ),
        (
            "a.sh",
            "f() {\n  cat <<EOF\ntext\nEOF\n}\nif a; then\n  b\nelse\n  c\nfi\n",
            {1: (1, 5), 2: (2, 4), 6: (6, 10), 7: (7, 7), 8: (8, 9), 9: (9, 9)},
        ),
        (
            "a.json",
            '{\n  "a": {\n    "b": 1\n  },\n  "c": [\n    1,\n    {"d": 2}\n  ]\n}\n',
            {1: (1, 9), 2: (2, 4), 3: (3, 3), 5: (5, 8), 6: (6, 6), 7: (7, 7)},
        ),
        (
            "a.css",
            "@media print {\n  a {\n    color: red;\n  }\n}\n",
            {1: (1, 5), 2: (2, 4), 3: (3, 3)},
        ),
        (
            "a.html",
            "<html>\n<body>\n  <p>x</p>\n</body>\n</html>\n",
            {1: (1, 5), 2: (2, 4), 3: (3, 3)},
        ),
        (
            "a.yml",
            "# c\na:\n  b: 1\n  c:\n    - d: 1\n      e: 2\n\nf: |\n  text\n",
            {1: (1, 1), 2: (2, 6), 3: (3, 3), 4: (4, 6), 5: (5, 6), 6: (6, 6), 8: (8, 9)},
        ),
    ],
)
def test_each_language_has_its_statements_declarations_members_and_clauses(
    name: str, source: str, expected: dict[int, tuple[int, int]]
) -> None:
    assert blocks(name, source) == expected


def test_the_first_member_of_a_body_is_not_the_whole_body() -> None:
    assert blocks("a.py", "class A:\n    def a(self):\n        pass\n    def b(self):\n        pass\n")[
        2
    ] == (2, 3)
    assert blocks("a.go", "package a\nfunc f() {\n\tx()\n\ty()\n}\n")[3] == (3, 3)
    assert blocks("a.yaml", "a:\n  b: 1\n  c: 2\n")[2] == (2, 2)


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("if (a) {\n  b();\n} else {\n  c();\n}\n", 3),  # `}` before it
        ("function f() {\n  if (a) {\n    b();\n  } }\n", 2),  # `}` of f after it
        ("a(); b();\n", 1),
        ("if (a) {\n  b();\n} c();\n", 1),
        ("/* x */ a();\n", 1),
        ("a(); /* x\n */ b();\n", 1),
        ("const a = [\n  { b: 1 }\n];\n", 2),  # an element of a list is an expression
    ],
)
def test_a_block_that_shares_its_first_or_last_line_declines(source: str, line: int) -> None:
    why("a.js", source, line)


@pytest.mark.parametrize("tail", [";", ",", " // c", "; /* c */ // d", "\t"])
def test_punctuation_and_comments_after_a_block_go_with_its_last_line(tail: str) -> None:
    source = "const a = {\n  b() {\n  }" + (tail if "," in tail else f",{tail.lstrip(';')}") + "\n};\n"
    assert blocks("a.js", source)[2] == (2, 3)


def test_a_language_without_a_grammar_declines() -> None:
    assert why("a.txt", "x\n", 1) == "there is no grammar for the language of a.txt"
    assert why("Makefile", "all:\n", 1) == "there is no grammar for the language of Makefile"
    assert why("a.", "x\n", 1) == "there is no grammar for the language of a."


@pytest.mark.parametrize(
    ("first", "language"),
    [
        ("#!/usr/bin/env python3", "Python"),
        ("#!/usr/bin/python3.11", "Python"),
        ("#! /bin/sh", "Bash"),
        ("#!/bin/bash -eu", "Bash"),
        ("#!/usr/bin/env node", "JavaScript"),
    ],
)
def test_a_script_without_a_suffix_is_told_by_its_first_line(first: str, language: str) -> None:
    block = resolve_block("bin/tool", decode(f"{first}\n\nf()\n".encode().replace(b"f()", b"true")), 3)
    assert block == Block(3, 3, language)


def test_a_file_that_does_not_parse_declines_wherever_the_error_is() -> None:
    source = "def a():\n    pass\n\ndef b(:\n    pass\n"
    assert why("a.py", source, 1) == "the file does not parse as Python: the first error is at line 4"


def test_a_file_of_more_than_4_mib_declines() -> None:
    fits = "#" + "x" * (MAX_BYTES - 2) + "\n"
    assert blocks_of("a.py", fits, 1) == Block(1, 1, "Python")
    assert blocks_of("a.py", f"#{fits}", 1) == Unresolved("the file is larger than 4 MiB")


def test_encodings_and_line_ends_do_not_move_the_lines() -> None:
    source = "# é\r\ndef f():\r\n    return '中\u2028'\r\n\r\nx = 1\r\n"
    for data in (
        source.encode(),
        b"\xef\xbb\xbf" + source.encode(),
        b"\xff\xfe" + source.encode("utf-16-le"),
    ):
        assert resolve_block("a.py", decode(data), 2) == Block(2, 3, "Python")
    latin = "# é\ndef f():\n    pass\n".encode("latin-1")
    assert resolve_block("a.py", decode(latin), 2) == Block(2, 3, "Python")


MARKDOWN = """\
---
title: x
---
# A

text

## B
```
# not a heading
```
~~~~
~~~
## nor this
~~~~

C
more
=====
- # in a list

  ## there too
> # in a quotation

    # code
### D ###
end
"""


def test_a_markdown_heading_opens_its_section() -> None:
    assert blocks("a.md", MARKDOWN) == {4: (4, 15), 8: (8, 15), 17: (17, 27), 26: (26, 27)}


def test_in_markdown_only_headings_open_blocks() -> None:
    assert why("README.markdown", MARKDOWN, 10) == (
        "no heading stands at line 10, and in Markdown only a heading opens a block"
    )
    assert "only a heading" in why("a.md", MARKDOWN, 19)


def test_a_section_ends_before_the_blank_lines_that_separate_it() -> None:
    assert blocks("a.md", "# A\n\ntext\n\n\n# B\n") == {1: (1, 3), 6: (6, 6)}


def test_a_lone_carriage_return_is_content_in_markdown_too() -> None:
    assert blocks("a.md", "a\rb\n# C\nd\n") == {2: (2, 3)}


def test_several_lines_of_one_text_are_answered_in_their_order() -> None:
    found = resolve_blocks("a.py", decode(b"x = 1\n\ny = 2\n"), [3, 2, 1])
    assert found == (Block(3, 3, "Python"), Unresolved("line 2 is blank"), Block(1, 1, "Python"))


def test_deep_nesting_is_no_trouble() -> None:
    source = "[\n" * 5000 + "]\n" * 5000
    assert blocks_of("a.json", source, 1) == Block(1, 10000, "JSON")
    assert isinstance(blocks_of("a.json", source, 4999), Unresolved)


def blocks_of(name: str, source: str, line: int) -> Block | Unresolved:
    return resolve_block(name, decode(source.encode()), line)


SUFFIXES = [
    ".py",
    ".js",
    ".tsx",
    ".go",
    ".rs",
    ".java",
    ".c",
    ".cpp",
    ".sh",
    ".json",
    ".css",
    ".html",
    ".yaml",
    ".md",
]
PIECES = [
    "if",
    "x",
    " ",
    "\n",
    "\n\n",
    "  ",
    "{",
    "}",
    "(",
    ")",
    ":",
    ";",
    "#",
    '"',
    "@a",
    "-",
    "=",
    "/*",
    "*/",
    "é",
    "<p>",
    "</p>",
    "\r",
    "\x0c",
]


@CALM
@given(st.sampled_from(SUFFIXES), st.lists(st.sampled_from(PIECES), max_size=25))
def test_whatever_the_text_is_a_block_opens_at_its_line_and_lies_within(
    suffix: str, pieces: list[str]
) -> None:
    text = decode("".join(pieces).encode())
    lines = range(1, len(text.lines) + 1)
    for line, block in zip(lines, resolve_blocks(f"a{suffix}", text, lines), strict=True):
        if isinstance(block, Block):
            assert line == block.start <= block.end <= len(text.lines)
            assert text.lines[block.end - 1].strip()


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parents[3] / "agents").rglob("*.py"))[::8], ids=lambda path: path.name
)
def test_blocks_of_real_code_are_nested_or_apart_and_never_cross(path: Path) -> None:
    spans = list(blocks(path.name, path.read_text()).values())
    for start, end in spans:
        assert all(
            end < a or b < start or (start <= a and b <= end) or (a <= start and end <= b) for a, b in spans
        )


def test_a_shell_script_with_characters_beyond_ascii_does_not_end_the_process() -> None:
    script = decode("f() {\n  echo {\U0010d136\n}\n".encode())
    assert isinstance(resolve_block("a.sh", script, 1), Block | Unresolved)
