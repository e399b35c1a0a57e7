"""Finding and reading within one document: Qasper's questions, by several rankings and with several ways to choose.

Recall is taken of a share of the document, evidence and answers are judged by the reader they please most, and words
are compared as the published evaluation does. A ranking is of all paragraphs; each of the first few is read alone
(`papers.document_reading.reading`), and then one answer is chosen; the best of them by gold is an oracle, which no product has.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from evaluation.metrics import estimate
from evaluation.run_folder import RunWriter
from index.encoders import Encoder
from index.rerank import CrossEncoderReranker, chances
from papers.asking import QuoteAsker
from papers.cross_encoder.candidates import pair_scores
from papers.document_reading.qasper import SET, Paper, PaperQuestion, ReaderAnswer
from papers.document_reading.reading import (
    NOTHING,
    PassageAnswer,
    chosen,
    extracted_readings,
    prompted_reading,
    quoted_reading,
    trained_readings,
)
from papers.measures import note, paired, shared_words
from papers.within import Within

SHARES = (1, 5, 10, 20)
"""Percent of a document that is looked at."""
ARMS = ("bm25", "dense", "fused", "cross-encoder", "reranked", "trained cross-encoder", "trained reranked")
"""BM25 as published; MiniLM; BM25 as in a chat, fused with it; the cross-encoder alone; its order fused with theirs;
the same of one that was trained."""
BASELINE = "bm25"
BY_READER = " by reader"
EVIDENT = 0.5
"""From this probability on the cross-encoder calls a paragraph evidence."""
K1, B = 0.9, 0.4
_TOKEN = re.compile(r"[a-z0-9]+")
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_UNSAID = "Unanswerable"

if TYPE_CHECKING:
    from papers.document_reading.reader import TrainedReader

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Ranked:
    """A question with all paragraphs of its paper: places best first by arm, and the cross-encoder's probabilities."""

    paper: Paper
    question: PaperQuestion
    places: Mapping[str, Sequence[int]]
    probabilities: Sequence[float]


def published_bm25(paragraphs: Sequence[str]) -> Callable[[str], npt.NDArray[np.float64]]:
    """BM25 with k1 .9, b .4, idf log(N/df), words unstemmed: what gives every paragraph's score for a question."""
    import bm25s

    words = [_TOKEN.findall(one.lower()) for one in paragraphs]
    vocabulary: dict[str, int] = {}
    ids = [[vocabulary.setdefault(word, len(vocabulary)) for word in one] for one in words]
    engine = bm25s.BM25(k1=K1, b=B, method="atire")
    engine.index((ids, vocabulary), create_empty_token=False, show_progress=False)

    def scores(question: str) -> npt.NDArray[np.float64]:
        asked = [vocabulary[word] for word in _TOKEN.findall(question.lower()) if word in vocabulary]
        return np.round(sum((engine.get_scores_from_ids([one]) for one in asked), np.zeros(len(paragraphs))), 6)

    return scores


def rank_all(
    papers: Sequence[Paper],
    encoder: Encoder,
    reranker: CrossEncoderReranker | None,
    progress: Progress,
    trained: CrossEncoderReranker | None = None,
) -> list[Ranked]:
    """Every question of the papers with every ranking there can be; without a cross-encoder those without."""
    found = []
    for done, paper in enumerate(papers):
        progress("ranking", done, len(papers))
        bm25, within = published_bm25(paper.paragraphs), Within(paper.paragraphs, encoder)
        count = len(paper.paragraphs)
        for question in paper.questions:
            places: dict[str, Sequence[int]] = {"bm25": _best(bm25(question.text))}
            places["dense"] = within.rank(question.text, count, "dense")
            places["fused"] = within.rank(question.text, count, "fused")
            read = [0.0] * count
            for name, one in (("trained ", trained), ("", reranker)):
                if one is not None:
                    read = pair_scores(one, question.text, paper.paragraphs)
                    places[f"{name}cross-encoder"] = _best(read)
                    found_by = places["fused"]
                    fused = _best(chances([read[place] for place in found_by]))
                    places[f"{name}reranked"] = [found_by[n] for n in fused]
            found.append(Ranked(paper, question, places, [1 / (1 + math.exp(-one)) for one in read]))
    progress("ranking", len(papers), len(papers))
    return found


