"""Dialogs over the documentation of products, their evidence quoted from its pages; one set a product."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evaluation.errors import BadRow, MissingSet
from evaluation.metrics.ranking import read_qrels
from evaluation.sets import dialogs
from evaluation.sets.base import (
    ROLES,
    EvalSet,
    JudgedLevel,
    Question,
    Row,
    conversation,
    json_document,
    json_rows,
    names,
    optional,
    present,
    text,
)
from rewriter.protocol import Conversation, Message

WHERE = "`docs/lab/evaluation.md` describes the files: you can write such dialogs over pages of your own."


def pages(data: Path, product: str, split: str = "dev") -> EvalSet:
    """The pages of a product as they are, and the questions of one part of the dialogs about it."""
    rows = present(data / "product_dialogs" / f"dialogs.{split}.jsonl", "Dialogs over product documentation", WHERE)
    corpus = present(data / "product_docs" / product, f"The documentation of {product}", WHERE)
    questions = list(dialogs.questions(rows, {"product": product}))
    if not questions:
        raise MissingSet(f"{rows} holds no dialog about {product!r}.")
    return dialogs.quoted(f"product-{product}", corpus, questions, "product")


SYNTHETIC_WHERE = (
    "`anaphora synth` writes such a folder from documents of yours; docs/lab/evaluation.md describes its files."
)


def shared(data: Path, split: str = "dev") -> EvalSet:
    """The written dialogs of the folder `synthetic`, one part of them."""
    return propositions(data / "synthetic", split)


def propositions(folder: Path, split: str = "dev", name: str = "synthetic") -> EvalSet:
    """All propositions of the folder; the questions of `dialogs.<split>.jsonl`, else of `dialogs.jsonl`."""
    corpus = present(folder / "propositions.jsonl", "A set of propositions", SYNTHETIC_WHERE)
    path = folder / f"dialogs.{split}.jsonl"
    if not path.exists():
        path = present(folder / "dialogs.jsonl", f"A set of dialogs ({path.name}, or dialogs.jsonl)", SYNTHETIC_WHERE)
    rows = tuple(proposition_row(row, where) for where, row in json_rows(corpus))
    questions = list(dialogs.questions(path))
    units, documents = dialogs.qrels(questions)
    levels = (JudgedLevel("proposition", units), JudgedLevel("document", documents, "document"))
    return EvalSet(name, "proposition", rows, tuple(question.question for question in questions), levels)


MTRAG_WHERE = (
    "MTRAG (Apache-2.0) is published at https://github.com/IBM/mt-rag-benchmark; docs/lab/evaluation.md describes the "
    "files expected here."
)


def passages(data: Path, domain: str) -> EvalSet:
    """The passages of one domain (`cloud`, `govt`, …). Questions nobody could answer are in, unjudged."""
    folder = present(data / "mtrag", "MTRAG", MTRAG_WHERE)
    corpus = present(folder / domain / "corpus.jsonl", f"MTRAG's corpus of {domain}", MTRAG_WHERE)
    judged = read_qrels(present(folder / domain / "qrels.tsv", f"MTRAG's judgements of {domain}", MTRAG_WHERE))
    rows = present(folder / "dialogs.jsonl", "MTRAG's dialogs", MTRAG_WHERE)
    questions = list(dialogs.questions(rows, {"collection": domain}))
    if not questions:
        raise MissingSet(f"{rows} holds no dialog of {domain!r}. {MTRAG_WHERE}")
    _, documents = dialogs.qrels(questions)
    levels = (JudgedLevel("passage", judged), JudgedLevel("document", documents, "document"))
    return EvalSet(f"mtrag-{domain}", "passage", corpus, tuple(question.question for question in questions), levels)


DOC2DIAL_WHERE = (
    "Doc2Dial 1.0.1 (CC BY 3.0) is published at https://doc2dial.github.io; docs/lab/evaluation.md describes the files "
    "expected here, and `doc2dial-json` reads the published ones as they are."
)
PROPOSITIONS_WHERE = (
    "`anaphora synth propositions` writes such a file for documents of yours; docs/lab/evaluation.md describes it."
)


def sections(data: Path) -> EvalSet:
    """The sections of the documents."""
    folder = _folder(data)
    corpus = present(folder / "sections.jsonl", "Doc2Dial's sections", DOC2DIAL_WHERE)
    return EvalSet("doc2dial", "section", corpus, questions(folder), _levels(folder, None))


def spans(data: Path) -> EvalSet:
    """The spans, which are about sentences; also judged themselves."""
    folder = _folder(data)
    corpus = present(folder / "spans.jsonl", "Doc2Dial's spans", DOC2DIAL_WHERE)
    own = JudgedLevel("sentence", read_qrels(folder / "qrels.span.tsv"))
    levels = (own, *_levels(folder, section_of_span(folder)))
    return EvalSet("doc2dial-spans", "sentence", corpus, questions(folder), levels)


def document_propositions(data: Path) -> EvalSet:
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
    questions = []
    for where, row in json_rows(present(folder / "queries.jsonl", "Doc2Dial's questions", DOC2DIAL_WHERE)):
        metadata = row.get("metadata")
        if not isinstance(metadata, dict):
            raise BadRow(f'{where} has no "metadata".')
        questions.append(
            Question(
                id=text(row, "_id", where),
                dialog=optional(metadata, "dialog_id"),
                text=text(row, "text", where),
                conversation=conversation(metadata.get("history") or [], where),
                domain=optional(metadata, "domain"),
                answer=optional(metadata, "answer_span").strip(),
            )
        )
    return tuple(questions)


def section_of_span(folder: Path) -> dict[str, tuple[str, ...]]:
    """The section each span lies in."""
    path = present(folder / "spans.jsonl", "Doc2Dial's spans", DOC2DIAL_WHERE)
    return {text(row, "_id", where): (str(row["metadata"]["section"]),) for where, row in json_rows(path)}


def _folder(data: Path) -> Path:
    return present(data / "doc2dial", "Doc2Dial", DOC2DIAL_WHERE)


def _levels(folder: Path, parents: dict[str, tuple[str, ...]] | None) -> tuple[JudgedLevel, ...]:
    judged = read_qrels(present(folder / "qrels.section.tsv", "Doc2Dial's judgements", DOC2DIAL_WHERE))
    section = JudgedLevel("section", judged) if parents is None else JudgedLevel("section", judged, "parents", parents)
    return section, JudgedLevel("document", read_qrels(folder / "qrels.document.tsv"), "document")


ORIGINAL_WHERE = "Doc2Dial and MultiDoc2Dial (CC BY 3.0 and Apache-2.0) are published at https://doc2dial.github.io."


def json_folder(folder: Path, split: str = "validation") -> EvalSet:
    """The folder of an unpacked archive: one `*_doc.json` and one `*_dial_<split>.json`.

    Raises MissingSet or BadRow.
    """
    documents = _one(folder, "*doc.json", "The documents of Doc2Dial or MultiDoc2Dial")
    dialogs = _one(folder, f"*dial_{split}.json", f"The {split} dialogs of Doc2Dial or MultiDoc2Dial")
    rows, section_of = _sections(documents)
    questions: list[Question] = []
    sections: dict[str, dict[str, int]] = {}
    in_documents: dict[str, dict[str, int]] = {}
    for domain, document, dialog in _dialogs(dialogs):
        for question, spans in _questions(dialog, domain, document, dialogs):
            headings = [section_of[span] for span in spans if span in section_of]
            if headings:
                questions.append(question)
                sections[question.id] = dict.fromkeys(headings, 1)
                in_documents[question.id] = dict.fromkeys((name for name, _ in spans), 1)
    levels = (JudgedLevel("section", sections), JudgedLevel("document", in_documents, "document"))
    name = documents.name.removesuffix("doc.json").strip("_-") or "doc2dial"
    return EvalSet(f"{name}-json", "section", tuple(rows), tuple(questions), levels)


def _one(folder: Path, pattern: str, what: str) -> Path:
    files = sorted(folder.glob(pattern)) if folder.is_dir() else []
    return files[0] if files else present(folder / pattern, what, ORIGINAL_WHERE)


def _sections(path: Path) -> tuple[list[Row], dict[tuple[str, str], str]]:
    """Rows of the corpus, and the section of each (document, span)."""
    rows: list[Row] = []
    section_of: dict[tuple[str, str], str] = {}
    for domain, documents in _objects(json_document(path), "doc_data", path).items():
        for name, document in documents.items():
            seen: set[str] = set()
            for span, value in (document.get("spans") or {}).items():
                section = f"{name}::sec{value.get('id_sec', 0)}"
                section_of[name, str(span)] = section
                if section in seen or not isinstance(value.get("text_sec"), str):
                    continue
                seen.add(section)
                metadata = {"doc_id": name, "domain": domain, "heading": str(value.get("title") or "")}
                title = str(document.get("title") or name)
                rows.append({"_id": section, "title": title, "text": value["text_sec"], "metadata": metadata})
    return rows, section_of


def _dialogs(path: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Domain, document (empty where the dialog ranges over several) and dialog."""
    for domain, value in _objects(json_document(path), "dial_data", path).items():
        groups: dict[str, Any] = value if isinstance(value, dict) else {"": value}
        for document, listed in groups.items():
            if not isinstance(listed, list):
                raise BadRow(f"{path}: the dialogs of {domain} are no list.")
            for dialog in listed:
                yield domain, document, dialog


