"""What "Why this source?" is worth: the sentences people meant, found and retold, with every setup.

The set is `papers.citation_summaries.citances`, which has no text beside a citance: there the contexts find the same, and only
show that they run. Weights and thresholds were fitted on its part `fitted`; what is said is said of `dev`.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

from evaluation.metrics import estimate, per_question
from evaluation.run_folder import RunWriter
from index.ranking import Bm25s, fuse
from papers.asking import QuoteAsker, judged_as
from papers.citation_summaries.citances import SET, CitanceCase
from papers.citation_summaries.retelling import explain
from papers.citation_summaries.setups import (
    Citance,
    SetupRanker,
    WhyContext,
    WhyFound,
    WhyPlan,
    WhyRanking,
    WhyUnits,
)
from papers.decontextualization.snippets import SET as SNIPPETS
from papers.decontextualization.snippets import Snippet
from papers.measures import area, estimate_of, note, paired, rouge_scorer
from papers.rewrite_checks import EvidenceTexts
from plugins.evidence.explain import LEAD_NEAR, WhySource, best_first
from plugins.evidence.source import SourcePassage
from text.words import tokenize

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from index.encoders import Encoder
    from index.rerank import Scorer

MEASURES = ("nDCG@5", "R@5", "R@10")
BASELINE = WhyPlan(ranking="fused").name
K1 = 1.0
READ = 30
"""The other usual k1, and sentences a cross-encoder reads."""
KINDS = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}
CRITERIA = {
    "coverage": "does the text hold the key information of the document that fits the citing sentence?",
    "focus": "is the text one coherent whole, each sentence going on from the one before?",
    "relevance": "does the text hold only what fits the citing sentence, and enough to spare reading the document?",
}

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class WhyBench:
    """The citances, and a ranker for every paper."""

    cases: Sequence[CitanceCase]
    rankers: Mapping[str, SetupRanker]
    writer: RunWriter
    progress: Progress

    @classmethod
    def of(
        cls,
        cases: Sequence[CitanceCase],
        sources: Mapping[str, WhySource],
        encoder: Encoder,
        writer: RunWriter,
        progress: Progress,
    ) -> WhyBench:
        """With the papers' sentences encoded as they are needed."""
        return cls(cases, {name: SetupRanker(one, encoder) for name, one in sources.items()}, writer, progress)

    def find(self, case: CitanceCase, plan: WhyPlan, document: str = "") -> WhyFound:
        """What is found for a citance, in its own paper or in another."""
        return self.rankers[document or case.document].find(case.citance, plan)

    def note(self, level: str, system: str, measure: str, values: Mapping[str, float]) -> None:
        """The mean over the parts of the set, with its interval over papers."""
        for part in ("dev", "fitted", "all"):
            here = [one for one in self.cases if one.id in values and part in (one.part, "all")]
            value = estimate([values[one.id] for one in here], [one.document for one in here])
            note(self.writer, SET, level, system, measure, value, part)

    def compare(self, level: str, measure: str, pairs: Iterable[tuple[str, str]], scores: Scored) -> None:
        """Paired tests on `dev`, papers being what is drawn; one family."""
        papers = {one.id: one.document for one in self.cases if one.part == "dev"}
        there = [pair for pair in pairs if papers and set(pair) <= scores.keys()]
        kept = {name: {case: one[case] for case in papers} for name, one in scores.items()}
        self.writer.tests += paired((SET, level, measure), there, kept, papers.__getitem__)


Scored: TypeAlias = Mapping[str, Mapping[str, float]]
RougeScore: TypeAlias = Callable[[str, str], Mapping[str, Any]]


def setups() -> list[WhyPlan]:
    """The twelve published ones, what we fuse and weigh, and keywords in place of the text."""
    contexts: tuple[WhyContext, ...] = ("citance", "neighbours", "similar")
    alone: tuple[WhyRanking, ...] = ("bm25", "dense")
    fused: tuple[WhyRanking, ...] = ("fused", "weighted")
    units: tuple[WhyUnits, ...] = ("sentences", "paragraphs")
    plans = [WhyPlan(unit, context, ranking=by) for context, by, unit in product(contexts, alone, units)]
    plans += [WhyPlan(unit, ranking=by) for by, unit in product(fused, units)]
    return plans + [WhyPlan(keywords=True, ranking=by) for by in (*alone, *fused)]


