"""The manifest of a collection's version, and the two writes that make a version count.

A version is a folder. It counts once its manifest, written last, lies in it; it serves once the
`current` file, replaced in one step, names it. Both survive a crash at any moment.
"""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from index.errors import CollectionCorrupt
from index.lexical import LexicalEngine
from text.files import sync, write_text

FORMAT = 1
"""Of the files of a version and of how texts become terms: raise it when old versions cannot be reused."""

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
    lexical: LexicalEngine
    chroma_url: str
    documents: int
    passages: int
    terms: bool


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Force every file of the version to the disk, then the manifest, which makes it complete."""
    for parent, _, names in os.walk(folder):
        for name in names:
            sync(Path(parent) / name)
        sync(Path(parent))
    write_text(folder / _MANIFEST, manifest.model_dump_json(indent=2))


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a complete version; raises FileNotFoundError, or CollectionCorrupt for what is none."""
    path = folder / _MANIFEST
    text = path.read_bytes()
    try:
        manifest = Manifest.model_validate_json(text)
    except ValidationError as error:
        raise CollectionCorrupt(f"{path} is not a manifest ({error.error_count()} faults): index again") from error
    if manifest.format != FORMAT:
        raise CollectionCorrupt(
            f"{folder} was written in format {manifest.format}, and this program reads format {FORMAT}: "
            "delete the collection and index again"
        )
    return manifest
