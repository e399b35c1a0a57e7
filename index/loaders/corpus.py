"""BEIR-style `corpus.jsonl`: every row is a passage as it stands.

Rows with the same `metadata.doc_id` make one document, in their order, so that results can be
judged by passage and by document. The file is read line by line; only its rows are kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from index.documents import Document, Metadata, MetadataValue, Section
from index.errors import LoadError
from index.loaders.markdown import flat_metadata
from index.loaders.reading import clean, one_line, opened
from text.sanitize import web_address

# A corpus is bounded by row: no row is larger than a file may be, and the file may hold many.
_FILE_TO_ROW = 32
_SEPARATOR = "\n\n"
_NAMED = 5


@dataclass(frozen=True, slots=True)
class _Row:
    passage_id: str
    document_id: str
    title: str
    text: str
    url: str
    metadata: Metadata


def load(path: Path, document_id: str, max_bytes: int, warn: Callable[[str], None] | None = None) -> list[Document]:
    """One verbatim document for each `metadata.doc_id` (else for each `_id`), in order of appearance.

    `max_bytes` bounds a row. Malformed rows raise LoadError naming their lines; with `warn` they are
    left out and told instead, and only a file without a single good row raises.
    """
    problems: list[str] = []
    groups: dict[str, list[_Row]] = {}
    seen: dict[str, int] = {}
    for number, line in _lines(path, max_bytes):
        row = _row(line)
        if isinstance(row, str):
            problems.append(f"line {number}: {row}")
        elif row.passage_id in seen:
            problems.append(f"line {number}: `_id` {row.passage_id[:80]!r} was used in line {seen[row.passage_id]}")
        else:
            seen[row.passage_id] = number
            groups.setdefault(row.document_id, []).append(row)
    if problems:
        more = f"; and {len(problems) - _NAMED} more" if len(problems) > _NAMED else ""
        message = "; ".join(problems[:_NAMED]) + more
        if warn is None or not groups:
            raise LoadError(f"{path.name} has {len(problems)} malformed rows: {message}. Correct or remove them")
        warn(f"{len(problems)} malformed rows left out: {message}. Correct them and index again")
    if not groups:
        raise LoadError(f"{path.name} holds no rows: a corpus has one JSON object a line with `_id` and `text`")
    return [_document(name, rows, document_id) for name, rows in groups.items()]


def _lines(path: Path, max_bytes: int) -> Iterator[tuple[int, bytes | None]]:
    """Line number and content of every line that is not blank; None for one above the limit."""
    with opened(path, max_bytes * _FILE_TO_ROW) as file:
        number = 0
        while line := file.readline(max_bytes + 1):
            number += 1
            if len(line) > max_bytes:
                while line and not line.endswith(b"\n"):
                    line = file.readline(max_bytes)
                yield number, None
            elif line.strip():
                yield number, line


def _row(line: bytes | None) -> _Row | str:
    if line is None:
        return "longer than a file may be (`index.max_file_mb`)"
    try:
        values = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return "not UTF-8"
    except json.JSONDecodeError as error:
        return f"not JSON ({error.msg} at column {error.colno})"
    except (ValueError, RecursionError):
        return "not JSON that can be read (a number too long, or nested too deep)"
    if not isinstance(values, dict):
        return "not a JSON object"
    name, text, title = values.get("_id"), values.get("text"), values.get("title") or ""
    if isinstance(name, bool) or not isinstance(name, str | int) or name == "":
        return "no `_id`"
    if not isinstance(text, str):
        return "no `text`"
    metadata = values.get("metadata")
    if not isinstance(metadata, dict):
        metadata = {}
    document = metadata.get("doc_id")
    if isinstance(document, bool) or not isinstance(document, str | int) or document == "":
        document = name
    url = web_address(metadata.get("url")) or web_address(metadata.get("source"))
    title = one_line(clean(title)) if isinstance(title, str) else ""
    return _Row(clean(str(name)), clean(str(document)), title, clean(text), url, flat_metadata(metadata))


def _document(name: str, rows: list[_Row], file_id: str) -> Document:
    titles = {row.title for row in rows}
    # Where rows disagree, each keeps its own title as its heading: a row is indexed as it stands.
    title = titles.pop() if len(titles) == 1 else ""
    shared = _shared(rows)
    sections, at = [], 0
    for row in rows:
        own = {key: value for key, value in row.metadata.items() if key not in shared}
        heading = (row.title,) if row.title != title else ()
        sections.append(Section(heading, at, at + len(row.text), passage_id=row.passage_id, metadata=own))
        at += len(row.text) + len(_SEPARATOR)
    metadata = {**shared, "source": rows[0].url or file_id, "format": "corpus"}
    text = _SEPARATOR.join(row.text for row in rows)
    return Document(name, title, text, tuple(sections), metadata, verbatim=True)


def _shared(rows: Sequence[_Row]) -> dict[str, MetadataValue]:
    """Return the metadata that all rows have alike."""
    alike = set.intersection(*({(key, type(value), value) for key, value in row.metadata.items()} for row in rows))
    return {key: value for key, value in rows[0].metadata.items() if (key, type(value), value) in alike}
