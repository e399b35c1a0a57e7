"""A million passages: their vectors in the stores of this machine, and a collection of them.

How long they take to build, what they take of memory, and how fast they are searched.

    python benchmarks/bench_million.py --vectors VERSION/vectors.npy ... --texts corpus.jsonl ... --home FOLDER
        [--passages 1000000] [--vectors-only N] [--queries 200] [--cpu]

The passages are made of real ones: each text of three sentences of two of them, each vector of two real vectors and
noise, so that both have the terms and the neighbours of real ones, and belong together no more than any two. So times
and sizes are those of real passages, and quality is not measured but for how many of the nearest vectors are found.
Embedding is left out. Building and searching are processes of their own, of one thread. Prints Markdown.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from index.collection import Collection
from index.documents import Document, Query, Section
from index.encoders import Vectors
from index.indexer import index_documents
from index.stores import StoreSpec, load_store
from index.version import CollectionFolder
from index.writer import IndexProgress

T = TypeVar("T")

QUANTISED = StoreSpec("quantised")
IN_DOCUMENT = 20
K = 100


class JitterEncoder:
    """Vectors in the neighbourhood of real ones; not of the text."""

    name = "jitter"
    max_tokens = 512
    prompt = ""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._real = np.concatenate([np.load(path) for path in paths])
        self.dimension = self._real.shape[1]
        self._random = np.random.default_rng(7)

    def encode(self, texts: Sequence[str]) -> Vectors:
        first, second = (self._real[self._random.integers(0, len(self._real), len(texts))] for _ in range(2))
        noise = self._random.standard_normal((len(texts), self.dimension), dtype=np.float32) / self.dimension**0.5
        made = first + 0.4 * second + 0.4 * noise
        vectors: Vectors = made / np.linalg.norm(made, axis=1, keepdims=True)
        return vectors

    def count_tokens(self, text: str) -> int:
        return len(text) // 4


def sentences(paths: Sequence[Path]) -> list[list[str]]:
    """The sentences of each text that has at least three."""
    rows = (json.loads(line)["text"] for path in paths for line in path.read_text("utf-8").splitlines())
    split = ([one for one in re.split(r"(?<=[.!?])\s+", text) if 20 <= len(one) <= 200] for text in rows)
    return [found for found in split if len(found) >= 3]


def documents(texts: Sequence[list[str]], passages: int) -> Iterator[Document]:
    choose = random.Random(5)
    for number in range(passages // IN_DOCUMENT):
        text, sections = "", []
        for part in range(IN_DOCUMENT):
            words = [*choose.sample(choose.choice(texts), 2), choose.choice(choose.choice(texts))]
            began, text = len(text), text + " ".join(words) + "\n"
            sections.append(Section((f"Part {part}",), began, len(text) - 1))
        yield Document(f"{number:06}", f"Document {number}", text, tuple(sections))


def questions(texts: Sequence[list[str]], count: int) -> list[str]:
    """Some words of a sentence, as people ask them."""
    choose = random.Random(3)
    found = []
    for _ in range(count):
        words = choose.choice(choose.choice(texts)).split()
        start = choose.randrange(max(1, len(words) - 8))
        found.append(" ".join(words[start : start + 8]))
    return found


def build(args: argparse.Namespace) -> None:
    stages: dict[str, float] = {}
    began = time.perf_counter()

    def report(now: IndexProgress) -> None:
        stages.setdefault(now.stage, time.perf_counter() - began)

    encoder, made = JitterEncoder(args.vectors), documents(sentences(args.texts), args.passages)
    index_documents(args.home, "million", made, encoder, store=QUANTISED, progress=report)
    whole = time.perf_counter() - began
    (folder,) = (version.folder for version in CollectionFolder(args.home, "million").sound())
    sizes = {
        name: sum(path.stat().st_size for path in folder.glob(pattern) if path.is_file()) / 1e6
        for name, pattern in (("records", "records*"), ("words", "lexical/*"), ("vectors", "vectors.npy"),
                              ("signs", "vectors.signs.npy"))
    }  # fmt: skip
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print("| build | figure |\n|---|---|")
    print(f"| passages | {args.passages:,} |")
    print(f"| seconds: cutting and staging, vectors, saving | {stages['embedding']:.0f}, "
          f"{stages['saving'] - stages['embedding']:.0f}, {whole - stages['saving']:.0f} |")  # fmt: skip
    print(f"| processor seconds | {time.process_time():.0f} |\n| largest memory, MiB | {peak:,.0f} |")
    print(f"| MB on disk: {', '.join(sizes)} | {', '.join(f'{size:,.0f}' for size in sizes.values())} |\n")


def memory(kind: str) -> float:
    """MiB of this process that are `Anon` or `File`."""
    status = Path("/proc/self/status").read_text("utf-8")
    return int(re.findall(rf"Rss{kind}:\s+(\d+) kB", status)[0]) / 1024


class Times:
    """Milliseconds by what took them; of the processor where other work goes on."""

    def __init__(self, *, cpu: bool) -> None:
        self._clock = time.process_time if cpu else time.perf_counter
        self._rows: dict[str, list[float]] = {}

    def of(self, name: str, work: Callable[[], T]) -> T:
        began = self._clock()
        found = work()
        self._rows.setdefault(name, []).append(1000 * (self._clock() - began))
        return found

    def show(self, passages: int) -> None:
        print(f"| search of {passages:,} passages | p50 ms | p95 ms |\n|---|---|---|")
        for name, times in self._rows.items():
            print(f"| {name} | {np.percentile(times, 50):.1f} | {np.percentile(times, 95):.1f} |")


def vectors(args: argparse.Namespace) -> None:
    encoder, folder = JitterEncoder(args.vectors), args.home / "vectors"
    folder.mkdir(parents=True, exist_ok=True)
    ids = [str(row) for row in range(args.vectors_only or args.passages)]
    began = time.process_time()
    load_store(QUANTISED).write(folder, ids, encoder.dimension, lambda rows: encoder.encode([""] * len(rows)))
    built = time.process_time() - began
    before, times, common = memory("Anon"), Times(cpu=args.cpu), []
    quantised, exact = (load_store(StoreSpec(name)).open(folder, ids, encoder.dimension)
                        for name in ("quantised", "exact"))  # fmt: skip
    asked = encoder.encode(["?"] * (args.queries + 6))
    for number in range(args.queries):
        one, six = asked[number : number + 1], asked[number : number + 6]
        quick = times.of("quantised, one leg", lambda one=one: quantised.search(one, K))
        mapped = memory("File")
        times.of("quantised, six legs", lambda six=six: quantised.search(six, K))
        if number % 10 == 0:
            best = times.of("exact, one leg", lambda one=one: exact.search(one, K))
            times.of("exact, six legs", lambda six=six: exact.search(six, K))
            common.append(len(set(quick[0].rows) & set(best[0].rows)) / K)
        if not number:
            print(f"After its first search the quantised store has {mapped:,.0f} MiB of files mapped.")
    print(f"Written in {built:.0f} s of processor time, of which making the vectors is the larger part: "
          f"{(folder / 'vectors.npy').stat().st_size / 1e6:,.0f} MB, signs "
          f"{(folder / 'vectors.signs.npy').stat().st_size / 1e6:,.0f} MB; {memory('Anon') - before:,.0f} MiB of "
          f"memory of its own; of the best {K} by exact search it found {np.mean(common):.4f}.\n")  # fmt: skip
    times.show(len(ids))
    print(flush=True)


def search(args: argparse.Namespace) -> None:
    encoder, texts, times = JitterEncoder(args.vectors), sentences(args.texts), Times(cpu=args.cpu)
    before = memory("Anon")
    collection = Collection.open(args.home, "million", encoder, store=QUANTISED)
    told = questions(texts, args.queries + 6)
    collection.search([Query(told[-1])])
    for number in range(args.queries):
        legs = [Query(text) for text in told[number : number + 5]]
        times.of("BM25, one question", lambda legs=legs: collection.search([Query(legs[0].text, dense=0.0)]))
        times.of("one question, both rankings", lambda legs=legs: collection.search(legs[:1]))
        times.of("five legs, both rankings", lambda legs=legs: collection.search(legs))
    times.show(args.passages)
    print(f"\nOpen and searched, the collection takes {memory('Anon') - before:,.0f} MiB of its own, and "
          f"{memory('File'):,.0f} MiB of files are mapped.")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=Path, nargs="+", required=True)
    parser.add_argument("--texts", type=Path, nargs="+", required=True)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--passages", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--cpu", action="store_true", help="processor time, where other work goes on")
    parser.add_argument("--vectors-only", type=int, default=0, metavar="N", help="so many vectors, and no collection")
    parser.add_argument("--step", choices=["vectors", "build", "search"], help="this one alone, in this process")
    args = parser.parse_args()
    if args.step:
        {"vectors": vectors, "build": build, "search": search}[args.step](args)
        return
    for step in ("vectors",) if args.vectors_only else ("vectors", "build", "search"):
        one_thread = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        subprocess.run([sys.executable, *sys.argv, "--step", step], check=True, env=one_thread)


if __name__ == "__main__":
    main()
