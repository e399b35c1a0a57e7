"""Doc2Dial as prepared in BEIR form: sections, sentence-like spans, or propositions drawn from them.

All three are judged by section and by document, so that the units can be compared over the same pool: a span
or a proposition found stands for the section it was taken from.
"""

from __future__ import annotations

from pathlib import Path

from evaluation.errors import BadRow
from evaluation.metrics.ranking import read_qrels
from evaluation.sets.base import EvalSet, JudgedLevel, Question, Row
from evaluation.sets.rows import conversation, json_rows, names, optional, present, text

WHERE = (
    "Doc2Dial 1.0.1 (CC BY 3.0) is published at https://doc2dial.github.io; docs/lab/evaluation.md describes the files "
    "expected here, and `doc2dial-json` reads the published ones as they are."
)
PROPOSITIONS_WHERE = (
    "`anaphora synth propositions` writes such a file for documents of yours; docs/lab/evaluation.md describes it."
)


def sections(data: Path) -> EvalSet:
    """The sections of the documents."""
    folder = _folder(data)
    corpus = present(folder / "sections.jsonl", "Doc2Dial's sections", WHERE)
    return EvalSet("doc2dial", "section", corpus, questions(folder), _levels(folder, None))


def spans(data: Path) -> EvalSet:
    """The spans, which are about sentences; also judged themselves."""
    folder = _folder(data)
    corpus = present(folder / "spans.jsonl", "Doc2Dial's spans", WHERE)
    own = JudgedLevel("sentence", read_qrels(folder / "qrels.span.tsv"))
    levels = (own, *_levels(folder, section_of_span(folder)))
    return EvalSet("doc2dial-spans", "sentence", corpus, questions(folder), levels)


def propositions(data: Path) -> EvalSet:
    """Propositions over the same documents; each stands for the sections its source spans lie in."""
    folder = _folder(data)
    path = present(data / "synthetic" / "propositions.jsonl", "Propositions", PROPOSITIONS_WHERE)
    section_of = section_of_span(folder)
    rows: list[Row] = []
    parents: dict[str, tuple[str, ...]] = {}
    for where, row in json_rows(path):
        if row.get("set", "doc2dial") != "doc2dial":
            continue
        name = text(row, "_id", where)
        sources = names(row, "source_lines", where)
        parents[name] = tuple(dict.fromkeys(section for span in sources for section in section_of.get(span, ())))
        rows.append(proposition_row(row, where))
    return EvalSet("doc2dial-propositions", "proposition", tuple(rows), questions(folder), _levels(folder, parents))


def proposition_row(row: dict[str, object], where: str) -> Row:
    """A proposition as a row of a corpus, one passage a proposition."""
    return {
        "_id": text(row, "_id", where),
        "title": optional(row, "title"),
        "text": text(row, "text", where),
        "metadata": {"doc_id": text(row, "document_id", where)},
    }


def questions(folder: Path) -> tuple[Question, ...]:
    """The grounded questions of the users; the answer is the text the agent's answer was grounded in."""
    found = []
    for where, row in json_rows(present(folder / "queries.jsonl", "Doc2Dial's questions", WHERE)):
        metadata = row.get("metadata")
        if not isinstance(metadata, dict):
            raise BadRow(f'{where} has no "metadata".')
        found.append(
            Question(
                id=text(row, "_id", where),
                dialog=optional(metadata, "dialog_id"),
                text=text(row, "text", where),
                conversation=conversation(metadata.get("history") or [], where),
                domain=optional(metadata, "domain"),
                answer=optional(metadata, "answer_span").strip(),
            )
        )
    return tuple(found)


def section_of_span(folder: Path) -> dict[str, tuple[str, ...]]:
    """The section each span lies in."""
    path = present(folder / "spans.jsonl", "Doc2Dial's spans", WHERE)
    return {text(row, "_id", where): (str(row["metadata"]["section"]),) for where, row in json_rows(path)}


def _folder(data: Path) -> Path:
    return present(data / "doc2dial", "Doc2Dial", WHERE)


def _levels(folder: Path, parents: dict[str, tuple[str, ...]] | None) -> tuple[JudgedLevel, ...]:
    judged = read_qrels(present(folder / "qrels.section.tsv", "Doc2Dial's judgements", WHERE))
    section = JudgedLevel("section", judged) if parents is None else JudgedLevel("section", judged, "parents", parents)
    return section, JudgedLevel("document", read_qrels(folder / "qrels.document.tsv"), "document")
