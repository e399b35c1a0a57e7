"""The evidence beside an answer, and the reader that opens a document at the cited place.

Every text here comes from documents: it reaches the page through `ui.safe_html` or an escaping
template, bounded in length.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote, unquote, urlencode

from markupsafe import Markup

from server.chat import (
    ChatError,
    ChatService,
    CitationEvent,
    DocumentText,
    Evidence,
    EvidenceEvent,
    PageBox,
    Quotation,
    SectionView,
)
from text.languages import gettext, message
from text.sanitize import masked
from ui.annotations import Highlight, LinkMark, ReferenceMark
from ui.safe_html import NO_LINKS, link_target, render_markdown, render_plain
from ui.templates import render

AROUND = 20_000
"""Characters of a document shown before and after the cited place."""

QUOTES = 4
"""Quotes of one source that can be made readable."""

ReaderMark: TypeAlias = Highlight | ReferenceMark | LinkMark

_MARKDOWN = {".md", ".mdx", ".markdown", ".html", ".htm", ".xhtml", ".docx", ".rst"}
_TABLE = re.compile(r"^\|.*\|\n\|(?: --- \|)+(?:\n\|.*\|$)*", re.MULTILINE)
_PICTURE_WIDTH = 1000
_RANKINGS = {
    "typed": message("typed question"),
    "rewritten": message("question in full"),
    "expanded": message("question with words added"),
    "exchange": message("previous exchange"),
    "reply": message("your reply"),
    "opening": message("your first question"),
    "conversation": message("whole conversation"),
    "page": message("the page you read"),
    "bm25": message("keywords"),
    "dense": message("meaning"),
    "rerank": message("cross-encoder"),
    "document": message("document you talk about"),
}
"""Query variants, rankings of each, and what else moves a passage, in words."""


@dataclass(frozen=True, slots=True)
class QuotePlace:
    """A sentence's place in its document, and the page's own address of it where that is asked for."""

    start: int
    end: int
    link: str = ""


def formatted(
    name: str,
    text: str,
    highlights: Sequence[ReaderMark],
    collection: str = "",
    links: Mapping[str, str] = NO_LINKS,
) -> Markup:
    """The text of the document of this name as HTML: Markdown where our loaders write it, else as it stands.

    With its collection the images of the document are shown; `links` are addresses of other documents.
    """
    suffix = PurePosixPath(name.split("#", 1)[0].lower()).suffix
    if suffix in _MARKDOWN:
        place = f"v1/collections/{quote(collection)}/images/{quote(name)}?name=" if collection else ""
        return render_markdown(text, highlights, place, links)
    return _with_tables(text, highlights) if suffix == ".pdf" else render_plain(text, highlights)


def _with_tables(text: str, highlights: Sequence[ReaderMark]) -> Markup:
    """A PDF's text: paragraphs as they stand, and its tables as tables."""
    parts, at = list[Markup](), 0
    for table in [*_TABLE.finditer(text), None]:
        start, end = table.span() if table else (len(text), len(text))
        if text[at:start].strip():
            parts.append(render_plain(text[at:start], _within(highlights, at, start), flowing=True))
        if table:
            parts.append(render_markdown(table.group(), _within(highlights, start, end)))
        at = end
    return Markup("").join(parts)


def _within(highlights: Sequence[ReaderMark], start: int, end: int) -> list[ReaderMark]:
    return [
        replace(mark, start=max(mark.start, start) - start, end=min(mark.end, end) - start)
        for mark in highlights
        if mark.start < end and mark.end > start
    ]


def ranking_name(label: str) -> str:
    """A query variant, or a ranking such as `typed/bm25`, in words; a part that is not known here keeps its name."""
    return ", ".join(gettext(_RANKINGS[part]) if part in _RANKINGS else part for part in label.split("/"))


def document_link(collection: str, document_id: str, start: int = 0, end: int = 0, part: str = "") -> str:
    """The page's own address of a place in a document, or of the part of it with this anchor."""
    query = {"collection": collection, "document": document_id, "at": f"{start}-{end}"}
    return "?" + urlencode(query | ({"part": part} if part else {}), quote_via=quote)


def _source(
    collection: str, passage: Evidence, citations: Sequence[CitationEvent], nearest: Sequence[Quotation]
) -> dict[str, Any]:
    """Return the further fields that the panel shows of a passage."""
    cited = [(key, cite) for key, cite in enumerate(citations) if cite.passage_id == passage.passage_id]
    origin = passage.origin
    highlights = [Highlight(cite.start - origin, cite.end - origin, key) for key, cite in cited]
    near = [quoted for quoted in nearest if quoted.n == passage.n]
    highlights += [Highlight(quoted.start - origin, quoted.end - origin, None) for quoted in near]
    return {
        "passage": passage,
        "start": min((cite.start for _, cite in cited if cite.end > cite.start), default=passage.start),
        "end": max((cite.end for _, cite in cited if cite.end > cite.start), default=passage.end),
        "text": formatted(passage.document_id, passage.opened, highlights, collection),
        "link": document_link(collection, passage.document_id, passage.start, passage.end),
        # Where the source itself can be opened, at the cited sentence.
        "address": _web_link(next((cite.url for _, cite in cited if cite.url), passage.source)),
        "marked": bool(highlights),
        "ranks": [(ranking_name(label), place) for label, place in sorted(passage.ranks.items(), key=lambda r: r[1])],
        "quotes": _quotes(passage, [cite for _, cite in cited] or near),
        # Offsets in the answer of the markers that cite it.
        "citings": sorted({cite.answer_start for _, cite in cited})[:QUOTES],
    }


