"""Calls of the page: make a quote readable, and tell why a source is cited."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from markupsafe import Markup
from pydantic import Field

from plugins.evidence.decontextualize import QuoteSpan, bracketed
from plugins.evidence.service import EvidenceService, WhySentences, place_of
from server.chat import ChatService
from text.sanitize import masked
from ui.source_panel import QuotePlace, document_link
from ui.templates import render

Answer: TypeAlias = dict[str, Any]
FOLDER = Path(__file__).parent


def _evidence(service: ChatService) -> EvidenceService:
    return EvidenceService(service.core, service.principal)


async def make_readable(service: ChatService, collection: str, document: str, start: int = 0, end: int = 0) -> Answer:
    """→ `{html}` of the quote made readable away from its page."""
    return {"html": str(readable_html(await _evidence(service).standalone(collection, document, start, end)))}


async def why_source(service: ChatService, turn: str, n: int, at: int = 0) -> Answer:
    """→ `{html}` of the sentences that source `n` is cited for."""
    return {"html": str(why_html(await _evidence(service).why_of_turn(turn, n, at)))}


async def why_linked(
    service: ChatService, collection: str, document: str, text: Annotated[str, Field(max_length=6000)], at: int = 0
) -> Answer:
    """→ `{html}` of the sentences of a document that bear on the sentence that links to it."""
    return {"html": str(why_html(await _evidence(service).why_linked(collection, document, text, at)))}


def readable_html(spans: Sequence[QuoteSpan]) -> Markup:
    """Render a quote made readable: additions are in brackets and underlined."""
    original = "".join(span.text for span in spans if span.kind == "kept")
    parts = list(bracketed(spans))
    made = "".join(text for _, text in parts)
    return render(FOLDER / "readable.html", made=made, parts=parts, original=original)


def why_html(why: WhySentences) -> Markup:
    """Render the sentences of a source that bear on a citing one, each with a way to its place."""
    shown = []
    for sentence in why.found.shown:
        start, end = place_of(sentence)
        link = document_link(why.collection, why.document_id, start, end)
        shown.append((masked(sentence.text), QuotePlace(start, end, link)))
    return render(
        FOLDER / "why.html",
        why=why,
        shown=shown,
        citance=masked(why.citance),
        lead=masked(why.lead),
        lead_shown=any(sentence.text == why.lead for sentence in why.found.shown),
    )
