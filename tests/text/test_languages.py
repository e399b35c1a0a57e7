"""Stems by language, and which language a document's words are stemmed by."""

from __future__ import annotations

import pytest

from text.languages import NAMES, analysis, stemmer_name
from text.words import tokenize


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("de", "Die Geräte werden zurückgesetzt", "das Gerät zurücksetzen"),
        ("es", "las notificaciones enviadas", "una notificación enviada"),
        ("fr", "les réglages de l'appareil", "un réglage des appareils"),
        ("ar", "أجهزة", "الأجهزة"),
        ("ru", "настройки устройства", "настройка устройств"),
    ],
)
def test_the_forms_of_a_word_have_one_stem_in_its_language(language: str, one: str, other: str) -> None:
    assert set(tokenize(one, (language,))) & set(tokenize(other, (language,)))
    assert len(set(tokenize(one, (language,)))) >= len(set(tokenize(one, (language,))) & set(tokenize(one)))


def test_stop_words_are_left_out_by_language_and_a_language_without_stemmer_keeps_its_words() -> None:
    assert tokenize("Wie werden die Geräte", ("de",)) == ["gerat"]
    assert tokenize("Устройството е включено", ("bg",)) == ["устройството", "е", "включено"]
    assert {code for code in NAMES if not stemmer_name(code)} == {
        "bg", "he", "hr", "ja", "ko", "lv", "sk", "sl", "th", "uk", "vi", "zh"
    }  # fmt: skip


def test_in_several_languages_a_word_has_a_term_in_each() -> None:
    assert sorted(tokenize("Geräte update geräte", ("de", "en"))) == ["gerat", "gerat", "gerät", "gerät", "updat"]
    assert tokenize("the settings the settings", ("en", "en")) == ["set", "set"]


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Das Gerät wird über den Schalter an der Rückseite zurückgesetzt.", "de"),
        ("The device is reset by the switch at its back.", "en"),
        ("按住背面的按钮五秒钟即可重置设备。", "en"),
        ("42", "en"),
    ],
)
def test_auto_takes_the_language_of_the_document(text: str, language: str) -> None:
    assert analysis("auto", text) == language
    assert analysis("fr", text) == "fr"
    assert analysis("zh", text) == "en", "a language written without spaces has no stems: pairs of characters, as ever"
