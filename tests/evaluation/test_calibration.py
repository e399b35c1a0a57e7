"""Calibration finds the setting that judged questions speak for, and writes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evaluation.calibration import (
    Calibration,
    CalibrationPoint,
    CalibrationSetting,
    GatedRewriter,
    frontier,
)
from evaluation.questions import Question
from index.documents import Document, Hit, Passage, Query, Where
from index.encoders import Vectors
from rewriter.protocol import Conversation, Message, Rewrite
from server.settings import RetrievalSettings, Settings

TALK = Conversation((Message("user", "renew the passport"), Message("assistant", "By mail.")))


class VariantCollection:
    """Finds what the heaviest query variant of the search is named after."""

    version = "1"

    def search(
        self, queries: Sequence[Query], k: int = 20, where: Where | None = None, depth: int = 100, rrf_k: int = 60
    ) -> list[Hit]:
        order = sorted((query for query in queries if not query.document_prior_weight), key=lambda query: -query.dense)
        names = dict.fromkeys([order[0].name, *(query.name for query in order)])
        return [Hit(Passage(name, name, "", name, 0, 1), 1.0) for name in names][:k]

    def document(self, document_id: str) -> Document:
        raise NotImplementedError

    def question_vector(self, text: str, encoder: str) -> Vectors | None:
        return None


class SureRewriter:
    """Says of every question how much it needs its history: as much as its number."""

    name = "sure"

    def __init__(self) -> None:
        self.asked = 0

    def rewrite(self, conversation: Conversation, question: str) -> Rewrite:
        self.asked += 1
        needs = float(question)
        return Rewrite(f"{question} passport", "expand", confidence=needs, history_probability=needs)


def test_a_gated_rewriter_keeps_what_needs_too_little_and_asks_once() -> None:
    inner = SureRewriter()
    gated = GatedRewriter(inner, 0.5)
    assert gated.rewrite(TALK, "0.4").decision == "keep"
    assert gated.rewrite(TALK, "0.6").decision == "expand"
    gated.threshold = 0.3
    assert gated.rewrite(TALK, "0.4").decision == "expand"
    assert inner.asked == 2


def test_the_setting_that_finds_most_is_taken(tmp_path: Path) -> None:
    asked = [Question(str(n), "d", "0.9", TALK) for n in range(3)]
    qrels = {str(n): {"expanded": 1} for n in range(3)}
    variants = {"expanded": {"lexical": 1.0, "dense": 1.6}, "typed": {"dense": 3.0}}
    settings = Settings(retrieval=RetrievalSettings(profile={"variants": variants}))
    told: list[CalibrationPoint] = []
    calibration = Calibration(settings, VariantCollection(), SureRewriter(), None, asked, qrels, told.append)
    best = calibration.run()
    assert best.setting == CalibrationSetting(rewritten=2.0)
    assert best.ndcg == 1.0
    assert told == calibration.points
    written = tmp_path / "profile.toml"
    written.write_text(best.setting.profile(settings.retrieval.profile).toml())
    profile = Settings(retrieval={"profile": str(written)}).retrieval.profile
    assert profile.variants.expanded.dense == 3.2
    assert profile.rerank_top == 0


def test_the_frontier_leaves_out_what_is_slower_and_no_better() -> None:
    points = [
        CalibrationPoint(CalibrationSetting(read=n), ndcg, ms)
        for n, ndcg, ms in ((0, 0.4, 10), (10, 0.6, 90), (20, 0.5, 200))
    ]
    assert frontier(points) == points[:2]
