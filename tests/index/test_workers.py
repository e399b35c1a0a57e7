"""Reading and embedding by other processes: what is written is what one process writes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest

from index.errors import IndexingError
from index.indexer import IndexReport, index_paths
from index.records import Records
from index.writer import Workers
from tests.encoder import WordEncoder

T = TypeVar("T")
R = TypeVar("R")

FILES = 40


class PickledWorkers:
    """Workers in this process, who get and give copies; the `last`-th result is never given."""

    def __init__(self, last: int = 0) -> None:
        self._left = last

    def map(self, work: Callable[[T], R], items: Sequence[T], *, gpu: bool = False) -> Iterator[R]:
        there: Callable[[T], R] = pickle.loads(pickle.dumps(work))
        for item in items:
            self._left -= 1
            if not self._left:
                raise IndexingError("a worker was lost")
            yield pickle.loads(pickle.dumps(there(pickle.loads(pickle.dumps(item)))))


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "pages"
    folder.mkdir()
    for number in range(FILES):
        words = " ".join(f"word{number * 7 % 31 + n} costs {n} euros." for n in range(number % 9 + 1))
        (folder / f"page{number:02}.md").write_text(f"# Page {number}\n\n{words}\n\n## More\n\nOf {number}.\n", "utf-8")
    (folder / "broken.docx").write_bytes(b"PK\x03\x04 is no archive")
    return folder


def run(root: Path, docs: Path, workers: Workers | None = None) -> IndexReport:
    return index_paths(root, "docs", [docs], WordEncoder(), workers=workers)


def written(root: Path) -> tuple[list[str], list[bytes], bytes]:
    """Ids and embedding keys of the passages of a collection, and its matrix."""
    folder = root / "docs" / "versions" / (root / "docs" / "current").read_text("utf-8").strip()
    records = Records(folder / "records.sqlite")
    try:
        return records.passage_ids(), records.keys(), np.load(folder / "vectors.npy").tobytes()
    finally:
        records.close()


def test_workers_write_what_one_process_writes(tmp_path: Path, docs: Path) -> None:
    alone, shared = run(tmp_path / "alone", docs), run(tmp_path / "shared", docs, PickledWorkers())
    assert shared.files == alone.files
    assert [(file.document_id, file.status) for file in shared.files if file.status != "indexed"] == [
        ("broken.docx", "failed")
    ]
    assert shared.embedded == alone.embedded > FILES
    assert written(tmp_path / "shared") == written(tmp_path / "alone")


def test_what_lost_workers_had_embedded_is_kept(tmp_path: Path, docs: Path) -> None:
    whole = run(tmp_path / "alone", docs).embedded
    with pytest.raises(IndexingError, match="lost"):
        run(tmp_path / "shared", docs, PickledWorkers(last=FILES + 3))
    again = run(tmp_path / "shared", docs, PickledWorkers())
    assert 0 < again.embedded < whole
    assert written(tmp_path / "shared") == written(tmp_path / "alone")
