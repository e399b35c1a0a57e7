"""Vector stores against each other, over vectors of real sentences: build, update, search, disk.

    python benchmarks/bench_stores.py --data DATA --encoder FOLDER --cache FILE [--sizes 2000 15000 100000]
        [--stores exact quantised chroma=http://localhost:8000] [--queries 200]

`--data` is a folder with `doc2dial/`, `text/` and `mtrag/`, whose sentences are encoded once and kept in `--cache`; an
interrupted run goes on there. Never measured with random vectors: they have no neighbours, and a graph search over
them finds half. Stores answer the same queries in turns, so that what else the machine does hits all of them; compare
rows of one run only. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from index.encoders import Vectors, load_encoder
from index.stores import OpenVectors, StoreSpec, VectorStore, load_store

K = 100
LEGS = 6
DOCUMENT = 10
"""Passages of the document that an update changes."""


def sentences(data: Path) -> Iterator[str]:
    """Sentences of documentation, of one to a few lines."""
    texts = [gzip.decompress((data / "text" / "docs_prose.txt.gz").read_bytes()).decode("utf-8")]
    for name in ("doc2dial/spans.jsonl", "mtrag/govt/corpus.jsonl", "mtrag/cloud/corpus.jsonl"):
        texts.extend(json.loads(line)["text"] for line in (data / name).read_text("utf-8").splitlines())
    for text in texts:
        yield from re.split(r"(?<=[.!?])\s+|\n", text)


def encoded(data: Path, encoder: str, cache: Path, count: int) -> Vectors:
    """Vectors of `count` different sentences, `(count, dimension)` float32."""
    model = load_encoder(encoder)
    texts = [text for text in dict.fromkeys(text.strip() for text in sentences(data)) if 20 <= len(text) <= 160]
    random.Random(7).shuffle(texts)
    if len(texts) < count:
        raise SystemExit(f"{data} holds {len(texts)} sentences, and {count} are needed: give smaller --sizes")
    with cache.open("ab") as file:
        done = file.tell() // (4 * model.dimension)
        for start in range(done, count, 512):
            file.write(model.encode(texts[start : start + 512]).tobytes())
            file.flush()
            print(f"encoded {min(start + 512, count):,} of {count:,}", end="\r", flush=True)
    return np.fromfile(cache, dtype=np.float32).reshape(-1, model.dimension)[:count]


class Candidate:
    """One store with two versions: built, and updated by one document."""

    def __init__(self, name: str, folder: Path, vectors: Vectors) -> None:
        self.name = name
        self.store: VectorStore = load_store(StoreSpec(*name.split("=", 1)))
        ids = [f"{row:032x}" for row in range(len(vectors))]
        self.build = self._write(folder / "000001-00000000", ids, vectors)
        changed = range(len(vectors) // 2, len(vectors) // 2 + DOCUMENT)
        new_ids = [f"{row:032x}" if row not in changed else f"new {row}" for row in range(len(vectors))]
        after = folder / "000002-00000000"
        self.update = self._write(after, new_ids, vectors)
        began = time.perf_counter()
        self.vectors: OpenVectors = self.store.open(after, new_ids, vectors.shape[1])
        self.open = time.perf_counter() - began
        self.megabytes = sum(path.stat().st_size for path in after.rglob("*") if path.is_file()) / 1e6

    def _write(self, folder: Path, ids: Sequence[str], vectors: Vectors) -> float:
        folder.mkdir(parents=True)
        began = time.perf_counter()
        self.store.write(folder, ids, vectors.shape[1], lambda rows: vectors[list(rows)])
        return time.perf_counter() - began

    def milliseconds(self, queries: Vectors, mask: np.ndarray | None = None) -> float:
        began = time.perf_counter()
        self.vectors.search(queries, K, mask)
        return 1000 * (time.perf_counter() - began)


def measure(candidates: Sequence[Candidate], vectors: Vectors, queries: Vectors) -> list[list[str]]:
    """A row for each store."""
    choose = np.random.default_rng(3)
    half, few = (choose.random(len(vectors)) < share for share in (0.5, 0.01))
    times: dict[str, dict[str, list[float]]] = {one.name: {} for one in candidates}
    found: dict[str, list[set[int]]] = {one.name: [] for one in candidates}
    for row in range(len(queries) - LEGS):
        for one in candidates:
            kinds = {"one": (queries[row : row + 1], None), "turn": (queries[row : row + LEGS], None)}
            if row % 10 == 0:
                kinds |= {"half": (queries[row : row + 1], half), "few": (queries[row : row + 1], few)}
            for kind, (asked, mask) in kinds.items():
                times[one.name].setdefault(kind, []).append(one.milliseconds(asked, mask))
            found[one.name].append(set(one.vectors.search(queries[row : row + 1], K)[0].rows))
    best = [set(np.argpartition(-(vectors @ query), K)[:K].tolist()) for query in queries[: -LEGS or None]]
    table = []
    for one in candidates:
        mine = times[one.name]
        recall = np.mean([len(a & b) / K for a, b in zip(found[one.name], best, strict=True)])
        cells = [f"{len(vectors):,}", one.name, f"{one.build:.2f}", f"{one.update:.2f}", f"{one.open:.3f}"]
        cells += [f"{np.percentile(mine['one'], share):.2f}" for share in (50, 95)]
        cells += [f"{np.percentile(mine['turn'], share):.1f}" for share in (50, 95)]
        cells += [f"{np.median(mine[kind]):.1f}" for kind in ("half", "few")]
        table.append([*cells, f"{one.megabytes:.0f}", f"{recall:.3f}"])
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--sizes", type=int, nargs="+", default=[2000, 15_000, 100_000])
    parser.add_argument("--stores", nargs="+", default=["exact", "quantised"])
    parser.add_argument("--queries", type=int, default=200)
    args = parser.parse_args()
    every = encoded(args.data, args.encoder, args.cache, max(args.sizes) + args.queries)
    queries = every[-args.queries :]
    heads = ["passages", "store", "build s", "update s", "open s", "p50 ms", "p95 ms", f"{LEGS} legs p50", "p95"]
    heads += ["half p50", "1 % p50", "MB", f"recall@{K}"]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for size in args.sizes:
        folder = Path(tempfile.mkdtemp(prefix="stores-"))
        try:
            candidates = [Candidate(name, folder / name, every[:size]) for name in args.stores]
            for row in measure(candidates, every[:size], queries):
                print(f"| {' | '.join(row)} |", flush=True)
            for one in candidates:
                one.vectors.close()
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
