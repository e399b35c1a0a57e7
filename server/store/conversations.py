"""Conversations: made, listed, searched, renamed, deleted. Their turns are in `turns`."""

from __future__ import annotations

import json
import sqlite3
import time
import uuid

from server.access import Seen, Whose
from server.store.records import ConversationDetail, ConversationSummary
from server.store.turns import of_conversation, set_aside

TITLE_CHARS = 80
EXCERPT_CHARS = 160

TRIGRAM = 3
"""Shorter words have no trigram and are looked for in every text."""


def _summaries(seen: Seen) -> str:
    return f"""
        SELECT c.id, c.title, c.collection, c.created, c.updated, c.model, c.owner = :seen_owner AS own,
               (SELECT count(*) FROM turns t WHERE t.conversation_id = c.id AND NOT t.replaced AND {seen.on("t")})
               AS turns
        FROM conversations c WHERE {seen.on("c")}
    """


def create(
    connection: sqlite3.Connection, collection: str, whose: Whose, title: str = "", model: str = ""
) -> ConversationSummary:
    """A new, empty conversation."""
    now, conversation_id = time.time(), uuid.uuid4().hex
    connection.execute(
        "INSERT INTO conversations (id, title, collection, created, updated, owner, group_name, model) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (conversation_id, clean_title(title), collection, now, now, whose.owner, whose.group, model),
    )
    return ConversationSummary(
        id=conversation_id,
        title=clean_title(title),
        collection=collection,
        created=now,
        updated=now,
        turns=0,
        model=model,
    )


def owner(connection: sqlite3.Connection, conversation_id: str, seen: Seen) -> str | None:
    """Whose a conversation is; None where there is none to be seen."""
    row = connection.execute(
        f"SELECT c.owner FROM conversations c WHERE c.id = :id AND {seen.on('c')}",
        {"id": conversation_id, **seen.values},
    ).fetchone()
    return row["owner"] if row else None


def summary(connection: sqlite3.Connection, conversation_id: str, seen: Seen) -> ConversationSummary | None:
    """One conversation's line in the list."""
    row = connection.execute(_summaries(seen) + "AND c.id = :id", {"id": conversation_id, **seen.values}).fetchone()
    return ConversationSummary(**row) if row else None


def detail(
    connection: sqlite3.Connection, conversation_id: str, seen: Seen, *, whole: bool = False
) -> ConversationDetail | None:
    """A conversation with the turns that are shown, oldest first; with `whole` also those that are not."""
    found = summary(connection, conversation_id, seen)
    if found is None:
        return None
    return ConversationDetail(
        **found.model_dump(),
        messages=tuple(of_conversation(connection, conversation_id, seen)),
        set_aside=tuple(set_aside(connection, conversation_id, seen)) if whole else (),
    )


def listing(connection: sqlite3.Connection, limit: int, offset: int, seen: Seen) -> list[ConversationSummary]:
    """Newest first."""
    rows = connection.execute(
        _summaries(seen) + "ORDER BY c.updated DESC, c.n DESC LIMIT :limit OFFSET :offset",
        {"limit": limit, "offset": offset, **seen.values},
    )
    return [ConversationSummary(**row) for row in rows]


def search(
    connection: sqlite3.Connection, query: str, limit: int, offset: int, seen: Seen
) -> list[ConversationSummary]:
    """Conversations with one text (a title, or a question with its answer) that contains every word of
    `query`, in any case and as part of longer words; newest first, each with an excerpt."""
    words = query.replace("\0", " ").split()
    long = [word for word in words if len(word) >= TRIGRAM]
    conditions = ["texts MATCH :match"] if long else []
    values = {**seen.values, "match": " ".join('"' + word.replace('"', '""') + '"' for word in long)}
    for number, word in enumerate(words):
        if len(word) < TRIGRAM:
            conditions.append(f"text LIKE :word{number} ESCAPE '\\'")
            escaped = word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
            values[f"word{number}"] = f"%{escaped}%"
    if not conditions:
        return listing(connection, limit, offset, seen)
    # The text of a turn counts where that turn is seen; a title where its conversation is, which is asked below.
    shown = f"(texts.rowid % 2 OR EXISTS (SELECT 1 FROM turns t WHERE t.n = texts.rowid / 2 AND {seen.on('t')}))"
    found = connection.execute(
        f"SELECT conversation_id AS id, min(rowid) AS row FROM texts WHERE {' AND '.join(conditions)} AND {shown} "
        "GROUP BY 1",
        values,
    ).fetchall()
    rows: dict[str, int] = {row["id"]: row["row"] for row in found}
    summaries = connection.execute(
        f"{_summaries(seen)} AND c.id IN (SELECT value FROM json_each(:ids)) "
        "ORDER BY c.updated DESC, c.n DESC LIMIT :limit OFFSET :offset",
        {"ids": json.dumps(list(rows)), "limit": limit, "offset": offset, **seen.values},
    ).fetchall()
    return [ConversationSummary(**row, excerpt=_excerpt(connection, rows[row["id"]], words[0])) for row in summaries]


def rename(connection: sqlite3.Connection, conversation_id: str, title: str, seen: Seen) -> ConversationSummary | None:
    """Give it a title; None if there is no such conversation to be seen."""
    connection.execute(
        f"UPDATE conversations AS c SET title = :title WHERE c.id = :id AND {seen.on('c')}",
        {"title": clean_title(title), "id": conversation_id, **seen.values},
    )
    return summary(connection, conversation_id, seen)


def choose(connection: sqlite3.Connection, conversation_id: str, model: str, seen: Seen) -> ConversationSummary | None:
    """Have another model answer from now on; None if there is no such conversation to be seen."""
    connection.execute(
        f"UPDATE conversations AS c SET model = :model WHERE c.id = :id AND {seen.on('c')}",
        {"model": model, "id": conversation_id, **seen.values},
    )
    return summary(connection, conversation_id, seen)


def delete(connection: sqlite3.Connection, conversation_id: str, seen: Seen) -> bool:
    """Delete it with its turns, traces and feedback; False if there is no such conversation to be seen."""
    return (
        connection.execute(
            f"DELETE FROM conversations AS c WHERE c.id = :id AND {seen.on('c')}",
            {"id": conversation_id, **seen.values},
        ).rowcount
        > 0
    )


def clean_title(text: str) -> str:
    """One line of at most TITLE_CHARS characters."""
    line = " ".join(text.split())
    return line if len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1].rstrip() + "…"


def _excerpt(connection: sqlite3.Connection, row: int, word: str) -> str:
    text: str = connection.execute("SELECT text FROM texts WHERE rowid = ?", (row,)).fetchone()["text"]
    at = max(text.casefold().find(word.casefold()), 0)
    start = max(at - EXCERPT_CHARS // 3, 0)
    end = start + EXCERPT_CHARS
    cut = " ".join(text[start:end].split())
    return f"{'…' if start else ''}{cut}{'…' if end < len(text) else ''}"