def _best(scores: npt.ArrayLike) -> list[int]:
    """Places by score, the earlier of equals first."""
    return [int(place) for place in np.argsort(-np.asarray(scores), kind="stable")]


def recall(ranked: Sequence[str], gold: Collection[str], percent: int) -> float:
    """The share of `gold` within the first max(1, ceil(n percent / 100)) of n ranked paragraphs."""
    first = set(ranked[: max(1, math.ceil(len(ranked) * percent / 100))])
    return len(first.intersection(gold)) / len(gold)


def evidence_f1(found: Collection[str], answers: Iterable[ReaderAnswer]) -> float:
    """F1 of two sets of paragraphs, by the reader that agrees most; nothing found where there is nothing is right."""
    one = set(found)

    def of(gold: frozenset[str]) -> float:
        return 2 * len(one & gold) / (len(one) + len(gold)) if one or gold else 1.0

    return max(of(answer.evidence) for answer in answers)


def answer_f1(said: str, answers: Iterable[ReaderAnswer]) -> tuple[float, str]:
    """F1 of words by the reader that agrees most, the first of equals, and the kind of that reader's answer."""
    scored = [(_words_f1(said or _UNSAID, answer.text), answer.kind) for answer in answers]
    return max(scored, key=lambda one: one[0])


def _words_f1(one: str, other: str) -> float:
    return shared_words(_normalised(one), _normalised(other))


def _normalised(text: str) -> list[str]:
    plain = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return _ARTICLE.sub(" ", plain).split()


def measure_retrieval(ranked: Sequence[Ranked], writer: RunWriter) -> None:
    """Recalls of every arm, tested against BM25, and Evidence-F1 of first paragraphs and of the classifier."""
    judged = [one for one in ranked if one.question.evidence]
    recalls: dict[str, dict[int, list[float]]] = {}
    for arm in _arms(ranked):
        rows = [(one, [one.paper.paragraphs[place] for place in one.places[arm]]) for one in judged]
        recalls[arm] = {
            percent: [recall(texts, one.question.evidence, percent) for one, texts in rows] for percent in SHARES
        }
        for percent in SHARES:
            _note(writer, "recall", arm, f"R@{percent}%", recalls[arm][percent], judged)
    for percent in SHARES:
        by_arm = {arm: recalls[arm][percent] for arm in recalls}
        _test(writer, "recall", f"R@{percent}%", by_arm, BASELINE, judged)
        if "trained reranked" in by_arm:
            two = {arm: by_arm[arm] for arm in ("reranked", "trained reranked")}
            _test(writer, "recall", f"R@{percent}%", two, "reranked", judged)
    asked = [one for one in ranked if one.question.answers]
    for arm in _arms(ranked):
        first = [evidence_f1([one.paper.paragraphs[one.places[arm][0]]], one.question.answers) for one in asked]
        _note(writer, "evidence", f"{arm}, first", "Evidence-F1", first, asked)
    if "cross-encoder" in _arms(ranked):
        taken = [
            [text for text, chance in zip(one.paper.paragraphs, one.probabilities, strict=True) if chance >= EVIDENT]
            for one in asked
        ]
        values = [evidence_f1(texts, one.question.answers) for one, texts in zip(asked, taken, strict=True)]
        _note(writer, "evidence", f"cross-encoder >= {EVIDENT:g}", "Evidence-F1", values, asked)


async def read_all(
    ranked: Sequence[Ranked],
    arms: Sequence[str],
    asker: QuoteAsker | None,
    k: int,
    progress: Progress,
    reader: TrainedReader | None = None,
) -> dict[str, list[list[PassageAnswer]]]:
    """What the first `k` paragraphs of every question say by themselves, by arm; with a `reader` that was trained also
    what it makes of them, under the arm's name and `BY_READER`. Raises AskingFailed."""
    found: dict[str, list[list[PassageAnswer]]] = {}
    for arm in arms:
        rows, trained = found.setdefault(arm, []), list[list[PassageAnswer]]()
        for done, one in enumerate(ranked):
            progress(f"reading: {arm}", done, len(ranked))
            texts = [one.paper.paragraphs[place] for place in one.places[arm][:k]]
            if asker is None:
                rows.append(extracted_readings(one.question.text, texts))
            else:
                rows.append([await prompted_reading(asker, one.question.text, text) for text in texts])
            if reader is not None:
                trained.append(trained_readings(reader, one.question.text, texts))
        if reader is not None:
            found[arm + BY_READER] = trained
        progress(f"reading: {arm}", len(ranked), len(ranked))
    return found


