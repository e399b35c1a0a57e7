"""Shared base of evidence made on demand: results are cached, and a language model is asked with patience.

The cache key holds every input: the group that reaches the collection, the collection's version, the place, the model,
the prompts.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeVar

from pydantic import Field

from index.encoders import CachedVectors
from plugins.evidence.asking import AskingFailed, QuoteAsker
from plugins.evidence.decontextualize import SNIPPET_CHARS, make_standalone, passage_of, plan_version
from plugins.evidence.explain import WhyFound, WhyRanker, WhySource, without_markers
from plugins.evidence.source import SourceQuote, Within, lead, quote_of, sentences_of
from server.chat.authorization import ServiceBase, requires
from server.chat.error_mapping import (
    MAX_ID_CHARS,
    InvalidRequest,
    NotFound,
    Unavailable,
    checked_name,
    clean,
    run_blocking,
)
from server.chat.loaded_models import salted
from server.chat.running_turn import CHARS_PER_TOKEN, turn_seconds
from server.store import collection_rows
from server.store.records import StoredTurn, View
from text.sentences import sentence_spans
from text.words import stems

if TYPE_CHECKING:
    from index.collection import Collection
    from index.encoders import Encoder
    from server.turn.events import Evidence


class SpanView(View):
    """A stretch of a quote that was kept, added or removed; an added one is without its brackets."""

    kind: Literal["kept", "added", "removed"]
    text: str


class StandaloneQuestion(View):
    """A question that a reader of the quote alone has, and the passage it was answered from (empty: lead, title or
    paragraph)."""

    question: str
    answer: str
    passage: str


class StandaloneView(View):
    """A quote made readable away from its page. Kept and removed spans joined are the quote as the document has it."""

    document_id: str
    start: int
    end: int
    text: str = Field(description="To show and to copy: additions in brackets, what was removed left out.")
    spans: tuple[SpanView, ...]
    questions: tuple[StandaloneQuestion, ...]
    refused: str = Field(default="", description="What was not added or rewritten, and why.")
    model: str = Field(description="What was asked; `none`: rules alone.")
    cached: bool = False


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
    cached: bool = False


V = TypeVar("V", bound=View)

CITANCE_CHARS = 2000
_QUOTED = re.compile(r"^[ \t]*>[ \t]?", re.MULTILINE)
"""What marks a line of an answer as a quotation."""

SENTENCE_VECTORS = 8192
"""How many vectors of sentences are remembered: 12 MB of those with 384 numbers."""
SENTENCES = 250
"""Sentences of one document that are compared; of a longer one those of its best passages. Encoding them takes a second
or two."""


class EvidenceService(ServiceBase):
    """Quotes that stand alone, and the sentences that a source is cited for; made on demand, beside the turns."""

    async def _source(self, turn_id: str, n: int) -> tuple[StoredTurn, Evidence]:
        """A turn, and its source `n`. Raises NotFound."""
        turn = await self._turn(turn_id)
        for passage in turn.evidence.passages if turn.evidence else ():
            if passage.n == n:
                return turn, passage
        raise NotFound(f"The turn has no source {n}.", code="source_not_found", param="n")

    async def _once(
        self,
        did: str,
        view: type[V],
        collection: str,
        document_id: str,
        parts: Sequence[object],
        make: Callable[[Collection, str], Awaitable[tuple[V, bool]]],
        *,
        asks: bool,
    ) -> V:
        """Return the cached result for these `parts` of a document, or compute it for the open collection and a group.

        It is kept where everything that was to be asked was answered, but not where its version was replaced meanwhile:
        a document may have been erased with it. `asks` whether a model may be asked; `did` is said in the audit log.
        """
        core, llm = self.core, self.core.settings.llm
        name = checked_name(collection) if collection else await self.default_collection()
        ownership = await self.existing(name)
        opened = await run_blocking(lambda: core.opened.get(name))
        version = opened.version
        text = json.dumps((ownership.group, name, version, document_id, *parts, llm.model, llm.model_name))
        key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        if (cached := await self._read(collection_rows.find_cached, key)) is not None:
            return view.model_validate_json(cached).model_copy(update={"cached": True})
        if asks:
            await core.limits.require_tokens(self.principal)
        self.note(did, document_id, collection=name, group=ownership.group)
        result, whole = await make(opened, ownership.group)
        if whole and (await run_blocking(lambda: core.opened.get(name))).version == version:
            row = name, version, document_id, self.principal.id, result.model_dump_json()
            await self._write(collection_rows.cache, key, *row)
        return result

    @asynccontextmanager
    async def _asking(self, group: str) -> AsyncIterator[QuoteAsker | None]:
        """Yield a client for the configured model, or None. Token use is charged to the current principal.

        Raises Unavailable where turns left no time for it.
        """
        core, llm = self.core, self.core.settings.llm
        asker = None
        if llm.model.casefold() != "none":
            model = salted((await core.models.keeper.engine()).chat_model(), group)
            asker = QuoteAsker(model, llm.timeout_seconds, core.patience) if model is not None else None
        try:
            async with asyncio.timeout(turn_seconds(core.settings.llm)):
                yield asker
        except TimeoutError as error:
            raise Unavailable(
                "There was no time for this beside the questions that are being answered. Try again later.",
                code="standalone_timeout",
            ) from error
        finally:
            if asker is not None and asker.chars:
                await core.limits.spend(self.principal, math.ceil(asker.chars / CHARS_PER_TOKEN))

    @requires("ask")
    async def standalone_of_turn(self, turn_id: str, n: int) -> StandaloneView:
        """Return the quote of a turn's source `n`, decontextualized: the sentence that is cited first, or the passage.
        Raises NotFound."""
        turn, passage = await self._source(turn_id, n)
        cited = next((citation for citation in (turn.done.citations if turn.done else []) if citation.n == n), None)
        start, end = (cited.start, cited.end) if cited and cited.end > cited.start else (passage.start, passage.end)
        return await self.standalone(turn.collection, passage.document_id, start, end)

    @requires("ask")
    async def standalone(self, collection: str, document_id: str, start: int, end: int) -> StandaloneView:
        """`[start, end)` of a document's text made readable alone. A model that fails leaves what rules settle.

        Raises NotFound, InvalidRequest, LimitReached, and Unavailable where turns left no time for it.
        """
        document_id = clean(document_id, MAX_ID_CHARS, "document_id")
        if not 0 <= start < end:
            raise InvalidRequest("A quote ends behind its start.", code="invalid_quote", param="end")
        if end - start > SNIPPET_CHARS:
            raise InvalidRequest(
                f"The quote has {end - start:,} characters; {SNIPPET_CHARS:,} are allowed. Choose a part of it.",
                code="quote_too_long",
                param="end",
            )

        async def make(opened: Collection, group: str) -> tuple[StandaloneView, bool]:
            quote, within = await run_blocking(lambda: self._standalone_quote(opened, document_id, start, end))
            whole = True
            async with self._asking(group) as asker:
                try:
                    readable = await make_standalone(quote, asker, within)
                except AskingFailed as error:
                    readable, whole = replace(await make_standalone(quote), refused=str(error)), False
            view = StandaloneView(
                document_id=document_id,
                start=start,
                end=end,
                text=readable.text,
                spans=readable.spans,
                questions=tuple(
                    StandaloneQuestion(
                        question=question.question, answer=question.answer, passage=passage_of(question, quote)
                    )
                    for question in readable.questions
                ),
                refused=readable.refused,
                model=self.core.settings.llm.model,
            )
            return view, whole

        parts = start, end, plan_version()
        return await self._once("quote.standalone", StandaloneView, collection, document_id, parts, make, asks=True)

    def _standalone_quote(
        self, opened: Collection, document_id: str, start: int, end: int
    ) -> tuple[SourceQuote, Within]:
        document = opened.document(document_id)
        if end > len(document.text) or not document.text[start:end].strip():
            raise InvalidRequest("The document has no text there.", code="invalid_quote", param="start")
        passages = opened.passages(document_id)
        quote = quote_of(document, passages, start, end)
        if self.core.settings.llm.model.casefold() == "none":
            return quote, Within([])
        vectors = opened.passage_vectors([passage.id for passage in passages]) if passages else None
        return quote, Within([passage.text for passage in passages], self.core.models.encoder(), vectors)

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

        async def make(opened: Collection, group: str) -> tuple[WhyView, bool]:
            source, result = await run_blocking(lambda: self._found(opened, document_id, citance))
            view = WhyView(
                document_id=document_id,
                collection=opened.name,
                title=source.title,
                # Who finds the stored view again may not be told whose sentence it was.
                citance="",
                bears=result.bears,
                lead=source.lead,
                lead_first=result.lead_first,
                shown=tuple(
                    WhySentenceView(text=sentence.text, places=(_where(sentence.id),)) for sentence in result.shown
                ),
            )
            return view, True

        parts = "why", citance, self.core.settings.index.encoder
        why_view = await self._once("citation.why", WhyView, collection, document_id, parts, make, asks=False)
        return why_view.model_copy(update={"citance": citance})

    def _found(self, opened: Collection, document_id: str, citance: str) -> tuple[WhySource, WhyFound]:
        document, encoder = opened.document(document_id), _remembering(self.core.models.encoder())
        sentences = sentences_of(document)
        if len(sentences) > SENTENCES:
            passages = opened.passages(document_id)
            vectors = opened.passage_vectors([passage.id for passage in passages])
            within = Within([passage.text for passage in passages], encoder, vectors)
            chosen = set[str]()
            for n in within.rank(citance, len(passages)):
                chosen |= {
                    sentence.id for sentence in sentences
                    if passages[n].start <= _where(sentence.id).start < passages[n].end and len(chosen) < SENTENCES
                }  # fmt: skip
                if len(chosen) >= SENTENCES:
                    break
            sentences = tuple(sentence for sentence in sentences if sentence.id in chosen)
        source = WhySource(sentences, lead(document), document.title)
        return source, WhyRanker(source, encoder).find(citance)


_VECTORS: dict[str, CachedVectors] = {}
"""What an encoder of that name has made of sentences: each is embedded once, for all citations of its document."""


def _remembering(encoder: Encoder) -> CachedVectors:
    return _VECTORS.setdefault(encoder.name, CachedVectors(encoder, size=SENTENCE_VECTORS))


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
