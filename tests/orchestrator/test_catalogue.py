"""Every error code is explained to people, in every shipped language."""

from __future__ import annotations

import json

import pytest

from agents.errors import ErrorCode
from agents.rules.recovery import LIMIT
from orchestrator.catalogue import FOLDER, LOCALES, nearest_locale, text_for

THREE = {"en": "three", "de": "drei", "zh-CN": "三"}


@pytest.mark.parametrize("locale", LOCALES)
def test_every_code_has_a_text_and_a_hint(locale: str) -> None:
    for code in ErrorCode:
        entry = text_for(code, locale)
        assert entry.text.strip(), code
        assert entry.hint.strip(), code
        assert entry.text.endswith((".", "。")), code
        assert entry.hint.endswith((".", "。")), code


@pytest.mark.parametrize("locale", LOCALES)
def test_no_locale_explains_a_code_that_does_not_exist(locale: str) -> None:
    assert set(json.loads((FOLDER / f"{locale}.json").read_text(encoding="utf-8"))) == set(ErrorCode)


@pytest.mark.parametrize("locale", LOCALES)
def test_the_exhausted_mutation_budget_says_three_in_every_language(locale: str) -> None:
    assert LIMIT == 3
    assert THREE[locale] in text_for(ErrorCode.MUTATION_RETRY_BUDGET_EXHAUSTED, locale).text


def test_every_shipped_file_is_a_known_locale() -> None:
    assert {file.stem for file in FOLDER.glob("*.json")} == set(LOCALES) == set(THREE)


@pytest.mark.parametrize("locale", [name for name in LOCALES if name != "en"])
def test_a_translation_is_not_the_english_text(locale: str) -> None:
    assert not [code for code in ErrorCode if text_for(code, locale).text == text_for(code).text]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("de", "de"),
        ("de_AT.UTF-8", "de"),
        ("zh_CN.UTF-8", "zh-CN"),
        ("zh-Hans-CN", "zh-CN"),
        ("en_GB", "en"),
        ("sr_RS@latin", "en"),
        ("C", "en"),
        ("", "en"),
    ],
)
def test_a_locale_of_the_environment_finds_the_nearest_shipped_one(asked: str, expected: str) -> None:
    assert nearest_locale(asked) == expected
