"""A chat service in memory, with scripted answers: what the page needs of `server.chat`, and no more.

Everything it yields is made of the real types, so that the page cannot tell it from the real one.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from server import access as policy
from server.access import LOCAL, Principal
from server.chat import (
    ChatError,
    ChatService,
    CitationEvent,
    CollectionSummary,
    ConversationDetail,
    ConversationSummary,
    DocumentText,
    DoneEvent,
    ErrorEvent,
    Event,
    Evidence,
    EvidenceEvent,
    Feedback,
    Job,
    NotFound,
    PageBox,
    Rating,
    RewriteEvent,
    SectionView,
    Settings,
    StoredTurn,
    SupportEvent,
    TokenEvent,
    TurnRequest,
)
from server.chat.documents import DocumentSummary, Suggestion, pick
from server.store.records import FileResult
from server.turn.events import QueryVariant


@dataclass
class Answer:
    """A scripted answer: text with markers `[n]`, and which of its sentences lack support."""

    text: str
    unsupported: tuple[str, ...] = ()
    refused: bool = False
    fails_after: int | None = None
    rewrite: str | None = None
    pause: float = 0.0


@dataclass
class Text:
    """A document of the fake collection: heading path and text of each section."""

    id: str
    title: str
    sections: list[tuple[tuple[str, ...], str]]
    page: int | None = None

    def document(self) -> DocumentText:
        text, views = "", []
        for heading, body in self.sections:
            views.append(SectionView(heading=heading, start=len(text), end=len(text) + len(body), page=self.page))
            text += body + "\n\n"
        return DocumentText(id=self.id, title=self.title, source=self.id, text=text, sections=tuple(views))


@dataclass
class FakeRunning:
    """A turn that has begun."""

    id: str
    events: AsyncGenerator[Event, None]

    def __aiter__(self) -> AsyncIterator[Event]:
        return self.events

    async def aclose(self) -> None:
        await self.events.aclose()


@dataclass
class FakeService(ChatService):
    """Answers each question with the next script whose key the question contains, else by quoting."""

    texts: list[Text]
    script: dict[str, Answer] = field(default_factory=dict)
    refuse_with: ChatError | None = None
    limit_with: ChatError | None = None
    settings: Settings = field(default_factory=Settings)

    def __post_init__(self) -> None:
        self.principal = LOCAL
        self._ids = itertools.count(1)
        self.store: dict[str, tuple[ConversationSummary, list[StoredTurn]]] = {}
        self.damage: dict[str, object] = {}
        self.requests: list[TurnRequest] = []
        self.cancelled = 0
        self.looks = 0
        services: dict[str, dict[str, Any]] = {
            "turns": {
                "ask": self.ask,
                "begin": self.begin,
                "examples": self.examples,
                "get": self.stored_turn,
                "give_feedback": self.feedback,
                "retract_feedback": self.retract_feedback,
            },
            "conversations": {
                "create": self.create_conversation,
                "listing": self.list_conversations,
                "get": self.conversation,
                "rename": self.rename_conversation,
                "delete": self.delete_conversation,
            },
            "collections": {
                "listing": self.list_collections,
                "documents": self.documents,
                "document": self.document,
                "places": self.places,
            },
            "admin": {"admit": self.admit, "job": self.job, "may": lambda does: policy.allows(self.principal, does)},
        }
        for name, methods in services.items():
            setattr(self, name, SimpleNamespace(**methods))

    def _id(self, kind: str) -> str:
        return f"{kind}-{next(self._ids)}"

    def _evidence(self) -> list[Evidence]:
        found = []
        for text in self.texts:
            document = text.document()
            for section in document.sections:
                n = len(found) + 1
                found.append(
                    Evidence(
                        n=n,
                        passage_id=f"{text.id}-{section.start}",
                        document_id=text.id,
                        title=text.title,
                        heading=list(section.heading),
                        page=section.page,
                        start=section.start,
                        end=section.end,
                        text=document.text[section.start : section.end],
                        source=text.id,
                        score=1 / (60 + n),
                        ranks={"typed/bm25": n, "typed/dense": n + 1, "rerank": n},
                    )
                )
        return found

    async def admit(self) -> None:
        if self.limit_with is not None:
            raise self.limit_with

    def as_principal(self, principal: Principal) -> FakeService:
        return self

    async def begin(self, request: TurnRequest) -> FakeRunning:
        self.requests.append(request)
        if self.refuse_with is not None:
            raise self.refuse_with
        turn_id = self._id("turn")
        return FakeRunning(turn_id, self._turn(request, turn_id))

    async def ask(self, request: TurnRequest) -> AsyncIterator[Event]:
        async for event in await self.begin(request):
            yield event

    async def _turn(self, request: TurnRequest, turn_id: str) -> AsyncGenerator[Event, None]:
        answer = next((one for key, one in self.script.items() if key in request.question), Answer("Nothing scripted."))
        shown: list[Event] = []
        try:
            async for event in self._events(request, turn_id, answer):
                shown.append(event)
                yield event
        except (asyncio.CancelledError, GeneratorExit):
            self.cancelled += 1
            raise
        finally:
            self._keep(request, turn_id, shown)

    async def _events(self, request: TurnRequest, turn_id: str, answer: Answer) -> AsyncIterator[Event]:
        text = request.search_for or answer.rewrite or request.question
        variants = [QueryVariant(name="typed", text=request.question, lexical=1, dense=1)]
        if text != request.question:
            variants.append(QueryVariant(name="rewritten", text=text, lexical=1, dense=1))
        yield RewriteEvent(
            question=request.question,
            text=text,
            decision="rewrite" if answer.rewrite else "keep",
            rewriter="fake",
            variants=variants,
            seconds=0.004,
        )
        evidence = self._evidence()
        yield EvidenceEvent(passages=evidence, reranked=True, seconds=0.031)
        citations: list[CitationEvent] = []
        sent = ""
        for piece in answer.text.replace(" ", " \x00").split("\x00"):
            if answer.fails_after is not None and len(sent) >= answer.fails_after:
                yield ErrorEvent(
                    turn_id=turn_id,
                    conversation_id=request.conversation_id,
                    code="llm_died",
                    message="The model stopped answering. Ask again; if it happens again, look at the server's log.",
                    answer=sent,
                )
                return
            await asyncio.sleep(answer.pause)
            sent += piece
            yield TokenEvent(text=piece)
        for passage in evidence:
            marker = f"[{passage.n}]"
            at = answer.text.find(marker)
            while at >= 0:
                citations.append(self._cite(passage, at, at + len(marker)))
                yield citations[-1]
                at = answer.text.find(marker, at + 1)
        citations.sort(key=lambda cite: cite.answer_start)
        support = [self._doubt(answer.text, sentence) for sentence in answer.unsupported]
        for event in support:
            yield event
        yield DoneEvent(
            turn_id=turn_id,
            conversation_id=request.conversation_id,
            status="refused" if answer.refused else "answered",
            answer=sent,
            citations=citations,
            support=support,
            dropped_citations=0,
            seconds={"rewrite": 0.004, "search": 0.011, "rerank": 0.02, "first_token": 0.4, "total": 1.9},
        )

    @staticmethod
    def _cite(passage: Evidence, start: int, end: int) -> CitationEvent:
        sentence = passage.text.split(". ")[0]
        return CitationEvent(
            **passage.model_dump(include={"n", "passage_id", "document_id", "title", "heading", "page", "start"}),
            quote=sentence,
            end=passage.start + len(sentence),
            answer_start=start,
            answer_end=end,
        )

    @staticmethod
    def _doubt(text: str, sentence: str) -> SupportEvent:
        at = text.index(sentence)
        return SupportEvent(answer_start=at, answer_end=at + len(sentence), cited=[1], score=0.1, supported=False)

    def _keep(self, request: TurnRequest, turn_id: str, events: Sequence[Event]) -> None:
        if request.conversation_id is None:
            return
        summary, turns = self.store[request.conversation_id]
        replaced = [index for index, turn in enumerate(turns) if turn.id == request.regenerate_of]
        versions: tuple[str, ...] = (turn_id,)
        if replaced:
            versions = (*turns[replaced[0]].versions, turn_id)
            del turns[replaced[0] :]
        last = events[-1] if events else None
        done = last if isinstance(last, DoneEvent) else None
        error = last if isinstance(last, ErrorEvent) else None
        turns.append(
            StoredTurn(
                id=turn_id,
                conversation_id=summary.id,
                collection=summary.collection,
                question=request.question,
                status=done.status if done else "failed" if error else "interrupted",
                answer="".join(event.text for event in events if isinstance(event, TokenEvent)),
                search_for=request.search_for,
                created=time.time(),
                finished=time.time(),
                rewrite=next((event for event in events if isinstance(event, RewriteEvent)), None),
                evidence=next((event for event in events if isinstance(event, EvidenceEvent)), None),
                done=done,
                error=error,
                feedback=None,
                versions=versions,
            )
        )
        title = summary.title or request.question
        update = {"title": title, "turns": len(turns), "updated": time.time()}
        self.store[summary.id] = summary.model_copy(update=update), turns

    async def create_conversation(self, collection: str = "", title: str = "", model: str = "") -> ConversationSummary:
        now = time.time()
        new = ConversationSummary(
            id=self._id("conversation"), title=title, collection=collection, created=now, updated=now, turns=0
        )
        self.store[new.id] = new, []
        return new

    async def list_conversations(
        self, query: str | None = None, *, limit: int = 50, offset: int = 0
    ) -> list[ConversationSummary]:
        found = [summary for summary, _ in self.store.values() if not query or query.lower() in summary.title.lower()]
        return sorted(found, key=lambda summary: -summary.updated)[offset : offset + limit]

    async def examples(self, collection: str) -> list[Suggestion]:
        return pick([text.document() for text in self.texts], 4)

    async def stored_turn(self, turn_id: str) -> StoredTurn:
        return next(turn for _, turns in self.store.values() for turn in turns if turn.id == turn_id)

    async def conversation(self, conversation_id: str, *, whole: bool = False) -> ConversationDetail:
        if conversation_id not in self.store:
            raise NotFound("This conversation does not exist any more; begin a new one.")
        summary, turns = self.store[conversation_id]
        return ConversationDetail(**summary.model_dump(), messages=tuple(turns))

    async def rename_conversation(self, conversation_id: str, title: str) -> ConversationSummary:
        summary, turns = self.store[conversation_id]
        self.store[conversation_id] = summary.model_copy(update={"title": title}), turns
        return self.store[conversation_id][0]

    async def delete_conversation(self, conversation_id: str) -> None:
        if self.store.pop(conversation_id, None) is None:
            raise NotFound("This conversation does not exist any more.")

    async def feedback(self, turn_id: str, rating: Rating, reason: str = "", comment: str = "") -> Feedback:
        word = Feedback(turn_id=turn_id, rating=rating, reason=reason, comment=comment, created=time.time())
        self._word(turn_id, word)
        return word

    async def retract_feedback(self, turn_id: str) -> None:
        self._word(turn_id, None)

    def _word(self, turn_id: str, word: Feedback | None) -> None:
        for _, turns in self.store.values():
            for index, turn in enumerate(turns):
                if turn.id == turn_id:
                    turns[index] = turn.model_copy(update={"feedback": word})
                    return
        raise NotFound("This turn does not exist any more.")

    async def list_collections(self) -> list[CollectionSummary]:
        count = len(self.texts)
        return [
            CollectionSummary(name="docs", documents=count, passages=count * 3, version="1", updated=0.0).model_copy(
                update=self.damage
            )
        ]

    async def documents(self, collection: str) -> list[DocumentSummary]:
        return [
            DocumentSummary(
                id=text.id, title=text.title, source=text.id, format="markdown", passages=3, removable=False
            )
            for text in self.texts
        ]

    async def places(self, collection: str, document_id: str, start: int, end: int) -> list[PageBox]:
        return []

    async def document(self, collection: str, document_id: str) -> DocumentText:
        for text in self.texts:
            if text.id == document_id:
                return text.document()
        raise NotFound("This document is not in the collection any more.")

    async def job(self, job_id: str) -> Job:
        self.looks += 1
        return self._job(job_id, self.looks)

    def _job(self, name: str, looks: int) -> Job:
        file = FileResult(document_id=name, status="indexed", passages=7)
        return Job(
            id=name,
            kind="upload",
            collection="docs",
            state="done" if looks > 2 else "running",
            stage="encoding",
            done=min(looks, 3),
            total=3,
            files=(file,) if looks > 2 else (),
            created=0.0,
            updated=0.0,
        )
