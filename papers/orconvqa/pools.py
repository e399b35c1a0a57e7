"""The paper's comparison on whatever was generated: propositions against sentences as the pool, three ways to ask.

Each question of the dialogs is asked as it was typed with everything said before it, as it was typed, and in full;
each pool is a collection of its own, searched with BM25 and dense vectors fused by reciprocal ranks (k = 60). A
sentence is relevant where the source of a relevant proposition lies in it.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, get_args

import typer

from cli.shared.state import InputError, state_of
from cli.synth import open_encoder
from evaluation.metrics import Run, evaluate
from index.collection import Collection
from index.documents import Document, Query, Section
from index.encoders import Encoder
from index.indexer import index_documents
from synth import Dialog, DialogMessage, Proposition, read_dialogs, read_propositions
from synth.folder import SIDES, Folder
from synth.tasks import BadStore
from text.files import write_text
from text.sentences import sentences

MEASURES = ("AP", "R@5", "R@10", "R@20")
WAYS = ("history + question", "contextualised", "stand-alone")
PoolKind: TypeAlias = Literal["proposition", "sentence"]
POOLS: tuple[PoolKind, ...] = get_args(PoolKind)
_DEPTH = 100


def asked(dialog: Dialog) -> Iterator[tuple[str, DialogMessage, tuple[DialogMessage, ...]]]:
    """Each question of a dialog: its id, its turn, and the turns before it."""
    for place, turn in enumerate(dialog.turns):
        if turn.asks:
            yield f"{dialog.dialog_id}:{place}", turn, dialog.turns[:place]


@dataclass(frozen=True, slots=True)
class Cell:
    """One way to ask one pool: measures over passages, and over their documents."""

    pool: PoolKind
    way: str
    questions: int
    passages: Mapping[str, float]
    documents: Mapping[str, float]


def queries(dialogs: Sequence[Dialog]) -> dict[str, dict[str, str]]:
    """Question id → its text in each of the three ways."""
    return {
        identifier: {
            "history + question": _with_history(turn, before),
            "contextualised": turn.text,
            "stand-alone": turn.rewrite or turn.text,
        }
        for dialog in dialogs
        for identifier, turn, before in asked(dialog)
    }


def measured(
    documents: Sequence[Document],
    propositions: Sequence[Proposition],
    dialogs: Sequence[Dialog],
    encoder: Encoder,
    workplace: Path,
    report: Callable[[str], None] | None = None,
) -> list[Cell]:
    """Every pool asked in every way. `workplace` is an empty folder for the two collections."""
    tell = report or (lambda _: None)
    texts = queries(dialogs)
    relevant = {identifier: turn.relevant or () for dialog in dialogs for identifier, turn, _ in asked(dialog)}
    by_id = {proposition.id: proposition for proposition in propositions}
    cells: list[Cell] = []
    for kind in POOLS:
        tell(f"indexing {kind}s")
        units = in_propositions(documents, propositions) if kind == "proposition" else in_sentences(documents)
        index_documents(workplace, kind, units, encoder)
        judged = _judged(kind, units, relevant, by_id)
        judged_documents = {
            identifier: {name: 1 for one in ids if one in by_id for name in by_id[one].documents}
            for identifier, ids in relevant.items()
        }
        collection = Collection.open(workplace, kind, encoder)
        try:
            for way in WAYS:
                tell(f"searching {kind}s: {way}")
                run: dict[str, list[str]] = {}
                document_of: dict[str, str] = {}
                for identifier, ways in texts.items():
                    hits = collection.search([Query(ways[way])], k=_DEPTH)
                    run[identifier] = [hit.passage.id for hit in hits]
                    document_of.update((hit.passage.id, hit.passage.document_id) for hit in hits)
                cells.append(
                    Cell(
                        kind,
                        way,
                        len(texts),
                        evaluate(run, judged, MEASURES),
                        evaluate(by_document(run, document_of.__getitem__), judged_documents, MEASURES),
                    )
                )
        finally:
            collection.close()
    return cells


def table(cells: Sequence[Cell]) -> str:
    """The comparison as Markdown."""
    lines = ["| pool | asked | MAP | R@5 | R@10 | R@20 | document R@20 |", "|---|---|---|---|---|---|---|"]
    for cell in cells:
        values = [cell.passages[measure] for measure in MEASURES] + [cell.documents["R@20"]]
        numbers = " | ".join(f"{value:.3f}" for value in values)
        lines.append(f"| {cell.pool}s | {cell.way} | {numbers} |")
    return "\n".join(lines) + "\n"


def _with_history(turn: DialogMessage, before: Sequence[DialogMessage]) -> str:
    """The question and all that was said, the newest first: an encoder reads only so far."""
    return "\n".join([turn.text, *(one.text for one in reversed(before))])


def in_propositions(documents: Sequence[Document], propositions: Sequence[Proposition]) -> list[Document]:
    """Each document as its propositions, a passage each, under the headings of their sources.

    A document without propositions keeps its sections. Propositions whose source is not in it any more are left out.
    """
    by_document: dict[str, list[Proposition]] = {}
    for one in propositions:
        by_document.setdefault(one.document_id, []).append(one)
    units: list[Document] = []
    for document in documents:
        stated = [one for one in by_document.get(document.id, ()) if document.text[one.start : one.end] == one.source]
        text, sections = "", list[Section]()
        for one in stated:
            around = (place for place in document.sections if place.start < one.end and one.start < place.end)
            heading = next((place.heading for place in around), ())
            sections.append(Section(heading, len(text), len(text) + len(one.text), passage_id=one.id))
            text += one.text + "\n"
        units.append(replace(document, text=text, sections=tuple(sections), verbatim=True) if stated else document)
    return units


def in_sentences(documents: Sequence[Document]) -> list[Document]:
    """Each document as its sentences, a passage each; mere marks are left out."""
    return [replace(document, sections=tuple(_sentences(document)), verbatim=True) for document in documents]


def _sentences(document: Document) -> Iterator[Section]:
    for section in document.sections:
        for sentence in sentences(document.text[section.start : section.end]):
            start, end = section.start + sentence.start, section.start + sentence.end
            if any(map(str.isalnum, document.text[start:end])):
                yield replace(section, start=start, end=end, passage_id=f"{document.id}#{start}", placed=())


def _judged(
    kind: PoolKind,
    units: Sequence[Document],
    relevant: Mapping[str, Sequence[str]],
    by_id: Mapping[str, Proposition],
) -> dict[str, dict[str, int]]:
    """Question id → relevant passage ids of a pool."""
    if kind == "proposition":
        return {identifier: dict.fromkeys(ids, 1) for identifier, ids in relevant.items()}
    spans = {document.id: document.sections for document in units}
    return {
        identifier: {
            sentence.passage_id: 1
            for one in ids
            if one in by_id
            for source in by_id[one].sources
            for sentence in spans.get(source.document_id, ())
            if sentence.start < source.end and source.start < sentence.end
        }
        for identifier, ids in relevant.items()
    }


def by_document(run: Run, document_of: Callable[[str], str]) -> dict[str, list[str]]:
    """A run over passages as one over their documents, each at the rank of its best passage."""
    return {question: list(dict.fromkeys(map(document_of, ids))) for question, ids in run.items()}


def compare(
    context: typer.Context,
    out: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a run.", show_default=False)],
    side: Annotated[list[str] | None, typer.Option(help="Only dialogs of train, dev or test; repeatable.")] = None,
) -> None:
    """Search propositions and sentences with the run's questions: typed with history, typed, and in full."""
    state = state_of(context)
    folder = Folder(out.expanduser().absolute())
    documents = read_documents(folder.documents)
    paths = [folder.dialogs(one) for one in side or SIDES]
    dialogs = [dialog for path in paths if path.is_file() for dialog in read_dialogs(path)]
    if not any(dialog.questions() for dialog in dialogs):
        raise InputError(f"{folder.path} holds no questions; run `anaphora synth` until its dialogs are written.")
    propositions = list(read_propositions(folder.propositions))
    encoder = open_encoder(state.settings(), state)
    with tempfile.TemporaryDirectory() as workplace, state.err.status("comparing") as status:
        cells = measured(documents, propositions, dialogs, encoder, Path(workplace), status.update)
    text = table(cells)
    write_text(folder.path / "compare.md", text)
    state.out.print(f"{cells[0].questions:,} questions, {len(documents):,} documents")
    state.out.print(text)


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
