from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from index.documents import Hit, Passage
from index.errors import ModelUnavailable
from index.rerank import CrossEncoderReranker, Reranker, Scores, chances, load_reranker
from server.rewriters import open_reranker
from server.settings import RetrievalSettings, Settings
from text.prompts import QuestionContext


def hits(texts: Sequence[str]) -> list[Hit]:
    return [
        Hit(Passage(f"p{n}", "d", "", text, 0, len(text)), 1 / (61 + n), {"typed/bm25": n + 1})
        for n, text in enumerate(texts)
    ]


class Clock:
    """Time that passes only when a model works."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Numbers:
    """Scores a passage by the number it ends with, at a fixed speed in words a second."""

    shows_states = False

    def __init__(self, clock: Clock, speed: float) -> None:
        self.clock = clock
        self.speed = speed
        self.read: list[str] = []

    def cut(self, text: str, tokens: int) -> tuple[str, int]:
        words = text.split()
        return (text, len(words)) if len(words) <= tokens else (" ".join(words[:tokens]), tokens)

    def score(self, question: str, passages: Sequence[str]) -> tuple[Scores, list[Any], list[Scores]]:
        self.read.extend(passages)
        longest = max(len(passage.split()) for passage in passages)
        self.clock.now += (longest + len(question.split())) * len(passages) / self.speed
        return np.array([float(passage.split()[0]) for passage in passages], dtype=np.float32), [], []


@pytest.fixture(scope="module")
def reranker(model_home: Path) -> Reranker:
    return load_reranker(str(model_home / "models" / "ms-marco-minilm-l12"))


def test_the_passage_that_answers_comes_first(reranker: Reranker) -> None:
    found = hits(
        [
            "Opening hours of the office are nine to five.",
            "Student loans are repaid in monthly instalments.",
            "You can send the completed claim form by fax to 555-0100.",
            "The form has three pages.",
        ]
    )
    ranked = reranker.rerank("What number do I fax the claim form to?", found, seconds=60.0)
    assert ranked[0].passage.id == "p2"
    assert ranked[0].ranks == {"typed/bm25": 3, "rerank": 1}
    assert sorted(hit.passage.id for hit in ranked) == ["p0", "p1", "p2", "p3"]
    assert [hit.score for hit in ranked] == sorted((hit.score for hit in ranked), reverse=True)


def test_the_packaged_one_reads_a_follow_up_with_what_it_leans_on(model_home: Path) -> None:
    reranker = open_reranker(Settings(home=model_home))
    found = hits(
        [
            "Passports can be sent by fax to 555-0199 when they are lost.",
            "Appeals may also be filed by fax: send form SSA-561 to 555-0100.",
            "Opening hours of the office are nine to five.",
        ]
    )
    context = QuestionContext("appeal form", "How do I appeal?", "With the form SSA-561. Send it to the office.")
    assert reranker.reads_conversations
    assert reranker.name == "ms-marco-minilm-l12-conversations"
    assert reranker.rerank("and by fax?", found, seconds=60.0, context=context)[0].passage.id == "p1"
    named = Settings(home=model_home, retrieval=RetrievalSettings(reranker="ms-marco-minilm-l12"))
    assert not open_reranker(named).reads_conversations


def test_the_packaged_one_shows_the_states_of_the_words_that_it_reads(model_home: Path, reranker: Reranker) -> None:
    text = "Appeals may be filed by fax to 555-0100. Opening hours are nine to five. " + "More words follow. " * 80
    passage = Passage("p", "d", "Appeals", text, 100, 100 + len(text), ("By fax",))
    [hit] = open_reranker(Settings(home=model_home)).rerank("and by fax?", [Hit(passage, 1.0)], seconds=60.0)
    assert hit.tokens is not None
    words = [text[start:end] for start, end in hit.tokens.spans]
    assert hit.tokens.states.shape == (len(words), 2 * 384)
    assert words[: hit.tokens.question] == [""] * hit.tokens.question
    # Title and heading are read too and are no part of the text; its end is cut.
    shown = "".join(words)
    assert shown.startswith("Appealsmaybefiledbyfaxto555-0100.")
    assert 200 < len(shown) < len("".join(text.split())) - 100
    assert reranker.rerank("and by fax?", [Hit(passage, 1.0)], seconds=60.0)[0].tokens is None


def test_scores_are_those_of_the_model_in_torch_terms(reranker: Reranker, model_home: Path) -> None:
    """The logits of ms-marco-MiniLM-L-12 for the pair of its model card are about 9 and -4 or lower."""
    scorer = reranker.scorer  # type: ignore[attr-defined]
    (relevant, not_relevant), *_ = scorer.score(
        "How many people live in Berlin?",
        [
            "Berlin has a population of 3,520,031 registered inhabitants in an area of 891.82 square kilometers.",
            "New York City is famous for the Metropolitan Museum of Art.",
        ],
    )
    assert relevant > 7
    assert not_relevant < -7


def test_the_models_scores_count_as_much_as_they_are_given_weight() -> None:
    clock = Clock()
    reranker = CrossEncoderReranker("numbers", Numbers(clock, 1e6), clock)
    found = hits(["1 a", "2 b", "9 c"])
    by_weight = {
        weight: [hit.passage.id for hit in reranker.rerank("question", found, seconds=1.0, weight=weight)]
        for weight in (0.01, 0.2, 5.0)
    }
    assert by_weight == {0.01: ["p0", "p1", "p2"], 0.2: ["p2", "p0", "p1"], 5.0: ["p2", "p1", "p0"]}


def test_scores_and_places_become_one_chance() -> None:
    clock = Clock()
    reranker = CrossEncoderReranker("numbers", Numbers(clock, 1e6), clock)
    ranked = reranker.rerank("question", hits(["0 a", "0 b", "2 c", "9 d"]), seconds=1.0, top=3)
    by_id = {hit.passage.id: hit for hit in ranked}
    assert [by_id[name].ranks.get("rerank") for name in ("p0", "p1", "p2", "p3")] == [2, 3, 1, None]
    # Odds of one at the first place, of a half at the second; e squared times a third at the third.
    assert [hit.passage.id for hit in ranked] == ["p2", "p0", "p1", "p3"]
    odds = (math.e**2 / 3, 1.0, 1 / 2)
    assert [hit.score for hit in ranked[:3]] == pytest.approx([one / (1 + one) for one in odds])
    assert by_id["p3"].score == pytest.approx(1 / 3 * 3 / 4), "what was not read goes on falling below"


def test_chances_of_any_scores_stay_between_none_and_one() -> None:
    said = chances([1e4, -1e4, 0.0], weight=2.0)
    assert said.tolist() == pytest.approx([1.0, 0.0, 0.25])


def test_passages_below_the_top_keep_their_place() -> None:
    clock = Clock()
    scorer = Numbers(clock, 1e6)
    found = hits([f"{n} text" for n in range(10)])
    ranked = CrossEncoderReranker("numbers", scorer, clock).rerank("question", found, seconds=1.0, top=4)
    assert len(scorer.read) == 4
    assert [hit.passage.id for hit in ranked[4:]] == [f"p{n}" for n in range(4, 10)]
    assert all("rerank" not in hit.ranks for hit in ranked[4:])


def test_time_is_kept_by_reading_fewer_and_they_are_the_first() -> None:
    clock = Clock()
    scorer = Numbers(clock, 200.0)
    reranker = CrossEncoderReranker("numbers", scorer, clock)
    found = hits([f"{n} " + "word " * 99 for n in range(40)])
    for _ in range(6):
        scorer.read.clear()
        began = clock.now
        ranked = reranker.rerank("a question", found, seconds=5.0, top=40)
    assert clock.now - began <= 5.0
    assert 4 <= len(scorer.read) < 40
    assert [int(text.split()[0]) for text in scorer.read] == list(range(len(scorer.read)))
    assert [hit.passage.id for hit in ranked[len(scorer.read) :]] == [f"p{n}" for n in range(len(scorer.read), 40)]


def test_nothing_to_do_leaves_the_list_alone() -> None:
    clock = Clock()
    reranker = CrossEncoderReranker("numbers", Numbers(clock, 1e6), clock)
    found = hits(["1 a", "2 b"])
    assert reranker.rerank("", found, seconds=1.0) == found
    assert reranker.rerank("question", found, seconds=0.0) == found
    assert reranker.rerank("question", [], seconds=1.0) == []
    assert reranker.rerank("question", found, seconds=1.0, top=0) == found


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="no model in"):
        load_reranker(str(tmp_path))
    (tmp_path / "model.onnx").write_bytes(b"not a model")
    with pytest.raises(ModelUnavailable, match="fetch the model again"):
        load_reranker(str(tmp_path))


@pytest.mark.extended
def test_any_sentence_transformers_cross_encoder_can_be_used(tmp_path: Path, model_home: Path) -> None:
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(str(model_home / "models" / "all-minilm-l6-v2"))
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        num_labels=1,
    )
    folder = tmp_path / "tiny"
    BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    reranker = load_reranker(str(folder))
    assert reranker.name == "tiny"
    ranked = reranker.rerank("which form", hits(["the form", "a fax " * 300, "other"]), seconds=30.0)
    assert sorted(hit.ranks["rerank"] for hit in ranked) == [1, 2, 3]