def measure_setups(bench: WhyBench, scorer: Scorer | None = None) -> None:
    """Rankings of sentences and of paragraphs, and the texts they make without a model, for every setup.

    With a cross-encoder's `scorer` also what its reading of the first sentences adds.
    """
    cases = bench.cases
    gold = {one.id: dict.fromkeys(one.gold, 1) for one in cases}
    rouges = _rouge()
    scores: dict[str, dict[str, float]] = {}
    runs: dict[str, dict[str, list[str]]] = {}
    plans = setups()
    for done, plan in enumerate(plans):
        bench.progress("setups", done, len(plans))
        found = {one.id: bench.find(one, plan) for one in cases}
        runs[plan.name] = {name: list(one.ranking) for name, one in found.items()}
        scores[plan.name] = _ranked(bench, plan.name, runs[plan.name], gold)
        if plan.units == "paragraphs":
            _paragraphs(bench, plan)
        texts = {name: " ".join(shown.text for shown in one.shown) for name, one in found.items()}
        _rouged(bench, plan.name, texts, rouges)
    leads = {one.id: bench.rankers[one.document].source.lead for one in cases}
    _rouged(bench, "lead", leads, rouges)
    sources = {name: one.source.sentences for name, one in bench.rankers.items()}
    other = {name: Bm25s.build((tokenize(one.text) for one in each), K1) for name, each in sources.items()}
    bm25 = WhyPlan(ranking="bm25")
    run = {}
    for one in cases:
        [(query, _)] = bench.rankers[one.document].queries(one.citance, bm25)
        places = best_first(other[one.document].scores(query))
        run[one.id] = list(dict.fromkeys(sources[one.document][place].id for place in places))
    _ranked(bench, f"{bm25.name}, k1 {K1:g}", run, gold)
    pairs = [(BASELINE, WhyPlan().name), (WhyPlan(ranking="bm25").name, BASELINE), (bm25.name, WhyPlan().name)]
    if scorer is not None:
        for plan in (WhyPlan(ranking="fused"), WhyPlan()):
            name = f"{plan.name}, reranked"
            scores[name] = _ranked(bench, name, _reranked(bench, runs[plan.name], scorer), gold)
            pairs.append((plan.name, name))
    bench.compare("sentences", MEASURES[0], pairs, scores)
    bench.progress("setups", len(plans), len(plans))


def _ranked(
    bench: WhyBench, name: str, run: Mapping[str, Sequence[str]], gold: Mapping[str, Mapping[str, int]]
) -> dict[str, float]:
    scores = per_question(run, gold, MEASURES)
    bench.writer.write_scores(SET, name, "sentences", scores)
    for measure in MEASURES:
        bench.note("sentences", name, measure, {case: one[measure] for case, one in scores.items()})
    return {case: one[MEASURES[0]] for case, one in scores.items()}


def _paragraphs(bench: WhyBench, plan: WhyPlan) -> None:
    """Whether the two best paragraphs hold what is meant: the share of the sentences meant that stand in them."""
    held = {}
    for one in bench.cases:
        ranker = bench.rankers[one.document]
        best = ranker.rank(one.citance, "paragraphs", plan)[:2]
        ids = {ranker.source.sentences[place].id for n in best for place in ranker.paragraphs[n]}
        held[one.id] = len(ids & one.gold) / len(one.gold)
    bench.note("paragraphs", plan.name, "R@2", held)


def _rouged(bench: WhyBench, name: str, texts: Mapping[str, str], score: RougeScore) -> None:
    """F1 against the text that people meant, and the recall of ROUGE-2."""
    scored = {one.id: score(one.cited_text, texts[one.id]) for one in bench.cases if texts.get(one.id)}
    for kind, label in KINDS.items():
        bench.note("text", name, label, {case: 100 * float(one[kind].fmeasure) for case, one in scored.items()})
    bench.note("text", name, "ROUGE-2 recall", {case: float(one["rouge2"].recall) for case, one in scored.items()})


