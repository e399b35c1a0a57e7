"""A small folder of data sets in the shapes that `anaphora eval` reads, about two public services."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

LEAVE = "Parental leave lasts ten weeks and may be taken in two parts."
FORM = "Apply for parental leave with form PL-7, which may be sent by fax to 555-0199."
BADGE = "A lost badge must be reported within one hour at the front desk."
COST = "A new badge costs twenty euros and the fee is not refundable."

PASSAGES = {"leave::sec0": LEAVE, "leave::sec1": FORM, "badge::sec0": BADGE, "badge::sec1": COST}
TITLES = {"leave": "Parental leave", "badge": "Badges"}


def asked(name: str, text: str, rewrite: str, *relevant: str) -> dict[str, object]:
    """A user's turn; nobody can answer what no passage is relevant to."""
    said = {"role": "user", "turn_id": name, "text": text, "rewrite": rewrite, "relevant": list(relevant)}
    answerable = {"documents": [one.partition("::")[0] for one in relevant], "answerability": ["ANSWERABLE"]}
    return said | (answerable if relevant else {"answerability": ["UNANSWERABLE"]})


def dialog(name: str, *turns: dict[str, object] | str) -> dict[str, object]:
    """A dialog over the offices; the texts are the assistant's."""
    told = [{"role": "assistant", "text": turn} if isinstance(turn, str) else turn for turn in turns]
    return {"dialog_id": name, "collection": "offices", "turns": told}


DIALOGS = [
    dialog(
        "d1",
        asked("d1::1", *["How do I apply for parental leave?"] * 2, "leave::sec1"),
        "With form PL-7.",
        asked("d1::2", "and how long does it last?", "How long does parental leave last?", "leave::sec0"),
        "Ten weeks.",
    ),
    dialog(
        "d2",
        asked("d2::1", "I lost my badge, what now?", "What must I do about a lost badge?", "badge::sec0"),
        "Report it within one hour.",
        asked("d2::2", "who designed it?", "Who designed the badge?"),
        "I do not know.",
        asked("d2::3", "what does a new one cost", "What does a new badge cost?", "badge::sec1"),
        "Twenty euros.",
    ),
]


