"""Which vector store a collection uses: one of those that come with Anaphora, or an entry point."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from index.errors import StoreUnavailable
from index.stores.protocol import VectorStore
from text.plugins import PluginError, load_plugin

_BUILT_IN = {"exact": "ExactStore", "quantised": "QuantisedStore", "chroma": "ChromaStore", "milvus": "MilvusStore"}
GROUP = "anaphora.vector_stores"
"""Entry points of this group are called with `StoreSpec.url` and return a `VectorStore`."""


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """Which vector store, and where.

    `name` is `exact`, `quantised`, `chroma`, `milvus`, or that of an entry point; `url` its server's address, if any.
    Milvus without one lies in the version's own folder.
    """

    name: str = "exact"
    url: str = ""

    def __str__(self) -> str:
        return f"{self.name} at {self.url}" if self.url else self.name


EXACT = StoreSpec()


def load_store(spec: StoreSpec) -> VectorStore:
    """The store of a spec. Raises StoreUnavailable where there is none of that name or it cannot be loaded."""
    store: VectorStore
    if spec.name in _BUILT_IN:
        made = getattr(import_module(f"index.stores.{spec.name}"), _BUILT_IN[spec.name])
        store = made(spec.url) if spec.name in ("chroma", "milvus") else made()
        return store
    try:
        store = load_plugin(GROUP, spec.name, kind="vector store", builtin=_BUILT_IN)(spec.url)
    except PluginError as error:
        raise StoreUnavailable(f"{error} The setting is `index.store`.") from error
    return store


def delete_vectors(spec: StoreSpec, folder: Path) -> None:
    """`VectorStore.delete`, also for a store that is not installed any more: it then does nothing."""
    with suppress(StoreUnavailable):
        load_store(spec).delete(folder)
