"""Quotes that stand alone, and the sentences that a source is cited for: made on demand, kept nowhere."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from index.encoders import CachedVectors
from index.ranking import Bm25s, fuse
from plugins.evidence.decontextualize import QUOTE_CHARS, QuoteSpan, make_standalone
from plugins.evidence.explain import WhyFound, WhyRanker, WhySource, without_markers
from plugins.evidence.source import SourcePassage, lead, sentences_of
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
from server.store.records import StoredTurn
from text.sentences import sentence_spans
from text.words import stems, tokenize

if TYPE_CHECKING:
    from index.collection import Collection


@dataclass(frozen=True, slots=True)
class WhySentences:
    """Sentences of a document that bear on a `citance`, which cites it."""

    document_id: str
    collection: str
    citance: str
    lead: str
    found: WhyFound


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

    async def _noted(self, did: str, collection: str, document_id: str) -> Collection:
        """Open a collection to read one of its documents; `did` is said in the audit log. Raises NotFound."""
        name = checked_name(collection) if collection else await self.default_collection()
        ownership = await self.existing(name)
        self.note(did, document_id, collection=name, group=ownership.group)
        return await run_blocking(lambda: self.core.opened.get(name))

    @requires("ask")
    async def standalone(self, collection: str, document_id: str, start: int, end: int) -> list[QuoteSpan]:
        """Make `[start, end)` of a document's text readable alone. Raises NotFound, InvalidRequest."""
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

        return await run_blocking(read)

    @requires("ask")
    async def why_of_turn(self, turn_id: str, n: int, at: int = 0) -> WhySentences:
        """Return the sentences of source `n` that support the citing sentence of the answer: the last one that begins
        before offset `at`, else the first. Raises NotFound."""
        turn = await self._turn(turn_id)
        for passage in turn.evidence.passages if turn.evidence else ():
            if passage.n == n:
                return await self.why(turn.collection, passage.document_id, _citance(turn, n, at))
        raise NotFound(f"The turn has no source {n}.", code="source_not_found", param="n")

    @requires("ask")
    async def why_linked(self, collection: str, document_id: str, text: str, at: int) -> WhySentences:
        """Return the sentences of a document that support the sentence at offset `at` of a text that links to it.
        Raises as `why`."""
        start, end = next((span for span in sentence_spans(text) if at <= span[1]), (0, len(text)))
        return await self.why(collection, document_id, text[start:end].strip()[:CITANCE_CHARS])

    @requires("ask")
    async def why(self, collection: str, document_id: str, citance: str) -> WhySentences:
        """Return the sentences of a document that bear on a sentence that cites it. Raises NotFound, InvalidRequest."""
        document_id = clean(document_id, MAX_ID_CHARS, "document_id")
        citance = clean(citance, CITANCE_CHARS, "citance")
        if not stems(without_markers(citance)):
            raise InvalidRequest("The citing sentence has no words.", code="invalid_citance", param="citance")

        opened = await self._noted("citation.why", collection, document_id)
        source, result = await run_blocking(lambda: self._found(opened, document_id, citance))
        return WhySentences(document_id, opened.name, citance, source.lead, result)

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
                    if passage.start <= place_of(sentence)[0] < passage.end and len(chosen) < SENTENCES
                }  # fmt: skip
                if len(chosen) >= SENTENCES:
                    break
            sentences = tuple(sentence for sentence in sentences if sentence.id in chosen)
        source = WhySource(sentences, lead(document), document.title)
        return source, WhyRanker(source, encoder).find(citance)


_VECTORS: dict[str, CachedVectors] = {}
"""What an encoder of that name has made of sentences: each is embedded once, for all citations of its document."""


def place_of(sentence: SourcePassage) -> tuple[int, int]:
    """Return `[start, end)` of a sentence in its document's text, as it is named by."""
    start, _, end = sentence.id.partition("-")
    return int(start), int(end)


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
