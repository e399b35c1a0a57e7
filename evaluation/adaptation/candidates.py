"""Rows to train a cross-encoder on: every judged question with passages that the search of a chat turn finds for it.

A cross-encoder has to tell the answer from passages that rank high and are not judged relevant. Each passage also gets
what the present one says of it under the stand-alone question, where a person wrote one: so the new one can learn to
say the same of the conversation. Training is `rewriter.reranking`'s business.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from index.collection import Collection
from index.rerank import PASSAGE_TOKENS, QUESTION_TOKENS, CrossEncoderReranker, Reranker
from rewriter.reranking.rows import RankedPassage, RerankExample
from server.turn.search import TurnSearch
from text.asking import QuestionContext, asking

if TYPE_CHECKING:
    from evaluation.questions import Question
    from evaluation.sets import EvalSet

DEPTH = 40
"""So far down the list are passages taken from."""
FIRST, FURTHER = 4, 3
"""So many from its top, and so many at random from below."""
RELEVANT = 2
"""Relevant passages are taken up to so many, those that the search missed last."""


def candidates(
    chosen: EvalSet,
    collection: Collection,
    search: TurnSearch,
    teacher: Reranker | None = None,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
    seed: int = 1,
) -> Iterator[RerankExample]:
    """The rows of a set judged by passages of `collection`; questions without a relevant one are left out."""
    qrels, questions = chosen.levels[0].qrels, chosen.judged
    for done, question in enumerate(questions):
        progress(f"{chosen.name}: searching", done, len(questions))
        wanted = [passage_id for passage_id, value in qrels.get(question.id, {}).items() if value > 0]
        searched = search.find(question.text, collection=collection.name, conversation=question.conversation, k=DEPTH)
        texts = {hit.passage.id: hit.passage.indexed_text for hit in searched.hits}
        listed = list(texts)
        texts |= _missing(
            chosen, question, [passage_id for passage_id in wanted if passage_id not in texts], collection
        )
        chosen_ids = _taken(
            listed, [passage_id for passage_id in wanted if passage_id in texts], random.Random(f"{seed}:{question.id}")
        )
        if not any(passage_id in wanted for passage_id in chosen_ids) or all(
            passage_id in wanted for passage_id in chosen_ids
        ):
            continue
        scores = _scores(teacher, question, [texts[passage_id] for passage_id in chosen_ids])
        yield RerankExample(
            id=question.id,
            history=question.conversation.messages,
            question=question.text,
            rewrite=question.rewrite,
            words=tuple(term.text for term in searched.plan.rewrite.expansion),
            source=chosen.name,
            passages=tuple(
                RankedPassage(texts[passage_id], passage_id in wanted, score)
                for passage_id, score in zip(chosen_ids, scores, strict=True)
            ),
        )
    progress(f"{chosen.name}: searching", len(questions), len(questions))


def _missing(chosen: EvalSet, question: Question, wanted: Sequence[str], collection: Collection) -> Mapping[str, str]:
    """The texts of relevant passages that the search did not find, from the documents that are relevant too."""
    if not wanted:
        return {}
    judged = {name for level in chosen.levels if level.by == "document" for name in level.qrels.get(question.id, ())}
    present = judged & {document.id for document in collection.documents()}
    passages = (passage for name in sorted(present) for passage in collection.passages(name))
    return {passage.id: passage.indexed_text for passage in passages if passage.id in wanted}


def _taken(listed: Sequence[str], wanted: Sequence[str], rng: random.Random) -> list[str]:
    """Relevant passages, those at the top of the list, and some from below."""
    relevant = [passage_id for passage_id in listed if passage_id in wanted] + [
        passage_id for passage_id in wanted if passage_id not in listed
    ]
    others = [passage_id for passage_id in listed if passage_id not in wanted]
    below = others[FIRST:]
    return [*relevant[:RELEVANT], *others[:FIRST], *rng.sample(below, min(FURTHER, len(below)))]


def _scores(teacher: Reranker | None, question: Question, passages: Sequence[str]) -> Sequence[float | None]:
    """Score each passage under the stand-alone question with the present cross-encoder; empty without one."""
    if not isinstance(teacher, CrossEncoderReranker) or (question.conversation and not question.rewrite):
        return [None] * len(passages)
    question_text = question.rewrite or question.text
    return [round(score, 3) for score in pair_scores(teacher, question_text, passages)]


def pair_scores(reranker: CrossEncoderReranker, question: str, passages: Sequence[str]) -> list[float]:
    """Score a stand-alone question against each passage; return logits in the passages' order."""
    scorer, lengths = reranker.scorer, reranker.lengths
    text = asking(question, QuestionContext(), lengths, scorer.cut) if lengths is not None else question
    text = scorer.cut(text, lengths.total if lengths is not None else QUESTION_TOKENS)[0]
    cut = [scorer.cut(passage, PASSAGE_TOKENS)[0] for passage in passages]
    return [float(score) for score in scorer.score(text, cut)]
