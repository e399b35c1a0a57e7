"""Quotes that stand alone, and the sentences that a source is cited for: made on demand, kept nowhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import numpy as np
from fastapi import APIRouter, Request
from pydantic import Field

from index.encoders import CachedVectors
from index.ranking import Bm25s, fuse
from plugins.evidence.decontextualize import QUOTE_CHARS, QuoteSpan, bracketed, make_standalone
from plugins.evidence.explain import WhyFound, WhyRanker, WhySource, without_markers
from plugins.evidence.source import lead, sentences_of
from server.api.dependencies import JsonInt, StrictBody, service_of, while_connected
from server.chat.base import (
    MAX_ID_CHARS,
    InvalidRequest,
    NotFound,
    ServiceBase,
    checked_name,
    clean,
    requires,
    run_blocking,
)
from server.store.records import StoredTurn, View
from text.sentences import sentence_spans
from text.words import stems, tokenize

if TYPE_CHECKING:
    from index.collection import Collection
    from server.turn.events import Evidence


class StandaloneView(View):
    """A quote made readable away from its page. Kept spans joined are the quote as the document has it."""

    document_id: str
    start: int
    end: int
    text: str = Field(description="To show and to copy: additions in brackets.")
    spans: tuple[QuoteSpan, ...]


class WhyPlace(View):
    """A sentence of a document: `[start, end)` of its text."""

    start: int
    end: int


class WhySentenceView(View):
    """A quoted sentence and its places in the document."""

    text: str
    places: tuple[WhyPlace, ...]


class WhyView(View):
    """Sentences of a document that support a sentence that cites it."""

    document_id: str
    collection: str
    title: str
    citance: str = Field(description="The sentence that cites the document.")
    bears: bool = Field(description="False: no sentence could be matched, and nothing is shown.")
    lead: str = Field(description="What the document begins with: its abstract, or its first paragraph.")
    lead_first: bool = Field(description="True where the lead fits the sentence, and is better read first.")
    shown: tuple[WhySentenceView, ...] = Field(description="At most five sentences; quotations in reading order.")


CITANCE_CHARS = 2000
_QUOTED = re.compile(r"^[ \t]*>[ \t]?", re.MULTILINE)
"""What marks a line of an answer as a quotation."""

SENTENCE_VECTORS = 8192
"""How many vectors of sentences are remembered: 12 MB of those with 384 numbers."""
SENTENCES = 250
"""Sentences of one document that are compared; of a longer one those of its best passages. Encoding them takes a second
or two."""


class EvidenceService(ServiceBase):
    """Evidence of the documents that whoever acts may read."""

    async def _source(self, turn_id: str, n: int) -> tuple[StoredTurn, Evidence]:
        """A turn, and its source `n`. Raises NotFound."""
        turn = await self._turn(turn_id)
        for passage in turn.evidence.passages if turn.evidence else ():
            if passage.n == n:
                return turn, passage
        raise NotFound(f"The turn has no source {n}.", code="source_not_found", param="n")

    async def _noted(self, did: str, collection: str, document_id: str) -> Collection:
        """Open a collection to read one of its documents; `did` is said in the audit log. Raises NotFound."""
        name = checked_name(collection) if collection else await self.default_collection()
        ownership = await self.existing(name)
        self.note(did, document_id, collection=name, group=ownership.group)
        return await run_blocking(lambda: self.core.opened.get(name))

    @requires("ask")
    async def standalone_of_turn(self, turn_id: str, n: int) -> StandaloneView:
        """Make the quote of a turn's source `n` readable: the sentence that is cited first, or the passage.

        Raises NotFound.
        """
        turn, passage = await self._source(turn_id, n)
        cited = next((citation for citation in (turn.done.citations if turn.done else []) if citation.n == n), None)
        start, end = (cited.start, cited.end) if cited and cited.end > cited.start else (passage.start, passage.end)
        return await self.standalone(turn.collection, passage.document_id, start, end)

    @requires("ask")
    async def standalone(self, collection: str, document_id: str, start: int, end: int) -> StandaloneView:
        """`[start, end)` of a document's text made readable alone. Raises NotFound, InvalidRequest."""
        document_id = clean(document_id, MAX_ID_CHARS, "document_id")
        if not 0 <= start < end:
            raise InvalidRequest("A quote ends behind its start.", code="invalid_quote", param="end")
        if end - start > QUOTE_CHARS:
            raise InvalidRequest(
                f"The quote has {end - start:,} characters; {QUOTE_CHARS:,} are allowed. Choose a part of it.",
                code="quote_too_long",
                param="end",
            )

        opened = await self._noted("quote.standalone", collection, document_id)

        def read() -> list[QuoteSpan]:
            document = opened.document(document_id)
            if end > len(document.text) or not document.text[start:end].strip():
                raise InvalidRequest("The document has no text there.", code="invalid_quote", param="start")
            return make_standalone(document, start, end)

        spans = await run_blocking(read)
        return StandaloneView(
            document_id=document_id,
            start=start,
            end=end,
            text="".join(text for _, text in bracketed(spans)),
            spans=tuple(spans),
        )

    @requires("ask")
    async def why_of_turn(self, turn_id: str, n: int, at: int = 0) -> WhyView:
        """Return the sentences of source `n` that support the citing sentence of the answer: the last one that begins
        before offset `at`, else the first. Raises NotFound."""
        turn, passage = await self._source(turn_id, n)
        return await self.why(turn.collection, passage.document_id, _citance(turn, n, at))

    @requires("ask")
    async def why_linked(self, collection: str, document_id: str, text: str, at: int) -> WhyView:
        """Return the sentences of a document that support the sentence at offset `at` of a text that links to it.
        Raises as `why`."""
        start, end = next((span for span in sentence_spans(text) if at <= span[1]), (0, len(text)))
        return await self.why(collection, document_id, text[start:end].strip()[:CITANCE_CHARS])

    @requires("ask")
    async def why(self, collection: str, document_id: str, citance: str) -> WhyView:
        """Return the sentences of a document that bear on a sentence that cites it. Raises NotFound, InvalidRequest."""
        document_id = clean(document_id, MAX_ID_CHARS, "document_id")
        citance = clean(citance, CITANCE_CHARS, "citance")
        if not stems(without_markers(citance)):
            raise InvalidRequest("The citing sentence has no words.", code="invalid_citance", param="citance")

        opened = await self._noted("citation.why", collection, document_id)
        source, result = await run_blocking(lambda: self._found(opened, document_id, citance))
        return WhyView(
            document_id=document_id,
            collection=opened.name,
            title=source.title,
            citance=citance,
            bears=result.bears,
            lead=source.lead,
            lead_first=result.lead_first,
            shown=tuple(
                WhySentenceView(text=sentence.text, places=(_where(sentence.id),)) for sentence in result.shown
            ),
        )

    def _found(self, opened: Collection, document_id: str, citance: str) -> tuple[WhySource, WhyFound]:
        document, model = opened.document(document_id), self.core.models.encoder()
        encoder = _VECTORS.setdefault(model.name, CachedVectors(model, size=SENTENCE_VECTORS))
        sentences = sentences_of(document)
        if len(sentences) > SENTENCES:
            passages = opened.passages(document_id)
            vectors = opened.passage_vectors([passage.id for passage in passages])
            lexical = Bm25s.build(tokenize(passage.text) for passage in passages).search(citance, len(passages))
            dense = np.argsort(-(vectors @ encoder.encode([citance])[0]), kind="stable").tolist()
            chosen = set[str]()
            for passage in (passages[hit.id] for hit in fuse([("bm25", 1.0, lexical), ("dense", 1.0, dense)])):
                chosen |= {
                    sentence.id for sentence in sentences
                    if passage.start <= _where(sentence.id).start < passage.end and len(chosen) < SENTENCES
                }  # fmt: skip
                if len(chosen) >= SENTENCES:
                    break
            sentences = tuple(sentence for sentence in sentences if sentence.id in chosen)
        source = WhySource(sentences, lead(document), document.title)
        return source, WhyRanker(source, encoder).find(citance)


