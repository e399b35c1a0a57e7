"""Taking documents out of a collection so that no file of it holds their words any more.

Deleting makes a version without them, and leaves the one before for its readers; here that goes too, with vectors
that an unfinished run left. Whoever still reads the older version keeps it in memory until it looks for a newer one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from index.encoders import Encoder
from index.errors import CollectionNotFound
from index.indexer import delete_documents
from index.stores import EXACT, StoreSpec
from index.versions import CollectionFolder
from index.writer import remove_versions


def erase_documents(
    root: Path, name: str, document_ids: Sequence[str], encoder: Encoder, *, store: StoreSpec = EXACT
) -> None:
    """Remove documents from a collection and every version but the new one.

    Raises CollectionNotFound, DocumentNotFound (nothing is changed then), CollectionLocked or StorageError.
    """
    delete_documents(root, name, document_ids, encoder, store=store)
    folder = CollectionFolder(root, name)
    serving = folder.named()
    if not serving:
        raise CollectionNotFound(f"there is no collection {name!r} in {root}")
    with folder.writing():
        remove_versions([path for path in folder.versions.iterdir() if path.name != serving], folder, store)
        for path in folder.path.glob(f"{folder.journal.name}*"):
            path.unlink(missing_ok=True)
