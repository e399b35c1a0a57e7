"""The legs of a turn: which queries a question in its conversation is searched with, and how much each weighs.

A follow-up is searched in several forms at once, since none is right everywhere: alone it may say
nothing, with its history it may drag the last topic along. Fusing many forms settles most of that,
and the typed question's own clarity settles more. The weights were chosen by measurement
(`docs/retrieval.md`). This module sees the conversation and the rewrite only; it runs no search.
"""

from __future__ import annotations

from dataclasses import dataclass

from index.query import Query
from rewriter.conversation import Conversation
from rewriter.protocol import Rewrite
from server.settings import LegsSettings, LegWeights

HISTORY_CHARS = 8000
"""Longest history of the `conversation` leg, in characters, the newest kept."""


@dataclass(frozen=True, slots=True)
class Legs:
    """The queries of one search, and the stand-alone question a cross-encoder may rank by.

    `rerank_question` is None where no stand-alone question is known: then reranking would do harm.
    """

    queries: tuple[Query, ...]
    rerank_question: str | None


def build_legs(conversation: Conversation, question: str, rewrite: Rewrite, weights: LegsSettings) -> Legs:
    """The typed question always; its history and its rewritten form where there are any.

    The first question of a conversation stands alone, and so does one that the rewriter kept and is
    sure of. A rewrite's weight follows the rewriter's confidence.
    """
    if not conversation:
        return Legs((Query(question, "typed"),), question)
    queries = [_query("typed", question, weights.typed, clarity=weights.clarity)]
    standalone: str | None = None
    if rewrite.decision == "rewrite":
        standalone = rewrite.text
        queries.append(_query("rewritten", rewrite.text, weights.rewritten, rewrite.confidence))
    elif rewrite.decision == "keep" and rewrite.confidence is not None:
        standalone = question
        queries.append(_query("rewritten", question, weights.rewritten, rewrite.confidence))
    queries += _history(conversation, question, weights)
    return Legs(tuple(query for query in queries if query.lexical > 0 or query.dense > 0), standalone)


def _history(conversation: Conversation, question: str, weights: LegsSettings) -> list[Query]:
    asked, answered = conversation.last_exchange()
    users = [turn.text for turn in conversation.turns if turn.role == "user"]
    newest_first = " ".join(turn.text for turn in reversed(conversation.turns))
    return [
        _query("users", _joined(*users[-weights.user_turns :], question), weights.users),
        _query("exchange", _joined(question, asked, answered), weights.exchange),
        _query("opening", _joined(*users[:1], question), weights.opening),
        _query("conversation", _joined(question, newest_first[:HISTORY_CHARS]), weights.conversation),
    ]


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _query(
    name: str, text: str, weights: LegWeights, confidence: float | None = None, *, clarity: float = 0.0
) -> Query:
    share = 1.0 if confidence is None else confidence
    return Query(text, name, lexical=share * weights.lexical, dense=share * weights.dense, clarity=clarity)