def _rouge() -> RougeScore:
    """Setups show the same again and again, and comparing takes longer than finding."""
    return cache(rouge_scorer(list(KINDS), stemmed=True).score)


def _reranked(bench: WhyBench, run: Mapping[str, Sequence[str]], scorer: Scorer) -> dict[str, list[str]]:
    """A ranking fused with that of a cross-encoder over its first sentences."""
    found = {}
    for done, one in enumerate(bench.cases):
        bench.progress("reading", done, len(bench.cases))
        text = {sentence.id: sentence.text for sentence in bench.rankers[one.document].source.sentences}
        asked = bench.rankers[one.document].queries(one.citance, WhyPlan())[0][0]
        # Texts of like length share a batch.
        first = sorted(run[one.id][:READ], key=lambda name: len(text[name]))
        scores = dict[str, float]()
        for start in range(0, len(first), 10):
            names = first[start : start + 10]
            scores |= dict(zip(names, map(float, scorer.score(asked, [text[name] for name in names])[0]), strict=True))
        read = sorted(first, key=lambda name: -scores[name])
        found[one.id] = [item.id for item in fuse([("found", 1.0, run[one.id]), ("read", 1.0, read)])]
    return found


def measure_contexts(
    snippets: Sequence[Snippet], passages: Sequence[SourcePassage], encoder: Encoder, writer: RunWriter
) -> None:
    """Whether what stands around a sentence helps to find the paragraphs that explain it, over the pool of
    `papers.decontextualization.snippets`: recall at 5 without the snippet's own abstract and paragraph."""
    ranker = SetupRanker(WhySource(tuple(passages)), encoder)
    contexts: tuple[WhyContext, ...] = ("citance", "neighbours", "similar")
    rankings: tuple[WhyRanking, ...] = ("bm25", "dense", "fused")
    scores: dict[tuple[str, str], tuple[list[float], list[str]]] = {}
    for one, kind, by in product(snippets, contexts, rankings):
        quote, own = one.quote, (one.quote.lead, one.quote.paragraph)
        before, _, after = quote.paragraph.partition(quote.snippet)
        around = Citance(quote.snippet, before, after) if after else Citance(quote.snippet, paragraph=quote.paragraph)
        wanted = {text for question in one.questions for text in question.evidence if text not in own}
        if wanted:
            ranked = ranker.rank(around, "sentences", WhyPlan(context=kind, ranking=by))
            found = [passages[place].text for place in ranked if passages[place].text not in own][:5]
            values, papers = scores.setdefault((kind, by), ([], []))
            values.append(len(wanted & set(found)) / len(wanted))
            papers.append(one.paper)
    for (used, ranking), (values, papers) in scores.items():
        note(writer, SNIPPETS, "contexts", f"{used}/{ranking}", "R@5", estimate(values, papers))


