"""Which files of the given folders are documents, and from a file's ending to the loader that reads it.

A loader is ours, or one that another distribution declares. Loaders are imported when first needed: some of their
parsers are slow to import.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from pathspec import GitIgnoreSpec

from index.documents import Document
from index.errors import LoadError
from index.loaders.reading import MEBIBYTE, clean, opened
from text.files import path_text
from text.modules import PluginError, load_plugin, need_extra, plugins

_MODULES = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".mdx": "markdown",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".rst": "rst",
    ".txt": "reading",
    ".text": "reading",
    ".docx": "docx",
    ".pdf": "pdf",
    ".jsonl": "corpus",
}

_NEEDS = {
    "html": ("bs4", "lxml", "markdownify"),
    "rst": ("docutils", "bs4", "lxml", "markdownify"),
    "docx": ("mammoth", "bs4", "lxml", "markdownify"),
    "pdf": ("pypdfium2",),
}
"""Libraries of the extra `standard` that a loader needs."""

GROUP = "anaphora.loaders"
"""Entry points of this group are named after a file ending (`epub`) and called as `load(path, document_id, max_bytes)`.

They return the file's documents or raise LoadError. The file was seen to be an ordinary one that is neither empty nor
above `max_bytes`. Endings that Anaphora reads itself stay with its own loaders.
"""

MAX_FILE_MB = 64

LAYOUT = 4
"""Of how PDFs are read: raise it when they are to be read again."""


def suffixes() -> frozenset[str]:
    """The file endings that can be loaded, in lower case with their dot."""
    return frozenset(_MODULES) | {f".{name.lower()}" for name in plugins(GROUP)}


def load(
    path: Path,
    document_id: str,
    max_file_mb: float = MAX_FILE_MB,
    warn: Callable[[str], None] | None = None,
    recogniser: Any = None,
) -> list[Document]:
    """The documents of one file: one, or for `corpus.jsonl` one for each `metadata.doc_id`.

    `document_id` names the file's document (its path relative to the indexed folder) and its
    `source`. A file above `max_file_mb` MiB (for a corpus: a row) is refused before it is read.
    Raises LoadError, whose message tells what is wrong with the file and what to do. Malformed rows
    of a corpus raise too, unless `warn` is given: then they are left out and told to it. `recogniser` reads pages of a
    PDF that are pictures (`index.loaders.pdf.recognising.Recogniser`).
    """
    suffix = path.suffix.lower()
    max_bytes = int(max_file_mb * MEBIBYTE)
    if suffix not in _MODULES:
        return _load_by_plugin(path, document_id, max_bytes)
    need_extra("standard", f"Reading {path.name}", *_NEEDS.get(_MODULES[suffix], ()), error=LoadError)
    if suffix == ".jsonl":
        from index.loaders import corpus

        return corpus.load(path, document_id, max_bytes, warn)
    if suffix == ".pdf":
        from index.loaders import pdf

        return pdf.load(path, document_id, max_bytes, warn or (lambda _: None), recogniser)
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


_NEVER = frozenset({"node_modules", "__pycache__"})
# Documents that nothing here reads: they are yielded, so that a person is told what is missing.
_UNREADABLE = frozenset(
    {".adoc", ".asciidoc", ".doc", ".docm", ".epub", ".ipynb", ".odt", ".org", ".ppt", ".pptx", ".rtf", ".tex", ".wiki"}
)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to load. `document_id` is its path below `root`, with forward slashes."""

    path: Path
    document_id: str
    root: Path


def walk(paths: Sequence[Path], include: Sequence[str] = (), exclude: Sequence[str] = ()) -> Iterator[SourceFile]:
    """The loadable files below `paths`, each once, folder by folder and by name.

    A path to a file is always yielded, even where it is missing or unknown, so that loading it can
    tell why it fails; so is a document of a known format that has no loader. In folders hidden files
    and folders and `node_modules` are left out. `include` and `exclude` are gitignore-style patterns
    on the path below the folder (an empty `include` takes all); a `.jsonl` counts only if its name
    says corpus, or if an `include` pattern asks for it. Links that leave the folder are not
    followed, others are unless that leads to a file twice. Where two folders hold the same relative
    path, the later one's id starts with its folder's name.
    """
    names: set[str] = set()
    seen: set[str] = set()
    for start in paths:
        root = start if start.is_dir() else start.parent
        files = _below(root, include, exclude) if start.is_dir() else [start.name]
        for relative in files:
            path = root / relative
            real = os.path.realpath(path)
            if real not in seen:
                seen.add(real)
                yield SourceFile(path, _unused(relative, root, names), root)


def _below(root: Path, include: Sequence[str], exclude: Sequence[str]) -> list[str]:
    """Relative paths of the documents below `root`; a file with several names under its plainest."""
    wanted = GitIgnoreSpec.from_lines(include) if include else None
    unwanted = GitIgnoreSpec.from_lines(exclude)
    real_root = os.path.realpath(root)
    by_file: dict[str, tuple[bool, str]] = {}
    readable = suffixes() | _UNREADABLE
    for relative in _files(root, unwanted):
        asked_for = wanted is not None and wanted.match_file(relative)
        if (wanted and not asked_for) or unwanted.match_file(relative):
            continue
        name = relative.rpartition("/")[2].lower()
        suffix = Path(name).suffix
        # A folder of a benchmark holds queries and dialogs as .jsonl too, with the same keys.
        if suffix not in readable or (suffix == ".jsonl" and not asked_for and "corpus" not in name):
            continue
        real = os.path.realpath(root / relative)
        if os.path.commonpath((real_root, real)) != real_root:
            continue
        plain = (real != os.path.join(real_root, relative), relative)
        by_file[real] = min(by_file.get(real, plain), plain)
    return sorted((relative for _, relative in by_file.values()), key=lambda relative: relative.split("/"))


def _files(root: Path, unwanted: GitIgnoreSpec) -> Iterator[str]:
    """Every file below `root` by relative path; no folder is entered twice, by whatever name."""
    real_root = os.path.realpath(root)
    entered: set[str] = set()
    folders, linked = [""], list[str]()
    while folders or linked:
        folder = folders.pop() if folders else linked.pop()  # a folder's own name goes before its aliases
        real = os.path.realpath(root / folder)
        if real in entered or os.path.commonpath((real_root, real)) != real_root:
            continue
        entered.add(real)
        try:
            entries = sorted(os.scandir(root / folder), key=lambda entry: entry.name, reverse=True)
        except OSError:
            continue  # gone or closed to us meanwhile: nothing in it can be named
        for entry in entries:
            relative = f"{folder}{entry.name}"
            if entry.name.startswith(".") or entry.name in _NEVER:
                continue
            if not os.path.isdir(entry.path):
                yield relative
            elif not unwanted.match_file(f"{relative}/"):
                (linked if entry.is_symlink() else folders).append(f"{relative}/")


def _unused(relative: str, root: Path, names: set[str]) -> str:
    name = relative = clean(path_text(relative))  # a file name may be bytes that are no text
    folder = clean(path_text(root.resolve().name))
    if name in names:
        name = f"{folder}/{relative}"
    number = 2
    while name in names:
        name = f"{folder} ({number})/{relative}"
        number += 1
    names.add(name)
    return name
