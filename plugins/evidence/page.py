"""Calls of the page: make a quote readable, and tell why a source is cited."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeAlias

from markupsafe import Markup
from pydantic import Field

from plugins.evidence.decontextualize import bracketed
from plugins.evidence.service import EvidenceService, StandaloneView, WhyView
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


def readable_html(view: StandaloneView) -> Markup:
    """Render a quote made readable: additions are in brackets and underlined."""
    original = "".join(span.text for span in view.spans if span.kind == "kept")
    return render(FOLDER / "readable.html", made=view, parts=bracketed(view.spans), original=original)


def why_html(view: WhyView) -> Markup:
    """The sentences of a source that bear on a citing one, each with a way to its place."""
    rows = [
        (
            masked(sentence.text),
            [
                QuotePlace(at.start, at.end, document_link(view.collection, view.document_id, at.start, at.end))
                for at in sentence.places
            ],
        )
        for sentence in view.shown
    ]
    return render(
        FOLDER / "why.html",
        found=view,
        shown=rows,
        citance=masked(view.citance),
        lead=masked(view.lead),
        lead_shown=any(sentence.text == view.lead for sentence in view.shown),
    )
