"""How long each loader takes for each kind of construct, as files double: 2 a doubling is linear, 4 quadratic.

    python -m benchmarks.bench_loaders [--only .rst .html:list] [--least 32] [--most 4096] [--seconds 2] [--encoder M]

A file is loaded and its sections are split into passages, as indexing does; tokens are counted by `--encoder` (what
`index.encoders.load_encoder` takes), else words are. Times are processor time of this process, the least of two where
they are short. Sizes double from `--least` KiB until a file takes `--seconds` or is `--most` KiB. Each construct is
measured in a process of its own, whose greatest memory is its own too.

Ratios are of the last three doublings. Where the last two are above `LINEAR`, the construct is reported as growing
faster than its size, and the command ends with 1. A file that is refused costs little, and its row says why it is.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.constructs import CONSTRUCTS
from benchmarks.constructs.making import Make
from index.errors import LoadError
from index.loaders import load
from index.passages import split

LINEAR = 3.0
WINDOW = 254
_SURE = 0.1  # seconds; less is noise and the cost of a start
_KIB = 1024
_MOST_MEMORY = 6 << 30


@dataclass
class Growth:
    """What doubling a construct came to: file sizes in KiB, seconds of processor time, and the loader's last word."""

    ending: str
    name: str
    sizes: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    status: str = ""
    peak_mb: float = 0.0

    @property
    def ratios(self) -> list[float]:
        """Of each size to the one before, those too small to tell left out; a doubling that was not one is made one."""
        found = []
        for at in range(1, len(self.seconds)):
            if self.seconds[at] >= _SURE:
                found.append(max(0.0, self.seconds[at]) / max(self.seconds[at - 1], 1e-4))
        return found

    @property
    def linear(self) -> bool:
        """Whether time grows with size: not where the last two doublings, or the only sure one, say otherwise."""
        last = self.ratios[-2:]
        return not last or min(last) < LINEAR


def measure(
    ending: str, name: str, make: Make, sizes: Iterator[int], seconds: float, count: Callable[[str], int]
) -> Growth:
    """Load a construct in growing sizes, in this process."""
    growth = Growth(ending, name)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"corpus{ending}"
        read(_small(path, make), count)
        for size in sizes:
            path.write_bytes(make(size))
            growth.status, took = read(path, count)
            if took < 0.3:
                took = min(took, read(path, count)[1])
            growth.sizes.append(size / _KIB)
            growth.seconds.append(took)
            if took > seconds:
                break
    growth.peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _KIB
    return growth


def read(path: Path, count: Callable[[str], int]) -> tuple[str, float]:
    """What the loader says, and seconds of processor time to load and split the file."""
    began = time.process_time()
    try:
        documents = load(path, path.name, 1024, warn=lambda _: None)
        passages = sum(len(split(document, WINDOW, count)) for document in documents)
        status = f"{passages} passages"
    except LoadError as error:
        status = str(error)[:100]
    except MemoryError:
        status = "MEMORY"
    return status, time.process_time() - began


def _small(path: Path, make: Make) -> Path:
    """A small file of the kind, so that imports are not measured."""
    path.write_bytes(make(256))
    return path


def _child(ending: str, name: str, args: argparse.Namespace, answer: multiprocessing.SimpleQueue[Growth]) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    most = int(60 + 20 * args.seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (most, most))
    if args.encoder:
        from index.encoders import load_encoder

        count = load_encoder(args.encoder).count_tokens
    else:
        count = _words
    sizes = iter([n * _KIB for n in _doubled(args.least, args.most)])
    answer.put(measure(ending, name, CONSTRUCTS[ending][name], sizes, args.seconds, count))


def _words(text: str) -> int:
    return len(text.split())


def _doubled(least: int, most: int) -> Iterator[int]:
    while least <= most:
        yield least
        least *= 2


def chosen(only: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Ending and name of every construct that one of `only` begins, as `.md` or `.md:table`; all where it is empty."""
    for ending, constructs in CONSTRUCTS.items():
        for name in constructs:
            if not only or any(f"{ending}:{name}".startswith(f"{one}:" if ":" not in one else one) for one in only):
                yield ending, name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help=".md, or .md:table for those that begin so")
    parser.add_argument("--least", type=int, default=32, help="KiB")
    parser.add_argument("--most", type=int, default=4096, help="KiB")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--encoder", default="")
    args = parser.parse_args()
    print("| format | construct | KiB | s | ratio | MiB | status |\n|---|---|---|---|---|---|---|")
    faster = []
    for ending, name in chosen(args.only):
        answer: multiprocessing.SimpleQueue[Growth] = multiprocessing.SimpleQueue()
        child = multiprocessing.Process(target=_child, args=(ending, name, args, answer))
        child.start()
        child.join()
        if answer.empty():
            growth = Growth(ending, name, status=f"NEVER ENDED, or died ({child.exitcode})")
        else:
            growth = answer.get()
        if not growth.linear or not growth.seconds:
            faster.append(f"{ending} {name}")
        ratios = " ".join(f"{ratio:.1f}" for ratio in growth.ratios[-3:])
        size = f"{growth.sizes[-1]:.0f}" if growth.sizes else ""
        took = f"{growth.seconds[-1]:.2f}" if growth.seconds else ""
        print(
            f"| {ending} | {name} | {size} | {took} | {ratios} | {growth.peak_mb:.0f} | {growth.status} |", flush=True
        )
    if faster:
        sys.exit("growing faster than their size: " + ", ".join(faster))


if __name__ == "__main__":
    main()
