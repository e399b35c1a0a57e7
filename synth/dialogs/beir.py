"""Dialogs as a BEIR data set: corpus, queries and relevance judgements that any retrieval tool reads.

    corpus.jsonl                 every proposition: _id, title, text
    queries.jsonl                every question in full (the rewrite)
    queries.contextual.jsonl     the same questions as typed, under the same ids
    qrels/{train,dev,test}.tsv   query-id, corpus-id, score

What was said before a question stands in the `metadata` of both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from synth.dialogs.rows import Dialog, DialogMessage
from synth.folder import SIDES, Folder, write_json_lines
from synth.propositions.store import Proposition
from text.files import write_text


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
    history = [{"role": one.role, "text": one.text} for one in before]
    metadata = {
        "typed": turn.text,
        "rewrite": turn.rewrite,
        "history": history,
        "documents": list(turn.documents or ()),
    }
    return {"_id": identifier, "text": getattr(turn, field), "metadata": metadata}
