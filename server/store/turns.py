"""Turns: stored as they begin, kept up to date while they are answered, and ended once.

Feedback and traces hang on turns and go with them.
"""

from __future__ import annotations

import sqlite3
import time

from rewriter.conversation import Conversation, Message
from server.access import Seen, Whose
from server.store.records import Feedback, StoredTurn, Trace, TurnStatus
from server.turn.events import DoneEvent, ErrorEvent, EvidenceEvent, RewriteEvent
from server.turn.own_words import remembered

_TURN = """
    SELECT t.*, f.rating, f.reason, f.comment, f.created AS rated
    FROM turns t LEFT JOIN feedback f ON f.turn_id = t.id
"""


def begin(
    connection: sqlite3.Connection,
    *,
    turn_id: str,
    conversation_id: str | None,
    collection: str,
    question: str,
    search_for: str | None,
    regenerate_of: str | None,
    title: str,
    runner: str,
    whose: Whose,
) -> bool:
    """Store a turn that is about to be answered.

    `regenerate_of` takes the place of that turn and everything after it. A conversation without a
    title of its own gets `title` from a turn over its collection. False if the conversation is gone.
    """
    now = time.time()
    if conversation_id is not None:
        touched = connection.execute(
            "UPDATE conversations SET updated = ?, "
            "title = CASE WHEN title = '' AND collection = ? THEN ? ELSE title END WHERE id = ?",
            (now, collection, title, conversation_id),
        )
        if touched.rowcount == 0:
            return False
        if regenerate_of is not None:
            connection.execute(
                "UPDATE turns SET replaced = 1 WHERE conversation_id = ? AND NOT replaced AND "
                "n >= (SELECT n FROM turns WHERE id = ?)",
                (conversation_id, regenerate_of),
            )
    connection.execute(
        "INSERT INTO turns (id, conversation_id, collection, question, search_for, status, created, runner, owner, "
        "group_name) VALUES (?, ?, ?, ?, ?, 'pending', ?, ?, ?, ?)",
        (turn_id, conversation_id, collection, question, search_for, now, runner, whose.owner, whose.group),
    )
    return True


def checkpoint(connection: sqlite3.Connection, turn_id: str, answer: str) -> None:
    """Keep what has been shown of a pending turn's answer."""
    connection.execute("UPDATE turns SET answer = ? WHERE id = ? AND status = 'pending'", (answer, turn_id))


def finish(
    connection: sqlite3.Connection,
    turn_id: str,
    *,
    status: TurnStatus,
    answer: str,
    rewrite: RewriteEvent | None,
    evidence: EvidenceEvent | None,
    ending: DoneEvent | ErrorEvent | None,
    trace: Trace | None,
) -> None:
    """End a turn and keep its trace. A turn deleted meanwhile stays deleted."""
    now = time.time()
    changed = connection.execute(
        "UPDATE turns SET status = ?, answer = ?, rewrite = ?, evidence = ?, ending = ?, finished = ? WHERE id = ?",
        (
            status,
            answer,
            rewrite.model_dump_json() if rewrite else None,
            evidence.model_dump_json() if evidence else None,
            ending.model_dump_json() if ending else None,
            now,
            turn_id,
        ),
    ).rowcount
    if not changed:
        return
    connection.execute(
        "UPDATE conversations SET updated = ? WHERE id = (SELECT conversation_id FROM turns WHERE id = ?)",
        (now, turn_id),
    )
    if trace is not None:
        connection.execute(
            "INSERT OR REPLACE INTO traces (turn_id, trace) VALUES (?, ?)", (turn_id, trace.model_dump_json())
        )


def find(connection: sqlite3.Connection, turn_id: str, seen: Seen) -> StoredTurn | None:
    """One turn, also if another has taken its place."""
    row = connection.execute(f"{_TURN} WHERE t.id = :id AND {seen.on('t')}", {"id": turn_id, **seen.values}).fetchone()
    return _turn(row) if row else None


