from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.rules.text import decode, refusal
from tests.agents.rules.edit_model import CALM

PIECES = st.sampled_from(
    [
        b"a",
        b"caf\xc3\xa9",
        b"\xe9",
        b"\r",
        b"\n",
        b"\r\n",
        b"\x0c",
        b"\xe2\x80\xa8",
        b"\xc2\x85",
        b"\xff\xfe",
        b"\0",
        b"",
    ]
)
FILES = st.one_of(
    st.binary(max_size=60),
    st.lists(PIECES, max_size=20).map(b"".join),
    st.tuples(
        st.sampled_from([codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE]), st.binary(max_size=40)
    ).map(b"".join),
    st.text(max_size=40).map(lambda text: codecs.BOM_UTF16_LE + text.encode("utf-16-le", "surrogatepass")),
)


@CALM
@given(FILES)
def test_decoding_and_encoding_gives_identical_bytes(data: bytes) -> None:
    assert decode(data).encode() == data


@CALM
@given(FILES)
def test_only_the_last_line_may_lack_an_ending_and_no_line_holds_a_newline(data: bytes) -> None:
    text = decode(data)
    assert all(ending in ("\n", "\r\n") for ending in text.endings[:-1])
    assert not any("\n" in line for line in text.lines)
    assert len(text.lines) == len(text.endings)


def test_lines_end_at_newlines_only() -> None:
    text = decode("a\x0cb\u2028c\x85d\re\n\x0bf\n".encode())
    assert text.lines == ("a\x0cb\u2028c\x85d\re", "\x0bf")


def test_a_lone_carriage_return_before_a_crlf_is_content() -> None:
    text = decode(b"a\r\r\nb\n")
    assert (text.lines, text.endings) == (("a\r", "b"), ("\r\n", "\n"))


@pytest.mark.parametrize(
    ("data", "newline", "final"),
    [
        (b"", "none", False),
        (b"a", "none", False),
        (b"a\n", "\n", True),
        (b"a\r\nb\r\n", "\r\n", True),
        (b"a\r\nb\n", "mixed", True),
        (b"a\r\nb", "\r\n", False),
        (b"\n", "\n", True),
    ],
)
def test_newline_style_and_final_newline_are_told(data: bytes, newline: str, final: bool) -> None:
    text = decode(data)
    assert (text.newline, text.final_newline) == (newline, final)


def test_a_final_newline_makes_no_empty_line_after_it() -> None:
    assert decode(b"a\n").lines == ("a",)
    assert decode(b"a\n\n").lines == ("a", "")
    assert decode(b"").lines == ()


def test_a_byte_order_mark_is_kept_aside_of_the_first_line() -> None:
    text = decode(codecs.BOM_UTF8 + b"hello\n")
    assert (text.lines, text.encoding, text.bom) == (("hello",), "utf-8", True)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_recognised_by_its_mark(encoding: str) -> None:
    mark = codecs.BOM_UTF16_LE if encoding == "utf-16-le" else codecs.BOM_UTF16_BE
    text = decode(mark + "é\r\nx".encode(encoding))
    assert (text.lines, text.endings, text.encoding, text.bom) == (("é", "x"), ("\r\n", ""), encoding, True)


@pytest.mark.parametrize("data", [b"caf\xe9\n", b"\xd6\xd0\xce\xc4\n", codecs.BOM_UTF16_LE + b"a"])
def test_bytes_that_are_no_unicode_are_an_unknown_encoding_and_shown_with_marks(data: bytes) -> None:
    text = decode(data)
    assert (text.encoding, text.bom) == ("unknown-8bit", False)
    assert "\ufffd" in text.shown_lines[0]
    assert text.shown_lines[0].encode("utf-8")


def test_only_ascii_may_be_put_into_a_file_of_unknown_encoding() -> None:
    assert refusal("plain", "unknown-8bit") is None
    assert "U+00E9" in (refusal("café", "unknown-8bit") or "")


def test_text_that_no_encoding_holds_is_refused_with_the_character_named() -> None:
    assert refusal("é€", "utf-16-le") is None
    assert "U+D800" in (refusal("a\ud800", "utf-8") or "")
