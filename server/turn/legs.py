"""The legs of a turn: which queries a question in its conversation is searched with, and how much each weighs.

This module decides from the conversation and the rewrite alone; it runs no search and knows no index
beyond the `Query` it hands out.
"""

from __future__ import annotations

from dataclasses import dataclass

from index.query import Query
from rewriter.conversation import Conversation
from rewriter.protocol import Rewrite


@dataclass(frozen=True, slots=True)
class Legs:
    """The queries of one search, and the stand-alone question a cross-encoder may rank by.

    `rerank_question` is None where no stand-alone question is known: then reranking would do harm.
    """

    queries: tuple[Query, ...]
    rerank_question: str | None


def build_legs(conversation: Conversation, question: str, rewrite: Rewrite) -> Legs:
    """The typed question always; history and the rewritten question where there are any."""
    queries = [Query(question, "typed")]
    if not conversation:
        return Legs(tuple(queries), question)
    if rewrite.decision == "rewrite":
        queries.append(Query(rewrite.text, "rewritten"))
    users = " ".join((*conversation.last_user_turns(3), question))
    asked, answered = conversation.last_exchange()
    queries.append(Query(users, "users"))
    queries.append(Query(f"{asked} {answered} {question}", "exchange"))
    return Legs(tuple(queries), rewrite.text if rewrite.decision in ("keep", "rewrite") else None)
