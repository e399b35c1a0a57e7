"""Taking a person, or a document's words, out of what the store keeps, so that nothing of it can be read again.

These work in one transaction; the pages of the file that held the words are overwritten by `Database.compact`. The
audit log stays: it names who did what, never what was said.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Connection, Row, Table, delete, func, literal, select, update

from server.store import sessions, standalone, turns, uploads
from server.store.conversations import clean_title
from server.store.dialects import forget_deleted, json_text
from server.store.records import FileResult
from server.store.schema import CONVERSATIONS, FEEDBACK, JOBS, KEYS, REVIEWS, SHARES, STANDALONE, TRACES, TURNS, UPLOADS
from server.turn.events import DoneEvent, ErrorEvent, EvidenceEvent

ERASED = "This answer was erased together with a document it was made from."

_WRITTEN: tuple[Column[Any], ...] = (
    TURNS.c.question,
    TURNS.c.search_for,
    FEEDBACK.c.comment,
    CONVERSATIONS.c.title,
    REVIEWS.c.rewrite,
    REVIEWS.c.answer,
)


@dataclass(frozen=True, slots=True)
class Erasure:
    """How much was taken out: conversations, turns changed or removed, pieces of feedback."""

    conversations: int = 0
    turns: int = 0
    feedback: int = 0


def erase_document(connection: Connection, collection: str, document_id: str, sentences: Sequence[str]) -> Erasure:
    """Take out a document: its quoted passages, answers that were made from it, and every later trace of them.

    Turns that hold one of its `sentences` without having been given the document go the same way: somebody copied
    them into a question, or a model repeated them from the history.
    """
    changed = feedback = 0
    tainted = set[str]()
    """Conversations in which the document was read: what came after may lean on the answer."""
    conversations = set[str]()
    for row in connection.execute(select(TURNS).where(TURNS.c.collection == collection).order_by(TURNS.c.n)).all():
        evidence = EvidenceEvent.model_validate_json(row.evidence) if row.evidence else None
        read = evidence is not None and any(passage.document_id == document_id for passage in evidence.passages)
        texts = [row.question, row.search_for or "", row.answer, row.rewrite or "", row.ending or ""]
        copied = _holds(texts, sentences)
        if not read and not copied and row.conversation_id not in tainted:
            continue
        changed += 1
        if read or copied:
            _erase_turn(connection, row, evidence, document_id, sentences)
            if row.conversation_id:
                tainted.add(row.conversation_id)
                conversations.add(row.conversation_id)
        # What was searched for, and each step's inputs, may hold words of the answer before.
        connection.execute(update(TURNS).where(TURNS.c.id == row.id).values(rewrite=None))
        connection.execute(delete(TRACES).where(TRACES.c.turn_id == row.id))
        connection.execute(delete(REVIEWS).where(REVIEWS.c.turn_id == row.id))
    for row in connection.execute(select(FEEDBACK)).all():
        if _holds([row.comment], sentences):
            feedback += 1
            connection.execute(update(FEEDBACK).where(FEEDBACK.c.turn_id == row.turn_id).values(comment=""))
    for row in connection.execute(select(REVIEWS, TURNS.c.collection).join(TURNS)).all():
        marked = json.loads(row.passages or "[]")
        read = row.collection == collection and any(mark["document_id"] == document_id for mark in marked)
        if read or _holds([row.rewrite or "", row.answer or "", *(mark["quote"] for mark in marked)], sentences):
            connection.execute(delete(REVIEWS).where(REVIEWS.c.n == row.n))
    for row in connection.execute(select(CONVERSATIONS)).all():
        if _holds([row.title], sentences):
            conversations.add(row.id)
            connection.execute(update(CONVERSATIONS).where(CONVERSATIONS.c.id == row.id).values(title=""))
    for row in connection.execute(select(JOBS).where(JOBS.c.collection == collection)).all():
        files = [FileResult.model_validate(file) for file in json.loads(row.files)]
        remaining = [file.model_dump() for file in files if file.document_id != document_id]
        connection.execute(update(JOBS).where(JOBS.c.id == row.id).values(files=json.dumps(remaining)))
    # Quotes made readable are made of one document's words, and of whatever else a version of its collection held.
    standalone.forget_collection(connection, collection)
    uploads.forget(connection, collection, document_id.removeprefix("uploads/"))
    forget_deleted(connection)
    return Erasure(len(conversations), changed, feedback)


def erase_person(connection: Connection, principal: str) -> Erasure:
    """Take out all that a principal said, rated and was signed in with; a key of it is revoked and loses its name."""

    def gone(table: Table) -> int:
        return connection.execute(delete(table).where(table.c.owner == principal)).rowcount

    conversations = gone(CONVERSATIONS)
    rows = select(TURNS.c.conversation_id).where(TURNS.c.owner == principal, TURNS.c.conversation_id.is_not(None))
    left = set(connection.scalars(rows))
    erased = gone(TURNS)
    turns.mark_shown(connection, left)
    feedback = gone(FEEDBACK)
    for table in (REVIEWS, UPLOADS, STANDALONE):
        gone(table)
    connection.execute(update(JOBS).where(JOBS.c.owner == principal).values(owner=""))
    sessions.end_all(connection, principal)
    connection.execute(delete(SHARES).where(json_text(SHARES.c.principal, "id") == principal))
    # The row stays, for a key must still be needed after the last one was erased.
    key = update(KEYS).where(literal("key:") + KEYS.c.id == principal)
    connection.execute(key.values(name="", revoked=func.coalesce(KEYS.c.revoked, time.time())))
    forget_deleted(connection)
    return Erasure(conversations, erased, feedback)


def said_by(connection: Connection, principal: str) -> list[str]:
    """Return a person's texts: questions, searches, comments, titles."""
    texts = dict[str, None]()
    for column in _WRITTEN:
        texts.update(dict.fromkeys(connection.scalars(select(column).where(column.table.c.owner == principal))))
    return [text for text in texts if text]


