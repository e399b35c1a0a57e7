"""From a file's ending to the loader that reads it: ours, or one that another distribution declares.

Loaders are imported when first needed: some of their parsers are slow to import.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from index.documents import Document
from index.errors import LoadError
from index.loaders.reading import MEBIBYTE, Layout, opened
from text.modules import PluginError, load_plugin, plugins

_MODULES = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".mdx": "markdown",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".rst": "rst",
    ".txt": "text",
    ".text": "text",
    ".docx": "docx",
    ".pdf": "pdf",
    ".jsonl": "corpus",
}

GROUP = "anaphora.loaders"
"""Entry points of this group are named after a file ending (`epub`) and called as `load(path, document_id, max_bytes)`.

They return the file's documents or raise LoadError. The file was seen to be an ordinary one that is neither empty nor
above `max_bytes`. Endings that Anaphora reads itself stay with its own loaders.
"""

DEFAULT_MAX_FILE_MB = 64

"""Whether columns, tables and headings of a PDF are looked for."""

LAYOUT = 3
"""Of how PDFs are read: raise it when they are to be read again."""


def suffixes() -> frozenset[str]:
    """The file endings that can be loaded, in lower case with their dot."""
    return frozenset(_MODULES) | {f".{name.lower()}" for name in plugins(GROUP)}


def load(
    path: Path,
    document_id: str,
    max_file_mb: float = DEFAULT_MAX_FILE_MB,
    warn: Callable[[str], None] | None = None,
    layout: Layout = "auto",
    **reading: Any,
) -> list[Document]:
    """The documents of one file: one, or for `corpus.jsonl` one for each `metadata.doc_id`.

    `document_id` names the file's document (its path relative to the indexed folder) and its
    `source`. A file above `max_file_mb` MiB (for a corpus: a row) is refused before it is read.
    Raises LoadError, whose message tells what is wrong with the file and what to do. Malformed rows
    of a corpus raise too, unless `warn` is given: then they are left out and told to it. With `layout` "off" the
    pages of a PDF are read as they are drawn; `reading` is what else `index.loaders.pdf.load` takes.
    """
    suffix = path.suffix.lower()
    max_bytes = int(max_file_mb * MEBIBYTE)
    if suffix not in _MODULES:
        return _load_by_plugin(path, document_id, max_bytes)
    if suffix == ".jsonl":
        from index.loaders import corpus

        return corpus.load(path, document_id, max_bytes, warn)
    if suffix == ".pdf":
        from index.loaders import pdf

        return pdf.load(path, document_id, max_bytes, layout, warn or (lambda _: None), **reading)
    documents: list[Document] = import_module(f"index.loaders.{_MODULES[suffix]}").load(path, document_id, max_bytes)
    return documents


def _load_by_plugin(path: Path, document_id: str, max_bytes: int) -> list[Document]:
    suffix = path.suffix.lower()
    name = next((name for name in plugins(GROUP) if f".{name.lower()}" == suffix), None)
    if name is None:
        raise LoadError(
            f"{path.name} cannot be read: there is no loader for {suffix or 'files without ending'}; "
            f"convert it to one of {' '.join(sorted(suffixes()))}"
        )
    try:
        loader = load_plugin(GROUP, name, kind="loader")
    except PluginError as error:
        raise LoadError(f"{path.name} cannot be read: {error}") from error
    with opened(path, max_bytes):
        documents: list[Document] = loader(path, document_id, max_bytes)
    return documents