def measure_answers(
    ranked: Sequence[Ranked],
    read: Mapping[str, Sequence[Sequence[PassageAnswer]]],
    depths: Sequence[int],
    writer: RunWriter,
    reranker: CrossEncoderReranker | None = None,
) -> None:
    """Answer-F1, in all and by kind: of the first paragraph, chosen of so many, what a chat without a language model
    quotes of these, and the best of them by gold."""

    def quoting(one: Ranked, arm: str, k: int) -> PassageAnswer:
        texts = [one.paper.paragraphs[place] for place in one.places[arm][:k]]
        return quoted_reading(one.question.text, texts, reranker)

    asked = [n for n, one in enumerate(ranked) if one.question.answers]
    rows = [ranked[n] for n in asked]
    compared: dict[str, list[float]] = {}
    for label, answers in read.items():
        arm = label.removesuffix(BY_READER)
        systems = {f"{label}, first": [_first(answers[n]) for n in asked]}
        for k in depths:
            if label == arm:
                systems[f"{label}, as in chat of {k}"] = [quoting(ranked[n], arm, k) for n in asked]
            if "cross-encoder" in ranked[0].places:
                systems[f"{label}, chosen of {k}"] = [
                    chosen(answers[n][:k], [ranked[n].probabilities[place] for place in ranked[n].places[arm][:k]])
                    for n in asked
                ]
            systems[f"{label}, oracle of {k}"] = [
                max(answers[n][:k], key=lambda one, n=n: answer_f1(one.text, ranked[n].question.answers)[0])  # type: ignore[misc]
                for n in asked
            ]
        scores: dict[str, list[float]] = {}
        for system, picked in systems.items():
            scored = [answer_f1(one.text, row.question.answers) for one, row in zip(picked, rows, strict=True)]
            scores[system] = [value for value, _ in scored]
            _note(writer, "answer", system, "Answer-F1", scores[system], rows)
            for kind in ("extractive", "abstractive", "boolean", "unanswerable"):
                own = [(value, row) for (value, best), row in zip(scored, rows, strict=True) if best == kind]
                _note(writer, "answer", system, kind, [value for value, _ in own], [row for _, row in own])
            lines = (
                {
                    "id": row.question.id,
                    "question": row.question.text,
                    "answer": one.text,
                    "kind": one.kind,
                    "f1": value,
                }
                for row, one, (value, _) in zip(rows, picked, scored, strict=True)
            )
            writer.write_rows(lines, SET, system, "answers.jsonl")
        fair = {name: values for name, values in scores.items() if "oracle" not in name}
        _test(writer, "answer", "Answer-F1", fair, f"{label}, first", rows)
        compared |= fair
    for name in [name for name in compared if BY_READER in name]:
        before = name.replace(BY_READER, "")
        _test(writer, "answer", "Answer-F1", {one: compared[one] for one in (before, name)}, before, rows)


def _first(answers: Sequence[PassageAnswer]) -> PassageAnswer:
    return answers[0] if answers else NOTHING


def _arms(ranked: Sequence[Ranked]) -> list[str]:
    return [arm for arm in ARMS if ranked and arm in ranked[0].places]


def _note(
    writer: RunWriter, level: str, system: str, measured: str, values: Sequence[float], rows: Sequence[Ranked]
) -> None:
    note(writer, SET, level, system, measured, estimate(values, [row.paper.id for row in rows]))


def _test(
    writer: RunWriter,
    level: str,
    measured: str,
    values: Mapping[str, Sequence[float]],
    baseline: str,
    rows: Sequence[Ranked],
) -> None:
    """Every other system against `baseline`, papers drawn whole."""
    paper = {str(n): row.paper.id for n, row in enumerate(rows)}
    by_row = {system: dict(zip(paper, found, strict=True)) for system, found in values.items()}
    pairs = [(baseline, system) for system in values if system != baseline]
    writer.tests += paired((SET, level, measured), pairs, by_row, paper.__getitem__)
