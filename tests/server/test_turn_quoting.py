"""Questions beside the sentences that answer them in other words: what is quoted, what is refused.

`questions_and_sentences.jsonl` holds 104 questions with the number of their sentence, and 24 that the text does not
answer (-1). The bounds are what was measured (`docs/citations.md`), with a little room.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from server.rewriters import open_reranker
from server.settings import RetrievalSettings, Settings
from server.turn.evidence import Read, best_sentences, fits
from server.turn.search import TurnSearch
from tests.server.turn_fakes import evidence
from text.sentences import sentence_spans

FILE = Path(__file__).with_name("questions_and_sentences.jsonl")


def counted(read: Read | None) -> dict[str, int]:
    rows = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]
    counts = dict.fromkeys(("right", "refused", "wrong", "refused rightly", "quoted for nothing"), 0)
    for number, row in enumerate(rows):
        passages = evidence(row["text"], *(rows[(number + more) % len(rows)]["text"] for more in (5, 11)))
        spans = sentence_spans(row["text"])
        for _, question, answer in row["asked"]:
            quotes = best_sentences(question, passages, read=read)
            if answer < 0:
                counts["quoted for nothing" if quotes else "refused rightly"] += 1
            elif not quotes:
                counts["refused"] += 1
            else:
                right = any(quote.n == 1 and quote.start == spans[answer][0] for quote in quotes)
                counts["right" if right else "wrong"] += 1
    return counts


@pytest.mark.extended
def test_an_answer_in_other_words_is_found_where_a_cross_encoder_reads(model_home: Path) -> None:
    settings = Settings(home=model_home, retrieval=RetrievalSettings(profile={"rerank_seconds": 30}))
    reranker = open_reranker(settings)
    search = TurnSearch(collection=lambda _: None, rewriter=None, settings=settings, reranker=reranker)  # type: ignore
    with_reading, by_words = counted(search.read), counted(None)
    assert with_reading["refused"] <= 30 < 60 <= by_words["refused"]
    assert (
        with_reading["wrong"] + with_reading["quoted for nothing"] <= by_words["wrong"] + by_words["quoted for nothing"]
    )


@pytest.mark.parametrize(
    ("question", "sentence", "expected"),
    [
        ("How long is the warranty?", "The warranty lasts two years.", 1),
        ("How long is the warranty?", "Lime is not covered.", -1),
        ("Who runs it?", "It is run by Mrs Okafor.", 1),
        ("Where is the log?", "It is written to /var/log/web.log.", 1),
        ("What does it cost?", "A ticket costs 2.40 euros.", 1),
        ("Is it covered?", "Lime is not covered.", 0),
        ("Wie lange gilt die Garantie?", "Zwei Jahre.", 0),
    ],
)
def test_a_sentence_holds_what_is_asked_for(question: str, sentence: str, expected: int) -> None:
    assert fits(question, sentence) == expected
