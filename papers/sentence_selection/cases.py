"""Questions with the sentences of the passages that a chat finds for them, and which of these hold a marked quote.

Each question is one file, `WORK/<set>/<number>.npz`, so that collecting can be stopped and gone on with.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from evaluation.questions import Question
from evaluation.retrieval import patient
from evaluation.sets import Place, quoted_places
from papers.answerability import collecting
from papers.bench import Bench, index_set
from papers.datasets import DataSet
from papers.orconvqa.answers import overlaps
from rewriter.protocol import Rewriter
from server.turn.decision import language_of_hits, models, signals
from server.turn.events import Evidence
from server.turn.evidence import Array, SentenceInputs, read_further, select_evidence, sentence_inputs
from server.turn.quote_shapes import unit
from server.turn.search import TurnSearch
from server.turn.support import SupportScorer
from text.files import replacing

PATIENCE = 600.0
BUDGET = 100_000
ANSWERABLE = frozenset(("answerable", "partial"))
MARKED = ANSWERABLE | {"unanswerable"}
UNCLEAR = "underspecified"
"""Questions that only the decision is fitted on; collected behind all others."""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A question's evidence, the inputs of its sentences, and which of these are marked; `gold` `(sentences,)`.

    `typed` is the question in a person's words, `matching` what words are compared with, `quotes` where the marked quotes stand in the documents, also in those
    that were not found. `decision` is the same search as the decision whether to answer sees it.
    """

    id: str
    domain: str
    answerable: bool
    typed: str
    matching: str
    evidence: tuple[Evidence, ...]
    quotes: tuple[Place, ...]
    inputs: SentenceInputs
    gold: npt.NDArray[np.bool_]
    decision: collecting.Case

    @property
    def passages(self) -> npt.NDArray[np.int64]:
        """The number of each sentence's passage."""
        return np.array([n for n, _ in self.inputs.places], dtype=np.int64)


def collect(chosen: DataSet, bench: Bench, rewriter: Rewriter, folder: Path, domain: str) -> None:
    """Search for every marked question as a chat does, with time enough, and keep its case."""
    folder.mkdir(parents=True, exist_ok=True)
    with closing(bench.open(index_set(chosen, bench))) as collection:
        places = quoted_places(chosen, collection)
        settings = patient(bench.settings, PATIENCE)
        search = TurnSearch(
            collection=lambda _: collection, rewriter=rewriter, settings=settings, reranker=bench.reranker
        )
        asked = [question for question in chosen.questions if question.answerability in MARKED]
        asked += [question for question in chosen.questions if question.answerability == UNCLEAR]
        for number, question in enumerate(asked):
            bench.progress(f"{chosen.name}: collecting", number, len(asked))
            path = folder / f"{number}.npz"
            known = places.get(question.id, ())
            if path.exists() or (question.answerability in ANSWERABLE and not known):
                continue
            write(path, case_of(question, search, known, domain))


def case_of(question: Question, search: TurnSearch, places: Sequence[Place], domain: str) -> Case:
    """The case of one question, its evidence as in a turn without a language model: all that was read."""
    found = search.find(question.text, collection="", conversation=question.conversation)
    first = select_evidence(found.hits, limit=search.settings.retrieval.evidence, budget=BUDGET)
    evidence = read_further(found.hits, first)
    by_id = {hit.passage.id: hit for hit in found.hits}
    language = language_of_hits(found.hits, search.settings.index.language)
    scorer = SupportScorer(evidence, language)
    matching = found.plan.matching
    inputs = sentence_inputs(matching, evidence, {one.n: by_id[one.passage_id] for one in evidence}, scorer)
    answerable = question.answerability in ANSWERABLE
    gold = np.array(list(_marked(matching, evidence, scorer, places)), dtype=np.bool_)
    kind: collecting.Kind = "found" if gold.any() else "missed"
    if not answerable:
        kind = "underspecified" if question.answerability == UNCLEAR else "unanswerable"
    searched = search.collection("")
    vector = searched.question_vector(question.text, models().encoder)
    decision = collecting.Case(
        question.id,
        domain,
        question.dialog,
        kind,
        signals(found.plan, found.hits, language),
        {},
        [] if vector is None else [round(float(value), 4) for value in vector],
    )
    return Case(
        question.id, domain, answerable, question.text, matching, evidence, tuple(places), inputs, gold, decision
    )


def _marked(
    matching: str, evidence: Sequence[Evidence], scorer: SupportScorer, places: Sequence[Place]
) -> Iterator[bool]:
    """Of each sentence, whether what is quoted for it holds a marked quote."""
    for passage in evidence:
        matches = scorer.matches(matching, passage.n)
        for i in range(len(matches)):
            quote = unit(matches, i, passage)
            yield any(overlaps((passage.document_id, quote.start, quote.end), place) for place in places)


def write(path: Path, case: Case) -> None:
    """Write a case as one file."""
    told = {
        "id": case.id,
        "domain": case.domain,
        "answerable": case.answerable,
        "typed": case.typed,
        "matching": case.matching,
        "evidence": [one.model_dump(mode="json") for one in case.evidence],
        "quotes": case.quotes,
        "places": case.inputs.places,
        "decision": asdict(case.decision),
    }
    arrays = {"features": case.inputs.features, "states": case.inputs.states.astype(np.float16), "gold": case.gold}
    with replacing(path) as draft, draft.open("wb") as file:
        np.savez(file, told=np.array(json.dumps(told)), **arrays)  # type: ignore[arg-type]


def read(path: Path) -> Case:
    """Read a case as `write` writes it."""
    with np.load(path) as held:
        told = json.loads(str(held["told"]))
        features: Array = held["features"]
        states: Array = held["states"].astype(np.float32)
        gold: npt.NDArray[np.bool_] = held["gold"]
    return Case(
        told["id"],
        told["domain"],
        told["answerable"],
        told["typed"],
        told["matching"],
        tuple(Evidence.model_validate(one) for one in told["evidence"]),
        tuple((document, start, end) for document, start, end in told["quotes"]),
        SentenceInputs([(n, start) for n, start in told["places"]], features, states),
        gold,
        collecting.Case(**told["decision"]),
    )


def read_all(work: Path, progress: Callable[[int, int], None] = lambda done, total: None) -> list[Case]:
    """Read every case below a folder that has a sentence at all."""
    paths = sorted(work.glob("*/*.npz"))
    cases = []
    for number, path in enumerate(paths):
        progress(number, len(paths))
        cases.append(read(path))
    return [case for case in cases if case.inputs.places]
