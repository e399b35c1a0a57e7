"""Taking a person, or a document's words, out of what the store keeps, so that nothing of it can be read again.

These work in one transaction; the pages of the file that held the words are overwritten by `Database.compact`. The
audit log stays: it names who did what, never what was said.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from server.store import sessions, standalone, turns
from server.store.conversations import clean_title
from server.store.records import FileResult
from server.turn.events import DoneEvent, ErrorEvent, EvidenceEvent

ERASED = "This answer was erased together with a document it was made from."


@dataclass(frozen=True, slots=True)
class Erasure:
    """How much was taken out: conversations, turns changed or removed, pieces of feedback."""

    conversations: int = 0
    turns: int = 0
    feedback: int = 0


def erase_document(
    connection: sqlite3.Connection, collection: str, document_id: str, sentences: Sequence[str]
) -> Erasure:
    """Take out a document: its quoted passages, answers that were made from it, and every later trace of them.

    Turns that hold one of its `sentences` without having been given the document go the same way: somebody copied
    them into a question, or a model repeated them from the history.
    """
    changed = feedback = 0
    tainted = set[str]()
    """Conversations in which the document was read: what came after may lean on the answer."""
    conversations = set[str]()
    for row in connection.execute("SELECT * FROM turns WHERE collection = ? ORDER BY n", (collection,)).fetchall():
        evidence = EvidenceEvent.model_validate_json(row["evidence"]) if row["evidence"] else None
        read = evidence is not None and any(passage.document_id == document_id for passage in evidence.passages)
        said = [row["question"], row["search_for"] or "", row["answer"], row["rewrite"] or "", row["ending"] or ""]
        copied = _holds(said, sentences)
        if not read and not copied and row["conversation_id"] not in tainted:
            continue
        changed += 1
        if read or copied:
            _erase_turn(connection, row, evidence, document_id, sentences)
            if row["conversation_id"]:
                tainted.add(row["conversation_id"])
                conversations.add(row["conversation_id"])
        # What was searched for, and each step's inputs, may hold words of the answer before.
        connection.execute("UPDATE turns SET rewrite = NULL WHERE id = ?", (row["id"],))
        connection.execute("DELETE FROM traces WHERE turn_id = ?", (row["id"],))
        connection.execute("DELETE FROM reviews WHERE turn_id = ?", (row["id"],))
    for row in connection.execute("SELECT turn_id, comment FROM feedback").fetchall():
        if _holds([row["comment"]], sentences):
            feedback += 1
            connection.execute("UPDATE feedback SET comment = '' WHERE turn_id = ?", (row["turn_id"],))
    for row in connection.execute(
        "SELECT r.*, t.collection FROM reviews r JOIN turns t ON t.id = r.turn_id"
    ).fetchall():
        marked = json.loads(row["passages"] or "[]")
        read = row["collection"] == collection and any(one["document_id"] == document_id for one in marked)
        if read or _holds([row["rewrite"] or "", row["answer"] or "", *(one["quote"] for one in marked)], sentences):
            connection.execute("DELETE FROM reviews WHERE n = ?", (row["n"],))
    for row in connection.execute("SELECT id, title FROM conversations").fetchall():
        if _holds([row["title"]], sentences):
            conversations.add(row["id"])
            connection.execute("UPDATE conversations SET title = '' WHERE id = ?", (row["id"],))
    for row in connection.execute("SELECT id, files FROM jobs WHERE collection = ?", (collection,)).fetchall():
        files = [FileResult.model_validate(file) for file in json.loads(row["files"])]
        kept = [file.model_dump() for file in files if file.document_id != document_id]
        connection.execute("UPDATE jobs SET files = ? WHERE id = ?", (json.dumps(kept), row["id"]))
    # Quotes made readable are made of one document's words, and of whatever else a version of its collection held.
    standalone.forget_collection(connection, collection)
    _forget_upload(connection, collection, document_id)
    _merge_texts(connection)
    return Erasure(len(conversations), changed, feedback)


def erase_person(connection: sqlite3.Connection, principal: str) -> Erasure:
    """Take out all that a principal said, rated and was signed in with; a key of it is revoked and loses its name."""
    conversations = connection.execute("DELETE FROM conversations WHERE owner = ?", (principal,)).rowcount
    rows = connection.execute("SELECT conversation_id FROM turns WHERE owner = ?", (principal,)).fetchall()
    erased = connection.execute("DELETE FROM turns WHERE owner = ?", (principal,)).rowcount
    left = json.dumps([row["conversation_id"] for row in rows if row["conversation_id"]])
    turns.mark_shown(connection, "(SELECT value FROM json_each(:left))", {"left": left})
    feedback = connection.execute("DELETE FROM feedback WHERE owner = ?", (principal,)).rowcount
    connection.execute("DELETE FROM reviews WHERE owner = ?", (principal,))
    connection.execute("UPDATE jobs SET owner = '' WHERE owner = ?", (principal,))
    connection.execute("DELETE FROM uploads WHERE owner = ?", (principal,))
    connection.execute("DELETE FROM standalone WHERE owner = ?", (principal,))
    sessions.end_all(connection, principal)
    connection.execute("DELETE FROM shares WHERE json_extract(principal, '$.id') = ?", (principal,))
    # The row stays, for a key must still be needed after the last one was erased.
    connection.execute(
        "UPDATE keys SET name = '', revoked = coalesce(revoked, unixepoch()) WHERE 'key:' || id = ?", (principal,)
    )
    _merge_texts(connection)
    return Erasure(conversations, erased, feedback)


def said_by(connection: sqlite3.Connection, principal: str) -> list[str]:
    """What a person wrote: questions, searches, comments, titles given."""
    rows = connection.execute(
        "SELECT question FROM turns WHERE owner = :p UNION SELECT search_for FROM turns WHERE owner = :p "
        "UNION SELECT comment FROM feedback WHERE owner = :p UNION SELECT title FROM conversations WHERE owner = :p "
        "UNION SELECT rewrite FROM reviews WHERE owner = :p UNION SELECT answer FROM reviews WHERE owner = :p",
        {"p": principal},
    )
    return [text for (text,) in rows if text]


def said_by_others(connection: sqlite3.Connection, principal: str, texts: Sequence[str]) -> set[str]:
    """Those of `texts` that somebody else wrote just so, and that therefore stay."""
    found = connection.execute(
        "SELECT value FROM json_each(:texts) WHERE value IN (SELECT question FROM turns WHERE owner <> :p) "
        "OR value IN (SELECT search_for FROM turns WHERE owner <> :p) "
        "OR value IN (SELECT comment FROM feedback WHERE owner <> :p) "
        "OR value IN (SELECT title FROM conversations WHERE owner <> :p) "
        "OR value IN (SELECT rewrite FROM reviews WHERE owner <> :p) "
        "OR value IN (SELECT answer FROM reviews WHERE owner <> :p)",
        {"p": principal, "texts": json.dumps(list(texts))},
    )
    return {text for (text,) in found}


def uploads_of(connection: sqlite3.Connection, principal: str) -> list[tuple[str, str]]:
    """The files a person handed in: collections and document ids."""
    rows = connection.execute("SELECT collection, name FROM uploads WHERE owner = ?", (principal,))
    return [(row["collection"], f"uploads/{row['name']}") for row in rows]


def _erase_turn(
    connection: sqlite3.Connection,
    row: sqlite3.Row,
    evidence: EvidenceEvent | None,
    document_id: str,
    sentences: Sequence[str],
) -> None:
    if evidence is not None:
        kept = [passage for passage in evidence.passages if passage.document_id != document_id]
        evidence = evidence.model_copy(update={"passages": kept})
    ending = None
    if row["ending"]:
        gone = {"answer": ERASED if row["answer"] else ""}
        if row["status"] == "failed":
            ending = ErrorEvent.model_validate_json(row["ending"]).model_copy(update=gone).model_dump_json()
        else:
            done = DoneEvent.model_validate_json(row["ending"])
            ending = done.model_copy(update={**gone, "citations": [], "support": []}).model_dump_json()
    asked = "" if _holds([row["question"]], sentences) else row["question"]
    if not asked:
        # A title made of the question holds the beginning of what it quoted.
        title = clean_title(row["question"])
        connection.execute(
            "UPDATE conversations SET title = '' WHERE id = ? AND title = ?", (row["conversation_id"], title)
        )
    searched = None if _holds([row["search_for"] or ""], sentences) else row["search_for"]
    # Setting the status, also to what it is, lets the words that can be searched for follow.
    connection.execute(
        "UPDATE turns SET question = ?, search_for = ?, answer = ?, evidence = ?, ending = ?, status = status "
        "WHERE id = ?",
        (
            asked,
            searched,
            ERASED if row["answer"] else "",
            evidence.model_dump_json() if evidence else None,
            ending,
            row["id"],
        ),
    )


def _forget_upload(connection: sqlite3.Connection, collection: str, document_id: str) -> None:
    name = document_id.removeprefix("uploads/")
    connection.execute("DELETE FROM uploads WHERE collection = ? AND name = ?", (collection, name))


def _merge_texts(connection: sqlite3.Connection) -> None:
    """Let the search's own index forget what was deleted, which it otherwise does at some later time."""
    connection.execute("INSERT INTO texts (texts) VALUES ('optimize')")


def _holds(texts: Sequence[str], sentences: Sequence[str]) -> bool:
    return any(sentence in text for text in texts for sentence in sentences)
