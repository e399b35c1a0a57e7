"""The output folder of a run: which file is what, and the documents kept beside what was made of them.

Only the journal is written while the model answers; every other file is made anew from it, in one step each.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from index.documents import Document
from synth.tasks import BadStore
from text.files import write_text

SIDES = ("train", "dev", "test")

M = TypeVar("M", bound=BaseModel)


class _File:
    """A file of a run's folder by its name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, folder: Folder, owner: type[Folder]) -> Path:
        return folder.path / self._name


@dataclass(frozen=True, slots=True)
class Folder:
    """Where a run's files lie."""

    path: Path

    journal = _File("journal.jsonl")
    """Every answer of the model."""

    traces = _File("traces.jsonl")
    """The calls that each item took."""

    documents = _File("documents.jsonl")
    """The documents as they were read."""

    propositions = _File("propositions.jsonl")
    left_out = _File("left_out.jsonl")
    """Sentences of the model that became no proposition, with the reason."""

    rejected = _File("rejected.jsonl")
    """Pairs and contextualised forms that were rejected, with the reason."""

    facts = _File("run.json")
    """Counts and settings of the run."""

    card = _File("README.md")

    def dialogs(self, side: str) -> Path:
        return self.path / f"dialogs.{side}.jsonl"


def write_json_lines(path: Path, rows: Iterable[dict[str, Any]]) -> int:
    """Write rows as JSON lines in one step; returns their number."""
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    write_text(path, "".join(lines))
    return len(lines)


def write_rows(path: Path, rows: Iterable[BaseModel]) -> None:
    """Write rows as JSON lines in one step: a reader sees the old file or the whole new one."""
    write_text(path, "".join(row.model_dump_json(by_alias=True) + "\n" for row in rows))


def read_rows(path: Path, kind: type[M], what: str, remedy: str = ".") -> Iterator[M]:
    """The rows of a file of JSON lines. Raises BadStore naming one that is none."""
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                yield kind.model_validate_json(line)
            except ValidationError as error:
                first = error.errors()[0]
                where = ".".join(map(str, first["loc"]))
                raise BadStore(f"{path}, line {number} is no {what} ({where}: {first['msg']}){remedy}") from None


def write_documents(path: Path, documents: Iterable[Document]) -> int:
    """Keep documents so that `read_documents` gives them back."""
    return write_json_lines(
        path,
        (
            {
                "_id": document.id,
                "title": document.title,
                "text": document.text,
                "sections": [asdict(section) for section in document.sections],
                "metadata": dict(document.metadata),
            }
            for document in documents
        ),
    )
