"""The part of the service that tells why a source is cited: on demand, kept, never before a turn.

`server.evidence.why` ranks the sentences.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from server.chat.acting import acting
from server.chat.error_mapping import MAX_ID_CHARS, InvalidRequest, NotFound, clean, in_thread
from server.chat.on_demand import OnDemand
from server.chat.types import WhyPlace, WhySentenceView, WhyView
from server.evidence.contexts import Citance, without_markers
from server.evidence.source import lead, paragraph, sentences_of
from server.evidence.why import WhyFound, WhyPlan, WhyRanker, WhySource
from server.evidence.within import Within
from text.sentences import sentence_spans
from text.words import stems

if TYPE_CHECKING:
    from index.collection import Collection
    from server.store.records import StoredTurn

CITANCE_CHARS = 2000
_QUOTED = re.compile(r"^[ \t]*>[ \t]?", re.MULTILINE)
"""What marks a line of an answer as a quotation."""

SENTENCES = 250
"""Sentences of one document that are compared; of a longer one those of its best passages. Encoding them takes a second
or two."""


class WhyMixin(OnDemand):
    """Why a source is cited."""

    @acting("ask")
    async def why_of_turn(self, turn_id: str, n: int, at: int = 0) -> WhyView:
        """What of source `n` bears on the answer's sentence that cites it: the last to begin up to offset `at` of the
        answer, else the first. Raises NotFound."""
        turn, passage = await self._source(turn_id, n)
        return await self.why(turn.collection, passage.document_id, _citance(turn, n, at))

    @acting("ask")
    async def why_linked(self, collection: str, document_id: str, text: str, at: int) -> WhyView:
        """What of a document bears on the sentence at offset `at` of a text that links to it. Raises as `why`."""
        start, end = next((span for span in sentence_spans(text) if at <= span[1]), (0, len(text)))
        citance = Citance(text[start:end].strip()[:CITANCE_CHARS], text[:start], text[end:], text)
        return await self.why(collection, document_id, citance)

    @acting("ask")
    async def why(self, collection: str, document_id: str, citance: Citance) -> WhyView:
        """Return the sentences of a document that bear on a sentence that cites it. Raises NotFound, InvalidRequest."""
        document_id = clean(document_id, MAX_ID_CHARS, "document_id")
        citance = Citance(
            clean(citance.text, CITANCE_CHARS, "citance"),
            clean(citance.before, CITANCE_CHARS, "before"),
            clean(citance.after, CITANCE_CHARS, "after"),
            citance.paragraph,
        )
        if not stems(without_markers(citance.text)):
            raise InvalidRequest("The citing sentence has no words.", code="invalid_citance", param="citance")
        settings, plan = self.core.settings, WhyPlan()

        async def make(opened: Collection, group: str) -> tuple[WhyView, bool]:
            source, found = await in_thread(lambda: self._found(opened, document_id, citance, plan))
            view = WhyView(
                document_id=document_id,
                collection=opened.name,
                title=source.title,
                # Whose sentence it was is nobody's business who is not told it.
                citance="",
                bears=found.bears,
                lead=source.lead,
                lead_first=found.lead_first,
                shown=tuple(WhySentenceView(text=one.text, places=tuple(map(_where, one.ids))) for one in found.shown),
            )
            return view, True

        said = citance.text, citance.before, citance.after
        parts = "why", *said, settings.index.encoder, plan.name
        made = await self._once("citation.why", WhyView, collection, document_id, parts, make, asks=False)
        return made.model_copy(update={"citance": citance.text})

    def _found(
        self, opened: Collection, document_id: str, citance: Citance, plan: WhyPlan
    ) -> tuple[WhySource, WhyFound]:
        document, encoder = opened.document(document_id), self.core.models.encoder()
        sentences = sentences_of(document)
        if len(sentences) > SENTENCES:
            passages = opened.passages(document_id)
            vectors = opened.passage_vectors([one.id for one in passages])
            within = Within([one.text for one in passages], encoder, vectors)
            chosen = set[str]()
            for n in within.rank(citance.text, len(passages)):
                chosen |= {
                    one.id for one in sentences
                    if passages[n].start <= _where(one.id).start < passages[n].end and len(chosen) < SENTENCES
                }  # fmt: skip
                if len(chosen) >= SENTENCES:
                    break
            sentences = tuple(one for one in sentences if one.id in chosen)
        source = WhySource(sentences, lead(document), document.title)
        return source, WhyRanker(source, encoder).find(citance, plan)


def _where(name: str) -> WhyPlace:
    start, _, end = name.partition("-")
    return WhyPlace(start=int(start), end=int(end))


def _citance(turn: StoredTurn, n: int, at: int) -> Citance:
    """The sentence of a turn's answer that cites source `n`, with what stands around it. Raises NotFound."""
    answer = turn.done.answer if turn.done else turn.answer
    cited = [(one.answer_start, one.answer_end) for one in (turn.done.support if turn.done else []) if n in one.cited]
    if not cited:
        markers = [answer.find(f"[{n}]", start, end) for start, end in sentence_spans(answer)]
        spans = zip(sentence_spans(answer), markers, strict=True)
        cited = [span for span, marker in spans if marker >= 0 and stems(answer[slice(*span)])]
    if not cited:
        raise NotFound(f"The answer does not cite source {n}.", code="citation_not_found", param="n")
    start, end = next((one for one in reversed(cited) if one[0] <= at), cited[0])
    around = CITANCE_CHARS // 2
    return Citance(
        _QUOTED.sub("", answer[start:end]).strip()[:CITANCE_CHARS],
        answer[max(0, start - around) : start],
        answer[end : end + around],
        paragraph(answer, start, end),
    )
