"""Conversations: made, listed, searched, renamed, deleted, exported. Their turns are in `turns`."""

from __future__ import annotations

import re
import time
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, func, insert, not_, or_, select, update

from server.access import Ownership, Principal
from server.store.records import ConversationDetail, ConversationSummary, StoredTurn
from server.store.schema import CONVERSATIONS, TEXTS, TURNS, holds_words, visible
from server.store.turns import of_conversation
from server.turn.citations import reading_numbers
from text.sentences import without_links

TITLE_CHARS = 80
EXCERPT_CHARS = 160
_NEWEST = (CONVERSATIONS.c.updated.desc(), CONVERSATIONS.c.n.desc())


def _summaries(who: Principal) -> Select[Any]:
    turn_count = select(func.count()).where(TURNS.c.conversation_id == CONVERSATIONS.c.id, not_(TURNS.c.replaced))
    return select(
        *CONVERSATIONS.c["id", "title", "collection", "created", "updated", "model"],
        (CONVERSATIONS.c.owner == who.id).label("own"),
        turn_count.where(visible(TURNS, who)).scalar_subquery().label("turns"),
    ).where(visible(CONVERSATIONS, who))


def _seen(conversation_id: str, who: Principal) -> ColumnElement[bool]:
    return and_(CONVERSATIONS.c.id == conversation_id, visible(CONVERSATIONS, who))


def create(
    connection: Connection, collection: str, ownership: Ownership, title: str = "", model: str = ""
) -> ConversationSummary:
    """A new, empty conversation."""
    summary = ConversationSummary(
        id=uuid.uuid4().hex,
        title=clean_title(title),
        collection=collection,
        created=(now := time.time()),
        updated=now,
        turns=0,
        model=model,
    )
    row = summary.model_dump(include={"id", "title", "collection", "created", "updated", "model"})
    connection.execute(insert(CONVERSATIONS), {**row, "owner": ownership.owner, "group_name": ownership.group})
    return summary


def owner(connection: Connection, conversation_id: str, who: Principal) -> str | None:
    """Return the owner of a conversation; None where there is none to be seen."""
    owner_id: str | None = connection.scalar(select(CONVERSATIONS.c.owner).where(_seen(conversation_id, who)))
    return owner_id


def summary(connection: Connection, conversation_id: str, who: Principal) -> ConversationSummary | None:
    """One conversation's line in the list."""
    row = connection.execute(_summaries(who).where(CONVERSATIONS.c.id == conversation_id)).mappings().first()
    return ConversationSummary(**row) if row else None


def detail(connection: Connection, conversation_id: str, who: Principal) -> ConversationDetail | None:
    """A conversation with the turns that are shown, oldest first."""
    conversation = summary(connection, conversation_id, who)
    if conversation is None:
        return None
    messages = tuple(of_conversation(connection, conversation_id, who))
    return ConversationDetail(**conversation.model_dump(), messages=messages)


def _period(word: str) -> tuple[float, float] | None:
    """Return when the day or month that a word names begins and ends, as seconds since 1970."""
    if not re.fullmatch(r"\d{4}-\d{2}(-\d{2})?", word, re.ASCII):
        return None
    try:
        start = datetime.fromisoformat(f"{word}-01"[:10])
        end = start + timedelta(days=1) if len(word) == 10 else (start + timedelta(days=32)).replace(day=1)
        return start.timestamp(), end.timestamp()
    except (ValueError, OverflowError):
        return None


def search(connection: Connection, query: str, limit: int, offset: int, who: Principal) -> list[ConversationSummary]:
    """Conversations with one text (a title, or a question with its answer) that contains every word of
    `query`, in any case and as part of longer words; newest first, each with an excerpt.

    A date (`2026-11-24`) or month (`2026-11`) among the words is the time, in this machine's zone, of the last turn.
    """
    words = query.replace("\0", " ").split()
    periods = [period for word in words if (period := _period(word)) is not None]
    within = [CONVERSATIONS.c.updated.between(start, end) for start, end in periods]
    words = [word for word in words if _period(word) is None]
    if not words:
        rows = connection.execute(_summaries(who).where(*within).order_by(*_NEWEST).limit(limit).offset(offset))
        return [ConversationSummary(**row) for row in rows.mappings()]
    # The text of a turn counts where that turn is seen; a title where its conversation is, which is asked below.
    of_turn = select(TURNS.c.n).where(TURNS.c.n == TEXTS.c.rowid / 2, visible(TURNS, who)).exists()
    matching = (
        select(TEXTS.c.conversation_id, func.min(TEXTS.c.rowid).label("row"))
        .where(*holds_words(connection, words), or_(TEXTS.c.rowid % 2 == 1, of_turn))
        .group_by(TEXTS.c.conversation_id)
        .subquery()
    )
    summaries = _summaries(who).join(matching, matching.c.conversation_id == CONVERSATIONS.c.id)
    wanted = summaries.add_columns(matching.c.row).where(*within).order_by(*_NEWEST).limit(limit).offset(offset)
    return [
        ConversationSummary(**row, excerpt=_excerpt(connection, row["row"], words[0]))
        for row in connection.execute(wanted).mappings().all()
    ]


