"""The catalogues: every message in every language, with its values and forms, and no HTML; which language is spoken."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import TypeAlias

import polib
import pytest
from babel.messages.extract import extract_from_dir

from text.languages import LANGUAGES, LOCALE, everywhere, gettext, ngettext, speak, wanted

Message: TypeAlias = str | tuple[str, ...]

ROOT = Path(__file__).parents[2]
OTHERS = [code for code in LANGUAGES if code != "en"]
FORMS = {"zh": 1, "ja": 1, "ar": 6}
KEYWORDS = {"_": None, "gettext": None, "message": None, "t": None, "ngettext": (1, 2), "tn": (1, 2)}


@cache
def messages() -> list[Message]:
    """What the code says in its own words, as `make messages` finds it."""
    mappings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["babel"]["mappings"]
    patterns = [(one["pattern"], one) for one in mappings]
    methods = [(pattern, one["method"]) for pattern, one in patterns]
    options = {pattern: {"newstyle_gettext": "true"} for pattern, one in patterns if "newstyle_gettext" in one}
    found = [
        entry[2]
        for room in ("server", "ui", "plugins")
        for entry in extract_from_dir(ROOT / room, methods, options, KEYWORDS)
    ]
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("language", OTHERS)
def test_a_catalogue_says_every_message_with_its_values_in_all_forms_and_without_html(language: str) -> None:
    entries = polib.pofile(str(LOCALE / language / "LC_MESSAGES" / "anaphora.po"))
    said = {(one.msgid, one.msgid_plural) if one.msgid_plural else one.msgid: one for one in entries}
    assert not entries.fuzzy_entries()
    assert set(said) == set(messages()), "run `make messages`, and translate what is new"
    for wanted_message, entry in said.items():
        source = wanted_message[-1] if isinstance(wanted_message, tuple) else wanted_message
        forms = list(entry.msgstr_plural.values()) if entry.msgid_plural else [entry.msgstr]
        assert len(forms) == (FORMS.get(language, 2) if entry.msgid_plural else 1), source
        for form in forms:
            assert form.strip(), source
            assert not re.search(r'[<>&"]', form), form
            assert values(form) in (values(source), values(entry.msgid)), form


def values(text: str) -> set[str]:
    return set(re.findall(r"%\(\w+\)s", text)) | set(re.findall(r"%(?!\(\w+\)s).", text))


def test_numbers_take_the_form_of_their_language() -> None:
    expected = {
        "en": ["0 sources", "1 source", "2 sources", "11 sources"],
        "fr": ["0 source", "1 source", "2 sources", "11 sources"],
        "zh": ["0 个来源", "1 个来源", "2 个来源", "11 个来源"],
        "ja": ["出典 0 件", "出典 1 件", "出典 2 件", "出典 11 件"],
        "ar": ["لا مصادر (0)", "مصدر واحد (1)", "مصدران (2)", "11 مصدرًا"],
    }
    try:
        for language, forms in expected.items():
            speak(language)
            assert [ngettext("%(num)s source", "%(num)s sources", n) for n in (0, 1, 2, 11)] == forms
        assert gettext("Rename %(title)s", title="100 %") == "أعد تسمية 100 %"
    finally:
        speak("en")
    assert "Gern geschehen." in everywhere("You are welcome.")


@pytest.mark.parametrize(
    ("cookie", "accepted", "language"),
    [
        ("", None, "en"), ("", "de-AT,de;q=0.9,en;q=0.8", "de"), ("", "sv, fr;q=0.5, es;q=0.7", "es"),
        ("", "zh-Hant-TW", "zh"), ("", "ja-JP,ja;q=0.9,en;q=0.8", "ja"), ("", "de;q=0, en", "en"),
        ("", "*;q=nonsense,ar", "ar"), ("ar", "de", "ar"), ("../../etc", "de", "de"),
    ],
)  # fmt: skip
def test_the_language_is_the_one_chosen_else_the_first_that_is_known(
    cookie: str, accepted: str | None, language: str
) -> None:
    assert wanted({"anaphora-language": cookie}, accepted) == language
