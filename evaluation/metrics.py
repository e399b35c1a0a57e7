"""Measures of rankings, and of texts against references; TREC runs and relevance judgements are read and written.

The numbers are those of ir-measures, which comes with the `eval` extra. Ties stay as they
were ranked. A measure does not depend on the system that is measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from rewriter.examples import normalised
from text.modules import need_extra

Run: TypeAlias = Mapping[str, Sequence[str]]
"""Question id → ids found, best first."""

Qrels: TypeAlias = Mapping[str, Mapping[str, int]]
"""Question id → id → how relevant it is; 0 is not."""

MEASURES = ("AP", "R@5", "R@10", "R@20", "nDCG@5", "nDCG@10", "RR")

FULL_MEASURES = (
    "AP", "R@1", "R@3", "R@5", "R@10", "R@20", "nDCG@3", "nDCG@5", "nDCG@10", "RR",
)  # fmt: skip
"""Everything an evaluation reports; the mean of `AP` is MAP, that of `RR` is MRR."""


def evaluate(run: Run, qrels: Qrels, measures: Sequence[str] = MEASURES) -> dict[str, float]:
    """Each measure's mean over all judged questions; one that the run lacks counts 0."""
    totals = dict.fromkeys(measures, 0.0)
    for values in per_question(run, qrels, measures).values():
        for measure, value in values.items():
            totals[measure] += value
    return {measure: total / max(1, len(qrels)) for measure, total in totals.items()}


def per_question(run: Run, qrels: Qrels, measures: Sequence[str] = MEASURES) -> dict[str, dict[str, float]]:
    """Each measure for each judged question; names as ir-measures knows them (`R@5`, `nDCG@10`, `AP`)."""
    need_extra("eval", "Measuring retrieval", "ir_measures")
    import ir_measures

    by_name = {name: ir_measures.parse_measure(name) for name in measures}
    names = {measure: name for name, measure in by_name.items()}
    # Scores that fall with the rank: evaluation sorts by score and would break ties its own way.
    scored = {
        question: {item: 1.0 / rank for rank, item in reversed(list(enumerate(run.get(question, ()), start=1)))}
        for question in qrels
    }
    values = {question: dict.fromkeys(measures, 0.0) for question in qrels}
    for metric in ir_measures.iter_calc(list(by_name.values()), {q: dict(r) for q, r in qrels.items()}, scored):
        values[metric.query_id][names[metric.measure]] = float(metric.value)
    return values


def by_parent(run: Run, parents: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """A run over units as one over what they belong to, each at the rank of its best unit.

    A unit may belong to several (a proposition drawn from two sections); one that `parents` lacks, to none.
    """
    return {
        question: list(dict.fromkeys(parent for item in ids for parent in parents.get(item, ())))
        for question, ids in run.items()
    }


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """Judgements from BEIR's TSV (`query-id corpus-id score`, with a heading line) or TREC's four columns.

    Raises ValueError naming the line that is neither.
    """
    qrels: dict[str, dict[str, int]] = {}
    for number, line in _lines(path):
        fields = line.split("\t") if "\t" in line else line.split()
        if number == 1 and fields[-1] == "score":
            continue
        try:
            question, item, relevance = (fields[0], fields[-2], int(fields[-1]))
        except (IndexError, ValueError):
            raise ValueError(f"{path}, line {number}: expected question, id and relevance, found {line!r}") from None
        qrels.setdefault(question, {})[item] = relevance
    return qrels


def read_run(path: Path) -> dict[str, list[str]]:
    """A TREC run, each question's ids by falling score; an id may hold spaces.

    Raises ValueError naming a malformed line.
    """
    scored: dict[str, list[tuple[float, str]]] = {}
    for number, line in _lines(path):
        try:
            head, _, score, _ = line.rsplit(maxsplit=3)
            question, q0, item = head.split(maxsplit=2)
            if q0 != "Q0":
                raise ValueError
            scored.setdefault(question, []).append((float(score), item))
        except ValueError:
            raise ValueError(
                f"{path}, line {number}: expected `question Q0 id rank score tag`, found {line!r}"
            ) from None
    return {
        question: [item for _, item in sorted(pairs, key=lambda pair: -pair[0])] for question, pairs in scored.items()
    }


_ONE_LINE = str.maketrans("\r\n", "  ")


def run_lines(question: str, ranking: Iterable[tuple[str, float]], tag: str) -> Iterator[str]:
    """One question's ranking, best first, as lines of a TREC run.

    A line break in an id, which a file's name may hold, is written as a blank. Scores are made to fall from line to
    line: evaluation tools sort by score, in single precision, and would otherwise order ties and reranked passages
    their own way.
    """
    ceiling = float("inf")
    for rank, (item, score) in enumerate(ranking, start=1):
        score = min(score, ceiling)
        ceiling = score - max(abs(score) * 1e-6, 1e-9)
        yield f"{question} Q0 {item.translate(_ONE_LINE)} {rank} {score:.9g} {tag}\n"


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield number, line.rstrip("\r\n")


def token_f1(text: str, reference: str) -> float:
    """F1 over the words both share, counted as often as they occur; 1 where both are empty."""
    return shared_words(normalised(text).split(), normalised(reference).split())


def shared_words(own: Sequence[str], wanted: Sequence[str]) -> float:
    """F1 over words, counted as often as they occur; 1 where there are none on either side."""
    if not own or not wanted:
        return float(own == wanted)
    return 2 * (Counter(own) & Counter(wanted)).total() / (len(own) + len(wanted))
