"""Languages: names, recognition, stemmers and stop words, and the texts of page and server in the reader's language.

The language of a text is told by letters and their order (py3langid, of 36 languages). Loading it takes a second, which
only the first text pays.

Texts of the page and the server are English in the code; the other languages are gettext catalogues
(`text/locale/LANG/LC_MESSAGES/anaphora.po`), read on first use. The language of a request is kept in its context. Texts
of documents and of models are never translated, and the errors of the API are English.
"""

from __future__ import annotations

import gettext as catalogues
from collections.abc import Mapping
from contextvars import ContextVar
from functools import cache, lru_cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polib import POFile
    from py3langid.langid import LanguageIdentifier


ENGLISH = "en"
AUTO = "auto"
"""Stands for the language that each document is found to be in."""
SURE = 0.4
"""Shorter texts are hardly told apart, and stay below this."""
_READ = 2_000
"""Characters of a document that are looked at."""

NAMES = {
    "ar": "Arabic", "bg": "Bulgarian", "ca": "Catalan", "cs": "Czech", "da": "Danish", "de": "German",
    "el": "Greek", "en": "English", "es": "Spanish", "et": "Estonian", "fa": "Persian", "fi": "Finnish",
    "fr": "French", "he": "Hebrew", "hi": "Hindi", "hr": "Croatian", "hu": "Hungarian", "id": "Indonesian",
    "it": "Italian", "ja": "Japanese", "ko": "Korean", "lt": "Lithuanian", "lv": "Latvian", "nl": "Dutch",
    "no": "Norwegian", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sk": "Slovak",
    "sl": "Slovenian", "sv": "Swedish", "th": "Thai", "tr": "Turkish", "uk": "Ukrainian", "vi": "Vietnamese",
    "zh": "Chinese",
}  # fmt: skip
UNSPACED = frozenset({"zh", "ja", "ko", "th"})
"""Their own words are cut into pairs of characters; what else stands in such texts is mostly English."""


def language_of(text: str) -> str:
    """The code of the language of a text; empty where it is not plain. Blocks."""
    code, sure = _identifier().classify(text)
    return str(code) if sure >= SURE else ""


def analysis(setting: str, text: str) -> str:
    """The code of the language whose stems and stop words a document gets, by `index.language`."""
    code = language_of(text[:_READ]) or ENGLISH if setting == AUTO else setting
    return ENGLISH if code in UNSPACED else code


def stemmer_name(code: str) -> str:
    """Snowball's name of a language's stemmer; empty where there is none, and words are taken as they stand."""
    import Stemmer

    name = NAMES.get(code, "").lower()
    return name if code == ENGLISH or name in Stemmer.algorithms() else ""


@lru_cache
def stop_words(code: str) -> frozenset[str]:
    """The usual stop words of a language other than English, case-folded; none where bm25s brings no list of them."""
    from bm25s import stopwords

    listed = getattr(stopwords, f"STOPWORDS_{NAMES.get(code, '').upper()}", ())
    return frozenset(word.casefold() for word in listed)


@cache
def _identifier() -> LanguageIdentifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    identifier.set_languages(list(NAMES))
    return identifier


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
    return {
        entry.msgid: [text for _, text in sorted(entry.msgstr_plural.items())] if entry.msgid_plural else entry.msgstr
        for entry in _catalogue(language)
    }


@cache
def _translations(language: str) -> catalogues.NullTranslations:
    if language == ENGLISH:
        return catalogues.NullTranslations()
    return catalogues.GNUTranslations(BytesIO(_catalogue(language).to_binary()))


@cache
def _catalogue(language: str) -> POFile:
    import polib

    return polib.pofile(str(LOCALE / language / "LC_MESSAGES" / "anaphora.po"))
