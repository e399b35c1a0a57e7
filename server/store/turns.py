"""Turns: stored as they begin, kept up to date while they are answered, and ended once.

Feedback and traces hang on turns and go with them.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Connection,
    Double,
    RowMapping,
    Select,
    and_,
    case,
    cast,
    delete,
    func,
    insert,
    not_,
    select,
    update,
)

from rewriter.conversation import Conversation, Message
from server.access import Seen, Whose
from server.store.dialects import json_text, put
from server.store.records import Feedback, StoredTurn, Trace, TraceSummary, TurnStatus
from server.store.schema import CONVERSATIONS, FEEDBACK, TRACES, TURNS, visible
from server.turn.events import DoneEvent, ErrorEvent, EvidenceEvent, RewriteEvent
from server.turn.own_words import remembered


def _turns(seen: Seen) -> Select[Any]:
    """The turns there are to be seen, with what was thought of them."""
    given = FEEDBACK.c["rating", "reason", "comment"]
    rated = select(TURNS, *given, FEEDBACK.c.created.label("rated")).join_from(TURNS, FEEDBACK, isouter=True)
    return rated.where(visible(TURNS, seen))


def _seen(turn_id: str, seen: Seen) -> ColumnElement[bool]:
    return and_(TURNS.c.id == turn_id, visible(TURNS, seen))


def begin(
    connection: Connection,
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

    `regenerate_of` names the turn of which this one is a new version: what follows that one stays with it. A
    conversation without a title of its own gets `title` from a turn over its collection. False if the conversation is
    gone.
    """
    now, parent = time.time(), None
    if conversation_id is not None:
        here = CONVERSATIONS.c.title == "", CONVERSATIONS.c.collection == collection
        named = case((and_(*here), title), else_=CONVERSATIONS.c.title)
        touched = update(CONVERSATIONS).where(CONVERSATIONS.c.id == conversation_id).values(updated=now, title=named)
        if connection.execute(touched).rowcount == 0:
            return False
        if regenerate_of is not None:
            place = select(TURNS.c.parent).where(TURNS.c.id == regenerate_of)
        else:
            shown = TURNS.c.conversation_id == conversation_id, not_(TURNS.c.replaced)
            place = select(TURNS.c.id).where(*shown).order_by(TURNS.c.n.desc()).limit(1)
        parent = connection.scalar(place)
    connection.execute(
        insert(TURNS),
        {
            "id": turn_id,
            "conversation_id": conversation_id,
            "collection": collection,
            "question": question,
            "search_for": search_for,
            "status": "pending",
            "created": now,
            "runner": runner,
            "owner": whose.owner,
            "group_name": whose.group,
            "parent": parent,
        },
    )
    if regenerate_of is not None:
        _show(connection, turn_id)
    return True


def show(connection: Connection, conversation_id: str, turn_id: str, seen: Seen) -> bool:
    """Show the version `turn_id` of a conversation, and what followed it then; False if it is not there to be seen."""
    found = find(connection, turn_id, seen)
    if found is None or found.conversation_id != conversation_id:
        return False
    _show(connection, turn_id)
    return True


def _line(turn_id: str) -> CTE:
    """A turn and those that it follows."""
    line = select(*TURNS.c["id", "parent", "conversation_id"]).where(TURNS.c.id == turn_id).cte("line", recursive=True)
    before = TURNS.alias("before")
    return line.union_all(select(*before.c["id", "parent", "conversation_id"]).join(line, before.c.id == line.c.parent))


def _show(connection: Connection, turn_id: str) -> None:
    """Choose a turn and all that it follows among their versions, and mark what is shown."""
    line = connection.execute(select(_line(turn_id))).all()
    conversation_id = line[0].conversation_id
    last = connection.scalar(select(func.max(TURNS.c.chosen)).where(TURNS.c.conversation_id == conversation_id))
    chosen = update(TURNS).where(TURNS.c.id.in_([row.id for row in line]))
    connection.execute(chosen.values(chosen=1 + (last or 0)))
    mark_shown(connection, [conversation_id])


def mark_shown(connection: Connection, conversations: Collection[str]) -> None:
    """Mark what is shown of conversations: from the first turn on the version chosen last."""
    rows = connection.execute(
        select(*TURNS.c["id", "conversation_id", "parent", "replaced"])
        .where(TURNS.c.conversation_id.in_(conversations))
        .order_by(TURNS.c.chosen, TURNS.c.n)
    ).all()
    follows = {(row.conversation_id, row.parent): row.id for row in rows}
    shown = set[str]()
    for conversation in conversations:
        turn = follows.get((conversation, None))
        while turn is not None:
            shown.add(turn)
            turn = follows.get((conversation, turn))
    wrong = [row.id for row in rows if row.replaced == (row.id in shown)]
    connection.execute(update(TURNS).where(TURNS.c.id.in_(wrong)).values(replaced=not_(TURNS.c.replaced)))


def checkpoint(connection: Connection, turn_id: str, answer: str) -> None:
    """Keep what has been shown of a pending turn's answer."""
    pending = update(TURNS).where(TURNS.c.id == turn_id, TURNS.c.status == "pending")
    connection.execute(pending.values(answer=answer))