def owner(connection: sqlite3.Connection, turn_id: str, seen: Seen) -> str | None:
    """Whose a turn is; None where there is none to be seen."""
    row = connection.execute(
        f"SELECT t.owner FROM turns t WHERE t.id = :id AND {seen.on('t')}", {"id": turn_id, **seen.values}
    ).fetchone()
    return row["owner"] if row else None


def of_conversation(connection: sqlite3.Connection, conversation_id: str, seen: Seen) -> list[StoredTurn]:
    """The turns that belong to a conversation now, oldest first."""
    rows = connection.execute(
        f"{_TURN} WHERE t.conversation_id = :id AND NOT t.replaced AND {seen.on('t')} ORDER BY t.n",
        {"id": conversation_id, **seen.values},
    )
    return [_turn(row) for row in rows]


def history(
    connection: sqlite3.Connection, conversation_id: str, seen: Seen, *, before: str | None, limit: int
) -> Conversation:
    """What was said in a conversation, the newest `limit` messages, oldest first, as `remembered` keeps it.

    `before` names the turn from which on nothing counts. A question that got no answer counts as
    asked; a turn that is still being answered does not count.
    """
    rows = connection.execute(
        "SELECT question, answer FROM turns t WHERE conversation_id = :id AND NOT replaced AND status <> 'pending' "
        f"AND n < coalesce((SELECT n FROM turns WHERE id = :before), 9223372036854775807) AND {seen.on('t')} "
        "ORDER BY n DESC LIMIT :limit",
        {"id": conversation_id, "before": before, "limit": limit, **seen.values},
    ).fetchall()
    said = list[Message]()
    for row in reversed(rows):
        said.append(Message("user", row["question"]))
        if row["answer"]:
            said.append(Message("assistant", row["answer"]))
    return remembered(said[-limit:] if limit else ())


def trace(connection: sqlite3.Connection, turn_id: str, seen: Seen) -> Trace | None:
    """What happened in a turn; None where there is no trace of it (yet)."""
    row = connection.execute(
        f"SELECT trace FROM traces JOIN turns t ON t.id = turn_id WHERE turn_id = :id AND {seen.on('t')}",
        {"id": turn_id, **seen.values},
    ).fetchone()
    return Trace.model_validate_json(row["trace"]) if row else None


def forget_traces(connection: sqlite3.Connection, before: float, limit: int) -> int:
    """Delete traces of turns begun before that time, `limit` at most; returns how many were found.

    A turn of no conversation is kept for its trace alone, and goes with it unless somebody rated it.
    """
    found = connection.execute(
        "SELECT t.id, t.conversation_id IS NULL AND f.turn_id IS NULL FROM turns t JOIN traces r ON r.turn_id = t.id "
        "LEFT JOIN feedback f ON f.turn_id = t.id WHERE t.created < ? LIMIT ?",
        (before, limit),
    ).fetchall()
    connection.executemany("DELETE FROM traces WHERE turn_id = ?", [(key,) for key, _ in found])
    connection.executemany("DELETE FROM turns WHERE id = ?", [(key,) for key, alone in found if alone])
    return len(found)


def _turn(row: sqlite3.Row) -> StoredTurn:
    status, ending = row["status"], row["ending"]
    feedback = None
    if row["rating"] is not None:
        feedback = Feedback(
            turn_id=row["id"], rating=row["rating"], reason=row["reason"], comment=row["comment"], created=row["rated"]
        )
    return StoredTurn(
        id=row["id"],
        conversation_id=row["conversation_id"],
        collection=row["collection"],
        question=row["question"],
        status=status,
        answer=row["answer"],
        search_for=row["search_for"],
        created=row["created"],
        finished=row["finished"],
        rewrite=RewriteEvent.model_validate_json(row["rewrite"]) if row["rewrite"] else None,
        evidence=EvidenceEvent.model_validate_json(row["evidence"]) if row["evidence"] else None,
        done=DoneEvent.model_validate_json(ending) if ending and status != "failed" else None,
        error=ErrorEvent.model_validate_json(ending) if ending and status == "failed" else None,
        feedback=feedback,
    )
