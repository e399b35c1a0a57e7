"""Retrieval measured: every system over every question of a set, by the code of a chat turn.

Slow work is done once and in batches: texts are encoded before any search; vectors and scores are kept on disk by the
text's hash. Latencies are taken apart from that, on a sample of the questions, without any memory. Reranking has no time limit here, so that its quality
does not depend on what else the machine does; in the latencies it keeps the setting's.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from evaluation.questions import Question
from evaluation.retrieval import DEPTH, PATIENCE, Ranking, judged_in, measure, patient, write_texts
from evaluation.run_folder import InputLine, Latency, RunWriter, Scores, finished_rows, metrics_of, percentiles, slug
from index.collection import Collection
from index.documents import Hit
from index.encoders import Encoder, Vectors
from index.rerank import CrossEncoderReranker, Reranker, Scorer
from index.rerank import Scores as PairScores
from index.writer import VectorJournal
from papers.datasets import DataSet
from papers.measures import tests_of
from papers.systems import SERVED, KnownRewrites, PeopleWriting, System, context_text, human_rewrite
from rewriter.protocol import PassThroughRewriter, Rewrite, Rewriter, Term
from rewriter.served import ServedRewriter
from server.settings import Settings
from server.turn.events import TurnFailed
from server.turn.search import TurnSearch
from text.files import resolved

if TYPE_CHECKING:
    from index.encoders import Encoder
    from index.rerank import Reranker


BATCH = 512
TESTED = ("AP", "R@5", "R@20", "nDCG@5")


class _Remembered:
    """Numbers kept on disk under the hash of a text; for one thread at a time, and one process."""

    def __init__(self, path: Path, name: str, dimension: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._journal = VectorJournal(path, name, dimension)
        self._known = self._journal.keys()

    def _keep(self, keys: Sequence[bytes], vectors: Vectors) -> None:
        self._journal.add(keys, vectors)
        self._known.update(keys)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._journal.close()


class CachedEncoder(_Remembered):
    """An encoder with a memory on disk."""

    def __init__(self, encoder: Encoder, path: Path) -> None:
        super().__init__(path, encoder.name, encoder.dimension)
        self.name, self.dimension, self.max_tokens = encoder.name, encoder.dimension, encoder.max_tokens
        self.count_tokens, self.prompt = encoder.count_tokens, encoder.prompt
        self._encoder = encoder
        self.encoded = 0
        """Texts that had to be encoded, and were not known."""

    def encode(self, texts: Sequence[str]) -> Vectors:
        self.prepare(texts)
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        return np.stack([self._journal.get(_key(text)) for text in texts])

    def prepare(self, texts: Iterable[str], progress: Callable[[int, int], None] | None = None) -> None:
        """Encode those of `texts` that are not known yet, in large batches, kept as soon as they are done."""
        keyed = {key: text for text in texts if (key := _key(text)) not in self._known}
        # Texts of like length share a batch, so that little of it is padding.
        missing = sorted(keyed, key=lambda key: len(keyed[key]))
        for start in range(0, len(missing), BATCH):
            keys = missing[start : start + BATCH]
            self._keep(keys, self._encoder.encode([keyed[key] for key in keys]))
            self.encoded += len(keys)
            if progress is not None:
                progress(min(start + BATCH, len(missing)), len(missing))


class CachedScorer(_Remembered):
    """A cross-encoder's scorer with a memory on disk."""

    shows_states = False

    def __init__(self, scorer: Scorer, name: str, path: Path) -> None:
        super().__init__(path, name, 1)
        self.cut = scorer.cut
        self._scorer = scorer
        self.read = 0
        """Pairs that had to be read, and were not known."""

    def score(self, question: str, passages: Sequence[str]) -> tuple[PairScores, list[Any], list[PairScores]]:
        keys = [_key(f"{question}\0{passage}") for passage in passages]
        missing = {key: passage for key, passage in zip(keys, passages, strict=True) if key not in self._known}
        if missing:
            scores, _, _ = self._scorer.score(question, list(missing.values()))
            self._keep(list(missing), scores.astype(np.float32).reshape(-1, 1))
            self.read += len(missing)
        return np.concatenate([self._journal.get(key) for key in keys]), [], []


