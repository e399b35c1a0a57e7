"""Hybrid search against LangChain's EnsembleRetriever over rank-bm25 and Chroma, on the same real text.

    python benchmarks/bench_search.py --data DATA --cache CACHE --model MODEL [--sizes 2200 15000 100000]

`--data` is a folder with `doc2dial/` and `mtrag/` (BEIR-style JSON lines) and `text/docs_prose.txt.gz`;
`--model` an embedding model that `index.encoders.load_encoder` takes. The pool is all doc2dial sections,
filled up with sentences of documentation and of the MTRAG corpora. Vectors are computed once, by the real
model, and kept in `--cache`, so a run that is stopped goes on where it was.

Both systems get the same passages, vectors, query vectors and depth; embedding is left out of all times.
Each is built and queried in a process of its own, whose peak memory is its own too. `langchain` gives
rank-bm25 our terms, which makes it faster and better than `langchain-default`, which splits at blanks as
LangChain's BM25Retriever does by itself.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.metrics import evaluate
from index.collection import Collection
from index.documents import Document, Passage, Query, Section
from index.encoders import Encoder, Vectors, load_encoder
from index.indexer import index_documents
from index.passages import split
from index.records import embedding_key
from index.writer import VectorJournal
from papers.datasets import read_qrels
from text.sentences import sentence_spans
from text.words import tokenize

DEPTH = 100
TIMED = 20
SHORTEST, LONGEST = 30, 400
PER_DOCUMENT = 100
CHUNK = 256
SYSTEMS = ("anaphora", "langchain", "langchain-default")


@dataclass
class CachedEncoder:
    """Answers from the cache only: what is timed here is everything but the model."""

    name: str
    dimension: int
    max_tokens: int
    journal: VectorJournal
    prompt: str = ""

    def encode(self, texts: Sequence[str]) -> Vectors:
        return np.stack([self.journal.get(embedding_key(text)) for text in texts])

    def count_tokens(self, text: str) -> int:
        return len(text.split())


def rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def sections(data: Path) -> list[Document]:
    """doc2dial's sections, each a passage as it stands."""
    grouped: dict[str, list[dict[str, Any]]] = {}
    for row in rows(data / "doc2dial" / "sections.jsonl"):
        grouped.setdefault(row["metadata"]["doc_id"], []).append(row)
    return [
        verbatim(
            name, found[0]["title"], [(row["_id"], row["text"], row["metadata"].get("heading", "")) for row in found]
        )
        for name, found in grouped.items()
    ]


def verbatim(name: str, title: str, passages: Sequence[tuple[str, str, str]]) -> Document:
    parts: list[Section] = []
    at = 0
    for identifier, text, heading in passages:
        parts.append(Section((heading,) if heading else (), at, at + len(text), passage_id=identifier))
        at += len(text) + 1
    return Document(name, title, "\n".join(text for _, text, _ in passages), tuple(parts), verbatim=True)


def sentences(data: Path) -> Iterator[str]:
    """Sentences of real documentation, each once."""
    seen: set[str] = set()
    with gzip.open(data / "text" / "docs_prose.txt.gz", "rt", encoding="utf-8") as lines:
        prose = [line.strip() for line in lines if line.strip()]
    texts = (row["text"] for part in ("govt", "cloud") for row in rows(data / "mtrag" / part / "corpus.jsonl"))
    for text in (*prose, *texts):
        for start, end in sentence_spans(text):
            sentence = " ".join(text[start:end].split())
            if SHORTEST <= len(sentence) <= LONGEST and sentence not in seen:
                seen.add(sentence)
                yield sentence


def pool(data: Path, size: int) -> list[Document]:
    documents = sections(data)
    missing = max(0, size - sum(len(document.sections) for document in documents))
    filler = list(islice(sentences(data), missing))
    for start in range(0, len(filler), PER_DOCUMENT):
        part = filler[start : start + PER_DOCUMENT]
        named = [(f"sentence-{start + number}", text, "") for number, text in enumerate(part)]
        documents.append(verbatim(f"prose-{start}", "", named))
    return documents


def passages_of(documents: Sequence[Document]) -> list[Passage]:
    return [passage for document in documents for passage in split(document, 10_000, lambda text: len(text.split()))]


