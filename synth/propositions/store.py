"""The proposition store: what a proposition is, and the JSON lines it is kept in.

A row has the keys of other collections of propositions (`_id`, `document_id`, `title`, `text`, `source`), so that
whoever reads those reads these.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from synth.folder import read_rows
from text.files import text_writer


class SourceSpan(BaseModel):
    """A stretch of a document that says what a proposition says; offsets count characters of its text."""

    model_config = ConfigDict(frozen=True)

    document_id: str
    start: int = Field(ge=0)
    end: int = Field(ge=0)


class Proposition(BaseModel):
    """A stand-alone sentence and where it comes from.

    `source` is the source span's text at the time of writing. `sources` are all places that say the same,
    the first one being `document_id`, `start`, `end`. `overlap` and `similarity` are the alignment's
    (0 to 1, and a cosine). `prompt` is the version of the prompt, `model` what wrote it.
    """

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    id: str = Field(alias="_id")
    document_id: str
    title: str
    heading: tuple[str, ...] = ()
    text: str
    start: int = Field(ge=0)
    end: int = Field(ge=0)
    source: str
    sources: tuple[SourceSpan, ...] = ()
    overlap: float = 0.0
    similarity: float = 0.0
    prompt: str = ""
    model: str = ""

    @property
    def documents(self) -> tuple[str, ...]:
        """Every document that says it, the first source's first."""
        return tuple(dict.fromkeys((self.document_id, *(source.document_id for source in self.sources))))


def proposition_id(document_id: str, start: int, end: int, text: str) -> str:
    """An id made of what the proposition is: the same again for the same."""
    digest = hashlib.blake2b(digest_size=10)
    for part in (document_id, str(start), str(end), text):
        digest.update(part.encode("utf-8", "surrogatepass") + b"\x00")
    return digest.hexdigest()


def write_rows(path: Path, rows: Iterable[BaseModel]) -> int:
    """Write rows as JSON lines in one step: a reader sees the old file or the whole new one. Returns their number."""
    count = 0
    with text_writer(path) as file:
        for row in rows:
            file.write(row.model_dump_json(by_alias=True) + "\n")
            count += 1
    return count


def read_propositions(path: Path) -> Iterator[Proposition]:
    """The propositions of a store, in its order. Raises BadStore naming a line that is none."""
    return read_rows(path, Proposition, "proposition", "; give the propositions.jsonl that `anaphora synth` wrote.")