@contextmanager
def cached_reranker(reranker: Reranker | None, path: Path) -> Iterator[Reranker | None]:
    """The same with a memory of what it has read, where it is one of ours."""
    if not isinstance(reranker, CrossEncoderReranker):
        yield reranker
        return
    with CachedScorer(reranker.scorer, reranker.name, path) as scorer:
        yield CrossEncoderReranker(reranker.name, scorer, lengths=reranker.lengths)


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


TIMED_QUESTIONS = 30

Progress = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is."""

OpenForm = Callable[[str], AbstractContextManager[Rewriter]]
"""Opens the rewriter that a form names."""


def silent(what: str, done: int, total: int) -> None:
    """No progress shown."""


@dataclass(frozen=True, slots=True)
class Bench:
    """Data and models shared by all systems of an evaluation."""

    settings: Settings
    encoder: CachedEncoder
    plain: Encoder
    """The same encoder without a memory, for latencies."""

    reranker: Reranker | None
    root: Path
    """Where the collections of the sets are kept."""

    progress: Progress = silent
    reading: Reranker | None = None
    """The same reranker with a memory, for rankings."""

    def open(self, collection: str, encoder: Encoder | None = None) -> Collection:
        """A collection of a set, in the vector store of the settings; raises as `Collection.open` does."""
        return Collection.open(self.root, collection, encoder or self.encoder, store=self.settings.index.vectors)


def collect_rewrites(
    rewriter: Rewriter, questions: Sequence[Question], progress: Progress = silent, cache: Path | None = None
) -> dict[str, Rewrite]:
    """Rewrite every question and time each rewrite; results are appended to `cache` as they come.

    Rewrites that are already in the file are reused.
    """
    lines = [InputLine(question.id, (question.conversation, question.text)) for question in questions]
    rows = finished_rows(cache, lines, rewriter.name) if cache else {}
    rewrites = {name: _rewrite_of_row(row["rewrite"]) for name, row in rows.items()}
    for done, (question, line) in enumerate(zip(questions, lines, strict=True)):
        progress(f"rewriting: {rewriter.name}", done, len(questions))
        if question.id in rewrites:
            continue
        started = time.perf_counter()
        rewrite = rewriter.rewrite(question.conversation, question.text)
        rewrites[question.id] = replace(rewrite, seconds=time.perf_counter() - started)
        if cache and rewrite.decision != "failed":
            row = {"id": question.id, "rewrite": asdict(rewrites[question.id])}
            with cache.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"input": line.fingerprint(rewriter.name), "row": row}) + "\n")
    progress(f"rewriting: {rewriter.name}", len(questions), len(questions))
    return rewrites


def _rewrite_of_row(row: dict[str, Any]) -> Rewrite:
    expansion = tuple(Term(**term) for term in row.pop("expansion"))
    return Rewrite(**row, expansion=expansion)


def rewrites_by_form(
    forms: Iterable[str],
    questions: Sequence[Question],
    open_form: OpenForm,
    progress: Progress = silent,
    cache: Path | None = None,
) -> dict[str, dict[str, Rewrite]]:
    """Rewrite every question with the rewriter of each form; one rewriter is open at a time.

    Rewrites by a language model are cached in the file `cache`: each takes seconds.
    """
    rewrites = {}
    for form in dict.fromkeys(forms):
        with open_form("auto" if form == SERVED else form) as opened:
            rewriter = ServedRewriter(opened, PeopleWriting(questions)) if form == SERVED else opened
            rewrites[form] = collect_rewrites(rewriter, questions, progress, cache if form == "prompted" else None)
    return rewrites


def fits(system: System, chosen: DataSet) -> bool:
    """Whether the set has what the system needs: human rewrites are not everywhere."""
    return system.form != "human" or any(question.rewrite for question in chosen.questions)


def evaluate_sets(
    sets: Sequence[DataSet],
    systems: Sequence[System],
    open_form: OpenForm,
    bench: Bench,
    writer: RunWriter,
    *,
    baseline: str = "",
    timed: int = TIMED_QUESTIONS,
) -> None:
    """`evaluate_set` for each, with the rewriters that the systems name.

    A set without a corpus is asked of the settings' own collection.
    """
    pools: dict[tuple[str, str, str], dict[str, Mapping[str, float]]] = {}
    for eval_set in sets:
        forms = (system.rewriter for system in systems if system.rewriter)
        cache = writer.path(eval_set.name, "prompted.jsonl")
        rewrites = rewrites_by_form(forms, eval_set.judged, open_form, bench.progress, cache)
        own = eval_set.corpus is None
        where = replace(bench, root=bench.settings.home / "collections") if own else bench
        name = bench.settings.collection if own else ""
        scores = evaluate_set(eval_set, systems, rewrites, where, writer, baseline=baseline, name=name, timed=timed)
        for (level, system), values in scores.items() if eval_set.pool else ():
            pools.setdefault((eval_set.pool, level, system), {}).update(values)
    by_id = {question.id: question for eval_set in sets if eval_set.pool for question in eval_set.questions}
    for place, together in pools.items():
        writer.metrics += metrics_of(*place, together, by_id)


def evaluate_set(
    chosen: DataSet,
    systems: Sequence[System],
    rewrites: Mapping[str, Mapping[str, Rewrite]],
    bench: Bench,
    writer: RunWriter,
    *,
    baseline: str = "",
    name: str = "",
    timed: int = TIMED_QUESTIONS,
) -> dict[tuple[str, str], Scores]:
    """Measure `systems` on a set and write everything into the run; the scores by level and system.

    `rewrites` has those of each rewriter that a system names, by question. `name` is the collection, where the
    set brings no corpus of its own. Latencies are taken on `timed` questions, not at all with 0. Raises
    MissingSet where nothing in the set is judged.
    """
    fitting = [system for system in systems if fits(system, chosen)]
    left_out = [system.name for system in systems if not fits(system, chosen)]
    if left_out:
        writer.notes.append(f"{chosen.name} has no human rewrites: {', '.join(left_out)} left out.")
    started = time.monotonic()
    name = name or index_set(chosen, bench)
    with closing(bench.open(name)) as collection:
        judged = judged_in(chosen, collection, writer)
        questions = judged.judged
        searches = {
            system: _search(system, collection, rewrites, questions, bench.settings, bench.reading or bench.reranker)
            for system in fitting
        }
        bench.encoder.prepare(
            (
                bench.encoder.prompt + text
                for system in fitting
                for text in _encoded(searches[system], system, questions, rewrites)
            ),
            lambda done, total: bench.progress(f"{chosen.name}: encoding", done, total),
        )
        rankings = [_rank(searches[system], system, chosen, questions, rewrites, bench.progress) for system in fitting]
        writer.seconds[f"{chosen.name}: search"] = time.monotonic() - started
    scores = measure(judged, questions, rankings, writer)
    by_id = {question.id: question for question in questions}
    for level in judged.levels:
        of_level = {system: values for (name, system), values in scores.items() if name == level.name}
        against = baseline if baseline in of_level else next(iter(of_level), "")
        for tested in TESTED:
            writer.tests += tests_of(chosen.name, level.name, tested, against, of_level, by_id)
    started = time.monotonic()
    for system in fitting if timed else ():
        sample = questions[:: max(1, len(questions) // timed)][:timed]
        writer.latencies.append(_latency(system, name, chosen, sample, rewrites, bench))
    writer.seconds[f"{chosen.name}: latencies"] = time.monotonic() - started
    write_texts(judged, questions, rankings, rewrites, writer)
    return scores


def index_set(chosen: DataSet, bench: Bench) -> str:
    """Index the corpus of a set, if it is not yet, in place of one from elsewhere; the collection's name."""
    from index.indexer import delete_documents, index_paths

    name = slug(chosen.name)[:60]
    corpus = chosen.corpus
    if not isinstance(corpus, Path):
        rows = corpus or ()
        corpus = bench.root.parent / "corpora" / f"{name}.jsonl"
        corpus.parent.mkdir(parents=True, exist_ok=True)
        corpus.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    index_paths(
        bench.root,
        name,
        [corpus],
        bench.encoder,
        store=bench.settings.index.vectors,
        language=bench.settings.index.language,
        passage_tokens=bench.settings.index.passage_tokens,
        progress=lambda now: bench.progress(f"{chosen.name}: indexing", now.done, now.total),
    )
    own = resolved(corpus)
    with closing(bench.open(name)) as collection:
        strangers = [one.id for one in collection.documents() if not Path(one.path).is_relative_to(own)]
    if strangers:
        delete_documents(bench.root, name, strangers, bench.encoder, store=bench.settings.index.vectors)
    return name


