"""Which sentence answers, by the states of the cross-encoder: what the head reads and what it says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from index.documents import Hit, TokenStates
from server.turn.evidence import FEATURES, SentenceHead, packaged_head, sentence_chances, sentence_inputs
from server.turn.support import SupportScorer
from tests.server.turn_fakes import FAX, LEAVE, evidence, passage, states_of
from text.sentences import sentence_spans


def hits(*texts: str, score: float = 0.5) -> dict[int, Hit]:
    """Hits of `evidence`, by its numbers, with states that mean nothing."""
    return {n: Hit(passage(text), score, relevance=1.0, tokens=states_of(text)) for n, text in enumerate(texts, 1)}


def test_each_sentence_has_the_mean_of_its_own_tokens() -> None:
    passages = evidence(LEAVE)
    spans = states_of(LEAVE).spans
    # The state of each token is where it begins.
    states = np.array([[float(start)] for start, _ in spans], dtype=np.float32)
    read = {1: replace(hits(LEAVE)[1], tokens=TokenStates(states, spans, 2))}

    inputs = sentence_inputs("How long does leave last?", passages, read, SupportScorer(passages))

    sentences = sentence_spans(LEAVE)
    assert inputs.places == [(1, start) for start, _ in sentences]
    assert inputs.features.shape == (len(sentences), len(FEATURES))
    for row, (first, last) in zip(inputs.states, sentences, strict=True):
        assert row == pytest.approx([np.mean([start for start, end in spans[2:] if first <= start and end <= last])])


def test_a_sentence_that_was_cut_off_is_told_and_a_passage_that_was_not_read_left_out() -> None:
    passages = evidence(LEAVE, FAX)
    tokens = states_of(LEAVE)
    first = sentence_spans(LEAVE)[0][1]
    kept = [n for n, (_, end) in enumerate(tokens.spans) if end <= first]
    cut = TokenStates(tokens.states[: len(kept)], tokens.spans[: len(kept)], 2)
    read = {1: replace(hits(LEAVE)[1], tokens=cut), 2: replace(hits(FAX)[1], tokens=None)}

    inputs = sentence_inputs("How long does leave last?", passages, read, SupportScorer(passages))

    assert {n for n, _ in inputs.places} == {1}
    assert inputs.features[:, FEATURES.index("unread")].tolist() == [0.0, 1.0, 1.0]


def test_chances_and_that_of_no_answer_sum_to_one() -> None:
    weights = packaged_head().weights
    still = {name: np.zeros_like(value) for name, value in weights.items()}
    passages = evidence(LEAVE)
    inputs = sentence_inputs("How long?", passages, hits(LEAVE), SupportScorer(passages))

    # Where nothing is known, all sentences and no sentence are alike.
    assert list(SentenceHead(still).chances(inputs).values()) == pytest.approx(3 * [0.25])
    chances = packaged_head().chances(inputs)
    assert 0 < sum(chances.values()) < 1
    nobody = sentence_inputs("How long?", passages, {}, SupportScorer(passages))
    assert packaged_head().chances(nobody) == {}


def test_a_likely_passage_and_matching_words_make_a_sentence_likely() -> None:
    passages = evidence(LEAVE, FAX)
    read = {1: hits(LEAVE, score=0.01)[1], 2: hits(FAX, score=0.9)[1]}
    chances = sentence_chances("May the form be sent by fax?", passages, read, SupportScorer(passages))

    best = max(chances, key=lambda place: chances[place])
    assert best == (2, passages[1].start + FAX.index("The form may"))
    assert sum(chance for (n, _), chance in chances.items() if n == 1) < 0.2
