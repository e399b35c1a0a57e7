"""The part of the service that makes a quote readable away from its page: on demand, kept, never before a turn.

How it is made is `server.evidence.standalone`'s business.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from server.chat.acting import acting
from server.chat.error_mapping import MAX_ID_CHARS, InvalidRequest, clean, in_thread
from server.chat.on_demand import OnDemand
from server.chat.types import StandaloneQuestion, StandaloneView
from server.evidence.asking import AskingFailed
from server.evidence.source import SourceQuote, quote_of
from server.evidence.standalone import (
    SNIPPET_CHARS,
    StandaloneMethod,
    StandalonePlan,
    make_standalone,
    passage_of,
)

if TYPE_CHECKING:
    from index.collection import Collection
    from server.evidence.within import Within


class StandaloneMixin(OnDemand):
    """Quotes that stand alone."""

    @acting("ask")
    async def standalone_of_turn(self, turn_id: str, n: int, method: StandaloneMethod = "insert") -> StandaloneView:
        """What a turn quotes from its source `n`: the sentence that is cited first, or the passage. Raises NotFound."""
        turn, passage = await self._source(turn_id, n)
        cited = next((one for one in (turn.done.citations if turn.done else []) if one.n == n), None)
        start, end = (cited.start, cited.end) if cited and cited.end > cited.start else (passage.start, passage.end)
        return await self.standalone(turn.collection, passage.document_id, start, end, method)

    @acting("ask")
    async def standalone(
        self, collection: str, document_id: str, start: int, end: int, method: StandaloneMethod = "insert"
    ) -> StandaloneView:
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
        plan = StandalonePlan(method)

        async def make(opened: Collection, group: str) -> tuple[StandaloneView, bool]:
            quote, within = await in_thread(lambda: self._standalone_quote(opened, document_id, start, end))
            whole = True
            async with self._asking(group) as asker:
                try:
                    made = await make_standalone(quote, plan, asker, within)
                except AskingFailed as error:
                    made, whole = replace(await make_standalone(quote, plan), refused=str(error)), False
            view = StandaloneView(
                document_id=document_id,
                start=start,
                end=end,
                text=made.text,
                spans=made.spans,
                questions=tuple(
                    StandaloneQuestion(question=one.question, answer=one.answer, passage=passage_of(one, quote))
                    for one in made.questions
                ),
                refused=made.refused,
                model=self.core.settings.llm.model,
            )
            return view, whole

        parts = start, end, plan.version
        return await self._once("quote.standalone", StandaloneView, collection, document_id, parts, make, asks=True)

    def _standalone_quote(
        self, opened: Collection, document_id: str, start: int, end: int
    ) -> tuple[SourceQuote, Within]:
        from server.evidence.within import Within

        document = opened.document(document_id)
        if end > len(document.text) or not document.text[start:end].strip():
            raise InvalidRequest("The document has no text there.", code="invalid_quote", param="start")
        passages = opened.passages(document_id)
        quote = quote_of(document, passages, start, end)
        if self.core.settings.llm.model.casefold() == "none":
            return quote, Within([])
        vectors = opened.passage_vectors([one.id for one in passages]) if passages else None
        return quote, Within([one.text for one in passages], self.core.models.encoder(), vectors)