_VECTORS: dict[str, CachedVectors] = {}
"""What an encoder of that name has made of sentences: each is embedded once, for all citations of its document."""


def _where(name: str) -> WhyPlace:
    start, _, end = name.partition("-")
    return WhyPlace(start=int(start), end=int(end))


def _citance(turn: StoredTurn, n: int, at: int) -> str:
    """Return the sentence of a turn's answer that cites source `n`. Raises NotFound."""
    answer = turn.done.answer if turn.done else turn.answer
    cited = [
        (support.answer_start, support.answer_end)
        for support in (turn.done.support if turn.done else [])
        if n in support.cited
    ]
    if not cited:
        markers = [answer.find(f"[{n}]", start, end) for start, end in sentence_spans(answer)]
        spans = zip(sentence_spans(answer), markers, strict=True)
        cited = [span for span, marker in spans if marker >= 0 and stems(answer[slice(*span)])]
    if not cited:
        raise NotFound(f"The answer does not cite source {n}.", code="citation_not_found", param="n")
    start, end = next((span for span in reversed(cited) if span[0] <= at), cited[0])
    return _QUOTED.sub("", answer[start:end]).strip()[:CITANCE_CHARS]


router = APIRouter(tags=["Evidence"])

_LARGEST = 2**31


Quotes = Annotated[EvidenceService, service_of(EvidenceService)]