def _questions(
    dialog: dict[str, Any], domain: str, document: str, path: Path
) -> Iterator[tuple[Question, list[tuple[str, str]]]]:
    name, turns = dialog.get("dial_id"), dialog.get("turns")
    if not isinstance(name, str) or not isinstance(turns, list):
        raise BadRow(f'{path}: a dialog of {domain} has no "dial_id" or no "turns".')
    messages: list[Message] = []
    for turn, after in zip(turns, [*turns[1:], None], strict=True):
        role, utterance = ROLES.get(str(turn.get("role"))), turn.get("utterance")
        if role is None or not isinstance(utterance, str):
            raise BadRow(f'{path}: a turn of dialog {name} has no "role" (user or agent) or no "utterance".')
        if role == "user" and after is not None and after.get("role") == "agent" and after.get("references"):
            question = Question(
                id=f"{name}_{turn.get('turn_id', len(messages) + 1)}",
                dialog=name,
                text=utterance,
                conversation=Conversation(tuple(messages)),
                domain=domain,
                answer=str(after.get("utterance") or ""),
            )
            yield question, [_span(reference, document) for reference in after["references"]]
        messages.append(Message(role, utterance))


def _span(reference: dict[str, Any], document: str) -> tuple[str, str]:
    span = reference.get("id_sp", reference.get("sp_id", ""))
    return str(reference.get("doc_id") or document), str(span)


def _objects(value: dict[str, Any], key: str, path: Path) -> dict[str, Any]:
    entry = value.get(key)
    if not isinstance(entry, dict):
        raise BadRow(f'{path} has no "{key}": it is no file of Doc2Dial or MultiDoc2Dial.')
    return entry
