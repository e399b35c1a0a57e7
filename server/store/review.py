"""What people said of searches, gathered for a person to review before anything is trained on it.

Two kinds of turns are worth looking at: those whose search text somebody wrote anew, and rated ones, whose rewrite
was seen and judged with the rest. Nothing here decides; a reviewed file is read by `as_examples`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, ValidationError
from sqlalchemy import Connection, or_, select

from rewriter.conversation import Message
from rewriter.errors import ExampleError
from rewriter.examples import RewriteExample
from server.access import LOCAL
from server.store import turns
from server.store.records import Rating
from server.store.schema import FEEDBACK, TURNS

HISTORY = 12
"""Messages before a turn that go along with it."""

By: TypeAlias = Literal["person", "rewriter"]


class ReviewMessage(BaseModel):
    """One message of the history."""

    model_config = ConfigDict(frozen=True, extra="forbid", from_attributes=True)

    role: Literal["user", "assistant"]
    text: str


class ReviewRow(BaseModel):
    """A turn to be reviewed. A person sets `use` and corrects `rewrite`; what stays null is not used.

    `rewrite` is the proposal: the search text a person wrote (`by: person`), or the rewriter's, which a bad rating
    speaks against and a good one for.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    turn_id: str
    conversation_id: str = ""
    collection: str = ""
    history: tuple[ReviewMessage, ...]
    question: str
    rewrite: str
    by: By
    rewriter: str = ""
    decision: str = ""
    rating: Rating | None = None
    reason: str = ""
    comment: str = ""
    use: bool | None = None


def gather(connection: Connection, collection: str = "") -> list[ReviewRow]:
    """Every edited or rated turn of the conversations that are kept, oldest first; of one collection where named."""
    edited_or_rated = or_(TURNS.c.search_for.is_not(None), FEEDBACK.c.turn_id.is_not(None))
    wanted = select(TURNS.c.id).join_from(TURNS, FEEDBACK, isouter=True).where(edited_or_rated).order_by(TURNS.c.n)
    if collection:
        wanted = wanted.where(TURNS.c.collection == collection)
    rows = list[ReviewRow]()
    for turn_id in connection.scalars(wanted).all():
        turn = turns.find(connection, turn_id, LOCAL)
        if turn is None or turn.conversation_id is None:
            continue
        before = turns.history(connection, turn.conversation_id, LOCAL, before=turn.id, limit=HISTORY)
        proposal = turn.search_for or (turn.rewrite.text if turn.rewrite else "")
        # Texts of turns may have been left out of the store on purpose.
        if not turn.question or not proposal:
            continue
        feedback = turn.feedback
        rows.append(
            ReviewRow(
                turn_id=turn.id,
                conversation_id=turn.conversation_id,
                collection=turn.collection,
                history=before.messages,
                question=turn.question,
                rewrite=proposal,
                by="person" if turn.search_for else "rewriter",
                rewriter=turn.rewrite.rewriter if turn.rewrite else "",
                decision=turn.rewrite.decision if turn.rewrite else "",
                rating=feedback.rating if feedback else None,
                reason=feedback.reason if feedback else "",
                comment=feedback.comment if feedback else "",
            )
        )
    return rows


def as_examples(lines: Iterable[str], name: str) -> Iterator[RewriteExample]:
    """The rows of a reviewed file that a person wants used, as training examples.

    Raises ExampleError, naming the line, for one that is no review row or is wanted without a rewrite.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = ReviewRow.model_validate(json.loads(line))
        except (ValueError, ValidationError) as error:
            problem = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
            raise ExampleError(f"{name}, line {number} is no row of a review ({problem}).") from error
        if row.use is not True:
            continue
        if not row.rewrite.strip():
            raise ExampleError(f"{name}, line {number} is to be used but has no `rewrite`.")
        yield RewriteExample(
            id=f"{row.conversation_id or 'review'}#{row.turn_id}",
            history=tuple(Message(said.role, said.text) for said in row.history),
            question=row.question,
            rewrite=row.rewrite.strip(),
            source="feedback",
        )
