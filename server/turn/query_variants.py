"""Build the query variants of a follow-up: the forms in which one question is searched at once.

None is right everywhere: alone a follow-up may say nothing, with its history it may drag the last topic along. Fusing
many forms settles most of that, and the typed question's own clarity settles more. The weights were chosen by
measurement (`docs/lab/retrieval.md`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from index.query import Query
from rewriter.protocol import Conversation, Rewrite
from server.settings.profile import RetrievalProfile, VariantWeights

HISTORY_CHARS = 8000
"""Longest history of the variant `conversation`, in characters, the newest kept."""


@dataclass(frozen=True, slots=True)
class QueryVariants:
    """The queries of one search, and the stand-alone question a cross-encoder may rank by.

    `rerank_question` is None where no stand-alone question is known: then reranking would do harm.
    """

    queries: tuple[Query, ...]
    rerank_question: str | None

    @property
    def shown(self) -> tuple[Query, ...]:
        """The queries that look for passages, and not only for the document that is spoken of."""
        return tuple(query for query in self.queries if not query.document_prior_weight)


def build_variants(
    conversation: Conversation, question: str, rewrite: Rewrite, profile: RetrievalProfile
) -> QueryVariants:
    """Return the typed question, and its history and its rewritten form where there are any.

    The first question of a conversation stands alone, and so does one that the rewriter kept with confidence. A
    sentence's weight follows the rewriter's confidence. Where a sentence was written from words that were found, the
    search and the cross-encoder read the words, since they err less.
    """
    weights = profile.variants
    if not conversation and (rewrite.decision != "rewrite" or rewrite.text == question):
        return QueryVariants((Query(question, "typed"),), question)
    history_probability = rewrite.history_probability
    queries = [_query("typed", question, weights.typed, clarity=profile.clarity)]
    standalone: str | None = None
    if (
        rewrite.expansion
        or rewrite.decision == "expand"
        or (rewrite.decision == "keep" and history_probability is not None)
    ):
        standalone = rewrite.text
        text = _joined(question, words(rewrite)) if rewrite.decision == "rewrite" else rewrite.text
        queries.append(_query("expanded", text, weights.expanded))
    elif rewrite.decision == "rewrite" or (rewrite.decision == "keep" and rewrite.confidence is not None):
        standalone = rewrite.text
        share = 1.0 if rewrite.confidence is None else rewrite.confidence
        queries.append(_query("rewritten", rewrite.text, weights.rewritten, share=share))
    if conversation:
        queries += _history(conversation, question, profile, history_probability)
    return QueryVariants(tuple(query for query in queries if query.lexical > 0 or query.dense > 0), standalone)


def words(rewrite: Rewrite) -> str:
    """Return the words that the rewriter adds to the question."""
    return " ".join(term.text for term in rewrite.expansion)


def _history(
    conversation: Conversation, question: str, profile: RetrievalProfile, history_probability: float | None
) -> Iterator[Query]:
    last_question, answer = conversation.last_exchange()
    users = [turn.text for turn in conversation.messages if turn.role == "user"]
    newest_first = " ".join(turn.text for turn in reversed(conversation.messages))
    everything = _joined(question, newest_first[:HISTORY_CHARS])
    weights = profile.variants
    yield _query("users", _joined(*users[-1:], question), weights.users)
    yield _query("exchange", _joined(question, last_question, answer), weights.exchange)
    yield _query("opening", _joined(*users[:1], question), weights.opening)
    yield _query("conversation", everything, weights.conversation)
    if profile.document_prior > 0:
        odds = 0.0 if history_probability is None else history_probability - 0.5
        strength = profile.document_prior * math.exp(profile.document_prior_exponent * odds)
        yield Query(_joined(last_question, answer), "said", document_prior_weight=strength)
        yield Query(everything, "spoken of", document_prior_weight=strength)


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _query(name: str, text: str, weights: VariantWeights, *, share: float = 1.0, clarity: float = 0.0) -> Query:
    return Query(text, name, lexical=share * weights.lexical, dense=share * weights.dense, confidence=clarity)
