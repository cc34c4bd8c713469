"""What each error code means to a person, in every shipped language.

The texts are data: `locales/<locale>.json`, code → `{"text", "hint"}`, complete in each. An unknown language
falls back to English.
"""

from __future__ import annotations

import functools
from pathlib import Path

import msgspec

from agents.errors import ErrorCode

FOLDER = Path(__file__).parent / "locales"
DEFAULT_LOCALE = "en"
LOCALES = ("en", "de", "zh-CN")


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One code, explained."""

    text: str
    """What happened, in a sentence."""
    hint: str
    """What the person can do about it."""


def text_for(code: ErrorCode, locale: str = DEFAULT_LOCALE) -> Entry:
    """The entry of `code` in the language nearest to `locale` (`de_AT.UTF-8`, `zh-Hans-CN`, `C` …)."""
    return _entries(nearest_locale(locale))[code]


def nearest_locale(locale: str) -> str:
    """The shipped locale for a name as it stands in the environment; English where there is none."""
    wanted = locale.partition(".")[0].partition("@")[0].replace("_", "-").casefold()
    language = wanted.partition("-")[0]
    for shipped in LOCALES:
        if wanted == shipped.casefold():
            return shipped
    for shipped in LOCALES:
        if language == shipped.partition("-")[0].casefold():
            return shipped
    return DEFAULT_LOCALE


@functools.cache
def _entries(locale: str) -> dict[ErrorCode, Entry]:
    return msgspec.json.decode((FOLDER / f"{locale}.json").read_bytes(), type=dict[ErrorCode, Entry])
