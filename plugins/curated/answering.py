"""Give a turn the curated answer to its question: the one that means the same, is in scope and has not expired.

A logistic model over the cosine of the two questions, the words that they share, and what the cross-encoder says of the
pair where vectors and words leave it open. `benchmarks/bench_curated.py` fits it for the registered encoders
(`matching.json`), so that at most one question in a hundred gets the answer to another one. Under any other encoder,
and where numbers differ, only the same words count.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from index.documents import Hit, Passage, Where, in_scope
from index.errors import DocumentNotFound
from plugins.curated import CuratedSettings, store
from plugins.curated.store import CuratedAnswer
from server.store import StoreError
from server.store.reviewed import MarkedPassage
from server.turn.evidence import numbered
from server.turn.models import TurnModels
from server.turn.reply import WrittenAnswer
from server.turn.run import Answerer, TurnInput
from server.turn.search import Searchable, SearchPlan
from text.prompts import QuestionContext
from text.words import negations, numbers, stems, words

if TYPE_CHECKING:
    from index.collection import Collection
    from index.encoders import Encoder, Vectors
    from index.rerank import Reranker
    from server.chat.service import ServiceCore


READER = "ms-marco-minilm-l12-conversations"
"""The cross-encoder whose scores the model knows."""
READ = 4
"""Pairs that are compared: the nearest by their vectors."""
SECONDS = 0.5
AT_ONCE = 200
"""Questions whose vectors one turn may make: a second's work."""
_REMEMBERED = 20_000


@dataclass(frozen=True, slots=True)
class Asked:
    """A question: as `typed`, or as it was resolved into one sentence, and as it is `searched`, with words of the
    conversation that it leans on."""

    typed: str
    searched: str
    context: QuestionContext = field(default=QuestionContext())

    @classmethod
    def of(cls, plan: SearchPlan) -> Asked:
        if plan.decision in ("keep", "expand", "failed", "refused"):
            return cls(plan.question, plan.variants.rerank_question or plan.question, plan.context)
        return cls(plan.meaning, plan.meaning)


def signals(query: Asked, question: str, typed: float, searched: float) -> dict[str, float]:
    """Return what tells whether `question` means the same; `typed` and `searched` are the cosines to it."""
    own, whole, its = frozenset(stems(query.typed)), frozenset(stems(query.searched)), frozenset(stems(question))
    leans = float(query.searched != query.typed)
    return {
        "cosine": searched,
        "typed cosine": typed,
        "leaning cosine": leans * searched,
        "words searched": _share(its, whole),
        "words typed": _share(its, own),
        "words known": _share(own, its),
        "words new": float(min(8, len(own - its))),
        "negation": float(bool(negations(query.typed)) != bool(negations(question))),
        "leans": leans,
    }


def _share(some: frozenset[str], of: frozenset[str]) -> float:
    return len(some & of) / max(1, len(some))


def same_words(query: Asked, question: str) -> bool:
    """Whether two questions have the same words in the same order."""
    return words(query.typed) == words(question)


def differs(query: Asked, question: str) -> bool:
    """Whether one question has a number that the other has not."""
    its = numbers(question)
    return not (numbers(query.typed) <= its <= numbers(query.searched))


@dataclass(frozen=True, slots=True)
class Model:
    """Weights by signal; a pair means the same from 0 on."""

    bias: float
    weights: Mapping[str, float]

    def score(self, values: Mapping[str, float]) -> float:
        """Return the log-odds, less the threshold."""
        return self.bias + sum(weight * values[name] for name, weight in self.weights.items())


@dataclass(frozen=True, slots=True)
class Fitted:
    """The models of one encoder: without the cross-encoder and with it, which reads pairs that score `open` or more."""

    unread: Model
    read: Model
    open: float


@cache
def fitted(encoder: str) -> Fitted | None:
    """Return the models of an encoder by its registered name; None for one that was not measured."""
    values = json.loads((files(__package__) / "matching.json").read_text("utf-8")).get(encoder)
    return values and Fitted(Model(**values["unread"]), Model(**values["read"]), values["open"])


