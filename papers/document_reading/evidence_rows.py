"""Rows to train a cross-encoder or a reader on, from questions about papers (`papers.document_reading.qasper`).

*Labelled*: what people called evidence, and other paragraphs. *Sampled*: labels are never opened; a paragraph of the
paper is drawn with a probability that is its BM25 score's share, and taken for evidence of the question (and of its
answer). Papers whose title is in the sample that is measured on are left out.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from papers.cross_encoder.rows import RankedPassage, RerankExample
from papers.document_reading.measuring import published_bm25
from papers.document_reading.qasper import SET, Paper, PaperQuestion, load_papers
from rewriter.examples import RewriteExample
from rewriter.protocol import Message

NEGATIVES = 4
"""So many paragraphs that are no evidence, to each that is."""


def training_papers(data: Path) -> list[Paper]:
    """The papers of the training part without those that the sample holds. Raises MissingSet, BadRow."""
    held_out = {paper.title for paper in load_papers(data)}
    return [paper for paper in load_papers(data, "train") if paper.title not in held_out]


def drawn(scores: Sequence[float], rng: random.Random) -> int:
    """A place, with a probability in proportion to its score; alike where all are 0 or less."""
    weights = [max(0.0, one) for one in scores]
    return rng.choices(range(len(weights)), weights if any(weights) else None)[0]


def reranker_rows(papers: Sequence[Paper], *, sampled: bool, seed: int = 1) -> Iterator[RerankExample]:
    """For each question its evidence and four times as many other paragraphs: of its paper, then of other papers."""
    every = [text for paper in papers for text in paper.paragraphs]
    for paper, question, rng, relevant in _evidence(papers, sampled, seed):
        others = [text for text in paper.paragraphs if text not in relevant]
        rng.shuffle(others)
        wanted = NEGATIVES * len(relevant)
        others += rng.sample(every, min(len(every), wanted + len(paper.paragraphs)))
        others = [text for text in dict.fromkeys(others) if text not in relevant][:wanted]
        passages = (*(RankedPassage(text, True) for text in relevant), *(RankedPassage(text, False) for text in others))
        yield RerankExample(f"{paper.id}#{question.id}", (), question.text, "", (), SET, passages)


def reader_rows(papers: Sequence[Paper], *, sampled: bool, seed: int = 1) -> Iterator[RewriteExample]:
    """Each question with a paragraph as its history and the answer in place of a rewrite.

    What is labelled also has a paragraph that does not answer it: there the question stays as it is.
    """
    for paper, question, rng, relevant in _evidence(papers, sampled, seed):
        if not question.answers:
            continue
        others = [] if sampled else [text for text in paper.paragraphs if text not in relevant]
        pairs = [(text, question.answers[0].text) for text in relevant[:1]]
        pairs += [(text, question.text) for text in rng.sample(others, min(1, len(others)))]
        for n, (text, answer) in enumerate(pairs):
            # All of a paper stand on one side when a part is held out.
            name = f"{paper.id}#{question.id}:{n}".replace("_", "-")
            yield RewriteExample(name, (Message("assistant", text),), question.text, answer, SET)


def _evidence(
    papers: Sequence[Paper], sampled: bool, seed: int
) -> Iterator[tuple[Paper, PaperQuestion, random.Random, list[str]]]:
    """Every question with the paragraphs that count as its evidence."""
    for paper in papers:
        scores = published_bm25(paper.paragraphs) if sampled and paper.paragraphs else None
        for question in paper.questions:
            rng = random.Random(f"{seed}:{paper.id}:{question.id}")
            if not sampled:
                relevant = [text for text in dict.fromkeys(paper.paragraphs) if text in question.evidence]
            else:
                relevant = [paper.paragraphs[drawn(scores(question.text).tolist(), rng)]] if scores else []
            if relevant:
                yield paper, question, rng, relevant