def _search(
    system: System,
    collection: Collection,
    rewrites: Mapping[str, Mapping[str, Rewrite]],
    questions: Sequence[Question],
    settings: Settings,
    reranker: Reranker | None,
    patience: float = PATIENCE,
) -> TurnSearch:
    rewriter: Rewriter = PassThroughRewriter()
    if system.form not in ("typed", "context"):
        queries = {(q.conversation, q.text): _rewrite(system, q, rewrites) for q in questions}
        rewriter = KnownRewrites(system.form, queries)
    searched = system.collection(collection)
    return TurnSearch(
        collection=lambda _: searched,
        rewriter=rewriter,
        settings=patient(system.settings(settings), patience),
        reranker=reranker if system.rerank != "never" else None,
    )


def _rewrite(system: System, question: Question, rewrites: Mapping[str, Mapping[str, Rewrite]]) -> Rewrite:
    if system.form == "human":
        return human_rewrite(question)
    return rewrites[system.form][question.id]


def _alone(system: System, question: Question, rewrites: Mapping[str, Mapping[str, Rewrite]]) -> str | None:
    """The text searched for by itself; None where the query variants of a turn are searched."""
    if system.retriever == "variants":
        return None
    if system.form == "typed":
        return question.text
    return context_text(question) if system.form == "context" else _rewrite(system, question, rewrites).text