def _web_link(address: str) -> str | None:
    return link_target(address) if address.startswith(("http://", "https://")) else None


def _quotes(passage: Evidence, citations: Sequence[CitationEvent | Quotation]) -> list[QuotePlace]:
    """The places that are quoted of a passage, in reading order; the passage itself where none is."""
    places = {(citation.start, citation.end) for citation in citations if citation.end > citation.start}
    return [QuotePlace(*place) for place in sorted(places)[:QUOTES] or [(passage.start, passage.end)]]


def sources_html(
    key: str,
    collection: str,
    evidence: EvidenceEvent,
    citations: Sequence[CitationEvent],
    nearest: Sequence[Quotation] = (),
    *,
    numbers: Mapping[int, int] | None = None,
    turn: str = "",
    detailed: bool = False,
) -> Markup:
    """Render the numbered passages of a turn; `citations` highlight the sentences that they quote.

    They stand in the order of `numbers`, which people read. As long as there are none, `nearest` are highlighted. Why a
    source is cited can be asked of a kept `turn`. Ranks and scores are shown if `detailed`: they are for agents.
    """
    nearest = () if citations else nearest
    places = {passage.n: passage.n for passage in evidence.passages} | dict(numbers or {})
    passages = sorted(evidence.passages, key=lambda passage: places[passage.n])
    views = [{**_source(collection, passage, citations, nearest), "number": places[passage.n]} for passage in passages]
    return render(
        "sources.html",
        key=key,
        turn=turn,
        collection=collection,
        shown=views,
        marked=any(view["marked"] for view in views),
        nearest=bool(nearest),
        reranked=evidence.reranked and detailed,
        detailed=detailed,
        seconds=evidence.seconds,
    )


class Sheet(NamedTuple):
    """The pages that a place in a document is on, the first of them as a picture, and what is cited there."""

    pages: list[int]
    width: float
    height: float
    png: str
    boxes: list[PageBox]


def reader_html(
    document: DocumentText, start: int, end: int, sheet: Sheet | None = None, collection: str = ""
) -> Markup:
    """A document around `[start, end)`, which is highlighted; what is too far away is left out and counted."""
    length = len(document.text)
    start = max(0, min(start, length))
    end = max(start, min(end, length))
    first, last = max(0, start - AROUND), min(length, end + AROUND)
    marks: list[ReaderMark] = [Highlight(start, end, 0)]
    marks += [ReferenceMark(marker.start, marker.end, marker.reference) for marker in document.markers]
    marks += [
        LinkMark(link.start, link.end, document_link(collection, link.document_id, part=link.anchor))
        for link in document.linked
    ]
    links = {
        href: document_link(collection, to, part=unquote(href.partition("#")[2])) for href, to in document.links.items()
    }
    sections = [section for section in document.sections if section.start < last and section.end > first]
    parts = []
    for section in sections or (SectionView(heading=(), start=first, end=last, page=None),):
        a, b = max(section.start, first), min(section.end, last)
        text = formatted(document.id, document.text[a:b], _within(marks, a, b), collection, links)
        parts.append((section, text))
    return render(
        "reader.html",
        title=document.title or document.id,
        source=document.source or document.id,
        address=_web_link(document.source),
        sections=parts,
        before=first,
        after=length - last,
        sheet=sheet,
        references=[
            (masked(reference.text), reference.document_id and document_link(collection, reference.document_id))
            for reference in document.references
        ],
    )


def anchored(document: DocumentText, part: str) -> tuple[int, int]:
    """The first line below the heading with this anchor, as most programs make anchors of headings; else the start."""
    for section in document.sections:
        if section.heading and re.sub(r"[^\w\- ]", "", section.heading[-1].lower()).replace(" ", "-") == part:
            match = re.compile(r"\S.*").search(document.text, section.start, section.end)
            return match.span() if match else (section.start, section.start)
    return 0, 0


async def read(service: ChatService, collection: str, document_id: str, start: int, end: int, part: str = "") -> Markup:
    """The reader's view of a document at a place, or at a part of it. Raises `NotFound`."""
    document = await service.collections.document(collection, document_id)
    if part:
        start, end = anchored(document, part)
    sheet = await _sheet(service, collection, document_id, start, end)
    return reader_html(document, start, end, sheet, collection)


async def _sheet(service: ChatService, collection: str, document_id: str, start: int, end: int) -> Sheet | None:
    """The page on which a place begins; None where there is none to be seen."""
    if not document_id.lower().endswith(".pdf"):
        return None
    try:
        boxes = await service.collections.places(collection, document_id, start, end)
        if not boxes:
            return None
        page = boxes[0].page
        picture = await service.collections.page_picture(collection, document_id, page, _PICTURE_WIDTH)
    except ChatError:
        return None  # the text is there all the same
    png, pages = base64.b64encode(picture.png).decode(), list(dict.fromkeys(box.page for box in boxes))
    return Sheet(pages, picture.width, picture.height, png, [box for box in boxes if box.page == page])
