"""Measures that only the papers need: rewrites against a person's, chances against what was right, METEOR, ROUGE, BLEU, Fisher's test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from evaluation.metrics import SEED, Estimate
from evaluation.questions import BadRow, Question
from evaluation.run_folder import Metric, RunWriter, Scores, Test, corrected, tested
from rewriter.examples import normalised
from rewriter.protocol import Rewrite
from text.modules import need_extra

Encode: TypeAlias = Callable[[Sequence[str]], npt.NDArray[np.float32]]
"""Texts to `(n, d)` float32, L2-normalised."""

BINS = 10


def exact_match(text: str, reference: str) -> float:
    """1 where both say the same words in the same order; case, punctuation and spacing aside."""
    return float(normalised(text) == normalised(reference))


def similarities(texts: Sequence[str], references: Sequence[str], encode: Encode) -> list[float]:
    """Cosine of each text with its reference."""
    if not texts:
        return []
    return [float(value) for value in (encode(texts) * encode(references)).sum(axis=1)]


@dataclass(frozen=True, slots=True)
class GateScores:
    """How well it was decided whether to rewrite; `rewrite` counts as positive."""

    precision: float
    recall: float
    f1: float
    changed: float
    """Share of questions the rewriter changed."""


def gate(changed: Sequence[bool], needed: Sequence[bool]) -> GateScores:
    """`changed[i]`: the rewriter changed question `i`; `needed[i]`: a person did. 0 where nothing can be said."""
    right = sum(own and wanted for own, wanted in zip(changed, needed, strict=True))
    precision = right / max(1, sum(changed))
    recall = right / max(1, sum(needed))
    f1 = 2 * precision * recall / (precision + recall) if right else 0.0
    return GateScores(precision, recall, f1, sum(changed) / max(1, len(changed)))


def is_change(rewrite: Rewrite, question: str) -> bool:
    """Whether what will be searched for says something else than the question."""
    return normalised(rewrite.text) != normalised(question)


def calibration_error(
    confidences: Sequence[float], right: Sequence[bool], weights: Sequence[float] | None = None
) -> float:
    """Expected calibration error: how far confidence and accuracy lie apart, over `BINS` of equal width.

    A confidence of exactly 1 belongs to the highest bin. 0 without a confidence.
    """
    if not confidences:
        return 0.0
    place = np.minimum((np.asarray(confidences) * BINS).astype(int), BINS - 1)
    weight = np.ones(len(place)) if weights is None else np.asarray(weights)
    gap = weight * (np.asarray(right, dtype=np.float64) - np.asarray(confidences))
    return float(np.abs(np.bincount(place, gap, BINS)).sum() / weight.sum())


def area(probabilities: Sequence[float], answerable: Sequence[bool]) -> float:
    """Area under the ROC curve: the chance that an answerable question gets the higher probability."""
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(answerable, probabilities)) if len(set(answerable)) == 2 else 0.5


def fisher(first: tuple[int, int], other: tuple[int, int]) -> float:
    """Two-sided p of Fisher's exact test that two shares, each `(right, asked)`, are the same."""
    from scipy.stats import fisher_exact

    table = [[right, total - right] for right, total in (first, other)]
    return float(fisher_exact(table).pvalue)


def meteor(texts: Sequence[str], references: Sequence[str]) -> tuple[list[float], str]:
    """METEOR by NLTK, and its name: without WordNet's data it matches words and stems only, and is named so.

    Raises MissingExtra.
    """
    need_extra("papers", "METEOR", "nltk")
    import nltk
    from nltk.translate.meteor_score import single_meteor_score

    wordnet: Any = _NoSynonyms()
    name = "METEOR (exact+stem)"
    try:
        nltk.data.find("corpora/wordnet")
    except LookupError:
        pass
    else:
        from nltk.corpus import wordnet as synonyms

        wordnet, name = synonyms, "METEOR"
    pairs = zip(texts, references, strict=True)
    return [
        float(single_meteor_score(reference.split(), text.split(), wordnet=wordnet)) if text.split() else 0.0
        for text, reference in pairs
    ], name


class _NoSynonyms:
    """Stands in for WordNet where its data is not installed."""

    def synsets(self, word: str) -> list[Any]:
        return []


def rouge(
    texts: Sequence[str], references: Sequence[str], kinds: Sequence[str] = ("rougeL",)
) -> list[dict[str, float]]:
    """F1 of each kind for each pair, by rouge-score as its command has it (no stemming). Raises MissingExtra."""
    scorer = rouge_scorer(tuple(kinds))
    measures = []
    for text, reference in zip(texts, references, strict=True):
        scores = scorer.score(reference, text)
        measures.append({kind: float(scores[kind].fmeasure) for kind in kinds})
    return measures


