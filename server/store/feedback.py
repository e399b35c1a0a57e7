"""Ratings of turns by people. One word a turn: the newest."""

from __future__ import annotations

import time

from sqlalchemy import Connection, delete, select

from server.access import Principal
from server.store import turns
from server.store.dialects import put
from server.store.records import Feedback, FeedbackRecord, Rating
from server.store.schema import FEEDBACK, TURNS, visible


def give(
    connection: Connection, turn_id: str, rating: Rating, reason: str, comment: str, who: Principal
) -> Feedback | None:
    """Keep feedback in place of earlier feedback on the turn; None if there is no such turn to be seen."""
    if turns.owner(connection, turn_id, who) is None:
        return None
    feedback = Feedback(turn_id=turn_id, rating=rating, reason=reason, comment=comment, created=time.time())
    put(connection, FEEDBACK, {**feedback.model_dump(), "owner": who.id})
    return feedback


def retract(connection: Connection, turn_id: str, who: Principal) -> bool:
    """Forget the feedback on a turn; False if there was none to be seen."""
    if turns.owner(connection, turn_id, who) is None:
        return False
    return connection.execute(delete(FEEDBACK).where(FEEDBACK.c.turn_id == turn_id)).rowcount > 0


def records(connection: Connection, who: Principal) -> list[FeedbackRecord]:
    """All feedback with what it is about, oldest first."""
    about = TURNS.c["conversation_id", "collection", "question", "answer", "status"]
    columns = FEEDBACK.c["turn_id", "rating", "reason", "comment", "created"]
    rows = connection.execute(
        select(*columns, *about).join(TURNS).where(visible(TURNS, who)).order_by(FEEDBACK.c.created, TURNS.c.n)
    )
    return [FeedbackRecord(**row) for row in rows.mappings()]