def jsonl(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    """Write JSON lines; the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def qrels(path: Path, rows: Sequence[tuple[str, str]]) -> Path:
    """Write judgements in BEIR's form."""
    lines = [f"{question}\t{item}\t1\n" for question, item in rows]
    path.write_text("query-id\tcorpus-id\tscore\n" + "".join(lines), "utf-8")
    return path


def corpus(path: Path) -> Path:
    """The four passages as a BEIR corpus."""
    rows = [
        {"_id": name, "title": TITLES[name.split("::")[0]], "text": text, "metadata": {"doc_id": name.split("::")[0]}}
        for name, text in PASSAGES.items()
    ]
    return jsonl(path, rows)


def judged_turns() -> list[tuple[str, str]]:
    """Question and relevant passage, of every dialog."""
    return [
        (turn["turn_id"], item)
        for dialog in DIALOGS
        for turn in dialog["turns"]  # type: ignore[attr-defined]
        for item in turn.get("relevant", ())
    ]


def mtrag(data: Path) -> None:
    """The dialogs and passages as MTRAG's."""
    corpus(data / "mtrag" / "offices" / "corpus.jsonl")
    jsonl(data / "mtrag" / "dialogs.jsonl", DIALOGS)
    qrels(data / "mtrag" / "offices" / "qrels.tsv", judged_turns())


def doc2dial(data: Path) -> None:
    """The same passages as sections, with one span and one proposition each."""
    folder = data / "doc2dial"
    corpus(folder / "sections.jsonl")
    spans = [
        {
            "_id": name.replace("sec", "sp"),
            "title": "",
            "text": text,
            "metadata": {"doc_id": name.split("::")[0], "section": name},
        }
        for name, text in PASSAGES.items()
    ]
    jsonl(folder / "spans.jsonl", spans)
    about = {"dialog_id": "d", "domain": "hr"}
    said = [{"role": "user", "text": "How do I apply for leave?"}, {"role": "assistant", "text": "With form PL-7."}]
    questions = [
        {"_id": "q1", "text": "How do I apply for leave?", "metadata": {**about, "history": []}},
        {
            "_id": "q2",
            "text": "by fax too?",
            "metadata": {**about, "history": said, "answer_span": "which may be sent by fax"},
        },
    ]
    jsonl(folder / "queries.jsonl", questions)
    relevant = [("q1", "leave::sec1"), ("q2", "leave::sec1")]
    qrels(folder / "qrels.section.tsv", relevant)
    qrels(folder / "qrels.span.tsv", [(q, s.replace("sec", "sp")) for q, s in relevant])
    qrels(folder / "qrels.document.tsv", [(q, "leave") for q, _ in relevant])
    propositions = [
        {
            "_id": f"p{n}",
            "document_id": name.split("::")[0],
            "set": "doc2dial",
            "title": "",
            "text": text,
            "source_lines": [name.replace("sec", "sp")],
        }
        for n, (name, text) in enumerate(PASSAGES.items())
    ]
    other = {"_id": "x", "document_id": "page", "set": "pages", "text": "Elsewhere.", "source_lines": [3]}
    jsonl(data / "synthetic" / "propositions.jsonl", [*propositions, other])
    turns = [
        {"role": "user", "text": "How long is parental leave?", "relevant": ["p0"], "documents": ["leave"]},
        {"role": "assistant", "text": "Ten weeks."},
        {"role": "user", "text": "and the form?", "rewrite": "Which form is for leave?", "relevant": ["p1"]},
    ]
    jsonl(data / "synthetic" / "dialogs.dev.jsonl", [{"dialog_id": "s", "documents": ["leave"], "turns": turns}])


def original(folder: Path, *, several: bool) -> Path:
    """Two files as published: MultiDoc2Dial's (`several` documents a dialog) or Doc2Dial's."""
    folder.mkdir(parents=True, exist_ok=True)
    spans = {
        "1": {"id_sp": "1", "id_sec": "0", "text_sec": LEAVE, "title": "Length", "text_sp": "Parental leave lasts"},
        "2": {"id_sp": "2", "id_sec": "0", "text_sec": LEAVE, "title": "Length", "text_sp": "ten weeks"},
        "3": {"id_sp": "3", "id_sec": "1", "text_sec": FORM, "title": "Applying", "text_sp": "form PL-7"},
    }
    document = {"doc_id": "leave#1", "title": "Leave", "domain": "hr", "doc_text": LEAVE + FORM, "spans": spans}
    name = "multidoc2dial" if several else "doc2dial"
    (folder / f"{name}_doc.json").write_text(json.dumps({"doc_data": {"hr": {"leave#1": document}}}), "utf-8")
    key = {"id_sp": "3", "doc_id": "leave#1"} if several else {"sp_id": "3"}
    turns = [
        {"turn_id": 1, "role": "user", "da": "query", "utterance": "How do I apply?", "references": []},
        {
            "turn_id": 2,
            "role": "agent",
            "da": "respond",
            "utterance": "With PL-7.",
            "references": [{**key, "label": "x"}],
        },
        {"turn_id": 3, "role": "user", "da": "query", "utterance": "Thanks", "references": []},
        {"turn_id": 4, "role": "agent", "da": "respond", "utterance": "Bye", "references": []},
    ]
    dialog = {"dial_id": "abc", "turns": turns}
    value: object = {"hr": [dialog]} if several else {"hr": {"leave#1": [dialog]}}
    (folder / f"{name}_dial_validation.json").write_text(json.dumps({"dial_data": value}), "utf-8")
    return folder


def quoted(turn: str, rewrite: str, kind: str, document: str = "", quote: str = "") -> dict[str, object]:
    """A user's turn of a dialog that quotes its evidence."""
    evidence = [{"document": document, "quote": quote}] if quote else []
    answerability = "answerable" if quote else "unanswerable"
    said = {"role": "user", "text": turn, "rewrite": rewrite, "kind": kind}
    return {**said, "answerability": answerability, "evidence": evidence}


def product(data: Path) -> None:
    """Pages of two products, and dialogs about them that quote their evidence."""
    desk, gate = data / "product_docs" / "desk", data / "product_docs" / "gate"
    (desk / "desk").mkdir(parents=True)
    gate.mkdir()
    (desk / "desk" / "leave.md").write_text(f"# Leave\n\n## Length\n\n{LEAVE}\n\n## Form\n\n{FORM}\n", "utf-8")
    (gate / "badge.rst").write_text(f"Badges\n======\n\nA *lost badge* must be reported.\n\nCost\n----\n\n{COST}\n")
    leave = [
        quoted(
            "How long is parental leave?", "How long is parental leave?", "first", "desk/desk/leave.md", "ten weeks"
        ),
        {"role": "assistant", "text": "Ten weeks."},
        quoted("by fax?", "Can parental leave be applied for by fax?", "ellipsis", "desk/desk/leave.md", "sent by fax"),
        {"role": "assistant", "text": "Yes, to 555-0199."},
        quoted("who reads it?", "Who reads the fax with form PL-7?", "pronoun"),
    ]
    badge = [quoted("badge gone", "badge gone", "first", "gate/badge.rst", "A *lost badge* must be")]
    rows = [("d1", "desk", leave), ("d2", "gate", badge)]
    dialogs = [{"dialog_id": name, "product": product, "turns": turns} for name, product, turns in rows]
    jsonl(data / "product_dialogs" / "dialogs.dev.jsonl", dialogs)
