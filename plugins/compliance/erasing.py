"""Erasing a person or a document from a home, and proving it by looking for their words in every file there.

The index and the store forget their own data in an order that can be repeated after a crash; then the files are
searched. Files outside the home are not touched: backups, folders that were indexed, what a language model server
remembers. The audit log stays: it names who did what, never what was said.
"""

from __future__ import annotations

import json
import mmap
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Column, Connection, Row, Table, delete, func, literal, select, update

from index.collection import Collection
from index.encoders import Encoder
from index.errors import DocumentNotFound
from index.indexer import erase_documents
from index.version import CollectionFolder
from server.access import account, at_terminal, entry
from server.chat.uploads import PICTURES, Uploads, upload_id, upload_name
from server.settings import Settings
from server.store import Database, collection_rows, credentials, turns
from server.store.conversations import clean_title
from server.store.records import FileResult
from server.store.schema import (
    CONVERSATIONS,
    FEEDBACK,
    JOBS,
    KEYS,
    REVIEWS,
    SHARES,
    TRACES,
    TURNS,
    UPLOADS,
    erased_tables,
    forget_deleted,
    json_text,
)
from server.turn.events import DoneEvent, ErrorEvent, EvidenceEvent

ERASED = "This answer was erased together with a document it was made from."

SENTENCES = 200
"""So many lines of a document are looked for afterwards, spread over it."""

SHORTEST, LONGEST = 24, 400
"""Characters of such a line: shorter ones say little, of longer ones the beginning is looked for."""

UNSEARCHED = frozenset({"models"})
"""Folders of a home that hold only what was fetched."""

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
    """The numbers of conversations, of turns changed or removed, and of pieces of feedback that were erased."""

    conversations: int = 0
    turns: int = 0
    feedback: int = 0