def _encoded(
    search: TurnSearch,
    system: System,
    questions: Sequence[Question],
    rewrites: Mapping[str, Mapping[str, Rewrite]],
) -> Iterator[str]:
    """The texts that searching will want encoded."""
    if system.retriever == "bm25":
        return
    for question in questions:
        rewrite = search.rewriter.rewrite(question.conversation, question.text)
        plan = search.plan(question.text, question.conversation, rewrite, _alone(system, question, rewrites))
        yield from (query.text for query in plan.variants.queries if query.dense > 0)


def _rank(
    search: TurnSearch,
    system: System,
    chosen: DataSet,
    questions: Sequence[Question],
    rewrites: Mapping[str, Mapping[str, Rewrite]],
    progress: Progress,
) -> Ranking:
    ranking = Ranking(system.name)
    for done, question in enumerate(questions):
        if done % 20 == 0:
            progress(f"{chosen.name}: {system.name}", done, len(questions))
        try:
            hits = _find(search, system, question, rewrites, DEPTH)
        except TurnFailed:
            # On a machine busy with other things; what was read until then is remembered.
            hits = _find(search, system, question, rewrites, DEPTH)
        ranking.add(question, hits)
    progress(f"{chosen.name}: {system.name}", len(questions), len(questions))
    return ranking


def _find(
    search: TurnSearch,
    system: System,
    question: Question,
    rewrites: Mapping[str, Mapping[str, Rewrite]],
    k: int,
) -> list[Hit]:
    return search.find(
        question.text,
        collection="",
        conversation=question.conversation,
        k=k,
        search_for=_alone(system, question, rewrites),
    ).hits


def _latency(
    system: System,
    name: str,
    chosen: DataSet,
    sample: Sequence[Question],
    rewrites: Mapping[str, Mapping[str, Rewrite]],
    bench: Bench,
) -> Latency:
    """Seconds from question to hits. The collection is opened anew: an open one remembers queries."""
    seconds = []
    with closing(bench.open(name, bench.plain)) as collection:
        limit = bench.settings.retrieval.profile.rerank_seconds
        search = _search(system, collection, rewrites, sample, bench.settings, bench.reranker, limit)
        _find(search, system, sample[0], rewrites, DEPTH)
        for question in sample[1:]:
            started = time.perf_counter()
            _find(search, system, question, rewrites, DEPTH)
            elapsed = time.perf_counter() - started
            seconds.append(elapsed + (rewrites[system.form][question.id].seconds if system.rewriter else 0.0))
    return Latency(chosen.name, system.name, *percentiles(seconds), len(seconds))
