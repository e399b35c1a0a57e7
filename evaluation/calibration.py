"""Choose a retrieval profile on judged questions: nDCG@5 against milliseconds.

Every profile is tried by the code of a chat turn. The rewriter's threshold comes first, then the weights of the
rewritten variant and of the document prior; last, how many passages the cross-encoder reads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from evaluation.metrics import Qrels, evaluate
from evaluation.questions import Question
from rewriter.protocol import Conversation, Rewrite, Rewriter
from server.settings import Settings
from server.settings.profile import RetrievalProfile
from server.turn.search import Searchable, TurnSearch

if TYPE_CHECKING:
    from index.rerank import Reranker

MEASURE = "nDCG@5"
THRESHOLDS = (0.2, 0.35, 0.5, 0.65, 0.8)
SHARES = (0.5, 1.0, 2.0)
READ = (10, 20, 40)
WORTH = 0.002
"""A setting must gain so much over the one at hand to take its place."""


@dataclass(frozen=True, slots=True)
class CalibrationSetting:
    """A way to search, in words and as what it changes in the settings.

    Weights of the rewritten variants and the document prior are multiplied by `rewritten` and `document_prior`;
    `threshold` is the rewriter's, None its own; `read` is how many passages the cross-encoder reads, 0 for none.
    """

    threshold: float | None = None
    rewritten: float = 1.0
    document_prior: float = 1.0
    read: int = 0

    def profile(self, profile: RetrievalProfile) -> RetrievalProfile:
        variants = {"rewritten": profile.variants.rewritten, "expanded": profile.variants.expanded}
        weights = {
            f"{name}.{ranking}": weight * self.rewritten
            for name, variant in variants.items()
            for ranking, weight in variant
        }
        update = {
            "document_prior": profile.document_prior * self.document_prior,
            "rewrite_threshold": self.threshold,
            "rerank_top": self.read,
        }
        return profile.weighed(weights).model_copy(update=update)

    def applied(self, settings: Settings) -> Settings:
        update = {"profile": self.profile(settings.retrieval.profile), "rerank": "auto" if self.read else "never"}
        return settings.model_copy(update={"retrieval": settings.retrieval.model_copy(update=update)})

    def __str__(self) -> str:
        gate = "own" if self.threshold is None else f"{self.threshold:g}"
        prior = f"document prior × {self.document_prior:g}"
        return f"gate {gate}, rewritten × {self.rewritten:g}, {prior}, reads {self.read}"


@dataclass(frozen=True, slots=True)
class CalibrationPoint:
    """Scores at one setting: nDCG@5, and the median milliseconds of a question."""

    setting: CalibrationSetting
    ndcg: float
    milliseconds: float


@dataclass
class Calibration:
    """Tries settings on judged questions. `rewriter` must have its gate open: thresholds are applied here."""

    settings: Settings
    collection: Searchable
    rewriter: Rewriter
    reranker: Reranker | None
    asked: Sequence[Question]
    qrels: Qrels
    callback: Callable[[CalibrationPoint], None] = lambda point: None
    points: list[CalibrationPoint] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._gated = GatedRewriter(self.rewriter)

    def run(self) -> CalibrationPoint:
        """The best point; all that were tried are in `points`."""
        best = self._try(CalibrationSetting())
        best = self._best(best, (replace(best.setting, threshold=at) for at in THRESHOLDS))
        best = self._best(best, (replace(best.setting, rewritten=share) for share in SHARES))
        best = self._best(best, (replace(best.setting, document_prior=share) for share in (0.0, *SHARES)))
        if self.reranker is not None:
            best = self._best(best, (replace(best.setting, read=read) for read in READ))
        return best

    def _best(self, best: CalibrationPoint, settings: Iterable[CalibrationSetting]) -> CalibrationPoint:
        tried = [self._try(setting) for setting in settings]
        top = max(tried, key=lambda point: (point.ndcg, -point.milliseconds))
        return top if top.ndcg >= best.ndcg + WORTH else best

    def _try(self, setting: CalibrationSetting) -> CalibrationPoint:
        for point in self.points:
            if point.setting == setting:
                return point
        self._gated.threshold = setting.threshold
        search = TurnSearch(
            collection=lambda _: self.collection,
            rewriter=self._gated,
            settings=setting.applied(self.settings),
            reranker=self.reranker,
        )
        run, seconds = dict[str, list[str]](), list[float]()
        for query in self.asked:
            searched = search.find(query.text, collection="", conversation=query.conversation, k=20)
            run[query.id] = [hit.passage.id for hit in searched.hits]
            seconds.append(sum(searched.seconds.values()))
        judged = {query.id: self.qrels[query.id] for query in self.asked if query.id in self.qrels}
        middle = sorted(seconds)[len(seconds) // 2]
        point = CalibrationPoint(setting, evaluate(run, judged, (MEASURE,))[MEASURE], 1000 * middle)
        self.points.append(point)
        self.callback(point)
        return point


class GatedRewriter:
    """A rewriter asked once a question, whose answer is dropped where history is needed less than `threshold`.

    A remembered answer takes as long as it took when it was made.
    """

    def __init__(self, rewriter: Rewriter, threshold: float | None = None) -> None:
        self.threshold = threshold
        self._rewriter = rewriter
        self._known: dict[tuple[Conversation, str], Rewrite] = {}

    @property
    def name(self) -> str:
        return self._rewriter.name

    def rewrite(self, conversation: Conversation, question: str) -> Rewrite:
        rewrite = self._known.get((conversation, question))
        if rewrite is None:
            rewrite = self._known[conversation, question] = self._rewriter.rewrite(conversation, question)
        else:
            time.sleep(rewrite.seconds)
        needed = rewrite.history_probability
        if self.threshold is None or needed is None or needed >= self.threshold:
            return rewrite
        return Rewrite(question, "keep", confidence=1 - needed, seconds=rewrite.seconds, history_probability=needed)


def frontier(points: Sequence[CalibrationPoint]) -> list[CalibrationPoint]:
    """The points that no other one beats in both nDCG and time, fastest first."""
    best: list[CalibrationPoint] = []
    for point in sorted(points, key=lambda point: (point.milliseconds, -point.ndcg)):
        if not best or point.ndcg > best[-1].ndcg:
            best.append(point)
    return best
