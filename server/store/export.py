"""A conversation as a file: JSON with everything, or Markdown to read."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from server.store.records import ConversationDetail, StoredTurn

_ENDINGS = {
    "pending": "_Still being answered._",
    "failed": "_No answer: {reason}_",
    "interrupted": "_The answer was interrupted._",
}


def as_json(conversation: ConversationDetail) -> str:
    """Every turn with its evidence, citations and feedback; indented, UTF-8."""
    return conversation.model_dump_json(indent=2)


def as_markdown(conversation: ConversationDetail) -> str:
    """Questions and answers with a numbered list of the sources that were cited."""
    began = datetime.fromtimestamp(conversation.created, UTC).strftime("%Y-%m-%d %H:%M UTC")
    parts = [
        f"# {_line(conversation.title) or 'Conversation'}",
        f"Collection `{conversation.collection}`, begun {began}.",
    ]
    for turn in conversation.messages:
        parts.extend(_turn(turn))
    return "\n\n".join(parts) + "\n"


def _turn(turn: StoredTurn) -> list[str]:
    parts = ["\n".join(f"> {line}".rstrip() for line in turn.question.splitlines())]
    if turn.rewrite is not None and turn.rewrite.decision in ("rewrite", "expand"):
        parts.append(f"_Searched for: {_line(turn.rewrite.text)}_")
    if turn.answer:
        parts.append(turn.answer)
    if turn.status in _ENDINGS:
        parts.append(_ENDINGS[turn.status].format(reason=_line(turn.error.message) if turn.error else "unknown"))
    cited = {citation.n: citation for citation in turn.done.citations} if turn.done else {}
    lines = list[str]()
    for n, citation in sorted(cited.items()):
        place = " > ".join(_line(part) for part in (citation.title, *citation.heading) if part)
        page = f", page {citation.page}" if citation.page is not None else ""
        lines.append(f"- [{n}] {place}{page} (`{_line(citation.document_id)}`): {_line(citation.quote)}")
    if lines:
        parts.append("\n".join(lines))
    if turn.feedback is not None:
        words = ": ".join(part for part in (_line(turn.feedback.reason), _line(turn.feedback.comment)) if part)
        parts.append(f"_Rated {turn.feedback.rating}{f' ({words})' if words else ''}._")
    return parts


def _line(text: str) -> str:
    """One line without what Markdown or HTML would read as markup."""
    return re.sub(r"([\\`*_<>\[\]])", r"\\\1", " ".join(text.split()))
