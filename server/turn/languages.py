"""Which languages the search understands, and what to say of a refused question that is in another."""

from __future__ import annotations

from pathlib import Path

from server.settings import IndexSettings
from text.languages import AUTO, ENGLISH, NAMES, language_of


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
    names = [NAMES.get(code, code) for code in known]
    listed = ", ".join(names[:-1]) + f" and {names[-1]}" if len(names) > 1 else names[0]
    return f"This question seems to be in {NAMES[language]}; the search understands {listed}."
