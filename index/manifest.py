"""The manifest of a collection's version, and the two writes that make a version count.

A version is a folder. It counts once its manifest, written last, lies in it; it serves once the
`current` file, replaced in one step, names it. Both survive a crash at any moment.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from index.errors import CollectionCorrupt
from index.integrity import checksums
from index.stores import EXACT, StoreSpec
from text.files import sync, write_text
from text.languages import ENGLISH

FORMAT = 2
"""Of the files of a version: raise it when old versions cannot be reused.

Format 1 had one store, Chroma, beside a matrix of the same vectors. The matrix is what the exact store reads, so such a
version still serves, by it, or by its Chroma server.
"""

TEXTS = 1
"""Of how texts become passages and terms: raise it, and the format, when files are to be read again."""

_MANIFEST = "manifest.json"


class Manifest(BaseModel):
    """What a version holds and with what it was made; `created` in seconds since the epoch."""

    model_config = ConfigDict(frozen=True)

    format: int
    version: str
    previous: str
    created: float
    encoder: str
    dimension: int
    store: StoreSpec
    documents: int
    passages: int
    terms: bool
    language: str = ENGLISH
    """The setting by which the words were stemmed."""
    languages: tuple[str, ...] = (ENGLISH,)
    """Languages whose stems it holds."""
    files: dict[str, str] = {}
    """SHA-256 of the version's files by relative path (`index.integrity`); empty in versions written without."""


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Force every file of the version to the disk, then the manifest with their checksums, which makes it complete."""
    for parent, _, names in os.walk(folder):
        for name in names:
            sync(Path(parent) / name)
        sync(Path(parent))
    sealed = manifest.model_copy(update={"files": checksums(folder)})
    write_text(folder / _MANIFEST, sealed.model_dump_json(indent=2))


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a complete version; raises FileNotFoundError, or CollectionCorrupt for what is none."""
    path = folder / _MANIFEST
    text = path.read_bytes()
    try:
        values = json.loads(text)
        written = values["format"]
        if written == 1 and values["lexical"] == "bm25s":
            values["store"] = StoreSpec("chroma", url) if (url := values.pop("chroma_url")) else EXACT
            values["format"] = FORMAT
        manifest = Manifest.model_validate(values)
    except (ValueError, KeyError, TypeError) as error:
        raise CollectionCorrupt(f"{path} is not a manifest ({error}): index again") from error
    if manifest.format != FORMAT:
        raise CollectionCorrupt(
            f"{folder} was written in format {written}, and this program reads format {FORMAT}: "
            "delete the collection and index again"
        )
    return manifest
