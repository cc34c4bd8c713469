"""The pattern dialect of Grep: RE2 syntax, line by line. Pure.

What other dialects write differently is translated where the meaning is clear (`\\<`; `\\A`, `\\z` and `\\Z`, which
are edges of the line here) and otherwise
refused with the alternative named: a pattern that silently means something else would read as "not found".
"""

from __future__ import annotations

import functools
import re
from typing import Any

import attrs

from agents.errors import ErrorCode, Failure, failure
from agents.rules.text import REPLACEMENT

MAX_PATTERN_CHARS = 1000
MIN_REQUIRED = 3
"""A shorter literal would not spare a regular expression anything."""

MAX_ALTERNATIVES = 6
"""More of them are searched for at once."""

_LOOK = ("(?=", "(?!", "(?<=", "(?<!")
_META = frozenset(".^$*+?()[]{}|\\")
_QUANTIFIERS = frozenset("*+?{")
_MAX_MEMORY = 8 << 20
MAX_PROGRAM = 10_000
"""Instructions of a compiled expression. A larger one could need minutes for a single line."""
BLOCK_BYTES = 1 << 20
"""How much is searched between two looks at the clock."""
_STEPS_AT_ONCE = 200_000_000
"""Bytes times instructions between two looks at the clock: an expression that explodes takes as many steps."""
_FLAGS = re.compile(r"\(\?(?![:P<])")
"""Flags could make an expression tell the edge of a text from that of a line."""
_WITHOUT_LINES = re.compile(r"\(\?[a-zA-Z]*-[a-zA-Z]*m")
_LINE_BREAK = re.compile(r"\\x(?:0[aA]|\{0*[aA]\})")


