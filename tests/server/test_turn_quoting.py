"""Questions beside the sentences that answer them in other words: what is quoted, what is refused.

`questions_and_sentences.jsonl` holds 104 questions with the number of their sentence, and 24 that the text does not
answer (-1). The bounds are what was measured (`docs/citations.md`), with a little room.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from index.documents import Hit, Passage
from rewriter.protocol import Conversation, PassThroughRewriter, Rewrite
from server.rewriters import open_reranker
from server.settings import RetrievalSettings, Settings
from server.turn.decision import Chances, chances
from server.turn.events import Evidence
from server.turn.evidence import SentencePlace, best_sentences
from server.turn.search import TurnSearch
from server.turn.support import SupportScorer
from tests.server.turn_fakes import evidence
from text.sentences import sentence_spans

FILE = Path(__file__).with_name("questions_and_sentences.jsonl")


def chances_of(
    question: str, passages: Sequence[Evidence], search: TurnSearch
) -> tuple[dict[SentencePlace, float], Chances]:
    """Read the passages for a question that stands alone; how likely each sentence answers, and all of them."""
    plan = search.plan(question, Conversation(), Rewrite(question, "keep"))
    hits = [
        Hit(Passage(p.passage_id, p.document_id, p.title, p.text, p.start, p.end, tuple(p.heading)), 1 / p.n)
        for p in passages
    ]
    assert search.reranker is not None
    read = search.reranker.rerank(question, hits, seconds=30.0, weight=search.settings.retrieval.profile.rerank_weight)
    return search.sentence_chances(plan, passages, read, SupportScorer(passages)), chances(plan, read)


def counted(search: TurnSearch | None) -> dict[str, int]:
    rows = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]
    counts = dict.fromkeys(
        ("right", "refused", "wrong", "refused rightly", "quoted for nothing", "unspoken", "unspoken rightly"), 0
    )
    for number, row in enumerate(rows):
        passages = evidence(row["text"], *(rows[(number + more) % len(rows)]["text"] for more in (5, 11)))
        spans = sentence_spans(row["text"])
        for _, question, answer in row["asked"]:
            told, odds = chances_of(question, passages, search) if search else (None, None)
            quotes = best_sentences(question, passages, None, told)
            if odds and odds.refuse == 1:
                counts["unspoken rightly" if answer < 0 else "unspoken"] += 1
            if answer < 0:
                counts["quoted for nothing" if quotes else "refused rightly"] += 1
            elif not quotes:
                counts["refused"] += 1
            else:
                right = any(quote.n == 1 and quote.start <= spans[answer][0] < quote.end for quote in quotes)
                counts["right" if right else "wrong"] += 1
    return counts


@pytest.mark.extended
def test_an_answer_in_other_words_is_found_where_a_cross_encoder_reads(model_home: Path) -> None:
    settings = Settings(home=model_home, retrieval=RetrievalSettings(profile={"rerank_seconds": 30}))
    search = TurnSearch(
        collection=lambda _: None,  # type: ignore
        rewriter=PassThroughRewriter(),
        settings=settings,
        reranker=open_reranker(settings),
    )
    with_reading, by_words = counted(search), counted(None)
    # 18 of 24, and none of 104.
    assert with_reading["unspoken rightly"] >= 16
    assert with_reading["unspoken"] <= 1
    # Most of what is not sure is shown with its doubt: here only what is sure counts.
    assert with_reading["refused"] <= 52 < 60 <= by_words["refused"]
    assert (
        with_reading["wrong"] + with_reading["quoted for nothing"] <= by_words["wrong"] + by_words["quoted for nothing"]
    )
