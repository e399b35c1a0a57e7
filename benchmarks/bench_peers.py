"""Do follow-up questions find their evidence? The typed question, other projects' own steps, and Anaphora.

    python benchmarks/bench_peers.py DATA HOME --peers peers/bin/python --webui webui/bin/python [--dialogs 7]

Prints how many follow-ups have a passage with marked evidence among the first five, in conversations over the
documentation of products that nothing here was trained on. Passages and encoder are the same for all. The language
model of the other projects is one too, by llama.cpp on this machine; `peers.txt` says how to install them, and one
without a PYTHON is left out. The texts that they search for are kept in HOME/eval/peers: a second run, or one over more
dialogs, asks for the rest only. HOME holds the models (`anaphora models fetch`).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import zip_longest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from evaluation.metrics import Estimate, estimate
from evaluation.questions import Question
from evaluation.retrieval import patient
from evaluation.sets import placed
from index.collection import Collection
from index.encoders import Vectors
from index.rerank import Reranker
from papers.bench import Bench, CachedEncoder, cached_reranker, index_set
from papers.datasets import load_set
from papers.systems import context_text
from rewriter.protocol import PassThroughRewriter, Rewriter
from server.chat.loaded_models import Models
from server.registry import resolve
from server.rewriters import open_rewriter
from server.settings import Settings
from server.turn.search import TurnSearch

PRODUCTS = ("helm", "pi-hole")
PROJECTS = {
    "langchain": "LangChain, history-aware retriever",
    "llamaindex": "LlamaIndex, condense plus context",
    "haystack": "Haystack, conversational RAG",
    "openwebui": "Open WebUI, queries of a knowledge base",
}
FIRST, TIMED, CONTEXT_TOKENS = 5, 20, 4096


@dataclass(frozen=True, slots=True)
class FollowUp:
    """A follow-up, the collection that it is asked of, and the passages that hold its evidence."""

    question: Question
    collection: str
    relevant: frozenset[str]


@dataclass(slots=True)
class Row:
    """A way of searching: by question, whether evidence is among the first passages and how much; seconds."""

    name: str
    hit: dict[str, float] = field(default_factory=dict)
    recall: dict[str, float] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)

    def judge(self, turn: FollowUp, ids: Sequence[str]) -> None:
        """Count the passages that were found for a follow-up, best first."""
        right = set(ids[:FIRST]) & turn.relevant
        self.hit[turn.question.id] = float(bool(right))
        self.recall[turn.question.id] = len(right) / len(turn.relevant)


@dataclass(frozen=True, eq=False)
class Searches:
    """Open collections, searched by one encoder."""

    settings: Settings
    collections: Mapping[str, Collection]
    encoder: str
    reranker: Reranker | None

    def dense(self, turn: FollowUp, queries: Iterable[str]) -> list[str]:
        """The passages nearest to any of the queries, as a vector store ranks them."""
        ids, passages = self.passages(turn.collection)
        search = self.collections[turn.collection].question_vector
        vectors = [found for query in queries if (found := search(query, self.encoder)) is not None]
        nearest = (passages @ np.stack(vectors).T).max(axis=1)
        return [ids[place] for place in np.argsort(-nearest, kind="stable")[:FIRST]]

    @cache  # noqa: B019  (there are two of these objects)
    def passages(self, name: str) -> tuple[list[str], Vectors]:
        """The ids of a collection's passages, and their vectors."""
        collection = self.collections[name]
        ids = [passage.id for document in collection.documents() for passage in collection.passages(document.id)]
        return ids, collection.passage_vectors(ids)

    def turn(self, turn: FollowUp, rewriter: Rewriter, text: str | None = None) -> list[str]:
        """The passages of a chat turn; `text` is searched for in place of a rewrite."""
        search = TurnSearch(
            collection=self.collections.__getitem__, rewriter=rewriter, settings=self.settings, reranker=self.reranker
        )
        question = turn.question
        options = {"collection": turn.collection, "conversation": question.conversation, "search_for": text}
        return [hit.passage.id for hit in search.find(question.text, k=FIRST, **options).hits]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("home", type=Path)
    parser.add_argument("--peers", default="", help="Python of the environment with LlamaIndex and Haystack")
    parser.add_argument("--webui", default="", help="Python of the environment with Open WebUI")
    parser.add_argument("--dialogs", type=int, default=7, help="conversations for what needs a language model")
    parser.add_argument("--model", default="qwen2.5-coder-1.5b-instruct")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    settings = patient(Settings(home=args.home))
    pythons = {"langchain": sys.executable, "llamaindex": args.peers, "haystack": args.peers, "openwebui": args.webui}
    models, folder = Models(settings), args.home / "eval"
    with (
        CachedEncoder(models.encoder(), folder / "embeddings.sqlite") as encoder,
        cached_reranker(models.reranker(), folder / "read.sqlite") as reading,
    ):
        bench = Bench(settings, encoder, models.encoder(), models.reranker(), folder / "collections")
        turns = follow_ups(args.data, bench)
        dialogs = in_turn(
            [turn.question.dialog for turn in turns if turn.collection == f"product-{name}"] for name in PRODUCTS
        )
        sample = [turn for name in dialogs[: args.dialogs] for turn in turns if turn.question.dialog == name]
        print(f"{len(turns)} follow-ups of {len(dialogs)} conversations, {len(sample)} of {args.dialogs} in the sample")
        queries = queries_of(sample, {name: python for name, python in pythons.items() if python}, args)
        opened = {name: bench.open(name) for name in {turn.collection for turn in turns}}
        rows, own = measure(Searches(settings, opened, encoder.name, reading), turns, sample, queries)
        for collection in opened.values():
            collection.close()
    plain = {name: bench.open(name, bench.plain) for name in opened}
    timed = Searches(Settings(home=args.home), plain, bench.plain.name, bench.reranker)
    take_times(rows, timed, sample[:: max(1, len(sample) // TIMED)])
    show(rows, own, turns, sample)


def follow_ups(data: Path, bench: Bench) -> list[FollowUp]:
    """The follow-ups whose evidence is in a passage; passages are indexed, where they are not yet."""
    turns = []
    for product in PRODUCTS:
        chosen = load_set(f"product-{product}", data)
        chosen = replace(chosen, questions=tuple(question for question in chosen.questions if question.conversation))
        name = index_set(chosen, bench)
        with closing(bench.open(name)) as collection:
            level = placed(chosen, collection).levels[0]
        turns += [
            FollowUp(question, name, frozenset(judged))
            for question in chosen.questions
            if (judged := level.qrels.get(question.id))
        ]
    return turns


def in_turn(groups: Iterable[Iterable[str]]) -> list[str]:
    """One name of each group after the other, each name once."""
    columns = zip_longest(*(dict.fromkeys(group) for group in groups))
    return [name for column in columns for name in column if name]


def queries_of(
    sample: Sequence[FollowUp], pythons: Mapping[str, str], args: argparse.Namespace
) -> dict[str, dict[str, dict]]:
    """The texts that each project searches for, by follow-up, and the seconds that it took to have them."""
    folder = args.home / "eval" / "peers" / args.model
    folder.mkdir(parents=True, exist_ok=True)
    files = {project: folder / f"{project}.jsonl" for project in pythons}
    rows = {project: read_rows(file) for project, file in files.items()}
    dialogs = dict.fromkeys(turn.question.dialog for turn in sample)
    open_turns = {
        (project, dialog): left
        for dialog in dialogs
        for project in pythons
        if (left := [t for t in sample if t.question.dialog == dialog and t.question.id not in rows[project]])
    }
    if open_turns:
        with language_model(Path(resolve(args.model, args.home)), args.threads) as url:
            # A conversation at a time and its turns in order: the server keeps what it has read of it.
            for (project, dialog), left in open_turns.items():
                print(f"{time.strftime('%X')} {dialog}: {project}", file=sys.stderr)
                script = Path(__file__).with_name("peer_queries.py")
                lines = "".join(json.dumps(line_of(turn.question)) + "\n" for turn in left)
                command = [pythons[project], str(script), project, url]
                answer = subprocess.run(command, input=lines, stdout=subprocess.PIPE, text=True, check=True).stdout
                with files[project].open("a", encoding="utf-8") as file:
                    file.write(answer)
                rows[project] |= {row["id"]: row for row in map(json.loads, answer.splitlines())}
    return rows


def read_rows(file: Path) -> dict[str, dict]:
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    return {row["id"]: row for row in map(json.loads, lines)}


def line_of(question: Question) -> dict[str, object]:
    history = [(message.role, message.text) for message in question.conversation.messages]
    return {"id": question.id, "history": history, "question": question.text}


@contextmanager
def language_model(file: Path, threads: int) -> Iterator[str]:
    """Serve a GGUF file by llama.cpp; the address of its OpenAI API."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(file)
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.n_ctx, params.n_parallel, params.fit_params = CONTEXT_TOKENS, 1, False
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.ui, params.verbosity = False, 1
    server = xllamacpp.Server(params)
    yield f"{server.listening_address}/v1"
    del server


def measure(
    searches: Searches, turns: Sequence[FollowUp], sample: Sequence[FollowUp], queries: Mapping[str, Mapping[str, dict]]
) -> tuple[list[Row], dict[str, Row]]:
    """Search for every follow-up in every way; also the projects' texts in Anaphora's search, by project.

    There the cross-encoder does not read: it would take longer than everything else together.
    """
    plain = PassThroughRewriter()
    packaged = open_rewriter(searches.settings)
    never = searches.settings.model_copy(
        update={"retrieval": searches.settings.retrieval.model_copy(update={"rerank": "never"})}
    )
    unread = replace(searches, settings=never)
    typed, before = Row("the question as typed"), Row("the exchange before and the question")
    ours, fast = Row("**Anaphora**"), Row("Anaphora without its cross-encoder")
    written, both = (
        Row("the question in full, by a person"),
        Row("the same in Anaphora's search, without cross-encoder"),
    )
    for turn in turns:
        question = turn.question
        typed.judge(turn, searches.dense(turn, [question.text]))
        before.judge(turn, searches.dense(turn, [context_text(question)]))
        written.judge(turn, searches.dense(turn, [question.rewrite]))
        fast.judge(turn, unread.turn(turn, packaged))
        ours.judge(turn, searches.turn(turn, packaged))
        both.judge(turn, unread.turn(turn, plain, question.rewrite))
    others, within = [], {}
    for project, rows in queries.items():
        row, own = Row(PROJECTS[project]), Row(f"{PROJECTS[project]}: in Anaphora's search")
        for turn in sample:
            texts = rows[turn.question.id]["queries"]
            row.judge(turn, searches.dense(turn, texts))
            own.judge(turn, unread.turn(turn, plain, texts[0]))
            row.seconds.append(rows[turn.question.id]["seconds"])
        others.append(row)
        within[row.name] = own
    return [typed, before, *others, fast, ours, written, both], within


def take_times(rows: Sequence[Row], searches: Searches, sample: Sequence[FollowUp]) -> None:
    """Seconds of a follow-up where no language model is asked, without any memory; the first one warms up."""
    packaged = open_rewriter(searches.settings)
    by_name = {row.name: row for row in rows}
    for place, turn in enumerate(sample):
        for name, search in (
            ("the question as typed", lambda turn: searches.dense(turn, [turn.question.text])),
            ("**Anaphora**", lambda turn: searches.turn(turn, packaged)),
        ):
            started = time.perf_counter()
            search(turn)
            if place:
                by_name[name].seconds.append(time.perf_counter() - started)


def show(rows: Sequence[Row], within: Mapping[str, Row], turns: Sequence[FollowUp], sample: Sequence[FollowUp]) -> None:
    """Print the tables."""
    sampled, everything = [t.question for t in sample], [t.question for t in turns]
    leaning = [question for question in everything if question.needs_rewrite]
    ours = next(row for row in rows if row.name == "**Anaphora**")
    print(f"\n| searched for | first five, sample ({len(sampled)}) | recall | first five, all ({len(everything)}) "
          f"| … that need their conversation ({len(leaning)}) | Anaphora's lead "
          "| in Anaphora's search, without cross-encoder | seconds, p50 |")  # fmt: skip
    print(f"|{'---|' * 8}")
    for row in rows:
        complete = len(row.hit) == len(everything)
        gained = {name: ours.hit[name] - value for name, value in row.hit.items()}
        lead = mean(gained, everything if complete else sampled)
        cells = [row.name, figure(mean(row.hit, sampled)), f"{mean(row.recall, sampled).mean:.2f}"]
        cells += [figure(mean(row.hit, part)) if complete else "" for part in (everything, leaning)]
        cells += ["" if row is ours else f"{lead.mean:+.2f} ({lead.low:+.2f} to {lead.high:+.2f})"]
        cells += [figure(mean(within[row.name].hit, sampled)) if row.name in within else ""]
        cells += [f"{statistics.median(row.seconds):.2f}" if row.seconds else ""]
        print(f"| {' | '.join(cells)} |")
    by_product = {turn.collection: [t.question for t in turns if t.collection == turn.collection] for turn in turns}
    print(f"\n| searched for | {' | '.join(f'{name} ({len(part)})' for name, part in by_product.items())} |")
    print(f"|{'---|' * (1 + len(by_product))}")
    for row in rows:
        if len(row.hit) == len(everything):
            print(f"| {row.name} | {' | '.join(figure(mean(row.hit, part)) for part in by_product.values())} |")


def mean(values: Mapping[str, float], questions: Sequence[Question]) -> Estimate:
    """The mean over questions, with the interval that drawing whole conversations gives."""
    return estimate([values[question.id] for question in questions], [question.dialog for question in questions])


def figure(value: Estimate) -> str:
    return f"{value.mean:.2f} ({value.low:.2f} to {value.high:.2f})"


if __name__ == "__main__":
    main()
