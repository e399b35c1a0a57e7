"""What people thought of turns. One word a turn: the newest."""

from __future__ import annotations

import sqlite3
import time

from server.access import Seen
from server.store.records import Feedback, FeedbackRecord, Rating


def give(
    connection: sqlite3.Connection, turn_id: str, rating: Rating, reason: str, comment: str, seen: Seen
) -> Feedback | None:
    """Keep feedback in place of earlier feedback on the turn; None if there is no such turn to be seen."""
    if not _is_seen(connection, turn_id, seen):
        return None
    given = Feedback(turn_id=turn_id, rating=rating, reason=reason, comment=comment, created=time.time())
    connection.execute(
        "INSERT OR REPLACE INTO feedback (turn_id, rating, reason, comment, created, owner) "
        "VALUES (:turn_id, :rating, :reason, :comment, :created, :owner)",
        {**given.model_dump(), "owner": seen.principal.id},
    )
    return given


def retract(connection: sqlite3.Connection, turn_id: str, seen: Seen) -> bool:
    """Forget the feedback on a turn; False if there was none to be seen."""
    if not _is_seen(connection, turn_id, seen):
        return False
    return connection.execute("DELETE FROM feedback WHERE turn_id = ?", (turn_id,)).rowcount > 0


def records(connection: sqlite3.Connection, seen: Seen) -> list[FeedbackRecord]:
    """All feedback with what it is about, oldest first."""
    rows = connection.execute(
        "SELECT f.turn_id, f.rating, f.reason, f.comment, f.created, t.conversation_id, t.collection, t.question, "
        f"t.answer, t.status FROM feedback f JOIN turns t ON t.id = f.turn_id WHERE {seen.on('t')} "
        "ORDER BY f.created, t.n",
        seen.values,
    )
    return [FeedbackRecord(**row) for row in rows]


def _is_seen(connection: sqlite3.Connection, turn_id: str, seen: Seen) -> bool:
    found = connection.execute(
        f"SELECT 1 FROM turns t WHERE t.id = :id AND {seen.on('t')}", {"id": turn_id, **seen.values}
    )
    return found.fetchone() is not None
