"""Text or binary, told from the first bytes; the numbers are those of the documentation."""

from __future__ import annotations

import pytest

from agents.rules.binary import has_binary_name, has_binary_sign, is_binary, is_unprintable

JAPANESE = "これは日本語のテキストです。\nclass Foo { // コメント\n" * 30


@pytest.mark.parametrize(
    "encoding", ["cp932", "gbk", "koi8-r", "cp1251", "cp866", "latin-1", "cp1252", "utf-8"]
)
def test_text_of_any_encoding_is_text(encoding: str) -> None:
    assert not is_binary(JAPANESE.encode(encoding, "ignore")[:4096], "a.java")
    assert not is_binary("Grüße aus Köln — “hier”\n".encode(encoding, "ignore"), "a.txt")


def test_a_zero_byte_counts_in_the_first_4096_bytes_only() -> None:
    assert has_binary_sign(b"x" * 4095 + b"\0")
    assert not has_binary_sign(b"x" * 4096 + b"\0")


@pytest.mark.parametrize(("odd", "binary"), [(30, False), (31, True)])
def test_more_than_thirty_of_a_hundred_characters_unprintable_is_binary(odd: int, binary: bool) -> None:
    assert is_unprintable(b"\x01" * odd + b"x" * (100 - odd)) is binary


@pytest.mark.parametrize(
    ("name", "binary"), [("a.png", True), ("A.PNG", True), (".png", False), ("png", False)]
)
def test_an_extension_of_a_binary_format_is_enough(name: str, binary: bool) -> None:
    assert has_binary_name(name) is binary
