"""What people thought of turns. One word a turn: the newest."""

from __future__ import annotations

import sqlite3
import time

from server.store.records import Feedback, FeedbackRecord, Rating


def give(connection: sqlite3.Connection, turn_id: str, rating: Rating, reason: str, comment: str) -> Feedback | None:
    """Keep feedback in place of earlier feedback on the turn; None if there is no such turn."""
    if connection.execute("SELECT 1 FROM turns WHERE id = ?", (turn_id,)).fetchone() is None:
        return None
    given = Feedback(turn_id=turn_id, rating=rating, reason=reason, comment=comment, created=time.time())
    connection.execute(
        "INSERT OR REPLACE INTO feedback (turn_id, rating, reason, comment, created) "
        "VALUES (:turn_id, :rating, :reason, :comment, :created)",
        given.model_dump(),
    )
    return given


def retract(connection: sqlite3.Connection, turn_id: str) -> bool:
    """Forget the feedback on a turn; False if there was none."""
    return connection.execute("DELETE FROM feedback WHERE turn_id = ?", (turn_id,)).rowcount > 0


def records(connection: sqlite3.Connection) -> list[FeedbackRecord]:
    """All feedback with what it is about, oldest first."""
    rows = connection.execute(
        "SELECT f.*, t.conversation_id, t.collection, t.question, t.answer, t.status "
        "FROM feedback f JOIN turns t ON t.id = f.turn_id ORDER BY f.created, t.n"
    )
    return [FeedbackRecord(**row) for row in rows]