@dataclass(frozen=True, slots=True)
class ErasureReport:
    """Erased items, texts that are still in a file, with the file, and steps left to the caller."""

    erased: Erasure
    documents: tuple[str, ...]
    searched: int
    remnants: list[tuple[Path, str]]
    advice: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Eraser:
    """Erases from the home of `settings`. May be repeated after an interruption."""

    settings: Settings
    database: Database
    encoder: Encoder

    def erase_document(self, collection: str, document_id: str) -> ErasureReport:
        """Take a document out of its collection, its file if it was uploaded, and what was quoted from it.

        Works also where the document itself is gone already. Raises CollectionNotFound, CollectionLocked,
        StorageError, StoreError.
        """
        sentences, path = self._read(collection, document_id)
        advice, gone = list[str](), list[str]()
        if path is not None and not Uploads(self.settings.home, 0).holds(collection, path) and path.exists():
            advice.append(f"{path} was left alone; delete it, or the next `anaphora index` reads it again.")
        elif path is not None:
            path.unlink(missing_ok=True)
        root, store = self.settings.home / "collections", self.settings.index.vectors
        try:
            erase_documents(root, collection, [document_id], self.encoder, store=store)
            gone = [f"{collection}/{document_id}"]
        except DocumentNotFound:
            # Deleted before, or by an erasure that was cut short: older versions may hold it.
            erase_documents(root, collection, [], self.encoder, store=store)
            advice.append(
                f"{collection} holds no document {document_id}: it was deleted before, or its id is another, "
                "as the page and the workbench show it."
            )

        def forget(connection: Connection) -> Erasure:
            account(connection, entry(at_terminal(), "document.erase", document_id, collection=collection))
            return forget_document(connection, collection, document_id, sentences)

        return self._report(self.database.write_blocking(forget), gone, sentences, advice)

    def erase_person(self, principal: str, *, keep_uploads: bool = False) -> ErasureReport:
        """Take out what a principal asked, was answered, rated and handed in. Raises what `erase_document` does."""
        documents, advice = list[str](), list[str]()
        handed_in = [] if keep_uploads else self.database.read_blocking(uploads_of, principal)
        for collection, document_id in handed_in:
            path = Uploads(self.settings.home, 0).root(collection) / document_id
            if path.suffix in PICTURES:
                path.unlink(missing_ok=True)  # it came with documents in an archive, and is none
            elif CollectionFolder(self.settings.home / "collections", collection).candidates():
                report = self.erase_document(collection, document_id)
                documents += report.documents
                advice += report.advice
        sentences = self.database.read_blocking(_own_sentences, principal)

        def forget(connection: Connection) -> Erasure:
            account(connection, entry(at_terminal(), "person.erase", principal))
            return forget_person(connection, principal)

        erased = self.database.write_blocking(forget)
        if principal == "local":
            (self.settings.home / "ask_history").unlink(missing_ok=True)
        return self._report(erased, documents, sentences, advice)

    def _report(
        self, erased: Erasure, documents: Sequence[str], sentences: Sequence[str], advice: list[str]
    ) -> ErasureReport:
        if reason := self.database.compact():
            advice.append(reason)
        left = remnants(self.settings.home, sentences)
        return ErasureReport(erased, tuple(documents), len(sentences), left, tuple(advice))

    def _read(self, collection: str, document_id: str) -> tuple[list[str], Path | None]:
        """Return the lines that only this document has, and the file it was read from; nothing of a missing one."""
        root = self.settings.home / "collections"
        CollectionFolder(root, collection).require()
        opened = Collection.open(root, collection, self.encoder, store=self.settings.index.vectors)
        try:
            infos = {info.id: info for info in opened.documents()}
            if document_id not in infos:
                return [], None
            text = opened.document(document_id).text
            lines = dict.fromkeys(line.strip()[:LONGEST] for line in text.splitlines() if len(line.strip()) >= SHORTEST)
            for other in infos:
                if other != document_id:
                    text = opened.document(other).text
                    lines = {line: None for line in lines if line not in text}
        finally:
            opened.close()
        step = max(1, len(lines) // SENTENCES)
        return list(lines)[::step], Path(infos[document_id].path)


def forget_document(connection: Connection, collection: str, document_id: str, sentences: Sequence[str]) -> Erasure:
    """Take a document out of the store: its quoted passages, answers made from it, and every later trace of them.

    Turns that hold one of its `sentences` without having been given the document go the same way: somebody copied
    them into a question, or a model repeated them from the history.
    """
    changed = feedback = 0
    tainted = set[str]()
    """Conversations in which the document was read: later turns may lean on the answer."""
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
    for table in erased_tables():
        for row in connection.execute(select(table).where(table.c.collection == collection)).all():
            texts = [value for value in row if isinstance(value, str)]
            if _holds(texts, [*sentences, json.dumps(document_id)]):
                connection.execute(delete(table).where(table.c.id == row.id))
    collection_rows.forget_uploads(connection, collection, upload_name(document_id))
    forget_deleted(connection)
    return Erasure(len(conversations), changed, feedback)


def forget_person(connection: Connection, principal: str) -> Erasure:
    """Take out all that a principal said, rated and was signed in with; a key of it is revoked and loses its name."""

    def gone(table: Table) -> int:
        return connection.execute(delete(table).where(table.c.owner == principal)).rowcount

    conversations = gone(CONVERSATIONS)
    rows = select(TURNS.c.conversation_id).where(TURNS.c.owner == principal, TURNS.c.conversation_id.is_not(None))
    left = set(connection.scalars(rows))
    erased = gone(TURNS)
    turns.mark_shown(connection, left)
    feedback = gone(FEEDBACK)
    for table in (REVIEWS, UPLOADS, *erased_tables()):
        gone(table)
    connection.execute(update(JOBS).where(JOBS.c.owner == principal).values(owner=""))
    credentials.end_sessions(connection, principal)
    connection.execute(delete(SHARES).where(json_text(SHARES.c.principal, "id") == principal))
    # The row stays, for a key must still be needed after the last one was erased.
    key = update(KEYS).where(literal("key:") + KEYS.c.id == principal)
    connection.execute(key.values(name="", revoked=func.coalesce(KEYS.c.revoked, time.time())))
    forget_deleted(connection)
    return Erasure(conversations, erased, feedback)


def _own_sentences(connection: Connection, principal: str) -> list[str]:
    """Return the long texts of a person (questions, searches, comments, titles) that nobody else wrote just so."""
    own = dict[str, None]()
    for column in _WRITTEN:
        written = connection.scalars(select(column).where(column.table.c.owner == principal))
        own.update(dict.fromkeys(text[:LONGEST] for text in written if text and len(text) >= SHORTEST))
    for column in _WRITTEN:
        for text in connection.scalars(select(column).where(column.table.c.owner != principal, column.in_(own))):
            del own[text]
    return list(own)


def uploads_of(connection: Connection, principal: str) -> list[tuple[str, str]]:
    """The files a person handed in: collections and document ids. Pushed documents are removed by their source."""
    rows = connection.execute(select(UPLOADS).where(UPLOADS.c.owner == principal, ~UPLOADS.c.name.contains("/")))
    return [(row.collection, upload_id(row.name)) for row in rows]


def _erase_turn(
    connection: Connection, row: Row[Any], evidence: EvidenceEvent | None, document_id: str, sentences: Sequence[str]
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
            ending = done.model_copy(update={**gone, "folded": "", "citations": [], "support": []}).model_dump_json()
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
        "opened": None,
        "ending": ending,
        "status": row.status,
    }
    connection.execute(update(TURNS).where(TURNS.c.id == row.id).values(values))


def _holds(texts: Sequence[str], sentences: Sequence[str]) -> bool:
    return any(sentence in text for text in texts for sentence in sentences)


def remnants(home: Path, texts: Sequence[str]) -> list[tuple[Path, str]]:
    """Find `texts` in the files of the home, as they are, in lower case, or escaped as in JSON."""
    wanted = [(text, form) for text in texts for form in _forms(text)]
    return [(path, text) for path in _files(home) for text in dict.fromkeys(_in(path, wanted))]


def _forms(text: str) -> Iterator[bytes]:
    for form in dict.fromkeys((text, text.lower(), json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])):
        yield form.encode("utf-8", "surrogatepass")


def _files(home: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(home):
        if Path(folder) == home:
            folders[:] = [name for name in folders if name not in UNSEARCHED]
        yield from (Path(folder) / name for name in sorted(files) if not (Path(folder) / name).is_symlink())


def _in(path: Path, wanted: Iterable[tuple[str, bytes]]) -> Iterator[str]:
    try:
        with path.open("rb") as file:
            if not os.fstat(file.fileno()).st_size:
                return
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                yield from (text for text, form in wanted if content.find(form) >= 0)
    except (FileNotFoundError, ValueError):
        # Gone, or emptied, since it was listed.
        return
