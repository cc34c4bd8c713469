"""Which tools a ToolSearch query means. Pure.

A query is the exact name of a tool (or several, between commas or blanks), or a few words that say what is
wanted. Names win over words. Words are weighed: one that stands in a tool's name counts most, one that people
use for what the tool does counts more than one that its description merely holds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import attrs

MAX_MATCHES = 4
MAX_SUMMARY = 160

_IN_NAME, _CAPABILITY, _IN_DESCRIPTION = 8, 4, 1
_WORDS = re.compile(r"[a-z0-9]+")
_NAME_PARTS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
_IDLE = """
a all an and any are as at be by can do does for from how i in into is it its look me my need of on or our please
some something that the their them there these thing this to tool tools up use want we what when where which
with you
"""
_CAPABILITIES = {
    "Glob": "directory dir folder list ls find file name filename tree locate recursive wildcard",
    "Grep": "search content text line regex regexp expression string word occurrence usage used definition "
    "match count",
}
"""What people call what a tool does, where its description does not."""


@attrs.frozen
class ToolCard:
    """What a tool is known by while it is not active."""

    name: str
    description: str

    @property
    def summary(self) -> str:
        """The description's first sentence, as one line of at most `MAX_SUMMARY` characters."""
        line = " ".join(self.description.split())
        end = re.search(r"[.!?](?= |$)", line)
        sentence = line if end is None else line[: end.end()]
        return sentence if len(sentence) <= MAX_SUMMARY else sentence[: MAX_SUMMARY - 1].rstrip() + "…"


def find_tools(query: str, cards: Sequence[ToolCard]) -> tuple[ToolCard, ...]:
    """The tools that `query` means, best first, at most `MAX_MATCHES`; ties stay in the order of `cards`."""
    named = _named(query, cards)
    if named:
        return named[:MAX_MATCHES]
    idle = _IDLE.split()
    words = {_stem(word) for word in _WORDS.findall(query.lower()) if word not in idle}
    scores = [(_score(words, card), card) for card in cards]
    scores.sort(key=lambda scored: -scored[0])
    best = scores[0][0] if scores else 0
    # What only shares a stray word with the query is not meant when something fits far better.
    return tuple(card for score, card in scores if score > 0 and score * 4 >= best)[:MAX_MATCHES]


def _named(query: str, cards: Sequence[ToolCard]) -> tuple[ToolCard, ...]:
    """The tools of a query that holds nothing but names, in its order."""
    by_name = {card.name.casefold(): card for card in cards}
    parts = [part for part in re.split(r"[\s,;`'\"]+", query.casefold()) if part]
    if not parts or not all(part in by_name for part in parts):
        return ()
    return tuple(by_name[part] for part in dict.fromkeys(parts))


def _score(words: set[str], card: ToolCard) -> int:
    name = {_stem(part.lower()) for part in _NAME_PARTS.findall(card.name)}
    capabilities = {_stem(word) for word in _CAPABILITIES.get(card.name, "").split()}
    described = {_stem(word) for word in _WORDS.findall(card.description.lower())}
    return sum(
        _IN_NAME * (word in name)
        + _CAPABILITY * (word in capabilities)
        + _IN_DESCRIPTION * (word in described and word not in name)
        for word in words
    )


def _stem(word: str) -> str:
    """One form for the spellings of a word that differ in number or tense, roughly."""
    for ending, put in (("ies", "y"), ("ing", ""), ("es", "e"), ("s", ""), ("ed", "")):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return word[: -len(ending)] + put
    return word
