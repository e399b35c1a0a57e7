"""Rows to train a cross-encoder on: judged questions with passages that a turn's search finds for them.

The present cross-encoder's score of each passage for the stand-alone question is noted where a person wrote one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence

from evaluation.questions import Question
from evaluation.sets import EvalSet
from index.collection import Collection
from index.rerank import PASSAGE_TOKENS, QUESTION_TOKENS, CrossEncoderReranker, Reranker
from papers.cross_encoder.rows import RankedPassage, RerankExample
from server.turn.search import TurnSearch
from text.prompts import QuestionContext, asking

DEPTH = 40
"""So far down the list are passages taken from."""
FIRST, FURTHER = 4, 3
"""So many from its top, and so many at random from below."""
SEED = 1
RELEVANT = 2
"""Relevant passages are taken up to so many, those that the search missed last."""


def candidates(
    chosen: EvalSet, collection: Collection, search: TurnSearch, teacher: Reranker | None = None
) -> Iterator[RerankExample]:
    """The rows of a set judged by passages of `collection`; questions without a relevant one are left out."""
    relevant, questions = chosen.passages(), chosen.judged
    for question in questions:
        wanted = list(relevant.get(question.id, ()))
        searched = search.find(question.text, collection=collection.name, conversation=question.conversation, k=DEPTH)
        texts = {hit.passage.id: hit.passage.indexed_text for hit in searched.hits}
        listed = list(texts)
        texts |= _missing(chosen, question, [name for name in wanted if name not in texts], collection)
        rng = random.Random(f"{SEED}:{question.id}")
        chosen_ids = _taken(listed, [name for name in wanted if name in texts], rng)
        if {name in wanted for name in chosen_ids} != {True, False}:
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
    relevant = [name for name in listed if name in wanted] + [name for name in wanted if name not in listed]
    others = [name for name in listed if name not in wanted]
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
    return [float(score) for score in scorer.score(text, cut)[0]]
