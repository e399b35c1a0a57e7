"""Contract of a vector store: a suite that a store's own tests inherit.

class TestMine(VectorStoreContract):
    @pytest.fixture
    def store(self) -> VectorStore:
        return MyStore()
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from index.encoders import Vectors
from index.errors import CollectionCorrupt, IndexingError
from index.stores import Neighbours, OpenVectors, VectorStore

DIMENSION = 32
FIRST = "000001-0000000a"
SECOND = "000002-0000000b"


def passages(count: int = 300) -> tuple[list[str], Vectors]:
    """Ids and vectors that lie in clusters, as those of texts do."""
    random = np.random.default_rng(5)
    centres = random.standard_normal((12, DIMENSION))
    vectors = centres[random.integers(0, 12, count)] + 0.5 * random.standard_normal((count, DIMENSION))
    return [f"passage {number}" for number in range(count)], normalised(vectors)


def normalised(vectors: npt.NDArray[np.floating]) -> Vectors:
    unit: Vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return unit


def nearest(vectors: Vectors, query: Vectors, k: int, rows: Sequence[int] | None = None) -> list[int]:
    """The rows of the highest cosines, by plain sorting."""
    allowed = range(len(vectors)) if rows is None else rows
    return sorted(allowed, key=lambda row: (-float(vectors[row] @ query), row))[:k]


class VectorStoreContract:
    """Inherit it and give `store`; versions are written into `versions`, as a collection would."""

    @pytest.fixture
    def store(self) -> VectorStore:
        raise NotImplementedError("give the store to be tested")

    @pytest.fixture
    def versions(self, store: VectorStore, tmp_path: Path) -> Iterator[Path]:
        folder = tmp_path / "docs" / "versions"
        yield folder
        for name in (FIRST, SECOND):
            store.delete(folder / name)

    def write(self, store: VectorStore, folder: Path, ids: list[str], vectors: Vectors) -> OpenVectors:
        """Write a version and open it."""
        folder.mkdir(parents=True)
        store.write(folder, ids, DIMENSION, lambda rows: vectors[list(rows)])
        return store.open(folder, ids, DIMENSION)

    def remove(self, store: VectorStore, folder: Path) -> None:
        store.delete(folder)
        shutil.rmtree(folder)

    def test_the_nearest_are_found_in_order_with_their_cosines(self, store: VectorStore, versions: Path) -> None:
        ids, vectors = passages()
        opened = self.write(store, versions / FIRST, ids, vectors)
        queries = vectors[:4]
        for query, result in zip(queries, opened.search(queries, 20), strict=True):
            assert len(result.rows) == len(result.scores) == 20
            assert result.rows == nearest(vectors, query, 20)
            assert result.scores == pytest.approx((vectors[result.rows] @ query).tolist(), abs=1e-5)
        opened.close()

    def test_many_queries_are_answered_as_each_alone(self, store: VectorStore, versions: Path) -> None:
        ids, vectors = passages()
        opened = self.write(store, versions / FIRST, ids, vectors)
        together = opened.search(vectors[:6], 10)
        assert [result.rows for result in together] == [opened.search(vectors[n : n + 1], 10)[0].rows for n in range(6)]
        assert opened.search(vectors[:0], 10) == []
        opened.close()

    def test_equal_vectors_come_in_the_order_of_rows(self, store: VectorStore, versions: Path) -> None:
        ids, vectors = passages(40)
        vectors[:] = vectors[0]
        opened = self.write(store, versions / FIRST, ids, vectors)
        assert opened.search(vectors[:1], 40)[0].rows == list(range(40))
        opened.close()

    @pytest.mark.parametrize("share", [0.01, 0.2, 0.9, 1.0])
    def test_a_mask_hides_rows_and_the_rest_are_all_found(
        self, store: VectorStore, versions: Path, share: float
    ) -> None:
        ids, vectors = passages()
        mask = np.zeros(len(ids), dtype=np.bool_)
        mask[np.random.default_rng(2).permutation(len(ids))[: int(share * len(ids))]] = True
        opened = self.write(store, versions / FIRST, ids, vectors)
        (result,) = opened.search(vectors[:1], 12, mask)
        assert result.rows == nearest(vectors, vectors[0], 12, np.flatnonzero(mask).tolist())
        assert opened.search(vectors[:1], 12, np.zeros(len(ids), dtype=np.bool_)) == [Neighbours([], [])]
        opened.close()

    def test_asking_for_more_than_there_is_answers_what_there_is(self, store: VectorStore, versions: Path) -> None:
        ids, vectors = passages(7)
        opened = self.write(store, versions / FIRST, ids, vectors)
        assert sorted(opened.search(vectors[:1], 100)[0].rows) == list(range(7))
        assert opened.search(vectors[:1], 0) == [Neighbours([], [])]
        opened.close()

    def test_vectors_come_back_as_they_were_written(self, store: VectorStore, versions: Path) -> None:
        ids, vectors = passages()
        opened = self.write(store, versions / FIRST, ids, vectors)
        rows = [250, 3, 3, 77]
        stored = opened.take(rows)
        assert stored.dtype == np.float32
        assert np.allclose(stored, vectors[rows], atol=1e-6)
        opened.close()

    @pytest.mark.parametrize("changed", [1, 250])
    def test_an_update_is_found_as_if_it_were_built_anew(
        self, store: VectorStore, versions: Path, changed: int
    ) -> None:
        ids, vectors = passages()
        before = self.write(store, versions / FIRST, ids, vectors)
        # The first passages are gone, so that every row moves; some have new vectors; one is new at the front.
        _, others = passages(600)
        new_ids, new_vectors = ["a new one", *ids[5:]], np.concatenate([others[-1:], vectors[5:]])
        new_vectors[1 : 1 + changed] = others[300 : 300 + changed]
        after = self.write(store, versions / SECOND, new_ids, new_vectors)
        for query in (others[-1], others[300], vectors[0], vectors[200]):
            assert after.search(query[None], 15)[0].rows == nearest(new_vectors, query, 15)
            assert before.search(query[None], 15)[0].rows == nearest(vectors, query, 15), "readers keep their version"
        assert np.allclose(after.take(range(296)), new_vectors, atol=1e-6)
        before.close()
        after.close()

    def test_a_reader_whose_version_is_deleted_answers_as_before_or_says_so(
        self, store: VectorStore, versions: Path
    ) -> None:
        ids, vectors = passages()
        before = self.write(store, versions / FIRST, ids, vectors)
        after = self.write(store, versions / SECOND, ids[:50], vectors[:50])
        self.remove(store, versions / FIRST)
        with suppress(IndexingError):
            assert before.search(vectors[:1], 10)[0].rows == nearest(vectors, vectors[0], 10)
        assert after.search(vectors[:1], 10)[0].rows == nearest(vectors[:50], vectors[0], 10)
        before.close()
        after.close()

    def test_what_is_deleted_or_never_was_cannot_be_opened(self, store: VectorStore, versions: Path) -> None:
        ids, vectors = passages(20)
        (versions / SECOND).mkdir(parents=True)
        with pytest.raises(CollectionCorrupt, match="index again"):
            store.open(versions / SECOND, ids, DIMENSION)
        store.delete(versions / SECOND)
        self.write(store, versions / FIRST, ids, vectors).close()
        self.remove(store, versions / FIRST)
        with pytest.raises(CollectionCorrupt, match="index again"):
            store.open(versions / FIRST, ids, DIMENSION)

    def test_another_number_of_passages_is_a_corrupt_version(self, store: VectorStore, versions: Path) -> None:
        ids, vectors = passages(20)
        self.write(store, versions / FIRST, ids, vectors).close()
        with pytest.raises(CollectionCorrupt, match="index again"):
            store.open(versions / FIRST, [*ids, "one more"], DIMENSION)

    def test_a_write_that_fails_is_passed_on_and_can_be_cleared_away(self, store: VectorStore, versions: Path) -> None:
        ids, vectors = passages(20)
        (versions / FIRST).mkdir(parents=True)

        def interrupted(rows: Sequence[int]) -> Vectors:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            store.write(versions / FIRST, ids, DIMENSION, interrupted)
        self.remove(store, versions / FIRST)
        opened = self.write(store, versions / FIRST, ids, vectors)
        assert opened.search(vectors[:1], 1)[0].rows == [0]
        opened.close()

    def test_threads_get_their_own_answers(self, store: VectorStore, versions: Path) -> None:
        ids, vectors = passages()
        opened = self.write(store, versions / FIRST, ids, vectors)
        with ThreadPoolExecutor(4) as pool:
            rows = list(pool.map(lambda row: opened.search(vectors[row : row + 1], 5)[0].rows, range(40)))
        assert rows == [nearest(vectors, vectors[row], 5) for row in range(40)]
        opened.close()
