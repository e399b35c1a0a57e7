"""Data sets that only the paper needs: Doc2Dial's spans and propositions as what is searched, a pool for each of its domains, and its
published files.

`add_sets` makes them known to `python -m papers.orconvqa retrieval`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from evaluation.questions import ROLES, BadRow, Question, json_row, json_rows, names, present, text
from evaluation.sets import JudgedLevel
from papers import datasets
from papers.datasets import DOC2DIAL_SOURCE, DataSet, Row, doc2dial, proposition_row, read_qrels
from rewriter.protocol import Conversation, Message

DOMAINS = ("dmv", "ssa", "studentaid", "va")
OWN_POOLS = "doc2dial-own-pools"
"""The questions of all domains, each searched among the sections of its own, as the paper searches."""


def add_sets() -> None:
    """Add `doc2dial-spans`, `doc2dial-propositions`, `doc2dial-DOMAIN` and `doc2dial-json:FOLDER` to the sets by name."""
    datasets.SETS["doc2dial-spans"] = lambda data, split: spans(data)
    datasets.SETS["doc2dial-propositions"] = lambda data, split: document_propositions(data)
    for domain in DOMAINS:
        datasets.SETS[f"doc2dial-{domain}"] = partial(of_domain, domain)
    datasets.FOLDERS["doc2dial-json"] = lambda folder, split: json_folder(folder)


def spans(data: Path) -> DataSet:
    """The spans, which are about sentences; also judged themselves."""
    corpus = present(data / "doc2dial" / "spans.jsonl", "Doc2Dial's spans", DOC2DIAL_SOURCE)
    whole = doc2dial(data, section_of_span(corpus))
    own = JudgedLevel("sentence", read_qrels(data / "doc2dial" / "qrels.span.tsv"))
    return replace(whole, name="doc2dial-spans", corpus=corpus, levels=(own, *whole.levels))


def of_domain(domain: str, data: Path, split: str = "") -> DataSet:
    """The questions of one domain, over its sections alone; together with those of the others they are `OWN_POOLS`.

    There is one `split` only.
    """
    whole = doc2dial(data)
    assert isinstance(whole.corpus, Path)
    corpus = tuple(row for _, row in json_rows(whole.corpus) if row["metadata"].get("domain") == domain)
    questions = tuple(question for question in whole.questions if question.domain == domain)
    return replace(whole, name=f"doc2dial-{domain}", questions=questions, corpus=corpus, pool=OWN_POOLS)


def document_propositions(data: Path) -> DataSet:
    """Propositions over the same documents; each stands for the sections its source spans lie in."""
    spans_file = present(data / "doc2dial" / "spans.jsonl", "Doc2Dial's spans", DOC2DIAL_SOURCE)
    path = present(data / "synthetic" / "propositions.jsonl", "Propositions", "`anaphora synth` writes such a file.")
    section_of = section_of_span(spans_file)
    rows: list[Row] = []
    parents: dict[str, tuple[str, ...]] = {}
    for where, row in json_rows(path):
        if row.get("set", "doc2dial") != "doc2dial":
            continue
        sources = names(row, "source_lines", where)
        parents[text(row, "_id", where)] = tuple(
            dict.fromkeys(section for span in sources for section in section_of.get(span, ()))
        )
        rows.append(proposition_row(row, where))
    return replace(doc2dial(data, parents), name="doc2dial-propositions", corpus=tuple(rows))


def section_of_span(path: Path) -> dict[str, tuple[str, ...]]:
    """The section each span lies in."""
    return {text(row, "_id", where): (str(row["metadata"]["section"]),) for where, row in json_rows(path)}


ORIGINAL_WHERE = "Doc2Dial and MultiDoc2Dial (CC BY 3.0 and Apache-2.0) are published at https://doc2dial.github.io."


def json_folder(folder: Path, split: str = "validation") -> DataSet:
    """The folder of an unpacked archive: one `*_doc.json` and one `*_dial_<split>.json`.

    Raises MissingSet or BadRow.
    """
    documents = _file(folder, "*doc.json", "The documents of Doc2Dial or MultiDoc2Dial")
    dialogs = _file(folder, f"*dial_{split}.json", f"The {split} dialogs of Doc2Dial or MultiDoc2Dial")
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
    return DataSet(f"{name}-json", tuple(questions), levels, corpus=tuple(rows))


def _file(folder: Path, pattern: str, what: str) -> Path:
    files = sorted(folder.glob(pattern)) if folder.is_dir() else []
    return files[0] if files else present(folder / pattern, what, ORIGINAL_WHERE)


def _sections(path: Path) -> tuple[list[Row], dict[tuple[str, str], str]]:
    """Rows of the corpus, and the section of each (document, span)."""
    rows: list[Row] = []
    section_of: dict[tuple[str, str], str] = {}
    for domain, documents in _objects(json_row(path.read_text("utf-8-sig"), str(path)), "doc_data", path).items():
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
    for domain, value in _objects(json_row(path.read_text("utf-8-sig"), str(path)), "dial_data", path).items():
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
