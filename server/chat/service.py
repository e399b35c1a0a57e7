"""`ChatService`: the facade itself, and how one is opened.

It validates, bounds and joins; the work lies in the modules beside it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO, Literal

from index.query import Where
from rewriter.conversation import Turn
from server.chat.types import CollectionSummary, DocumentSummary, DocumentText, Readiness, SearchResult, TurnRequest
from server.settings import Settings
from server.store.records import ConversationDetail, ConversationSummary, Feedback, FeedbackRecord, Job, Rating, Trace
from server.turn.events import Event


class ChatService:
    """Everything a reader of the chat can do. Every method may raise a `ChatError`."""

    settings: Settings

    def turn(self, request: TurnRequest) -> AsyncIterator[Event]:
        """Answer a question as typed events, ending with exactly one `done` or `error`.

        Refusals (`InvalidRequest`, `NotFound`, `QueueFull`) are raised before the first event. Closing
        the iterator, or cancelling the task that reads it, stops the model; the turn is kept as
        interrupted with what had been shown.
        """
        raise NotImplementedError

    async def search(
        self,
        question: str,
        *,
        collection: str = "",
        history: Sequence[Turn] = (),
        k: int = 20,
        where: Where | None = None,
    ) -> SearchResult:
        """Search as a turn would: rewrite, legs, fusion, rerank; best first."""
        raise NotImplementedError

    async def readiness(self) -> Readiness:
        raise NotImplementedError

    async def create_conversation(self, collection: str = "", title: str = "") -> ConversationSummary:
        """A new, empty conversation; without a title its first question becomes one."""
        raise NotImplementedError

    async def conversations(
        self, query: str | None = None, *, limit: int = 50, offset: int = 0
    ) -> list[ConversationSummary]:
        """Newest first; with `query` those whose title, questions or answers contain its words."""
        raise NotImplementedError

    async def conversation(self, conversation_id: str) -> ConversationDetail:
        raise NotImplementedError

    async def rename_conversation(self, conversation_id: str, title: str) -> ConversationSummary:
        raise NotImplementedError

    async def delete_conversation(self, conversation_id: str) -> None:
        """Delete it with its turns, traces and feedback."""
        raise NotImplementedError

    async def export_conversation(self, conversation_id: str, style: Literal["json", "markdown"] = "json") -> str:
        raise NotImplementedError

    async def feedback(self, turn_id: str, rating: Rating, reason: str = "", comment: str = "") -> Feedback:
        """Keep a person's word on a turn; a second one replaces the first."""
        raise NotImplementedError

    async def retract_feedback(self, turn_id: str) -> None:
        raise NotImplementedError

    async def feedback_records(self) -> list[FeedbackRecord]:
        """All feedback with its questions and answers, oldest first."""
        raise NotImplementedError

    async def trace(self, turn_id: str) -> Trace:
        raise NotImplementedError

    async def collections(self) -> list[CollectionSummary]:
        raise NotImplementedError

    async def documents(self, collection: str) -> list[DocumentSummary]:
        raise NotImplementedError

    async def document(self, collection: str, document_id: str) -> DocumentText:
        raise NotImplementedError

    async def upload(self, collection: str, filename: str, content: bytes | BinaryIO | Path) -> Job:
        """Keep a file and index it in the background; the collection is made if it is new."""
        raise NotImplementedError

    async def delete_document(self, collection: str, document_id: str) -> Job:
        raise NotImplementedError

    async def index_paths(self, collection: str, paths: Sequence[Path]) -> Job:
        """Index files and folders of this machine and remember them for `reindex`."""
        raise NotImplementedError

    async def reindex(self, collection: str) -> Job:
        """Index the collection's remembered paths and uploads again; what did not change is kept."""
        raise NotImplementedError

    async def delete_collection(self, collection: str) -> None:
        """Delete the collection with its uploads; the folders it was made from are left alone."""
        raise NotImplementedError

    async def job(self, job_id: str) -> Job:
        raise NotImplementedError

    async def jobs(self, collection: str | None = None) -> list[Job]:
        """Newest first."""
        raise NotImplementedError

    async def cancel_job(self, job_id: str) -> Job:
        """Ask a job to stop; what it had indexed completely stays as it was before it."""
        raise NotImplementedError


@asynccontextmanager
async def open_service(settings: Settings) -> AsyncIterator[ChatService]:
    """A running service; models load in the background. Leaving it ends turns, jobs and the engine."""
    raise NotImplementedError
    yield ChatService()