def measure_checks(bench: WhyBench) -> None:
    """The default against a swapped citance, the lead, and papers that do not say it; today's support beside it."""
    from scipy.stats import binomtest

    plan = WhyPlan()
    rouges = rouge_scorer(["rouge2"], stemmed=True)
    chance = random.Random(7)
    documents = sorted({one.document for one in bench.cases})
    wins = losses = 0
    columns: dict[str, dict[str, float]] = {}
    pairs: dict[str, list[tuple[str, float, float]]] = {"nearness": [], "support": []}

    def recall(text: str, one: CitanceCase) -> float:
        return float(rouges.score(one.cited_text, text)["rouge2"].recall)

    support = {
        name: EvidenceTexts(["\n\n".join(one.text for one in ranker.source.sentences)])
        for name, ranker in bench.rankers.items()
    }
    for done, one in enumerate(bench.cases):
        bench.progress("checks", done, len(bench.cases))
        ranker = bench.rankers[one.document]
        text = _text(ranker, ranker.rank(one.citance, "sentences", plan))
        own = recall(text, one)
        others = [c for c in bench.cases if c.document == one.document and not c.gold & one.gold]
        if others:
            swapped = chance.choice(others)
            other = recall(_text(ranker, ranker.rank(swapped.citance, "sentences", plan)), one)
            wins, losses = wins + (own > other), losses + (own < other)
            columns.setdefault("swapped", {})[one.id] = other
        near = ranker.lead_near(one.citance)
        side = "lead near" if near >= LEAD_NEAR else "lead far"
        columns.setdefault(f"contextual, {side}", {})[one.id] = own
        columns.setdefault(f"lead, {side}", {})[one.id] = recall(ranker.source.lead, one)
        wrong = chance.choice([name for name in documents if name != one.document])
        said, planted = bench.find(one, plan), bench.find(one, plan, wrong)
        columns.setdefault("own", {})[one.id] = float(not said.bears)
        columns.setdefault("another", {})[one.id] = float(not planted.bears)
        asked = ranker.queries(one.citance, plan)[0][0]
        pairs["nearness"].append((one.document, said.near, planted.near))
        pairs["support"].append((one.document, support[one.document].score(asked), support[wrong].score(asked)))
    for name, values in columns.items():
        refusing = name in ("own", "another")
        bench.note("check", name, "refused" if refusing else "ROUGE-2 recall", values)
    if wins + losses:
        bench.writer.notes.append(
            f"Matched against swapped citance: better {wins} times, worse {losses}; sign test p = "
            f"{binomtest(wins, wins + losses).pvalue:.2g}."
        )
    for name, rows in pairs.items():
        value = estimate_of(lambda places, rows=rows: auc([rows[i] for i in places]), [one for one, *_ in rows])  # type: ignore[misc]
        note(bench.writer, SET, "check", name, "AUC of wrong citations", value)


def _text(ranker: SetupRanker, ranked: Sequence[int]) -> str:
    return " ".join(ranker.source.sentences[place].text for place in sorted(ranked[:5]))


def auc(rows: Sequence[tuple[str, float, float]]) -> float:
    """How often a right one scores above a wrong one; ties count half."""
    right, wrong = [one for _, one, _ in rows], [one for *_, one in rows]
    return area(right + wrong, [True] * len(right) + [False] * len(wrong))


async def measure_written(
    bench: WhyBench, asker: QuoteAsker, judge: BaseChatModel | None, until: float = math.inf
) -> None:
    """What a model writes: its text against what was meant, its guards, and a `judge`'s grades of it and the lead.

    Citance by citance, none begun after `until` (of `time.monotonic`).
    """
    plans = [WhyPlan(), WhyPlan(told=True), WhyPlan("paragraphs"), WhyPlan("paragraphs", told=True)]
    named = {f"{plan.name}, written{' for the citance' if plan.told else ''}": plan for plan in plans}
    texts: dict[str, dict[str, str]] = {name: {} for name in ("lead", *named)}
    noted: dict[tuple[str, str, str], dict[str, float]] = {}
    for done, one in enumerate(bench.cases):
        if time.monotonic() > until:
            break
        bench.progress("writing", done, len(bench.cases))
        texts["lead"][one.id] = bench.rankers[one.document].source.lead
        for name, plan in named.items():
            found = await explain(bench.rankers[one.document], one.citance, plan, asker)
            if not found.bears:
                continue
            texts[name][one.id] = " ".join(shown.text for shown in found.shown)
            linked = all(len(shown.ids) > 0 for shown in found.shown) and len(found.shown) <= 5
            supported = sum(shown.supported for shown in found.shown) / len(found.shown)
            values = (("linked", linked), ("something refused", bool(found.refused)), ("supported", supported))
            for measure, value in values:
                noted.setdefault(("guard", name, measure), {})[one.id] = float(value)
        for name, made in texts.items():
            if judge is not None and made.get(one.id):
                parts = {"question": one.citance.text, "answer": made[one.id], "conversation": "", "passages": ""}
                for verdict in judged_as(judge, CRITERIA, "papers.citation_summaries:rubric_why", parts):
                    noted.setdefault(("judge", name, verdict.criterion), {})[one.id] = verdict.score
    for key, found_values in noted.items():
        bench.note(*key, found_values)
    rouges = _rouge()
    for name in named:
        _rouged(bench, name, texts[name], rouges)
