"""Which files of the given folders are documents, in an order that is the same every time.

Nothing is opened here; `index.loaders.folder` reads what is found.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from index.documents import Document
from index.errors import LoadError
from index.loaders.files import DEFAULT_MAX_FILE_MB, suffixes
from index.loaders.parser_worker import Limits
from index.loaders.reading import clean
from index.loaders.sandbox import shared_pool

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
        if (
            not _is_document(relative, asked_for, readable)
            or (wanted and not asked_for)
            or unwanted.match_file(relative)
        ):
            continue
        real = os.path.realpath(root / relative)
        if os.path.commonpath((real_root, real)) != real_root:
            continue
        name = (real != os.path.join(real_root, relative), relative)
        by_file[real] = min(by_file.get(real, name), name)
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


def _is_document(relative: str, asked_for: bool, suffixes: frozenset[str]) -> bool:
    name = relative.rsplit("/", 1)[-1].lower()
    suffix = Path(name).suffix
    # A folder of a benchmark holds queries and dialogs as .jsonl too, with the same keys.
    return suffix in suffixes and (suffix != ".jsonl" or asked_for or "corpus" in name)


def _unused(relative: str, root: Path, names: set[str]) -> str:
    name = relative = clean(relative)  # a file name may be bytes that are no text
    folder = clean(root.resolve().name)
    if name in names:
        name = f"{folder}/{relative}"
    number = 2
    while name in names:
        name = f"{folder} ({number})/{relative}"
        number += 1
    names.add(name)
    return name


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """Outcome for one file: its documents, or an `error` that a person can act on.

    `warnings` tell what was left out of a file that could be read otherwise.
    """

    source: SourceFile
    documents: list[Document]
    error: str | None = None
    warnings: tuple[str, ...] = ()


def scan(
    paths: Sequence[Path],
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    max_file_mb: float = DEFAULT_MAX_FILE_MB,
    limits: Limits | None = None,
) -> Iterator[LoadedFile]:
    """Walk `paths` (see `walk`) and load each file as it comes, in another process within `limits`.

    Only one file's documents are held.

    No two documents and no two verbatim passages share an id: what comes second is left out with a
    warning that names the file that came first.
    """
    owners: dict[str, str] = {}
    passages: dict[str, str] = {}
    for source in walk(paths, include, exclude):
        try:
            parsed = shared_pool(limits or Limits()).parse(source.path, source.document_id, max_file_mb)
        except LoadError as error:
            yield LoadedFile(source, [], clean(str(error)))
            continue
        documents, warnings = parsed.documents, parsed.warnings
        accepted = [
            document for document in documents if _claim(document, source.document_id, owners, passages, warnings)
        ]
        if documents and not accepted:
            yield LoadedFile(source, [], "; ".join(warnings))
        else:
            yield LoadedFile(source, accepted, None, tuple(warnings))


def _claim(
    document: Document, file: str, owners: dict[str, str], passages: dict[str, str], warnings: list[str]
) -> bool:
    """Whether nothing of `document` was loaded before; if so its ids belong to `file` from now on."""
    if document.id in owners:
        _tell(warnings, f"document {document.id!r} already came from {owners[document.id]}: left out; rename one")
        return False
    names = [section.passage_id for section in document.sections if section.passage_id]
    owner = next((name for name in names if name in passages), None)
    if owner is not None:
        _tell(warnings, f"passage {owner!r} already came from {passages[owner]}: document {document.id!r} left out")
        return False
    owners[document.id] = file
    passages.update(dict.fromkeys(names, file))
    return True


def _tell(warnings: list[str], message: str) -> None:
    """Add a warning, but no more than a person would read."""
    if len(warnings) < 6:
        warnings.append(message)
    elif len(warnings) == 6:
        warnings.append("and more of the kind")