@attrs.frozen
class Pattern:
    """A checked pattern. One of `literal` and `regex` is set."""

    source: str
    """As it was given."""
    ignore_case: bool
    literal: bytes | None
    """The whole pattern as plain text (lower case with `ignore_case`), else None."""
    required: bytes | None
    """Plain text without which no line can match, else None."""
    regex: Any
    """The compiled expression over bytes, else None. It never matches across a line's end."""
    alternatives: tuple[Any, ...] = ()
    """Where the pattern is nothing but a few texts between `|`: an expression for each of them. RE2 looks for
    one text several times faster than for two at once."""

    @property
    def regexes(self) -> tuple[Any, ...]:
        """What together matches wherever the pattern does."""
        return self.alternatives or (self.regex,)

    def sieve(self) -> tuple[Any, ...] | None:
        """Expressions of which one matches in every file with a match, told as fast as can be, and which can search
        many files as one text; None: there are none.
        """
        # A mark stands where a file has bytes that are no text: it is not in the file itself.
        if REPLACEMENT in self.source or self.block_bytes < BLOCK_BYTES:
            return None
        plain = self.required if self.literal is None or self.ignore_case else self.literal
        if plain is not None:
            return (_compile(_escaped(plain.decode()), self.source, ignore_case=False),)
        return self.regexes if self.joinable else None

    @property
    def has_plain_sieve(self) -> bool:
        """Whether these expressions, where there are some, look for texts, which no end of a line is part of."""
        return self.literal is not None or self.required is not None or bool(self.alternatives)

    @functools.cached_property
    def block_bytes(self) -> int:
        """How much may be searched in one go."""
        largest = max((regex.programsize for regex in self.regexes if regex is not None), default=1)
        return int(max(4096, min(BLOCK_BYTES, _STEPS_AT_ONCE // max(1, largest))))

    @property
    def joinable(self) -> bool:
        """Whether many files can be searched as one text: nothing looks at where a text begins or ends."""
        return self.regex is not None and _FLAGS.search(self.source) is None

    @property
    def ascii_words_only(self) -> bool:
        """Whether the pattern puts a word class beside letters that RE2's word classes do not know."""
        return not self.source.isascii() and any(sign in self.source for sign in ("\\b", "\\w", "\\B", "\\W"))


def parse_pattern(source: str, *, ignore_case: bool = False) -> Pattern:
    """Check and compile. Raises `Failure` INVALID_ARGUMENT with the reason."""
    if not source:
        raise _invalid(source, "it is empty, which would match every line", "give the text to look for")
    if "\n" in source:
        raise _invalid(
            source, "it holds a line break, and the search goes line by line", "search for one of the lines"
        )
    if len(source) > MAX_PATTERN_CHARS:
        raise _invalid(
            source, f"it has {len(source)} characters, the limit is {MAX_PATTERN_CHARS}", "shorten it"
        )
    scan = _Scan(source)
    scan.run()
    literal = scan.literal
    if literal == "":
        raise _invalid(
            source, "it stands for no text, which would match every line", "give the text to look for"
        )
    if literal is not None and (not ignore_case or literal.isascii()):
        wanted = _encoded(literal.lower() if ignore_case else literal, source)
        regex = _compile(scan.translated, source, ignore_case) if ignore_case else None
        return Pattern(source, ignore_case, wanted, None, regex)
    required = None if ignore_case else scan.required
    return Pattern(
        source=source,
        ignore_case=ignore_case,
        literal=None,
        required=None if required is None else _encoded(required, source),
        regex=_compile(scan.translated, source, ignore_case),
        alternatives=tuple(_compile(_escaped(text), source, ignore_case) for text in scan.alternatives),
    )


def _compile(translated: str, source: str, ignore_case: bool) -> Any:
    import re2  # loaded only when something is searched

    options = re2.Options()
    options.log_errors = False
    options.never_nl = True
    options.never_capture = True
    options.case_sensitive = not ignore_case
    options.max_mem = _MAX_MEMORY
    try:
        compiled = re2.compile(_encoded("(?m)" + translated, source), options)
    except re2.error as error:
        reason = error.args[0] if error.args else b"unknown reason"
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise _invalid(
            source, text.replace("(?m)", ""), "escape signs that are meant literally with `\\`"
        ) from None
    if compiled.programsize > MAX_PROGRAM:
        raise _invalid(
            source, "its repetitions make it too large", "repeat fewer times, or write `.*` for any number"
        )
    return compiled


def _encoded(text: str, source: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise _invalid(source, "it holds half of a surrogate pair", "remove that character") from None


def _invalid(source: str, reason: str, advice: str) -> Failure:
    shown = source if len(source) <= 100 else source[:99] + "…"
    return failure(
        ErrorCode.INVALID_ARGUMENT,
        f"The pattern {shown!a} cannot be used: {reason}. Patterns are RE2 syntax; {advice}.",
        details={"argument": "pattern", "reason": reason},
    )


def _escaped(text: str) -> str:
    """The pattern that matches just this text."""
    return "".join("\\" + sign if sign.isascii() and not sign.isalnum() else sign for sign in text)


class _Scan:
    """One pass over a pattern: translates it, and finds out what of it is plain text."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.translated = ""
        self._plain = True
        self._top_level = True
        self._depth = 0
        self._runs: list[str] = [""]
        self._after_quantifier = False
        self._only_bars = True

    @property
    def literal(self) -> str | None:
        """The text that the whole pattern stands for, if it is nothing but text."""
        return "".join(self._runs) if self._plain else None

    @property
    def required(self) -> str | None:
        """The longest text that every match holds, if one can be told."""
        longest = max(self._runs, key=len)
        return longest if self._top_level and len(longest) >= MIN_REQUIRED else None

    @property
    def alternatives(self) -> list[str]:
        """The texts between the bars of a pattern that is nothing else; empty otherwise."""
        few = 2 <= len(self._runs) <= MAX_ALTERNATIVES
        return self._runs if self._only_bars and few and all(self._runs) else []

    def run(self) -> None:
        at = 0
        while at < len(self.source):
            at = self._one(at)

    def _one(self, at: int) -> int:
        sign = self.source[at]
        if sign == "\\":
            return self._escape(at)
        if sign == "[":
            return self._class(at)
        if sign in _QUANTIFIERS:
            return self._quantifier(at)
        if sign == "(":
            self._group(at)
        elif sign == ")":
            self._depth -= 1
        elif sign == "|":
            self._top_level = False
        if sign in _META and sign not in "]}":
            self._operator(sign)
        else:
            self._text(sign, sign)
        return at + 1

    def _text(self, sign: str, spelled: str) -> None:
        self.translated += spelled
        self._after_quantifier = False
        if self._depth == 0:
            self._runs[-1] += sign

    def _operator(self, spelled: str) -> None:
        self.translated += spelled
        self._plain = self._after_quantifier = False
        self._only_bars = self._only_bars and spelled == "|"
        self._runs.append("")

    def _escape(self, at: int) -> int:
        sign = self.source[at + 1 : at + 2]
        if not sign:
            raise _invalid(self.source, "it ends with a single `\\`", "write `\\\\` for a backslash")
        if sign == "Q":
            return self._quoted(at + 2)
        if sign in "<>":
            self._operator("\\b")
        elif sign == "A":
            self._operator("^")
        elif sign in "zZ":
            self._operator("$")
        elif sign == "C":
            raise _invalid(self.source, "`\\C` would match half a character", "write `.` for any character")
        elif sign in "pPx":
            return self._operand(at)
        elif sign == "n":
            raise _invalid(
                self.source, "`\\n` cannot match, the search goes line by line", "search for one line"
            )
        elif sign in "123456789k":
            raise _invalid(self.source, "RE2 has no back references", "spell the repeated text out")
        elif sign.isascii() and not sign.isalnum():
            self._text(sign, "\\" + sign)
        else:
            self._operator("\\" + sign)
        return at + 2

    def _operand(self, at: int) -> int:
        """`\\pL`, `\\p{Greek}`, `\\x1b` or `\\x{263a}`: what belongs to it is no text."""
        if self.source.startswith("{", at + 2) and "}" in self.source[at + 3 :]:
            end = self.source.index("}", at) + 1
        else:
            end = min(len(self.source), at + (4 if self.source[at + 1] == "x" else 3))
        if _LINE_BREAK.fullmatch(self.source, at, end):
            raise _invalid(
                self.source, "it holds a line break, and the search goes line by line", "search for one line"
            )
        self._operator(self.source[at:end])
        return end

    def _quoted(self, at: int) -> int:
        end = self.source.find("\\E", at)
        end = len(self.source) if end < 0 else end
        for sign in self.source[at:end]:
            self._text(sign, _escaped(sign))
        return end + 2

    def _class(self, at: int) -> int:
        """Copy a bracket expression; its end is where RE2 sees it."""
        end = at + 1
        end += self.source[end : end + 1] == "^"
        end += self.source[end : end + 1] == "]"
        while end < len(self.source) and self.source[end] != "]":
            if self.source[end] == "\\":
                end += 1
            elif self.source.startswith("[:", end) and ":]" in self.source[end + 2 :]:
                end = self.source.index(":]", end + 2) + 1
            end += 1
        self._operator(self.source[at : end + 1])
        return end + 1

    def _quantifier(self, at: int) -> int:
        sign = self.source[at]
        end = at + 1
        if sign == "{":
            close = self.source.find("}", at)
            counts = self.source[at + 1 : close].split(",") if close > 0 else []
            if not counts or len(counts) > 2 or not counts[0].isdigit() or not (counts[-1] + "0").isdigit():
                self._text("{", "\\{")  # not a repetition: `interface{}` means the two braces
                return end
            end = close + 1
        if sign == "+" and self._after_quantifier:
            raise _invalid(self.source, "RE2 has no possessive repetition", "remove the second `+`")
        self._runs[-1] = self._runs[-1][:-1]
        self._operator(self.source[at:end])
        self._after_quantifier = True
        return end

    def _group(self, at: int) -> None:
        for look in _LOOK:
            if self.source.startswith(look, at):
                raise _invalid(
                    self.source,
                    f"RE2 has no look-around (`{look}`)",
                    "match the whole text, then look at the lines that come back",
                )
        if self.source.startswith("(?>", at):
            raise _invalid(self.source, "RE2 has no atomic groups", "write `(?:` instead")
        if self.source.startswith("(?P=", at):
            raise _invalid(self.source, "RE2 has no back references", "spell the repeated text out")
        if _WITHOUT_LINES.match(self.source, at):
            raise _invalid(
                self.source, "the search goes line by line, `m` cannot be switched off", "leave that flag out"
            )
        if self.source.startswith("(?", at) and not self.source.startswith(("(?:", "(?P<", "(?<"), at):
            self._top_level = False  # flags: case may not matter any more
        self._depth += 1
