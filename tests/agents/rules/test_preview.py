"""What a person is shown before answering."""

from __future__ import annotations

import unicodedata
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.rules.preview import (
    MAX_PREVIEW_BYTES,
    REDACTED,
    cut,
    masked,
    one_line,
    preview_of,
    shown,
    shown_command,
    shown_diff,
    visible,
)


class Arguments(msgspec.Struct, frozen=True):
    path: str = "a.txt"
    content: str | None = None
    ops: list[dict[str, Any]] | None = None


class Command(msgspec.Struct, frozen=True):
    command: str


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\u202eb", "a\\u202eb"),
        ("a\u200bb", "a\\u200bb"),
        ("a\x1b[2Kb", "a\\x1b[2Kb"),
        ("a\rb", "a\\rb"),
        ("a\u00a0b", "a\\xa0b"),
        ("a\u3164b", "a\\u3164b"),
        ("a\U000e0041b", "a\\U000e0041b"),
        ("a\udce9b", "a\\udce9b"),
        ("a\u2028b", "a\\u2028b"),
        ("a\n\tb é 中 🙂", "a\n\tb é 中 🙂"),
    ],
)
def test_what_a_terminal_would_not_draw_is_shown_as_an_escape(text: str, expected: str) -> None:
    assert visible(text) == expected


@given(st.text(st.characters(exclude_categories=())))
def test_nothing_invisible_is_left(text: str) -> None:
    for character in visible(text):
        assert character in "\n\t" or unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Zl", "Zp"}


@pytest.mark.parametrize(
    "secret",
    [
        "sk-ant-abcdefghijklmnop",
        "ghp_abcdefghijklmnopqrst",
        "AKIAABCDEFGHIJKLMNOP",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx.abcdef",
    ],
)
def test_a_key_is_masked_wherever_it_stands(secret: str) -> None:
    assert masked(f"curl -H 'X: {secret}' h") == f"curl -H 'X: {REDACTED}' h"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("API_KEY=abc12345def make", f"API_KEY={REDACTED} make"),
        ('{"password": "hunter2hunter2"}', f'{{"password": "{REDACTED}"}}'),
        ("Authorization: Bearer abc12345def", f"Authorization: Bearer {REDACTED}"),
        ("git clone https://me:pa55word@host/x", f"git clone https://me:{REDACTED}@host/x"),
        (
            "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG\n-----END PRIVATE KEY-----",
            f"-----BEGIN PRIVATE KEY-----{REDACTED}-----END PRIVATE KEY-----",
        ),
    ],
)
def test_a_value_that_is_named_as_a_secret_is_masked(text: str, expected: str) -> None:
    assert masked(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "TOKEN=$(rm -rf x)",
        "TOKEN=`rm -rf x12345678`",
        "TOKEN=abc12345$(rm -rf x)",
        "SECRET=abc1234`id`",
        "password = compute_password(user)",
        "-----BEGIN PRIVATE KEY-----\nrm -rf x; echo 1234567890\n-----END PRIVATE KEY-----",
    ],
)
def test_nothing_that_would_run_is_masked(text: str) -> None:
    assert masked(text) == text


def test_long_runs_of_nothing_are_counted() -> None:
    assert shown_command("ls" + "\n" * 41 + "rm x", 2048) == "ls\n⟨40 empty lines⟩\nrm x"
    assert shown_command("ls" + " " * 99 + "; rm x", 2048) == "ls ⟨99 blanks⟩ ; rm x"
    assert shown_command("ls\n\n\nrm x", 2048) == "ls\n\n\nrm x"


@given(st.text(max_size=4000), st.integers(100, 3000))
def test_a_cut_keeps_both_ends_and_the_limit(text: str, limit: int) -> None:
    result = cut(text, limit)
    assert len(result.encode()) <= limit
    if result != text:
        assert "characters hidden⟩" in result


def test_a_cut_counts_what_it_hides() -> None:
    text = "x\n" * 2000
    result = cut(text, 1000)
    head, _, rest = result.partition("⟨")
    mark, _, tail = rest.partition("⟩")
    lines, chars = (int(part.split()[0]) for part in mark.removesuffix(" hidden").split(", "))
    assert len(head) + chars + len(tail) == len(text)
    assert head.count("\n") + lines + tail.count("\n") == 2000


def test_of_a_huge_text_the_middle_is_counted_and_the_ends_are_shown() -> None:
    text = "first\n" + "x\n" * 1_000_000 + "last"
    result = shown(text, 2048)
    assert result.startswith("first\n")
    assert result.endswith("x\nlast")
    assert len(result.encode()) <= 2048
    hidden = int(result.partition("lines, ")[2].split()[0])
    assert hidden > 1_990_000


def test_a_command_is_shown_alone_and_other_arguments_by_name() -> None:
    assert preview_of(Command("ls -l")) == "ls -l"
    assert preview_of(Arguments(content="x\ny")) == "path: a.txt\ncontent: x\ny"
    text = preview_of(Arguments(ops=[{"op": "replace", "text": "a\u202eb"}]))
    assert text == 'path: a.txt\nops: \n  {"op":"replace","text":"a\\u202eb"}'


@given(st.text(st.characters(exclude_categories=())), st.text(max_size=9000))
def test_a_preview_is_never_larger_than_its_limit_and_always_json(path: str, content: str) -> None:
    text = preview_of(Arguments(path=path, content=content, ops=[{"x": path}]))
    assert len(text.encode()) <= MAX_PREVIEW_BYTES
    assert msgspec.json.decode(msgspec.json.encode(text)) == text


def test_a_fact_stays_on_its_line() -> None:
    assert one_line("a\nb\x1b") == "a\\nb\\x1b"
    assert len(one_line("x" * 5000).encode()) <= 400


def test_a_diff_keeps_its_lines() -> None:
    assert shown_diff("--- a\n+++ b\n@@ -1 +1 @@\n-x\n+\ty\r\n") == "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+\ty\\r\n"
