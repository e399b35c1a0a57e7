"""How much of a person's answer a model is shown, at several budgets of tokens.

    python benchmarks/bench_excerpts.py --data DATA [--home HOME] [--sets doc2dial mtrag-cloud mtrag-govt]
        [--budgets 250 450 700] [--every N]

Every question is searched as in a chat, with the packaged rewriter and the cross-encoder. Where a passage that
people judged relevant is among the evidence, the excerpts of it are compared with what is given of the answer
there: the share of the answer's word stems in these passages that the excerpts still hold (mean), and the share
of answers of which they hold at least 95 %. The peer is the passages as they were found, cut at the budget.
Collections are kept in `--home`. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from evaluation.retrieval import patient
from index.collection import Collection
from index.encoders import load_encoder
from index.indexer import index_paths
from papers.datasets import load_set
from server.registry import resolve
from server.rewriters import open_reranker, open_rewriter
from server.settings import Settings
from server.turn.events import Evidence
from server.turn.evidence import select_evidence
from server.turn.models import HEADER_TOKENS, clip, count_tokens, excerpts
from server.turn.run import CANDIDATES
from server.turn.search import TurnSearch
from server.turn.support import SupportScorer
from text.words import stems

Show = Callable[[str, Sequence[Evidence], SupportScorer, int], Mapping[int, str]]


@dataclass(frozen=True, slots=True)
class Case:
    """A question's evidence, the numbers of what is relevant in it, and the answer's stems that these hold."""

    matching: str
    evidence: tuple[Evidence, ...]
    relevant: frozenset[int]
    answer: frozenset[str]
    scorer: SupportScorer

    def held(self, show: Show, budget: int) -> float:
        """The share of the answer's stems that is left."""
        shown = show(self.matching, self.evidence, self.scorer, budget)
        left = {stem for n in self.relevant for stem in stems(shown.get(n, ""))}
        return len(self.answer & left) / len(self.answer)


def from_the_first_on(_: str, evidence: Sequence[Evidence], scorer: SupportScorer, budget: int) -> dict[int, str]:
    """The passages as they were found, the last one that has room cut there."""
    shown = {}
    for passage in evidence:
        budget -= HEADER_TOKENS + count_tokens(" ".join((passage.title, *passage.heading)))
        shown[passage.n] = clip(passage.text, max(budget, 0))
        budget -= count_tokens(shown[passage.n])
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--home", type=Path, default=Settings().home)
    parser.add_argument("--sets", nargs="+", default=["doc2dial", "mtrag-cloud", "mtrag-govt"])
    parser.add_argument("--budgets", nargs="+", type=int, default=[250, 450, 700])
    parser.add_argument("--every", type=int, default=1, help="take every Nth question of doc2dial only")
    options = parser.parse_args()

    settings = patient(Settings(home=options.home), 60.0)
    encoder = load_encoder(resolve(settings.index.encoder, settings.home))
    reranker = open_reranker(settings)
    candidates = CANDIDATES * settings.llm.evidence_tokens
    print("| set | shown | " + " | ".join(f"{budget} tokens" for budget in options.budgets) + " |")
    print("|---|---|" + "---|" * len(options.budgets))
    for name in options.sets:
        chosen = load_set(name, options.data)
        chosen = chosen.every(options.every if name == "doc2dial" else 1)
        assert isinstance(chosen.corpus, Path)
        folder, kept = settings.home / "collections", f"bench-{name.removeprefix('mtrag-')}"
        index_paths(folder, kept, [chosen.corpus], encoder, passage_tokens=settings.index.passage_tokens)
        opened = Collection.open(folder, kept, encoder)
        search = TurnSearch(
            collection=lambda _, opened=opened: opened,  # type: ignore[misc]
            rewriter=open_rewriter(settings),
            settings=settings,
            reranker=reranker,
        )
        cases = []
        for question in chosen.questions:
            found = search.find(question.text, collection=kept, conversation=question.conversation)
            passages = select_evidence(found.hits, limit=settings.retrieval.evidence, budget=candidates)
            judged = chosen.levels[0].qrels.get(question.id, {})
            relevant = frozenset(
                one.n for one in passages if max(judged.get(one.passage_id, 0), judged.get(one.document_id, 0)) > 0
            )
            there = {stem for one in passages if one.n in relevant for stem in stems(one.text)}
            if answer := there.intersection(stems(question.answer)):
                scorer = SupportScorer(passages)
                cases.append(Case(found.plan.matching, passages, relevant, frozenset(answer), scorer))
        ways: dict[str, Show] = {"sentences that match": excerpts, "from the first passage on": from_the_first_on}
        for label, show in ways.items():
            cells = []
            for budget in options.budgets:
                held = [case.held(show, budget) for case in cases]
                cells.append(f"{mean(held):.3f} / {mean(one >= 0.95 for one in held):.2f}")
            print(f"| {name} ({len(cases)}) | {label} | {' | '.join(cells)} |", flush=True)
        opened.close()


if __name__ == "__main__":
    main()
