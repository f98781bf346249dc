from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stentor.errors import InvalidValue
from stentor.whisper.languages import LANGUAGES, joins_without_spaces, language_code, language_name


def test_the_languages_are_those_of_whisper() -> None:
    tokenizer = pytest.importorskip("faster_whisper.tokenizer")
    assert set(LANGUAGES) == set(tokenizer._LANGUAGE_CODES)
    assert len(LANGUAGES) == len(set(LANGUAGES.values())) == 100


def test_languages_keep_the_order_of_the_models_tokens() -> None:
    codes = list(LANGUAGES)
    assert (codes[0], codes[98], codes[99]) == ("en", "su", "yue")


@given(st.sampled_from(sorted(LANGUAGES)), st.sampled_from([str.lower, str.upper, str.title]))
def test_every_code_and_name_is_understood_in_any_case(code: str, case: Callable[[str], str]) -> None:
    assert language_code(case(code)) == code
    assert language_code(f"  {case(language_name(code))}\n") == code


def test_a_language_that_nobody_named_has_a_name() -> None:
    assert language_name("und") == "undetermined"
    with pytest.raises(InvalidValue):
        language_code("und")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("zh-CN", "zh"),
        ("pt-BR", "pt"),
        ("en_US", "en"),
        ("zh-Hant-TW", "zh"),
        ("yue-HK", "yue"),
        ("es-419", "es"),
        ("haw-US", "haw"),
        ("nb-NO", "no"),
        ("Haitian Creole", "ht"),
        ("Haitian", "ht"),
        ("Mandarin", "zh"),
        ("Burmese", "my"),
        ("jv", "jw"),
    ],
)
def test_locales_and_aliases_are_understood(text: str, code: str) -> None:
    assert language_code(text) == code


@pytest.mark.parametrize(
    "text", ["xx", "", " ", "klingon", "en-", "-en", "en US", "english-US", "en-<script>"]
)
def test_an_unknown_language_is_named_in_the_error_with_an_example(text: str) -> None:
    with pytest.raises(InvalidValue, match="such as en or English") as caught:
        language_code(text)
    assert caught.value.param == "language"
    assert repr(text) in caught.value.message


def test_an_endless_value_does_not_make_an_endless_error() -> None:
    with pytest.raises(InvalidValue) as caught:
        language_code("x" * 100_000)
    assert len(caught.value.message) < 200


@given(st.text(max_size=20))
def test_any_text_gives_a_known_code_or_the_error(text: str) -> None:
    with suppress(InvalidValue):
        assert language_code(text) in LANGUAGES


@pytest.mark.parametrize(
    ("code", "joins"), [("ja", True), ("zh", True), ("bo", True), ("ko", False), ("en", False)]
)
def test_words_stand_side_by_side_in_some_languages(code: str, joins: bool) -> None:
    assert joins_without_spaces(code) is joins