def change(
    connection: Connection, conversation_id: str, who: Principal, /, **values: str
) -> ConversationSummary | None:
    """Give it another `title` or the `model` that answers from now on; None if there is none to be seen."""
    connection.execute(update(CONVERSATIONS).where(_seen(conversation_id, who)).values(values))
    return summary(connection, conversation_id, who)


def delete(connection: Connection, conversation_id: str, who: Principal) -> bool:
    """Delete it with its turns, traces and feedback; False if there is no such conversation to be seen."""
    return connection.execute(CONVERSATIONS.delete().where(_seen(conversation_id, who))).rowcount > 0


def clean_title(text: str) -> str:
    """One line of at most TITLE_CHARS characters."""
    line = " ".join(text.split())
    return line if len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1].rstrip() + "…"


def _excerpt(connection: Connection, row: int, word: str) -> str:
    text: str = connection.execute(select(TEXTS.c.text).where(TEXTS.c.rowid == row)).scalar_one()
    at = max(text.casefold().find(word.casefold()), 0)
    start = max(at - EXCERPT_CHARS // 3, 0)
    end = start + EXCERPT_CHARS
    cut = " ".join(text[start:end].split())
    return f"{'…' if start else ''}{cut}{'…' if end < len(text) else ''}"


_ENDINGS = {
    "pending": "_Still being answered._",
    "failed": "_No answer: {reason}_",
    "interrupted": "_The answer was interrupted._",
}


def as_markdown(conversation: ConversationDetail) -> str:
    """Questions and answers with a numbered list of the sources that were cited."""
    began = datetime.fromtimestamp(conversation.created, UTC).strftime("%Y-%m-%d %H:%M UTC")
    parts = [
        f"# {_line(conversation.title) or 'Conversation'}",
        f"Collection `{conversation.collection}`, begun {began}.",
    ]
    for turn in conversation.messages:
        parts.extend(_turn_lines(turn))
    return "\n\n".join(parts) + "\n"


def _turn_lines(turn: StoredTurn) -> list[str]:
    parts = ["\n".join(f"> {line}".rstrip() for line in turn.question.splitlines())]
    if turn.rewrite is not None and turn.rewrite.decision in ("rewrite", "expand", "reply"):
        parts.append(f"_Searched for: {_line(turn.rewrite.text)}_")
    citations = sorted(turn.done.citations, key=lambda citation: citation.answer_start) if turn.done else []
    numbers = reading_numbers((citation.n for citation in citations), ())
    if turn.answer:
        answer = turn.answer
        for citation in reversed(citations):
            marker = f"[{numbers[citation.n]}]"
            answer = answer[: citation.answer_start] + marker + answer[citation.answer_end :]
        parts.append(answer)
    if turn.status in _ENDINGS:
        parts.append(_ENDINGS[turn.status].format(reason=_line(turn.error.message) if turn.error else "unknown"))
    cited = {numbers[citation.n]: citation for citation in citations}
    lines = list[str]()
    for n, citation in sorted(cited.items()):
        place = " > ".join(_line(part) for part in (citation.title, *citation.heading) if part)
        page = f", page {citation.page}" if citation.page is not None else ""
        lines.append(f"- [{n}] {place}{page} (`{_line(citation.document_id)}`): {_line(without_links(citation.quote))}")
    if lines:
        parts.append("\n".join(lines))
    if turn.feedback is not None:
        words = ": ".join(part for part in (_line(turn.feedback.reason), _line(turn.feedback.comment)) if part)
        parts.append(f"_Rated {turn.feedback.rating}{f' ({words})' if words else ''}._")
    return parts


def _line(text: str) -> str:
    """One line without what Markdown or HTML would read as markup."""
    return re.sub(r"([\\`*_<>\[\]])", r"\\\1", " ".join(text.split()))
