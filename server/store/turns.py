"""Turns: stored as they begin, kept up to date while they are answered, and ended once.

Feedback and traces hang on turns and go with them.
"""

from __future__ import annotations

import json
import sqlite3
import time

from rewriter.conversation import Conversation, Message
from server.access import Seen, Whose
from server.store.records import Feedback, StoredTurn, Trace, TraceSummary, TurnStatus
from server.turn.events import DoneEvent, ErrorEvent, EvidenceEvent, RewriteEvent
from server.turn.own_words import remembered


def _turns(seen: Seen) -> str:
    """The turns there are to be seen, as `t`."""
    return f"""
        SELECT t.*, f.rating, f.reason, f.comment, f.created AS rated,
               (SELECT json_group_array(id) FROM (SELECT v.id FROM turns v WHERE v.conversation_id = t.conversation_id
                AND v.parent IS t.parent AND {seen.on("v")} ORDER BY v.n)) AS versions
        FROM turns t LEFT JOIN feedback f ON f.turn_id = t.id WHERE {seen.on("t")}
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

    `regenerate_of` names the turn of which this one is a new version: what follows that one stays with it. A
    conversation without a title of its own gets `title` from a turn over its collection. False if the conversation is
    gone.
    """
    now, parent = time.time(), None
    if conversation_id is not None:
        touched = connection.execute(
            "UPDATE conversations SET updated = ?, "
            "title = CASE WHEN title = '' AND collection = ? THEN ? ELSE title END WHERE id = ?",
            (now, collection, title, conversation_id),
        )
        if touched.rowcount == 0:
            return False
        place = (
            "SELECT parent FROM turns WHERE id = :old"
            if regenerate_of is not None
            else "SELECT id FROM turns WHERE conversation_id = :in AND NOT replaced ORDER BY n DESC LIMIT 1"
        )
        row = connection.execute(place, {"old": regenerate_of, "in": conversation_id}).fetchone()
        parent = row[0] if row else None
    connection.execute(
        "INSERT INTO turns (id, conversation_id, collection, question, search_for, status, created, runner, owner, "
        "group_name, parent) VALUES (?, ?, ?, ?, ?, 'pending', ?, ?, ?, ?, ?)",
        (turn_id, conversation_id, collection, question, search_for, now, runner, whose.owner, whose.group, parent),
    )
    if regenerate_of is not None:
        _show(connection, turn_id)
    return True


def show(connection: sqlite3.Connection, conversation_id: str, turn_id: str, seen: Seen) -> bool:
    """Show the version `turn_id` of a conversation, and what followed it then; False if it is not there to be seen."""
    found = find(connection, turn_id, seen)
    if found is None or found.conversation_id != conversation_id:
        return False
    _show(connection, turn_id)
    return True


_BEFORE = """
    WITH RECURSIVE line(id, parent) AS (
        SELECT id, parent FROM turns WHERE id = :turn
        UNION ALL SELECT t.id, t.parent FROM turns t JOIN line ON t.id = line.parent
    )
"""
"""A turn and those that it follows."""


def _show(connection: sqlite3.Connection, turn_id: str) -> None:
    """Choose a turn and all that it follows among their versions, and mark what is shown."""
    connection.execute(
        f"{_BEFORE} UPDATE turns SET chosen = 1 + (SELECT max(chosen) FROM turns WHERE conversation_id = "
        "(SELECT conversation_id FROM turns WHERE id = :turn)) WHERE id IN (SELECT id FROM line)",
        {"turn": turn_id},
    )
    mark_shown(connection, "(SELECT conversation_id FROM turns WHERE id = :turn)", {"turn": turn_id})


def mark_shown(connection: sqlite3.Connection, conversations: str, values: dict[str, object]) -> None:
    """Mark what is shown of the conversations that a subquery names: from the first turn on the version chosen last."""
    first = "SELECT {id} FROM turns t WHERE {where} ORDER BY t.chosen DESC, t.n DESC LIMIT 1"
    begins = first.format(id="t.id", where="t.conversation_id = c.id AND t.parent IS NULL")
    follows = first.format(id="t.id", where="t.parent = shown.id")
    connection.execute(
        f"WITH RECURSIVE shown(id) AS (SELECT ({begins}) FROM conversations c WHERE c.id IN {conversations} "
        f"UNION ALL SELECT ({follows}) FROM shown WHERE shown.id IS NOT NULL) "
        f"UPDATE turns SET replaced = NOT replaced WHERE conversation_id IN {conversations} "
        "AND replaced = (id IN (SELECT id FROM shown WHERE id IS NOT NULL))",
        values,
    )


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
    """One turn, also if another version of it is shown."""
    row = connection.execute(f"{_turns(seen)} AND t.id = :id", {"id": turn_id, **seen.values}).fetchone()
    return _turn(row) if row else None


def owner(connection: sqlite3.Connection, turn_id: str, seen: Seen) -> str | None:
    """Whose a turn is; None where there is none to be seen."""
    row = connection.execute(
        f"SELECT t.owner FROM turns t WHERE t.id = :id AND {seen.on('t')}", {"id": turn_id, **seen.values}
    ).fetchone()
    return row["owner"] if row else None


def of_conversation(connection: sqlite3.Connection, conversation_id: str, seen: Seen) -> list[StoredTurn]:
    """The turns of a conversation that are shown, oldest first."""
    return [turn for turn, replaced in _all_of(connection, conversation_id, seen) if not replaced]


def set_aside(connection: sqlite3.Connection, conversation_id: str, seen: Seen) -> list[StoredTurn]:
    """The turns of a conversation that are not shown: other versions, and what followed them; oldest first."""
    return [turn for turn, replaced in _all_of(connection, conversation_id, seen) if replaced]


def _all_of(connection: sqlite3.Connection, conversation_id: str, seen: Seen) -> list[tuple[StoredTurn, bool]]:
    rows = connection.execute(
        f"{_turns(seen)} AND t.conversation_id = :id ORDER BY t.n", {"id": conversation_id, **seen.values}
    )
    return [(_turn(row), bool(row["replaced"])) for row in rows]


def history(
    connection: sqlite3.Connection, conversation_id: str, seen: Seen, *, before: str | None, limit: int
) -> Conversation:
    """What was said in a conversation, the newest `limit` messages, oldest first, as `remembered` keeps it.

    It is what the turn `before` follows, or all that is shown. A question that got no answer counts as
    asked; a turn that is still being answered does not count.
    """
    followed = "id <> :turn AND id IN (SELECT id FROM line)" if before else "NOT replaced"
    rows = connection.execute(
        f"{_BEFORE} SELECT question, answer FROM turns t WHERE conversation_id = :id AND status <> 'pending' "
        f"AND {followed} AND {seen.on('t')} ORDER BY n DESC LIMIT :limit",
        {"id": conversation_id, "turn": before, "limit": limit, **seen.values},
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


def traced(connection: sqlite3.Connection, seen: Seen, collection: str, limit: int) -> list[TraceSummary]:
    """The newest turns (of a collection, if one is named) that left a trace."""
    rows = connection.execute(
        "SELECT t.id AS turn_id, t.created, t.collection, t.question, t.status, "
        "json_extract(r.trace, '$.seconds') AS seconds FROM turns t JOIN traces r ON r.turn_id = t.id "
        f"WHERE (:collection = '' OR t.collection = :collection) AND {seen.on('t')} ORDER BY t.n DESC LIMIT :limit",
        {"collection": collection, "limit": limit, **seen.values},
    )
    return [TraceSummary(**row) for row in rows]


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
        parent=row["parent"],
        versions=tuple(json.loads(row["versions"])) or (row["id"],),
    )
