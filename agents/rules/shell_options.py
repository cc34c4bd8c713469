"""The arguments of a command, taken apart into options and operands. Pure."""

from __future__ import annotations

import attrs

from agents.rules.shell_words import HOLE, UNKNOWN, Word, made_of


@attrs.frozen
class Options:
    """A command's arguments, taken apart."""

    operands: tuple[Word, ...]
    values: tuple[tuple[str, Word], ...]
    """(option, value) in order; options without a value have `UNKNOWN`."""

    def all(self, *names: str) -> list[Word]:
        return [value for name, value in self.values if name in names]

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.values)


def take_apart(words: tuple[Word, ...], valued: str, long_valued: tuple[str, ...] = ()) -> Options:
    """Split arguments into operands and options; `valued` and `long_valued` ones take the next word."""
    operands: list[Word] = []
    values: list[tuple[str, Word]] = []
    index = 1
    only_operands = False
    while index < len(words):
        word = words[index]
        text = word.spelt
        index += 1
        if only_operands or not text.startswith("-") or text == "-" or _unclear(word, valued):
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
    return Options(tuple(operands), tuple(values))


def _unclear(word: Word, valued: str) -> bool:
    """Whether only the run can tell which options a word holds: it is then taken for an operand as well."""
    if word.text is not None:
        return False
    known = word.sketch.partition(HOLE)[0]
    if known.startswith("--"):
        return "=" not in known
    return not any(letter in valued for letter in known[1:])


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


def after(word: Word, length: int) -> Word:
    """What follows the first `length` characters of a word, which are literal."""
    return made_of(word.spelt[length:], word.spelt[length:])
