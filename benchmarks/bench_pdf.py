"""How many pages a second are read: pdfium's text alone, the loader, and a public peer.

    python -m benchmarks.bench_pdf FOLDER [--every 4]

All ways read the same PDFs of a folder, one after the other, in this process; times are its processor time, so that
others on the machine change little. The peer is pdfminer.six with its own layout analysis, where it is installed.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable
from pathlib import Path

from index.loaders import load


def pdfium(path: Path) -> int:
    """The text of all pages as pdfium gives it; how many pages there are."""
    import pypdfium2  # type: ignore[import-untyped]

    pdf = pypdfium2.PdfDocument(path)
    for page in pdf:
        page.get_textpage().get_text_range()
    return len(pdf)


def peer() -> Callable[[Path], object] | None:
    """The text of a file by pdfminer.six, if it can be imported."""
    try:
        read: Callable[[Path], object] = importlib.import_module("pdfminer.high_level").extract_text
    except ModuleNotFoundError:
        return None
    return read


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--every", type=int, default=1, help="take every Nth file")
    options = parser.parse_args()
    paths = sorted(options.folder.rglob("*.pdf"))[:: options.every]
    ways: dict[str, Callable[[Path], object]] = {
        "pdfium's text alone": pdfium,
        "loader": lambda path: load(path, path.name, 1024),
    }
    if (other := peer()) is not None:
        ways["pdfminer.six"] = other
    seconds = dict.fromkeys(ways, 0.0)
    pages = 0
    for path in paths:
        pages += pdfium(path)  # in the cache of files from here on
        for name, way in ways.items():
            began = time.process_time()
            way(path)
            seconds[name] += time.process_time() - began
    print(f"{pages} pages of {len(paths)} files\n\n| way | pages a second | milliseconds a page |\n|---|---|---|")
    for name, took in seconds.items():
        print(f"| {name} | {pages / took:.1f} | {1000 * took / pages:.1f} |")


if __name__ == "__main__":
    main()
