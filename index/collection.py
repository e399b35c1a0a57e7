"""A collection, searched: many weighted queries, two rankings each, one list of hits.

Reading only; `index.indexer` writes. A collection opened here keeps answering from the version it has
until `refresh` moves it to a newer one.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from index.documents import Document, Hit, MetadataValue, Passage, Query, Where
from index.encoders import CachedVectors, Encoder, Vectors
from index.errors import CollectionCorrupt, CollectionMismatch, CollectionNotFound, IndexingError, InvalidName
from index.ranking import (
    CONFIDENCE_RANK,
    DEFAULT_K,
    PLAIN_PLACES,
    Bm25s,
    LexicalIndex,
    document_prior,
    fuse,
    interleave,
    query_confidence,
    stands_elsewhere,
)
from index.records import DocumentInfo, FileRecord, Records
from index.stores import EXACT, Mask, Neighbours, OpenTerms, OpenVectors, StoreSpec, delete_vectors, load_store
from index.version import CollectionFolder, Pace, Version, Watch
from text.recorder import call

__all__ = ["Collection", "CollectionInfo", "DocumentInfo", "delete_collection", "list_collections"]

log = logging.getLogger(__name__)

DEPTH = 100
TRY_AGAIN_SECONDS = 60.0
"""How long nothing is opened again after there was no sound version, unless a new one is written."""


@dataclass(frozen=True, slots=True)
class CollectionInfo:
    """A collection on disk; `updated` in seconds since the epoch. `problem` says which of its files cannot be read.

    Of its `passages` so many as `without_vector` says are found by words alone, because they are not embedded yet.
    """

    name: str
    documents: int
    passages: int
    version: str
    updated: float
    problem: str = ""
    without_vector: int = 0


class _Generation:
    """An open version; its files are closed by `close`, or when nothing refers to it any more."""

    def __init__(self, version: Version, encoder: Encoder, store: StoreSpec, watch: Watch) -> None:
        self.watch = watch
        manifest = version.manifest
        if (manifest.encoder, manifest.dimension) != (encoder.name, encoder.dimension):
            raise CollectionMismatch(
                f"{version.folder} was indexed with the embedding model {manifest.encoder!r}, and {encoder.name!r} "
                "was asked for: index again with this model (the workbench has a button), or name that one as "
                "`index.encoder`"
            )
        if manifest.store != store:
            raise CollectionMismatch(
                f"the vectors of {version.folder} are in the store {manifest.store}, and {store} was asked for: "
                "index again, or correct `index.store` and `index.store_url`"
            )
        if not version.records.is_file():
            raise CollectionCorrupt(f"{version.records} is missing: index again")
        self.manifest = manifest
        self.records = Records(version.records)
        try:
            ids = self.records.passage_ids()
            self._row = {name: row for row, name in enumerate(ids)}
            self.documents = self.records.documents_by_row()
            self.embedded = version.rows_with_vectors()
            held = ids if self.embedded is None else [ids[row] for row in self.embedded]
            self._vectors = load_store(store).open(version.folder, held, manifest.dimension) if ids else None
            self.lexical = self._open_lexical(version)
        except BaseException:
            self.records.close()
            raise
        self.close = weakref.finalize(self, _close, self.records, self._vectors)
        self.close.atexit = False

    def _open_lexical(self, version: Version) -> LexicalIndex:
        if not version.manifest.terms:
            return Bm25s()
        languages = version.manifest.languages
        if isinstance(self._vectors, OpenTerms):
            return self._vectors.terms(languages)
        return Bm25s.load(version.lexical, languages)

    def dense(self, vectors: Sequence[Vectors], k: int, mask: Mask | None) -> list[Neighbours]:
        """Rows by similarity to each vector, best first, with their cosines."""
        if self._vectors is None or not vectors:
            return [Neighbours([], []) for _ in vectors]
        if (embedded := self.embedded) is None:
            return self._vectors.search(np.stack(vectors), k, mask)
        places = self._vectors.search(np.stack(vectors), k, None if mask is None else mask[embedded])
        return [Neighbours(embedded[near.rows].tolist(), near.scores) for near in places]

    def vectors(self, ids: Sequence[str], encode: Callable[[Sequence[str]], Vectors]) -> Vectors:
        """Vectors of these passages, in their order; `encode` makes those that are missing. Raises KeyError."""
        rows = np.array([self._row[name] for name in ids], dtype=np.int64)
        vectors = np.zeros((len(rows), self.manifest.dimension), dtype=np.float32)
        if self._vectors is None or not ids:
            return vectors
        held = np.arange(len(self._row)) if self.embedded is None else self.embedded
        place = np.minimum(np.searchsorted(held, rows), len(held) - 1)
        ready = held[place] == rows
        if ready.any():
            vectors[ready] = self._vectors.take(place[ready].tolist())
        if not ready.all():
            missing = self.records.passages(rows[~ready].tolist())
            vectors[~ready] = encode([passage.indexed_text for passage in missing])
        return vectors


class Collection:
    """An open collection; safe to use from several threads at once."""

    def __init__(self, folder: CollectionFolder, encoder: Encoder, store: StoreSpec) -> None:
        self._folder = folder
        self._encoder = encoder
        self._queries = CachedVectors(encoder, encoder.prompt)
        self._store = store
        self._refreshing = threading.Lock()
        self._named: str | None = None
        self.problem = ""
        """Why an older version than the newest serves, or none, and what to do; empty where the newest does."""
        self._unsound: CollectionCorrupt | CollectionNotFound | None = None
        self._try_again = 0.0
        self._generation = self._open_best()

    @classmethod
    def open(cls, root: Path, name: str, encoder: Encoder, *, store: StoreSpec = EXACT) -> Collection:
        """Open the version that serves; where it is damaged, the newest sound one, and `problem` says so.

        Raises CollectionNotFound, CollectionMismatch (built with another encoder or vector store), StoreUnavailable,
        StorageError (a server does not answer) or CollectionCorrupt.
        """
        return cls(_folder(root, name), encoder, store)

    def _open_best(self) -> _Generation:
        """The best candidate that can be read; `problem` says why it is not the one that should serve."""
        while True:
            named, problems = self._folder.named(), list[str]()
            for candidate in self._folder.candidates():
                try:
                    generation = self._open_version(candidate)
                except CollectionMismatch:
                    if not problems:
                        raise
                    continue
                except (CollectionCorrupt, OSError) as error:
                    problems.append(str(error))
                    continue
                self._named = named
                self.problem = ""
                if not named:
                    problems.append(_no_pointer(self._folder))
                if problems:
                    self.problem = _serves_instead(problems[0], candidate, self._folder)
                    log.warning("%s", self.problem)
                return generation
            # Versions written meanwhile: those that were looked at are gone.
            if self._folder.named() == named:
                self._folder.require()
                raise CollectionCorrupt(f"the collection {self.name!r} cannot be read ({problems[0]}): index again")

    def _open_version(self, name: str) -> _Generation:
        try:
            version = self._folder.version(name)
        except FileNotFoundError as error:
            raise CollectionCorrupt(f"version {name} is incomplete ({error})") from error
        watch = Watch(version.folder, ("manifest.json", *version.manifest.files))
        version.check()
        return _Generation(version, self._encoder, self._store, watch)

    def check(self, pace: Pace | None = None) -> bool:
        """Whether the files of the open version are as they were written; opens another one where they are not.

        Reads them all. Raises CollectionCorrupt where there is no sound version: nothing is found from then on.
        """
        generation = self._generation
        try:
            self._folder.version(generation.manifest.version).check(pace=pace)
        except (FileNotFoundError, CollectionCorrupt):
            self._replace(generation)
            return False
        return True

    def _replace(self, broken: _Generation) -> None:
        """Open the best version in place of a damaged one, unless somebody has by now. Raises as `open` does."""
        with self._refreshing:
            if self._generation is not broken:
                return
            if self._unsound and time.monotonic() < self._try_again:
                raise type(self._unsound)(str(self._unsound))
            try:
                self._move()
            except (CollectionCorrupt, CollectionNotFound) as error:
                self._unsound, self.problem = error, str(error)
                self._try_again = time.monotonic() + TRY_AGAIN_SECONDS
                raise

    def _move(self) -> None:
        # The older one is closed with the last search that began on it.
        self._generation = self._open_best()
        self._unsound = None

    @property
    def sound(self) -> bool:
        """Whether a version serves; False once none could be opened in place of a damaged one."""
        return self._unsound is None

    @property
    def name(self) -> str:
        return self._folder.name

    @property
    def version(self) -> str:
        """Id of the version that is being read."""
        return self._generation.manifest.version

    @property
    def language(self) -> str:
        """The setting by which its words were stemmed."""
        return self._generation.manifest.language

    def refresh(self) -> bool:
        """Move to the version that serves now; False if it is the one already open, and lies there as it did.

        Searches under way finish on the version they began with. Raises as `open` does, and then the
        version at hand stays.
        """
        with self._refreshing:
            if self._folder.named() != self._named:
                self._move()
                return True
            generation = self._generation
        if self._unsound is None and not generation.watch.changed(missing=True):
            return False
        self._replace(generation)
        return True

    def close(self) -> None:
        """Let go of the files; no search may be under way."""
        self._generation.close()

    def _reading(self) -> _Generation:
        """Return the version to read; one whose files changed is replaced first. Hold it as long as it is read."""
        generation = self._generation
        # A mapped file that was cut short ends the process that reads on.
        if self._unsound or generation.watch.changed():
            self._replace(generation)
        return self._generation

    def search(
        self,
        queries: Sequence[Query],
        k: int = 20,
        where: Where | None = None,
        depth: int = DEPTH,
        rrf_k: int = DEFAULT_K,
    ) -> list[Hit]:
        """The `k` best passages, fused from the BM25 and the dense ranking of every query.

        Each ranking contributes its best `depth` passages. `where` limits all of them. Texts that are
        alike are encoded and searched once, and all new texts are encoded in one call. Equal scores
        keep the order of the rankings, so the same call on the same version answers the same.
        """
        queries = [query for query in queries if query.text.strip()]
        if k < 1 or depth < 1 or not queries:
            return []
        with call("encode"):
            texts = list(dict.fromkeys(_clean(query.text) for query in queries if query.dense > 0))
            vectors = dict(zip(texts, self._queries.encode(texts), strict=True))
        generation = self._generation
        try:
            generation = self._reading()
            return _search(generation, queries, vectors, k, where, depth, rrf_k)
        except (CollectionCorrupt, LookupError, ValueError) as error:
            # The files of a version can vanish under a reader that slept through two newer ones, and its store die.
            log.warning("searching %s failed and is tried again: %s", self.name, error)
            if not self.refresh():
                self._replace(generation)
        except IndexingError:
            if not self.refresh():
                raise
        return _search(self._reading(), queries, vectors, k, where, depth, rrf_k)

    def question_vector(self, text: str, encoder: str) -> Vectors | None:
        """The normalised vector that a question is searched by; a question just searched for is not encoded again.

        None where the collection's encoder has another name than `encoder`, or the text is blank.
        """
        if encoder != self._encoder.name or not text.strip():
            return None
        vector: Vectors = self._queries.encode([_clean(text)])[0]
        return vector

    def document(self, document_id: str) -> Document:
        """A document with its whole text; raises DocumentNotFound."""
        generation = self._reading()
        return generation.records.document(document_id)

    def source(self, document_id: str) -> FileRecord:
        """The file a document came from, as it was when it was indexed; raises DocumentNotFound."""
        generation = self._reading()
        return generation.records.source(document_id)

    def passages(self, document_id: str) -> list[Passage]:
        """The passages of a document, in their order; none where it is not there."""
        generation = self._reading()
        return generation.records.passages_of(document_id)

    def documents(self) -> list[DocumentInfo]:
        """All documents, by id."""
        generation = self._reading()
        return generation.records.documents()

    def metadata_values(self, key: str) -> list[MetadataValue]:
        """Every value that passages have of a metadata key, by which `where` finds them."""
        generation = self._reading()
        return generation.records.metadata_values(key)

    def passage_vectors(self, ids: Sequence[str]) -> Vectors:
        """Vectors of these passages, `(len(ids), dimension)` float32, normalised; raises KeyError."""
        generation = self._reading()
        return generation.vectors(ids, self._encoder.encode)


def _close(records: Records, vectors: OpenVectors | None) -> None:
    records.close()
    if vectors is not None:
        vectors.close()


def list_collections(root: Path) -> list[CollectionInfo]:
    """The collections under a root, by name; of a damaged one the newest version that says what it holds."""
    infos: list[CollectionInfo] = []
    for path in sorted(root.iterdir()) if root.is_dir() else []:
        try:
            folder = CollectionFolder(root, path.name)
        except InvalidName:
            continue
        if folder.candidates():
            infos.append(_info(folder))
    return infos


def _info(folder: CollectionFolder) -> CollectionInfo:
    problem = "" if folder.named() else _no_pointer(folder)
    for candidate in folder.candidates():
        try:
            manifest = folder.version(candidate).manifest
        except (FileNotFoundError, CollectionCorrupt) as error:
            problem = problem or str(error)
            continue
        if problem:
            problem = _serves_instead(problem, candidate, folder)
        return CollectionInfo(
            folder.name,
            manifest.documents,
            manifest.passages,
            manifest.version,
            manifest.created,
            problem,
            manifest.without_vector,
        )
    return CollectionInfo(folder.name, 0, 0, "", 0.0, problem)


def _no_pointer(folder: CollectionFolder) -> str:
    return f"the file `current` in {folder.path} is missing or damaged"


def _serves_instead(problem: str, version: str, folder: CollectionFolder) -> str:
    return f"{problem}; version {version} serves until the collection {folder.name!r} is indexed again"


def delete_collection(root: Path, name: str) -> None:
    """Remove a collection from the disk; raises CollectionNotFound or CollectionLocked."""
    folder = _folder(root, name)
    if not folder.path.is_dir():
        raise CollectionNotFound(f"there is no collection {name!r}")
    for path in folder.versions.iterdir() if folder.versions.is_dir() else []:
        try:
            version = folder.version(path.name)
        except (FileNotFoundError, CollectionCorrupt):
            continue
        delete_vectors(version.manifest.store, version.folder)
    folder.remove()


def _folder(root: Path, name: str) -> CollectionFolder:
    try:
        return CollectionFolder(root, name)
    except InvalidName as error:
        raise CollectionNotFound(str(error)) from error


_Ranking: TypeAlias = tuple[str, float, list[int]]
"""A label, a weight, and rows best first."""


def _search(
    generation: _Generation,
    queries: Sequence[Query],
    vectors: dict[str, Vectors],
    k: int,
    where: Where | None,
    depth: int,
    rrf_k: int,
) -> list[Hit]:
    mask = generation.records.mask(where) if where else None
    everywhere = [query for query in queries if not query.within]
    rankings: list[_Ranking] = []
    spoken: list[_Ranking] = []
    typed: list[list[int]] = []
    for query, ranking in _rankings(generation, everywhere, vectors, depth, mask):
        (spoken if query.document_prior_weight > 0 else rankings).append(ranking)
        if query.confidence > 0:
            typed.append(ranking[2])
    strength = max((query.document_prior_weight for query in everywhere), default=0.0)
    for query in queries:
        masks = (generation.records.mask(own) for own in query.within)
        page = next((page for page in masks if page.any()), None)
        both = page if page is None or mask is None else page & mask
        if both is not None and both.any():
            rankings += [ranking for _, ranking in _rankings(generation, [query], vectors, depth, both)]
    with call("fuse") as this:
        document_of = generation.documents.__getitem__
        ranks, certainty = document_prior(spoken, document_of, rrf_k)
        elsewhere = stands_elsewhere(typed, next(iter(ranks), None), document_of)
        weight = 0.0 if elsewhere else strength * certainty * sum(weight for _, weight, _ in rankings)
        best = fuse(rankings, rrf_k, k, ("document", weight, lambda row: ranks.get(document_of(row))))
        if weight > 0:
            best = interleave(best, fuse(rankings, rrf_k, len(PLAIN_PLACES)))[:k]
        this.label(**{name: round(weight, 4) for name, weight, _ in rankings})
    passages = generation.records.passages([fused.id for fused in best])
    return [Hit(passage, fused.score, fused.ranks) for passage, fused in zip(passages, best, strict=True)]


def _rankings(
    generation: _Generation, queries: Sequence[Query], vectors: dict[str, Vectors], depth: int, mask: Mask | None
) -> Iterator[tuple[Query, _Ranking]]:
    """The rankings of queries that all search within the same mask, each with its query."""
    with call("bm25"):
        terms = dict.fromkeys(_clean(query.text) for query in queries if query.lexical > 0)
        lexical = {text: generation.lexical.search(text, depth, mask) for text in terms}
    with call("dense"):
        texts = dict.fromkeys(_clean(query.text) for query in queries if query.dense > 0)
        near = generation.dense([vectors[text] for text in texts], depth, mask)
        dense = dict(zip(texts, near, strict=True))
    for query in queries:
        text, factor = _clean(query.text), 1.0
        if query.confidence > 0 and text in dense:
            factor = query_confidence(dense[text].scores[:CONFIDENCE_RANK], query.confidence)
        if query.lexical > 0:
            yield query, (f"{query.name}/bm25", factor * query.lexical, lexical[text])
        if query.dense > 0:
            nearest = dense[text].rows
            if generation.embedded is not None and text in lexical:
                nearest = _completed(nearest, lexical[text], generation.embedded, generation.manifest.passages)
            yield query, (f"{query.name}/dense", factor * query.dense, nearest)


def _completed(dense: list[int], lexical: list[int], embedded: npt.NDArray[np.int64], passages: int) -> list[int]:
    """Return a dense ranking in which passages without a vector stand where BM25 ranks them.

    `embedded` are the rows that have vectors, ascending. The ranks of these among themselves are stretched to what they
    would be among all `passages`: otherwise whatever is embedded first outranks everything else.
    """
    share = len(embedded) / passages
    places = {row: rank / share for rank, row in enumerate(dense, start=1)}
    vectored = np.isin(lexical, embedded, assume_unique=True).tolist()
    places |= {row: rank for rank, (row, has) in enumerate(zip(lexical, vectored, strict=True), start=1) if not has}
    return sorted(places, key=lambda row: (places[row], row))


def _clean(text: str) -> str:
    """Half a surrogate pair, as JSON can carry it, is no text that a tokenizer takes."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
