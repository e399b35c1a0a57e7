"""Which propositions a dialog is made from: the sides first, then lists within a side.

Documents are given to train, dev and test by seed before anything is written about them, and a list never
crosses sides; so no document can be on two of them. A proposition that documents of several sides say is in no
list.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from synth.folder import SIDES, Folder, read_rows, write_json_lines
from synth.propositions.build import Proposition
from text.files import write_text
from text.words import words


class DialogMessage(BaseModel):
    """One message.

    A user's carries `rewrite` (the question in full, equal to `text` where that stands alone), `relevant`
    (ids of the propositions that answer it) and their `documents`; `kind` tells a greeting or thanks from
    a question.
    """

    model_config = ConfigDict(frozen=True)

    role: Literal["user", "assistant"]
    text: str
    rewrite: str | None = None
    relevant: tuple[str, ...] | None = None
    documents: tuple[str, ...] | None = None
    kind: Literal["question", "greeting", "thanks"] | None = None

    @property
    def asks(self) -> bool:
        """Whether it is a question that propositions answer."""
        return self.role == "user" and bool(self.relevant)

    @property
    def needs_rewrite(self) -> bool:
        """Whether the question is not understood alone."""
        return self.asks and words(self.text) != words(self.rewrite or "")


class Dialog(BaseModel):
    """A conversation and how it came about.

    `prompts` are prompt versions by step.
    """

    model_config = ConfigDict(frozen=True)

    dialog_id: str
    documents: tuple[str, ...]
    turns: tuple[DialogMessage, ...]
    prompts: dict[str, str] = {}
    model: str = ""
    seed: int = 0

    def questions(self) -> list[DialogMessage]:
        """The user's questions, in order."""
        return [turn for turn in self.turns if turn.asks]


def dialog_line(dialog: Dialog) -> str:
    """A dialog as a line of JSON, without what a turn does not have."""
    return json.dumps(dialog.model_dump(exclude_none=True, mode="json"), ensure_ascii=False)


def read_dialogs(path: Path) -> Iterator[Dialog]:
    """The dialogs of a file. Raises BadStore naming a line that is none."""
    return read_rows(path, Dialog, "dialog")


SHARES = {"train": 0.8, "dev": 0.1, "test": 0.1}


@dataclass(frozen=True, slots=True)
class PropositionList:
    """Neighbouring propositions of one side, in document order; `number` counts from 0 within the side."""

    side: str
    number: int
    propositions: tuple[Proposition, ...]


def sides(sizes: Mapping[str, int], seed: int) -> dict[str, str]:
    """The side of each document, given how many propositions it has.

    Sides get about their share of the propositions, and each gets a document. Fewer than three are all trained on.
    """
    if len(sizes) < len(SIDES):
        return dict.fromkeys(sizes, "train")
    order = sorted(sizes, key=lambda name: hashlib.blake2b(f"{seed}\x00{name}".encode()).digest())
    total = sum(sizes.values())
    sides: dict[str, str] = {}
    for side, later in (("test", 2), ("dev", 1)):
        assigned = 0
        # The sides that come later need a document each.
        while len(order) > later:
            # Half a document too many is better than half a one too few.
            if assigned and assigned + sizes[order[-1]] / 2 > SHARES[side] * total:
                break
            assigned += sizes[order[-1]]
            sides[order.pop()] = side
            if assigned >= SHARES[side] * total:
                break
    sides.update(dict.fromkeys(order, "train"))
    return {name: sides[name] for name in sizes}


def make_lists(propositions: Sequence[Proposition], size: int, seed: int) -> tuple[list[PropositionList], int]:
    """Non-overlapping lists of `size` in document order (the paper's n), and how many propositions are in none.

    A side's last list may be shorter; one of less than a third joins the list before it.
    """
    sizes: dict[str, int] = {}
    for proposition in propositions:
        for document in proposition.documents:
            sizes[document] = sizes.get(document, 0) + (document == proposition.document_id)
    side_of = sides(sizes, seed)
    lists: list[PropositionList] = []
    shared = 0
    for side in SIDES:
        own: list[Proposition] = []
        for proposition in propositions:
            where = {side_of[document] for document in proposition.documents}
            if where == {side}:
                own.append(proposition)
            elif len(where) > 1 and side_of[proposition.document_id] == side:
                shared += 1
        cuts = list(range(0, len(own), size))
        if len(cuts) > 1 and len(own) - cuts[-1] < size / 3:
            cuts.pop()
        for number, start in enumerate(cuts):
            end = len(own) if start == cuts[-1] else start + size
            lists.append(PropositionList(side, number, tuple(own[start:end])))
    return lists, shared


def asked(dialog: Dialog) -> Iterator[tuple[str, DialogMessage, tuple[DialogMessage, ...]]]:
    """Each question of a dialog: its id, its turn, and the turns before it."""
    for place, turn in enumerate(dialog.turns):
        if turn.asks:
            yield f"{dialog.dialog_id}:{place}", turn, dialog.turns[:place]


def write_beir(folder: Folder, propositions: Sequence[Proposition], dialogs: Mapping[str, Sequence[Dialog]]) -> None:
    """Write the data set into the run's `beir` folder."""
    write_json_lines(
        folder.beir / "corpus.jsonl",
        (
            {
                "_id": proposition.id,
                "title": proposition.title,
                "text": proposition.text,
                "metadata": {"document_id": proposition.document_id},
            }
            for proposition in propositions
        ),
    )
    everything = [question for side in SIDES for dialog in dialogs[side] for question in asked(dialog)]
    for name, field in (("queries.jsonl", "rewrite"), ("queries.contextual.jsonl", "text")):
        write_json_lines(folder.beir / name, (_query(question, field) for question in everything))
    for side in SIDES:
        lines = ["query-id\tcorpus-id\tscore\n"]
        for dialog in dialogs[side]:
            for identifier, turn, _ in asked(dialog):
                lines += [f"{identifier}\t{relevant}\t1\n" for relevant in turn.relevant or ()]
        write_text(folder.beir / "qrels" / f"{side}.tsv", "".join(lines))


def _query(question: tuple[str, DialogMessage, tuple[DialogMessage, ...]], field: str) -> dict[str, Any]:
    identifier, turn, before = question
    history = [{"role": message.role, "text": message.text} for message in before]
    metadata = {
        "typed": turn.text,
        "rewrite": turn.rewrite,
        "history": history,
        "documents": list(turn.documents or ()),
    }
    return {"_id": identifier, "text": getattr(turn, field), "metadata": metadata}
