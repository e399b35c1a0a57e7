"""Which languages the search understands, and what to say of a refused question that is in another."""

from __future__ import annotations

from pathlib import Path

from server.settings import IndexSettings
from text.languages import AUTO, ENGLISH, NAMES, language_of
from text.translation import gettext, message

_SPOKEN = (
    message("Arabic"),
    message("Chinese"),
    message("English"),
    message("French"),
    message("German"),
    message("Spanish"),
)
"""Names of languages that are translated; others are said in English."""


def understood(index: IndexSettings) -> tuple[str, ...]:
    """Codes of the languages that a search understands; empty where that is not known."""
    from server.registry import registered_models

    if index.languages or index.language == AUTO or Path(index.encoder).name not in registered_models():
        return index.languages
    return tuple(dict.fromkeys((ENGLISH, index.language)))


def foreign(question: str, index: IndexSettings) -> str:
    """Says of a question in another language which ones the search understands; empty of any other. Blocks."""
    known = understood(index)
    if not known:
        return ""
    language = language_of(question)
    if not language or language in known:
        return ""
    names = [gettext(NAMES.get(code, code)) for code in known]
    listed = names[0]
    if len(names) > 1:
        listed = gettext("%(names)s and %(last)s", names=", ".join(names[:-1]), last=names[-1])
    return gettext(
        "This question seems to be in %(language)s; the search understands %(known)s.",
        language=gettext(NAMES[language]),
        known=listed,
    )
