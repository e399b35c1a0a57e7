"""Doc2Dial and MultiDoc2Dial from their published JSON files, as they come out of the archive.

Documents: `{"doc_data": {domain: {doc_id: {"title", "doc_text", "spans": {id: {"id_sec", "text_sec", "title",
"start_sec", …}}}}}}`. Dialogs: `{"dial_data": {domain: [dialog, …]}}` in MultiDoc2Dial, `{domain: {doc_id:
[dialog, …]}}` in Doc2Dial; a turn is `{"turn_id", "role", "da", "utterance", "references": [{"id_sp" or "sp_id",
"label", "doc_id"}]}`. A question is a user's turn that the agent's next turn answers from the documents; the
sections of the spans that turn refers to are relevant.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evaluation.errors import BadRow
from evaluation.sets.base import EvalSet, JudgedLevel, Question, Row
from evaluation.sets.rows import ROLES, json_document, present
from rewriter.conversation import Conversation, Message

WHERE = "Doc2Dial and MultiDoc2Dial (CC BY 3.0 and Apache-2.0) are published at https://doc2dial.github.io."


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
            found = [section_of[span] for span in spans if span in section_of]
            if found:
                questions.append(question)
                sections[question.id] = dict.fromkeys(found, 1)
                in_documents[question.id] = dict.fromkeys((name for name, _ in spans), 1)
    levels = (JudgedLevel("section", sections), JudgedLevel("document", in_documents, "document"))
    name = documents.name.removesuffix("doc.json").strip("_-") or "doc2dial"
    return EvalSet(f"{name}-json", "section", tuple(rows), tuple(questions), levels)


def _one(folder: Path, pattern: str, what: str) -> Path:
    found = sorted(folder.glob(pattern)) if folder.is_dir() else []
    return found[0] if found else present(folder / pattern, what, WHERE)


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
        for document, dialogs in groups.items():
            if not isinstance(dialogs, list):
                raise BadRow(f"{path}: the dialogs of {domain} are no list.")
            for dialog in dialogs:
                yield domain, document, dialog


def _questions(
    dialog: dict[str, Any], domain: str, document: str, path: Path
) -> Iterator[tuple[Question, list[tuple[str, str]]]]:
    name, turns = dialog.get("dial_id"), dialog.get("turns")
    if not isinstance(name, str) or not isinstance(turns, list):
        raise BadRow(f'{path}: a dialog of {domain} has no "dial_id" or no "turns".')
    said: list[Message] = []
    for turn, after in zip(turns, [*turns[1:], None], strict=True):
        role, utterance = ROLES.get(str(turn.get("role"))), turn.get("utterance")
        if role is None or not isinstance(utterance, str):
            raise BadRow(f'{path}: a turn of dialog {name} has no "role" (user or agent) or no "utterance".')
        if role == "user" and after is not None and after.get("role") == "agent" and after.get("references"):
            question = Question(
                id=f"{name}_{turn.get('turn_id', len(said) + 1)}",
                dialog=name,
                text=utterance,
                conversation=Conversation(tuple(said)),
                domain=domain,
                answer=str(after.get("utterance") or ""),
            )
            yield question, [_span(reference, document) for reference in after["references"]]
        said.append(Message(role, utterance))


def _span(reference: dict[str, Any], document: str) -> tuple[str, str]:
    span = reference.get("id_sp", reference.get("sp_id", ""))
    return str(reference.get("doc_id") or document), str(span)


def _objects(value: dict[str, Any], key: str, path: Path) -> dict[str, Any]:
    found = value.get(key)
    if not isinstance(found, dict):
        raise BadRow(f'{path} has no "{key}": it is no file of Doc2Dial or MultiDoc2Dial.')
    return found