def finish(
    connection: Connection,
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
    values = {
        "status": status,
        "answer": answer,
        "rewrite": rewrite.model_dump_json() if rewrite else None,
        "evidence": evidence.model_dump_json() if evidence else None,
        "ending": ending.model_dump_json() if ending else None,
        "finished": now,
    }
    if not connection.execute(update(TURNS).where(TURNS.c.id == turn_id).values(values)).rowcount:
        return
    its = select(TURNS.c.conversation_id).where(TURNS.c.id == turn_id).scalar_subquery()
    connection.execute(update(CONVERSATIONS).where(CONVERSATIONS.c.id == its).values(updated=now))
    if trace is not None:
        put(connection, TRACES, {"turn_id": turn_id, "trace": trace.model_dump_json()})


def find(connection: Connection, turn_id: str, seen: Seen) -> StoredTurn | None:
    """One turn, also if another version of it is shown."""
    row = connection.execute(_turns(seen).where(TURNS.c.id == turn_id)).mappings().first()
    if row is None:
        return None
    beside = TURNS.c.conversation_id == row["conversation_id"], TURNS.c.parent.is_not_distinct_from(row["parent"])
    versions = connection.scalars(select(TURNS.c.id).where(*beside, visible(TURNS, seen)).order_by(TURNS.c.n))
    return _turn(row, tuple(versions))


def owner(connection: Connection, turn_id: str, seen: Seen) -> str | None:
    """Whose a turn is; None where there is none to be seen."""
    found: str | None = connection.scalar(select(TURNS.c.owner).where(_seen(turn_id, seen)))
    return found


def of_conversation(connection: Connection, conversation_id: str, seen: Seen) -> list[StoredTurn]:
    """The turns of a conversation that are shown, oldest first."""
    return [turn for turn, replaced in _all_of(connection, conversation_id, seen) if not replaced]


def set_aside(connection: Connection, conversation_id: str, seen: Seen) -> list[StoredTurn]:
    """The turns of a conversation that are not shown: other versions, and what followed them; oldest first."""
    return [turn for turn, replaced in _all_of(connection, conversation_id, seen) if replaced]


def _all_of(connection: Connection, conversation_id: str, seen: Seen) -> list[tuple[StoredTurn, bool]]:
    of_it = _turns(seen).where(TURNS.c.conversation_id == conversation_id).order_by(TURNS.c.n)
    rows, versions = connection.execute(of_it).mappings().all(), dict[str | None, tuple[str, ...]]()
    for row in rows:
        versions[row["parent"]] = (*versions.get(row["parent"], ()), row["id"])
    return [(_turn(row, versions[row["parent"]]), bool(row["replaced"])) for row in rows]


def history(
    connection: Connection, conversation_id: str, seen: Seen, *, before: str | None, limit: int
) -> Conversation:
    """What was said in a conversation, the newest `limit` messages, oldest first, as `remembered` keeps it.

    It is what the turn `before` follows, or all that is shown. A question that got no answer counts as
    asked; a turn that is still being answered does not count.
    """
    said_here = TURNS.c.conversation_id == conversation_id, TURNS.c.status != "pending", visible(TURNS, seen)
    wanted = select(*TURNS.c["question", "answer"]).where(*said_here).order_by(TURNS.c.n.desc()).limit(limit)
    if before:
        wanted = wanted.where(TURNS.c.id != before, TURNS.c.id.in_(select(_line(before).c.id)))
    else:
        wanted = wanted.where(not_(TURNS.c.replaced))
    rows = connection.execute(wanted).all()
    said = list[Message]()
    for row in reversed(rows):
        said.append(Message("user", row.question))
        if row.answer:
            said.append(Message("assistant", row.answer))
    return remembered(said[-limit:] if limit else ())


def trace(connection: Connection, turn_id: str, seen: Seen) -> Trace | None:
    """What happened in a turn; None where there is no trace of it (yet)."""
    found = connection.scalar(select(TRACES.c.trace).join(TURNS).where(_seen(turn_id, seen)))
    return Trace.model_validate_json(found) if found else None


def traced(connection: Connection, seen: Seen, collection: str, limit: int) -> list[TraceSummary]:
    """The newest turns (of a collection, if one is named) that left a trace."""
    about = TURNS.c.id.label("turn_id"), *TURNS.c["created", "collection", "question", "status"]
    seconds = cast(json_text(TRACES.c.trace, "seconds"), Double).label("seconds")
    newest = select(*about, seconds).join(TRACES).where(visible(TURNS, seen)).order_by(TURNS.c.n.desc()).limit(limit)
    rows = connection.execute(newest.where(TURNS.c.collection == collection) if collection else newest)
    return [TraceSummary(**row) for row in rows.mappings()]


def forget_traces(connection: Connection, before: float, limit: int) -> int:
    """Delete traces of turns begun before that time, `limit` at most; returns how many were found.

    A turn of no conversation is kept for its trace alone, and goes with it unless somebody rated it.
    """
    alone = and_(TURNS.c.conversation_id.is_(None), FEEDBACK.c.turn_id.is_(None)).label("alone")
    old = select(TURNS.c.id, alone).join(TRACES).join(FEEDBACK, isouter=True).where(TURNS.c.created < before)
    found = connection.execute(old.limit(limit)).all()
    connection.execute(delete(TRACES).where(TRACES.c.turn_id.in_([row.id for row in found])))
    connection.execute(delete(TURNS).where(TURNS.c.id.in_([row.id for row in found if row.alone])))
    return len(found)


def _turn(row: RowMapping, versions: tuple[str, ...]) -> StoredTurn:
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
        parent=row["parent"],
        versions=versions if row["conversation_id"] else (row["id"],),
    )
