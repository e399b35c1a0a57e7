"""The paper's comparison on whatever was generated: propositions against sentences as the pool, three ways to ask.

Each question of the dialogs is asked as it was typed with everything said before it, as it was typed, and in full;
each pool is a collection of its own, searched with BM25 and dense vectors fused by reciprocal ranks (k = 60). A
sentence is relevant where the source of a relevant proposition lies in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluation.metrics.ranking import by_document, evaluate
from index.collection import Collection
from index.documents import Document
from index.encoders import Encoder
from index.indexer import index_documents
from index.passages import split
from index.pools import Pool, PoolKind, Stated
from index.query import Query
from synth import Dialog, DialogMessage, Proposition
from synth.dialogs.lists import asked

MEASURES = ("AP", "R@5", "R@10", "R@20")
WAYS = ("history + question", "contextualised", "stand-alone")
POOLS: tuple[PoolKind, ...] = ("proposition", "sentence")
_DEPTH = 100


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


def compare(
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
        pool = _pool(kind, propositions)
        index_documents(workplace, kind, documents, encoder, pool=pool)
        judged = _judged(kind, documents, relevant, by_id, encoder)
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


def _pool(kind: PoolKind, propositions: Sequence[Proposition]) -> Pool:
    if kind != "proposition":
        return Pool(kind)
    stated: dict[str, list[Stated]] = {}
    for one in propositions:
        stated.setdefault(one.document_id, []).append(Stated(one.id, one.text, one.start, one.end, one.source))
    return Pool(kind, {name: tuple(found) for name, found in stated.items()})


def _judged(
    kind: PoolKind,
    documents: Sequence[Document],
    relevant: Mapping[str, Sequence[str]],
    by_id: Mapping[str, Proposition],
    encoder: Encoder,
) -> dict[str, dict[str, int]]:
    """Question id → relevant passage ids of a pool."""
    if kind == "proposition":
        return {identifier: dict.fromkeys(ids, 1) for identifier, ids in relevant.items()}
    spans: dict[str, list[tuple[int, int, str]]] = {}
    window = encoder.max_tokens - 2
    for document in documents:
        sentences = split(document, window, encoder.count_tokens, "sentence")
        spans[document.id] = [(one.start, one.end, one.id) for one in sentences]
    return {
        identifier: {
            name: 1
            for one in ids
            if one in by_id
            for source in by_id[one].sources
            for start, end, name in spans.get(source.document_id, ())
            if start < source.end and source.start < end
        }
        for identifier, ids in relevant.items()
    }
