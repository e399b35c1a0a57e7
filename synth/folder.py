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

from index.documents import Document, Section
from synth.errors import BadStore
from text.files import write_text

SIDES = ("train", "dev", "test")

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Folder:
    """Where a run's files lie."""

    path: Path

    @property
    def journal(self) -> Path:
        """Every answer of the model."""
        return self.path / "journal.jsonl"

    @property
    def traces(self) -> Path:
        """The calls that each item took."""
        return self.path / "traces.jsonl"

    @property
    def documents(self) -> Path:
        """The documents as they were read."""
        return self.path / "documents.jsonl"

    @property
    def propositions(self) -> Path:
        return self.path / "propositions.jsonl"

    @property
    def left_out(self) -> Path:
        """Sentences of the model that became no proposition, with the reason."""
        return self.path / "left_out.jsonl"

    @property
    def rejected(self) -> Path:
        """Pairs and contextualised forms that were rejected, with the reason."""
        return self.path / "rejected.jsonl"

    @property
    def facts(self) -> Path:
        """Counts and settings of the run, from which reports are written."""
        return self.path / "run.json"

    @property
    def beir(self) -> Path:
        return self.path / "beir"

    @property
    def card(self) -> Path:
        return self.path / "README.md"

    def dialogs(self, side: str) -> Path:
        """The dialogs of `train`, `dev` or `test`."""
        return self.path / f"dialogs.{side}.jsonl"


def write_json_lines(path: Path, rows: Iterable[dict[str, Any]]) -> int:
    """Write rows as JSON lines in one step; returns their number."""
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    write_text(path, "".join(lines))
    return len(lines)


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


def read_documents(path: Path) -> list[Document]:
    """The documents of a run. Raises BadStore where the file is not there or not ours."""
    if not path.is_file():
        raise BadStore(
            f"{path.parent} holds no run of `anaphora synth` (there is no {path.name}); name its --out folder."
        )
    documents: list[Document] = []
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            try:
                row = json.loads(line)
                sections = tuple(
                    Section(tuple(part["heading"]), part["start"], part["end"], part["page"])
                    for part in row["sections"]
                )
                documents.append(Document(row["_id"], row["title"], row["text"], sections, row["metadata"]))
            except (ValueError, KeyError, TypeError) as error:
                raise BadStore(
                    f"{path}, line {number} is no document ({error!r}); run `anaphora synth` again."
                ) from error
    return documents