class QuoteOfTurn(StrictBody):
    """Source `n` of a turn."""

    turn_id: str = Field(min_length=1, description="A turn.")
    n: JsonInt = Field(ge=0, le=_LARGEST, description="The number of one of the turn's sources.")


class QuoteOfDocument(StrictBody):
    """A stretch of a document's text."""

    document_id: str = Field(min_length=1, description="A document.")
    collection: str = Field(default="", description="The document's collection; empty: the default one.")
    start: JsonInt = Field(default=0, ge=0, le=_LARGEST, description="First character of the document's text.")
    end: JsonInt = Field(default=0, ge=0, le=_LARGEST, description="Behind the last character.")


@router.post("/v1/standalone", summary="Make a quote readable away from its page")
async def standalone(body: QuoteOfTurn | QuoteOfDocument, request: Request, quotes: Quotes) -> StandaloneView:
    """Add to a quote, in brackets, the context that a reader of the quote alone needs; the words of the quote stay."""
    if isinstance(body, QuoteOfTurn):
        return await while_connected(request, quotes.standalone_of_turn(body.turn_id, body.n))
    quote = quotes.standalone(body.collection, body.document_id, body.start, body.end)
    return await while_connected(request, quote)


class CitationOfTurn(QuoteOfTurn):
    """A citation of source `n` in a turn's answer."""

    at: JsonInt = Field(
        default=0, ge=0, le=_LARGEST, description="Offset in the answer, where more than one sentence cites the source."
    )


class CitingSentence(StrictBody):
    """A sentence, and the document that it cites."""

    citance: str = Field(
        min_length=1, max_length=2000, description="The sentence that cites the document; markers may stay."
    )
    document_id: str = Field(min_length=1, description="The document.")
    collection: str = Field(default="", description="The document's collection; empty: the default one.")


@router.post("/v1/why", summary="Say what of a document a sentence that cites it means")
async def why(body: CitationOfTurn | CitingSentence, request: Request, quotes: Quotes) -> WhyView:
    """At most five sentences of the document that bear on the sentence; none where none could be matched with it."""
    if isinstance(body, CitationOfTurn):
        return await while_connected(request, quotes.why_of_turn(body.turn_id, body.n, body.at))
    return await while_connected(request, quotes.why(body.collection, body.document_id, body.citance))