def questions(data: Path) -> dict[str, str]:
    return {row["_id"]: row["text"] for row in rows(data / "doc2dial" / "queries.jsonl")}


def fill_cache(texts: Sequence[str], encoder: Encoder, journal: VectorJournal) -> None:
    known = journal.keys()
    missing = {key: text for text in texts if (key := embedding_key(text)) not in known}
    began, done = time.monotonic(), 0
    # Long texts first, so that the estimate only gets better.
    todo = sorted(missing.items(), key=lambda item: -len(item[1]))
    for start in range(0, len(todo), CHUNK):
        part = todo[start : start + CHUNK]
        journal.add([key for key, _ in part], encoder.encode([text for _, text in part]))
        done += len(part)
        print(f"\rencoded {done}/{len(todo)}, {done / (time.monotonic() - began):.0f}/s", end="", file=sys.stderr)
    if todo:
        print(file=sys.stderr)


Search = Callable[[str, int], list[str]]
"""Ids of the best so many passages for a question."""


def peak_memory() -> float:
    """The highest resident memory of this process so far, in MiB.

    Not `ru_maxrss`, which a child process inherits from the one that started it.
    """
    status = Path("/proc/self/status").read_text("ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def build_anaphora(documents: list[Document], encoder: CachedEncoder, folder: Path) -> Search:
    index_documents(folder, "pool", documents, encoder)
    collection = Collection.open(folder, "pool", encoder)
    return lambda text, k: [hit.passage.id for hit in collection.search([Query(text)], k=k, depth=DEPTH)]


def build_langchain(
    documents: list[Document], encoder: CachedEncoder, folder: Path, terms: Callable[[str], list[str]]
) -> Search:
    from langchain_chroma import Chroma
    from langchain_classic.retrievers import EnsembleRetriever
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.documents import Document as LangChainDocument
    from langchain_core.embeddings import Embeddings
    from langchain_core.retrievers import BaseRetriever
    from rank_bm25 import BM25Okapi

    class Cached(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [vector.tolist() for vector in encoder.encode(texts)]

        def embed_query(self, text: str) -> list[float]:
            vector: list[float] = encoder.encode([text])[0].tolist()
            return vector

    class Bm25Retriever(BaseRetriever):
        """As langchain-community's BM25Retriever: rank-bm25's scores of every document, then the best."""

        vectorizer: Any
        docs: list[LangChainDocument]

        def _get_relevant_documents(
            self, query: str, *, run_manager: CallbackManagerForRetrieverRun
        ) -> list[LangChainDocument]:
            best: list[LangChainDocument] = self.vectorizer.get_top_n(terms(query), self.docs, n=DEPTH)
            return best

    passages = passages_of(documents)
    docs = [
        LangChainDocument(id=passage.id, page_content=passage.indexed_text, metadata={"id": passage.id})
        for passage in passages
    ]
    bm25 = Bm25Retriever(vectorizer=BM25Okapi([terms(doc.page_content) for doc in docs]), docs=docs)
    store = Chroma(collection_name="pool", embedding_function=Cached(), persist_directory=str(folder))
    for start in range(0, len(docs), 1000):
        store.add_documents(docs[start : start + 1000])
    dense = store.as_retriever(search_kwargs={"k": DEPTH})
    ensemble = EnsembleRetriever(retrievers=[bm25, dense], weights=[0.5, 0.5], c=60, id_key="id")
    return lambda text, k: [doc.metadata["id"] for doc in ensemble.invoke(text)[:k]]


def measure(args: argparse.Namespace) -> None:
    """One system at one size, in this process; prints what it measured as JSON."""
    journal = VectorJournal(args.cache / "vectors.sqlite", args.encoder, args.dimension)
    encoder = CachedEncoder(args.encoder, args.dimension, 256, journal)
    documents = pool(args.data, args.measure_size)
    asked = questions(args.data)
    qrels = read_qrels(args.data / "doc2dial" / "qrels.section.tsv")
    judged = dict(islice(((name, qrels[name]) for name in list(qrels)[:: args.every]), None))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        began = time.perf_counter()
        if args.measure == "anaphora":
            search = build_anaphora(documents, encoder, Path(folder))
        else:
            terms = tokenize if args.measure == "langchain" else str.split
            search = build_langchain(documents, encoder, Path(folder), terms)
        built = time.perf_counter() - began
        # The untimed pass for quality warms both up: files are read and query vectors are at hand.
        run = {name: search(asked[name], DEPTH) for name in judged}
        seconds: list[float] = []
        for name in judged:
            began = time.perf_counter()
            search(asked[name], TIMED)
            seconds.append(time.perf_counter() - began)
        size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    quality = evaluate(run, judged, ["AP", "R@5", "R@20"])
    cuts = statistics.quantiles(seconds, n=20)
    result = {
        "passages": sum(len(document.sections) for document in documents),
        "build": built,
        "peak": peak_memory(),
        "disk": size / 1024 / 1024,
        "p50": statistics.median(seconds) * 1000,
        "p95": cuts[-1] * 1000,
        "questions": len(judged),
        **quality,
    }
    print(json.dumps(result))


def report(results: list[tuple[str, dict[str, float]]]) -> None:
    questions = results[0][1]["questions"]
    print(f"{questions:.0f} questions; times are of the best {TIMED} passages, MAP of the best {DEPTH}.\n")
    print("| passages | system | build, s | peak memory, MiB | disk, MiB | p50, ms | p95, ms | MAP | R@5 | R@20 |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for system, row in results:
        print(
            f"| {row['passages']:.0f} | {system} | {row['build']:.1f} | {row['peak']:.0f} | {row['disk']:.0f} "
            f"| {row['p50']:.2f} | {row['p95']:.2f} | {row['AP']:.3f} | {row['R@5']:.3f} | {row['R@20']:.3f} |"
        )
    by_size: dict[float, dict[str, dict[str, float]]] = {}
    for system, row in results:
        by_size.setdefault(row["passages"], {})[system] = row
    for size, systems in by_size.items():
        for name in sorted(systems.keys() - {"anaphora"}) if "anaphora" in systems else []:
            ours, theirs = systems["anaphora"], systems[name]
            print(
                f"\n{size:.0f} passages, against {name}: {theirs['p50'] / ours['p50']:.1f} times faster at p50, "
                f"{theirs['p95'] / ours['p95']:.1f} at p95; build {theirs['build'] / ours['build']:.2f}, "
                f"memory {theirs['peak'] / ours['peak']:.2f}, MAP {ours['AP'] - theirs['AP']:+.3f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--model", default="sentence-transformers/all-MiniLM-L6-v2")
    parser.add_argument("--sizes", type=int, nargs="+", default=[2200, 15000, 100000])
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--every", type=int, default=5, help="ask every n-th doc2dial question")
    parser.add_argument("--encode-only", action="store_true", help="fill the cache and stop")
    parser.add_argument("--measure", choices=SYSTEMS, help=argparse.SUPPRESS)
    parser.add_argument("--measure-size", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--encoder", help=argparse.SUPPRESS)
    parser.add_argument("--dimension", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        measure(args)
        return
    args.cache.mkdir(parents=True, exist_ok=True)
    encoder = load_encoder(args.model)
    journal = VectorJournal(args.cache / "vectors.sqlite", encoder.name, encoder.dimension)
    fill_cache(list(questions(args.data).values()), encoder, journal)
    for size in sorted(args.sizes):
        fill_cache([passage.indexed_text for passage in passages_of(pool(args.data, size))], encoder, journal)
    journal.close()
    if args.encode_only:
        return
    results: list[tuple[str, dict[str, float]]] = []
    for size in args.sizes:
        for system in args.systems:
            print(f"{system} at {size}", file=sys.stderr)
            command = [sys.executable, __file__, "--data", args.data, "--cache", args.cache, "--every", args.every]
            command += ["--measure", system, "--measure-size", size]
            command += ["--encoder", encoder.name, "--dimension", encoder.dimension]
            done = subprocess.run([str(part) for part in command], check=True, stdout=subprocess.PIPE, text=True)
            results.append((system, json.loads(done.stdout.splitlines()[-1])))
    report(results)


if __name__ == "__main__":
    main()