def said_by_others(connection: Connection, principal: str, texts: Sequence[str]) -> set[str]:
    """Those of `texts` that somebody else wrote just so, and that therefore stay."""
    shared = set[str]()
    for column in _WRITTEN:
        for start in range(0, len(texts), 500):
            query = select(column).where(column.table.c.owner != principal, column.in_(texts[start : start + 500]))
            shared.update(connection.scalars(query))
    return shared


def uploads_of(connection: Connection, principal: str) -> list[tuple[str, str]]:
    """The files a person handed in: collections and document ids. Pushed documents are removed by their source."""
    rows = connection.execute(select(UPLOADS).where(UPLOADS.c.owner == principal, ~UPLOADS.c.name.contains("/")))
    return [(row.collection, f"uploads/{row.name}") for row in rows]


def _erase_turn(
    connection: Connection,
    row: Row[Any],
    evidence: EvidenceEvent | None,
    document_id: str,
    sentences: Sequence[str],
) -> None:
    if evidence is not None:
        remaining = [passage for passage in evidence.passages if passage.document_id != document_id]
        evidence = evidence.model_copy(update={"passages": remaining})
    ending = None
    if row.ending:
        gone = {"answer": ERASED if row.answer else ""}
        if row.status == "failed":
            ending = ErrorEvent.model_validate_json(row.ending).model_copy(update=gone).model_dump_json()
        else:
            done = DoneEvent.model_validate_json(row.ending)
            ending = done.model_copy(update={**gone, "citations": [], "support": []}).model_dump_json()
    question = "" if _holds([row.question], sentences) else row.question
    if not question:
        # A title made of the question holds the beginning of what it quoted.
        its = CONVERSATIONS.c.id == row.conversation_id, CONVERSATIONS.c.title == clean_title(row.question)
        connection.execute(update(CONVERSATIONS).where(*its).values(title=""))
    searched = None if _holds([row.search_for or ""], sentences) else row.search_for
    # Setting the status, also to what it is, lets the words that can be searched for follow.
    values = {
        "question": question,
        "search_for": searched,
        "answer": ERASED if row.answer else "",
        "evidence": evidence.model_dump_json() if evidence else None,
        "ending": ending,
        "status": row.status,
    }
    connection.execute(update(TURNS).where(TURNS.c.id == row.id).values(values))


def _holds(texts: Sequence[str], sentences: Sequence[str]) -> bool:
    return any(sentence in text for text in texts for sentence in sentences)
