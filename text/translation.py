"""Texts of the page and the server in the reader's language.

English is in the code; the other languages are gettext catalogues (`text/locale/LANG/LC_MESSAGES/anaphora.po`), read on
first use. The language of a request is kept in its context. Texts of documents and of models are never translated, and
the errors of the API are English.
"""

from __future__ import annotations

import gettext as catalogues
from collections.abc import Mapping
from contextvars import ContextVar
from functools import cache
from io import BytesIO
from pathlib import Path

from text.languages import ENGLISH

LANGUAGES = {
    "en": "English", "de": "Deutsch", "es": "Español", "fr": "Français", "zh": "中文", "ja": "日本語",
    "ar": "العربية",
}  # fmt: skip
RIGHT_TO_LEFT = frozenset({"ar"})
COOKIE = "anaphora-language"
"""Names the language that somebody chose in the page."""
LOCALE = Path(__file__).parent / "locale"

_spoken: ContextVar[str] = ContextVar("spoken", default=ENGLISH)


def speak(language: str) -> None:
    """Say everything in this one of `LANGUAGES` from now on, in this context."""
    _spoken.set(language)


def spoken() -> str:
    """The code of the language that is spoken."""
    return _spoken.get()


def wanted(cookies: Mapping[str, str], accepted: str | None) -> str:
    """The language chosen in the page, else the first of `LANGUAGES` by the `Accept-Language` header, else English."""
    if cookies.get(COOKIE) in LANGUAGES:
        return cookies[COOKIE]
    preferences = []
    for place, entry in enumerate((accepted or "").split(",")):
        tag, _, quality = entry.partition(";q=")
        try:
            preferences.append((-float(quality or 1), place, tag.strip().lower().split("-")[0]))
        except ValueError:
            continue
    return next((code for less, _, code in sorted(preferences) if code in LANGUAGES and less < 0), ENGLISH)


def message(text: str) -> str:
    """Marks a text that is translated where it is said."""
    return text


def gettext(text: str, /, **values: object) -> str:
    """A text in the language spoken, with the values that its `%(name)s` stand for."""
    translated = _translations(spoken()).gettext(text)
    return translated % values if values else translated


def ngettext(singular: str, many: str, count: int, /, **values: object) -> str:
    """The form of a text for a number; `num` is among the values unless it is given."""
    return form(singular, many, count) % {"num": count, **values}


def form(singular: str, many: str, count: int) -> str:
    """The form of a text for a number, its values still to be put in."""
    return _translations(spoken()).ngettext(singular, many, count)


@cache
def everywhere(text: str) -> tuple[str, ...]:
    """A text in every language."""
    return tuple(_translations(language).gettext(text) for language in LANGUAGES)


@cache
def words(language: str) -> dict[str, str | list[str]]:
    """Every translated text of a language by its English, or the forms of one that counts; none for English."""
    if language == ENGLISH:
        return {}
    import polib

    entries = polib.pofile(str(LOCALE / language / "LC_MESSAGES" / "anaphora.po"))
    return {
        entry.msgid: [text for _, text in sorted(entry.msgstr_plural.items())] if entry.msgid_plural else entry.msgstr
        for entry in entries
    }


@cache
def _translations(language: str) -> catalogues.NullTranslations:
    if language == ENGLISH:
        return catalogues.NullTranslations()
    import polib

    entries = polib.pofile(str(LOCALE / language / "LC_MESSAGES" / "anaphora.po"))
    return catalogues.GNUTranslations(BytesIO(entries.to_binary()))