class Matcher:
    """Finds the curated answer to a question; remembers the vectors of the answers' questions."""

    def __init__(self) -> None:
        self._vectors: dict[tuple[str, str], Vectors] = {}

    def best(
        self,
        plan: SearchPlan,
        answers: Sequence[CuratedAnswer],
        searched: Searchable,
        encoder: Encoder,
        reranker: Reranker | None,
    ) -> CuratedAnswer | None:
        """Return the answer whose question means the same; None if there is none. Blocks."""
        query = Asked.of(plan)
        pairs = dict[str, CuratedAnswer]()
        for answer in answers:
            for question in answer.questions:
                pairs.setdefault(question, answer)
        if same := next((answer for question, answer in pairs.items() if same_words(query, question)), None):
            return same
        models = fitted(encoder.name.partition(":")[0])
        typed, sought = (searched.question_vector(text, encoder.name) for text in (query.typed, query.searched))
        known = self._known([question for question in pairs if not differs(query, question)], encoder)
        if models is None or not known or typed is None or sought is None:
            return None
        cosines = {question: (float(typed @ vector), float(sought @ vector)) for question, vector in known.items()}
        nearest = sorted(cosines, key=lambda question: -max(cosines[question]))[:READ]
        values = {question: signals(query, question, *cosines[question]) for question in nearest}
        scores = {question: models.unread.score(values[question]) for question in nearest}
        if reranker is not None and reranker.name == READER:
            nearest = [question for question in nearest if scores[question] >= models.open]
            relevance = read(reranker, query, [(question, pairs[question].answer) for question in nearest])
            scores = {
                question: models.read.score({**values[question], "relevance": chance})
                for question, chance in zip(nearest, relevance, strict=True)
            }
        question = max(scores, key=lambda question: scores[question], default="")
        return pairs[question] if question and scores[question] >= 0 else None

    def _known(self, questions: Sequence[str], encoder: Encoder) -> dict[str, Vectors]:
        """Return vectors of the questions; after a start not of all at once, so that nobody waits for long."""
        name = encoder.name
        cached = {text: vector for text in questions if (vector := self._vectors.get((name, text))) is not None}
        if missing := [text for text in questions if text not in cached][:AT_ONCE]:
            cached.update(zip(missing, encoder.encode([encoder.prompt + text for text in missing]), strict=True))
            if len(self._vectors) > _REMEMBERED:
                self._vectors.clear()
            self._vectors.update(((name, text), cached[text]) for text in missing)
        return cached


def read(reranker: Reranker, query: Asked, pairs: Sequence[tuple[str, str]]) -> list[float]:
    """Return what the cross-encoder says of each question with its answer, as far as it comes in time."""
    hits = [
        Hit(Passage(str(n), "", "", f"{question}\n{answer}", 0, 0), 0.0) for n, (question, answer) in enumerate(pairs)
    ]
    ranked = reranker.rerank(query.typed, hits, SECONDS, READ, context=query.context)
    relevance = {int(hit.passage.id): hit.relevance for hit in ranked if hit.relevance is not None}
    return [relevance.get(n, -20.0) for n in range(len(pairs))]


def answerer(core: ServiceCore) -> Answerer | None:
    """Return what finds the curated answer to a question; None while they are off."""
    if not core.settings.of(CuratedSettings).enabled:
        return None
    matcher = Matcher()

    def answered(
        request: TurnInput, plan: SearchPlan, searched: Searchable, models: TurnModels
    ) -> WrittenAnswer | None:
        database, collection = core.database, core.opened.get(request.collection)
        try:
            answers = database.read_blocking(store.listing, request.collection, at=time.time())
        except StoreError:
            return None  # a turn that cannot be stored says so itself
        wanted = [answer for answer in answers if in_scope(answer.scope, request.where or {})]
        match = matcher.best(plan, wanted, searched, core.models.encoder(), models.reranker) if wanted else None
        if match is None:
            return None
        hits = cited(collection, match)
        if request.where and not (
            len(hits) == len(match.passages) and all(_within(hit, request.where) for hit in hits)
        ):
            return None
        database.write_later(lambda connection: store.count_hit(connection, match.id), alone=False)
        passages = tuple(numbered(n, hit) for n, hit in enumerate(hits, start=1))
        return WrittenAnswer(match.id, match.answer, passages, match.refuses)

    return answered


def _within(hit: Hit, where: Where) -> bool:
    return in_scope(where, {**hit.passage.metadata, "document_id": hit.passage.document_id})


def cited(collection: Collection, answer: CuratedAnswer) -> list[Hit]:
    """Return the passages that an answer cites, as far as the documents still hold their words."""
    hits = (_hit(collection, mark) for mark in answer.passages)
    return [hit for hit in hits if hit is not None]


def _hit(collection: Collection, mark: MarkedPassage) -> Hit | None:
    try:
        text = collection.document(mark.document_id).text
    except DocumentNotFound:
        return None
    start = mark.start if text.startswith(mark.quote, mark.start) else text.find(mark.quote)
    passages = collection.passages(mark.document_id)
    if start < 0 or not passages:
        return None
    passage = next((candidate for candidate in passages if start < candidate.end), passages[-1])
    return Hit(replace(passage, text=mark.quote, start=start, end=start + len(mark.quote)), 1.0)
