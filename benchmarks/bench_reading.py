"""Reading many small files: parsed by processes of their own, against parsed here, in the same run.

    python benchmarks/bench_reading.py [--files 10000] [--rounds 3]

Markdown files of some six hundred bytes are hashed and parsed as indexing does (`index.indexer`), by one
worker and by as many as there are processors, and in this process without any. Rounds alternate, so that what else
the machine does falls on all alike. The least of each is printed, compared with this process. On a machine that
is busy only the processor time tells, of this process and its workers together. Workers are started before the clock: a
server keeps them.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psutil

from index.indexer import FileReader, Quarantine
from index.loaders import load, walk
from index.loaders.addresses import Addresses
from index.loaders.files import SourceFile
from index.loaders.sandbox import Limits, ParserPool


def write(folder: Path, count: int) -> list[SourceFile]:
    """Small pages, a hundred to a folder, no two alike."""
    for n in range(count):
        path = folder / f"{n // 100}" / f"page-{n}.md"
        path.parent.mkdir(exist_ok=True)
        lists = "\n".join(f"- point {k} of page {n}" for k in range(5))
        path.write_text(
            f"---\ntitle: Page {n}\n---\n# Page {n}\n\nParental leave lasts {n} weeks. Send the form by mail.\n\n"
            f"## Who may apply\n\n{lists}\n\n## Fees\n\n| fee | dollars |\n|---|---|\n| a | {n} |\n| b | 2 |\n\n"
            f"```sh\nleave --weeks {n}\n```\n\nThe fee is refundable within thirty days of payment.\n",
            "utf-8",
        )
    return list(walk([folder]))


def here(sources: list[SourceFile], reader: FileReader) -> None:
    for source in sources:
        reader._fingerprint(source.path.resolve())
        load(source.path, source.document_id)


def by_workers(sources: list[SourceFile], reader: FileReader) -> None:
    for _, reading in reader.ahead(sources):
        assert reading.parsed is not None


def processor() -> float:
    """Seconds of processor time of this process and its workers."""
    this = psutil.Process()
    return float(sum(sum(one.cpu_times()[:2]) for one in (this, *this.children())))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, closing(ParserPool(Limits())) as pool:
        folder = Path(name) / "docs"
        folder.mkdir()
        sources = write(folder, args.files)
        most = min(os.cpu_count() or 1, 4)

        def reader(at_once: int) -> FileReader:
            return FileReader(
                pool, Quarantine(Path(name)), {}, "", 64, set(), lambda: False, Addresses(), at_once=at_once
            )

        ways: dict[str, Callable[[list[SourceFile]], None]] = {
            "in this process": lambda some: here(some, reader(1)),
            "1 worker": lambda some: by_workers(some, reader(1)),
            f"{most} workers": lambda some: by_workers(some, reader(most)),
        }
        least: dict[str, float] = {}
        cost: dict[str, float] = {}
        for way in ways.values():
            way(sources[:50])
        for _ in range(args.rounds):
            for name_of, way in ways.items():
                spent, began = processor(), time.perf_counter()
                way(sources)
                took, spent = time.perf_counter() - began, processor() - spent
                cost[name_of] = min(spent, cost.get(name_of, spent))
                least[name_of] = min(took, least.get(name_of, took))
    print("| files read | seconds | files a second | of this process | processor ms a file |\n|---|---|---|---|---|")
    alone = least["in this process"]
    for name_of, took in least.items():
        spent = 1000 * cost[name_of] / args.files
        print(f"| {name_of} | {took:.2f} | {args.files / took:,.0f} | {took / alone:.2f} | {spent:.2f} |")


if __name__ == "__main__":
    main()
