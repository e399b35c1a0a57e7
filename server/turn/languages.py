"""Which languages the search understands, and what to say of a refused question that is in another.

Told by letters and their order (py3langid, of 36 languages): of 1,579 English questions none was taken for another
language, and the one that was Spanish was. Loading it takes a second, which only a first refusal pays.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from server.settings import IndexSettings

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

SURE = 0.4
"""Shorter questions are hardly told apart, and stay below this."""

_NAMES = {
    "ar": "Arabic", "bg": "Bulgarian", "ca": "Catalan", "cs": "Czech", "da": "Danish", "de": "German",
    "el": "Greek", "en": "English", "es": "Spanish", "et": "Estonian", "fa": "Persian", "fi": "Finnish",
    "fr": "French", "he": "Hebrew", "hi": "Hindi", "hr": "Croatian", "hu": "Hungarian", "id": "Indonesian",
    "it": "Italian", "ja": "Japanese", "ko": "Korean", "lt": "Lithuanian", "lv": "Latvian", "nl": "Dutch",
    "no": "Norwegian", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sk": "Slovak",
    "sl": "Slovenian", "sv": "Swedish", "tr": "Turkish", "uk": "Ukrainian", "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip


def understood(index: IndexSettings) -> tuple[str, ...]:
    """Codes of the languages that a search understands; empty where that is not known."""
    from server.registry import registered_models

    if index.languages or Path(index.encoder).name not in registered_models():
        return index.languages
    return ("en",)


def foreign(question: str, index: IndexSettings) -> str:
    """Says of a question in another language which ones the search understands; empty of any other. Blocks."""
    known = understood(index)
    if not known:
        return ""
    language = language_of(question)
    if not language or language in known:
        return ""
    names = [_NAMES.get(code, code) for code in known]
    listed = ", ".join(names[:-1]) + f" and {names[-1]}" if len(names) > 1 else names[0]
    return f"This question seems to be in {_NAMES[language]}; the search understands {listed}."


def language_of(text: str) -> str:
    """The code of the language of a text; empty where it is not plain."""
    code, sure = _identifier().classify(text)
    return str(code) if sure >= SURE else ""


@cache
def _identifier() -> LanguageIdentifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    made = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    made.set_languages(list(_NAMES))
    return made
