"""Conversations: made, listed, searched, renamed, deleted. Their turns are in `turns`."""

from __future__ import annotations

import json
import sqlite3
import time
import uuid

from server.store.records import ConversationDetail, ConversationSummary
from server.store.turns import of_conversation

TITLE_CHARS = 80
EXCERPT_CHARS = 160

TRIGRAM = 3
"""Shorter words have no trigram and are looked for in every text."""

_SUMMARY = """
    SELECT c.id, c.title, c.collection, c.created, c.updated,
           (SELECT count(*) FROM turns t WHERE t.conversation_id = c.id AND NOT t.replaced) AS turns
    FROM conversations c
"""


def create(connection: sqlite3.Connection, collection: str, title: str = "") -> ConversationSummary:
    """A new, empty conversation."""
    now, conversation_id = time.time(), uuid.uuid4().hex
    connection.execute(
        "INSERT INTO conversations (id, title, collection, created, updated) VALUES (?, ?, ?, ?, ?)",
        (conversation_id, clean_title(title), collection, now, now),
    )
    return ConversationSummary(
        id=conversation_id, title=clean_title(title), collection=collection, created=now, updated=now, turns=0
    )


def summary(connection: sqlite3.Connection, conversation_id: str) -> ConversationSummary | None:
    """One conversation's line in the list."""
    row = connection.execute(_SUMMARY + "WHERE c.id = ?", (conversation_id,)).fetchone()
    return ConversationSummary(**row) if row else None


def detail(connection: sqlite3.Connection, conversation_id: str) -> ConversationDetail | None:
    """A conversation with the turns that still belong to it, oldest first."""
    found = summary(connection, conversation_id)
    if found is None:
        return None
    return ConversationDetail(**found.model_dump(), messages=tuple(of_conversation(connection, conversation_id)))


def listing(connection: sqlite3.Connection, limit: int, offset: int) -> list[ConversationSummary]:
    """Newest first."""
    rows = connection.execute(_SUMMARY + "ORDER BY c.updated DESC, c.n DESC LIMIT ? OFFSET ?", (limit, offset))
    return [ConversationSummary(**row) for row in rows]


def search(connection: sqlite3.Connection, query: str, limit: int, offset: int) -> list[ConversationSummary]:
    """Conversations with one text (a title, or a question with its answer) that contains every word of
    `query`, in any case and as part of longer words; newest first, each with an excerpt."""
    words = query.replace("\0", " ").split()
    long = [word for word in words if len(word) >= TRIGRAM]
    conditions = ["texts MATCH ?"] if long else []
    values = [" ".join('"' + word.replace('"', '""') + '"' for word in long)] if long else []
    for word in words:
        if len(word) < TRIGRAM:
            conditions.append("text LIKE ? ESCAPE '\\'")
            values.append("%" + word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%")
    if not conditions:
        return listing(connection, limit, offset)
    found = connection.execute(
        f"SELECT conversation_id AS id, min(rowid) AS row FROM texts WHERE {' AND '.join(conditions)} GROUP BY 1",
        values,
    ).fetchall()
    rows: dict[str, int] = {row["id"]: row["row"] for row in found}
    summaries = connection.execute(
        f"{_SUMMARY} WHERE c.id IN (SELECT value FROM json_each(?)) ORDER BY c.updated DESC, c.n DESC LIMIT ? OFFSET ?",
        (json.dumps(list(rows)), limit, offset),
    ).fetchall()
    return [ConversationSummary(**row, excerpt=_excerpt(connection, rows[row["id"]], words[0])) for row in summaries]


def rename(connection: sqlite3.Connection, conversation_id: str, title: str) -> ConversationSummary | None:
    """Give it a title; None if there is no such conversation."""
    connection.execute("UPDATE conversations SET title = ? WHERE id = ?", (clean_title(title), conversation_id))
    return summary(connection, conversation_id)


def delete(connection: sqlite3.Connection, conversation_id: str) -> bool:
    """Delete it with its turns, traces and feedback; False if there is no such conversation."""
    return connection.execute("DELETE FROM conversations WHERE id = ?", (conversation_id,)).rowcount > 0


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
