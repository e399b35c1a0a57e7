"""Code that a Markdown page takes from a file beside it: MkDocs' `{* file.py hl[3] *}` and `--8<-- "file.py"`.

The file becomes a code block where it lies below the indexed folder, is source code and not hidden; else the line is
left out, for it says nothing to a reader. A page never names a file outside the folder that was given.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from index.errors import LoadError
from index.loaders.reading import read_text
from text.blocks import blocks

LONGEST = 32_768
"""Bytes of a file that is taken in; a longer one is not."""
MOST = 50
"""Files taken into one page."""

_LINE = re.compile(
    r"^[ \t]*(?:\{\*[ \t]+(?P<file>[^\s{}*]+)(?P<how>[^{}*\n]*)\*\}"
    r"|--8<--[ \t]+[\"'](?P<snippet>[^\"'\n]+)[\"'])[ \t]*$",
    re.MULTILINE,
)
_LINES = re.compile(r"\bln\[([\d:,\s]+)\]")
_LANGUAGES = {
    ".py": "python", ".js": "javascript", ".ts": "typescript", ".sh": "bash", ".sql": "sql", ".go": "go", ".rs": "rust",
    ".java": "java", ".c": "c", ".cpp": "cpp", ".css": "css", ".html": "html",
}  # fmt: skip


def included(text: str, path: Path, document_id: str) -> str:
    """`text` of the page at `path` with the code it takes in; the folder is what `document_id` is below."""
    if "{*" not in text and "--8<--" not in text:
        return text
    root = path.parents[document_id.count("/")] if path.as_posix().endswith(f"/{document_id}") else path.parent
    pieces, at, taken = list[str](), 0, 0
    for block in blocks(text):
        if block.kind != "prose":
            continue
        for line in _LINE.finditer(text, block.start, block.end):
            taken += 1
            code = _code(line["file"] or line["snippet"], path, root.resolve()) if taken <= MOST else None
            pieces += [text[at : line.start()], _fenced(*code, line["how"] or "") if code else ""]
            at = line.end()
    return "".join((*pieces, text[at:]))


def _code(named: str, path: Path, root: Path) -> tuple[str, str] | None:
    """The file's language and text; None where there is none to be had."""
    for candidate in _candidates(named, path, root):
        parts = candidate.relative_to(root).parts
        language = _LANGUAGES.get(candidate.suffix.lower())
        if language and candidate.is_file() and not any(part.startswith(".") for part in parts):
            try:
                return language, read_text(candidate, LONGEST)
            except LoadError:
                return None
    return None


def _candidates(named: str, path: Path, root: Path) -> Iterator[Path]:
    """Where the file may be: as named from the page, or below one of the folders above it."""
    below = re.sub(r"^(?:\.{1,2}/)+", "", named)
    here = path.parent.resolve()
    for folder, name in ((here, named), *((folder, below) for folder in (here, *here.parents))):
        if folder.is_relative_to(root):
            candidate = (folder / name).resolve()
            if candidate.is_relative_to(root):
                yield candidate


def _fenced(language: str, code: str, how: str) -> str:
    lines = code.rstrip("\n").split("\n")
    if ranges := _LINES.search(how):
        wanted = list[str]()
        for part in ranges[1].split(","):
            first, _, last = part.strip().partition(":")
            if first.isdecimal():
                wanted += lines[int(first) - 1 : int(last) if last.isdecimal() else int(first)]
        lines = wanted or lines
    longest = max((len(run) for run in re.findall(r"`{3,}", code)), default=2)
    fence = "`" * (longest + 1)
    return "\n".join((f"{fence}{language}", *lines, fence))