def rouge_scorer(kinds: Sequence[str], *, stemmed: bool = False) -> Any:
    """rouge-score's scorer: `score(reference, text)[kind]` has `precision`, `recall`, `fmeasure`."""
    need_extra("papers", "ROUGE", "rouge_score")
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(list(kinds), use_stemmer=stemmed)


def sentence_bleu(texts: Sequence[str], references: Sequence[str]) -> list[float]:
    """SacreBLEU of each text alone, 0 to 100, effective order. Raises MissingExtra."""
    sacrebleu = _sacrebleu()
    bleu = sacrebleu.BLEU(effective_order=True)
    pairs = zip(texts, references, strict=True)
    return [float(bleu.sentence_score(text, [reference]).score) for text, reference in pairs]


def corpus_bleu(texts: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    """SacreBLEU over all texts together, 0 to 100, and its signature. Raises MissingExtra."""
    if not texts:
        return 0.0, ""
    bleu = _sacrebleu().BLEU()
    score = float(bleu.corpus_score(list(texts), [list(references)]).score)
    return score, str(bleu.get_signature())


def _sacrebleu() -> Any:
    need_extra("papers", "SacreBLEU", "sacrebleu")
    import sacrebleu

    return sacrebleu


def shared_words(own: Sequence[str], wanted: Sequence[str]) -> float:
    """F1 over words, counted as often as they occur; 1 where there are none on either side."""
    if not own or not wanted:
        return float(own == wanted)
    return 2 * (Counter(own) & Counter(wanted)).total() / (len(own) + len(wanted))


def estimate_of(
    statistic: Callable[[Sequence[int]], float], clusters: Sequence[Hashable], resamples: int = 300
) -> Estimate:
    """`estimate` for what is no mean: `statistic` is given the places of the questions drawn."""
    members: dict[Hashable, list[int]] = {}
    for place, cluster in enumerate(clusters):
        members.setdefault(cluster, []).append(place)
    groups = list(members.values())
    if not groups:
        return Estimate(0.0, 0.0, 0.0, 0)
    drawn = np.random.default_rng(SEED).integers(0, len(groups), (resamples, len(groups)))
    values = [statistic([place for group in row for place in groups[group]]) for row in drawn]
    low, high = np.percentile(values, (2.5, 97.5))
    return Estimate(float(statistic(range(len(clusters)))), float(low), float(high), len(clusters))


def objects(row: Mapping[str, Any], key: str, where: str) -> list[dict[str, Any]]:
    """A list of objects that each have a text, empty where it is missing."""
    value = row.get(key) or []
    if not isinstance(value, list) or not all(
        isinstance(entry, dict) and isinstance(entry.get("text"), str) for entry in value
    ):
        raise BadRow(f'{where}: "{key}" is no list of objects with "id" and "text".')
    return value


def tests_of(
    set_name: str,
    level: str,
    measure: str,
    baseline: str,
    scores: Mapping[str, Scores],
    questions: Mapping[str, Question],
) -> list[Test]:
    """Every other system against `baseline`, over the questions both answered; one family for Holm."""
    values = {
        system: {name: scores_of[measure] for name, scores_of in scores_by_question.items()}
        for system, scores_by_question in scores.items()
    }
    pairs = [(baseline, system) for system in scores if system != baseline]
    return paired((set_name, level, measure), pairs, values, lambda name: questions[name].dialog)


def paired(
    place: tuple[str, str, str],
    pairs: Iterable[tuple[str, str]],
    values: Mapping[str, Mapping[str, float]],
    cluster: Callable[[str], str],
) -> list[Test]:
    """Each pair of systems, the second against the first, over what both have a value for; one family for Holm.

    `place` is set, level and measure; whole clusters are drawn and flipped.
    """
    return corrected([tested(place, pair, values[pair[0]], values[pair[1]], cluster) for pair in pairs])


def bare(value: float, n: int) -> Estimate:
    """A figure that has no interval."""
    return Estimate(value, float("nan"), float("nan"), n)


def note(
    writer: RunWriter, set_name: str, level: str, system: str, measure: str, value: Estimate, part: str = "all"
) -> None:
    """Add one figure to a run."""
    writer.metrics.append(Metric(set_name, level, system, part, measure, value.mean, value.low, value.high, value.n))
