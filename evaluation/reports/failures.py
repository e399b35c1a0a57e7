"""Failures of a diagnosis told to people: counted by stage and label, what helps at each stage, and each of them.

`failures.jsonl` of a run is read here and shown, in Markdown, and by `evaluation.reports.page`. Every text may come
from hostile documents: the page's template escapes them, and here they are kept from being Markdown or HTML.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import regex

from evaluation.reports.runs import EvaluationRun
from evaluation.reports.tables import table
from text.unsafe import showable_line

STAGES = {
    "extraction": "What answers the question is not in the index. Is the document there, and was this part of it read? "
    "`anaphora extract` shows what is read of a file.",
    "rewriting": "A person's wording finds the answer, the rewriter's does not. `anaphora adapt` trains a rewriter on "
    "your documents.",
    "selection": "It is in the index and was not among the evidence, though the question is right. Look at the legs' "
    "weights, `retrieval.evidence` and the cross-encoder; `anaphora calibrate` chooses them on your questions.",
    "generation": "The answer was in the evidence. Another model, or another style of answer, may say it.",
}
"""The stages in the order of a turn, and what can be done at each."""
SHOWN = 500
"""Failures told one by one; `failures.jsonl` has all."""
CHARS = 2000
_MARKUP = regex.compile(r"[\\`*_\[\]<>#|&~]")


def cut(text: str) -> str:
    """As much of a text as a report shows."""
    return text if len(text) <= CHARS else f"{text[:CHARS]}…"


def failures(run: EvaluationRun) -> list[dict[str, Any]]:
    """The failures that a diagnosis kept; none for another kind of run."""
    path = run.folder / "failures.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line] if path.is_file() else []


def counts(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Head and rows of a table: failures by stage and label, and how many of each stage are confirmed."""
    labels = sorted({str(row["label"]) for row in rows})
    found = Counter((row["stage"], row["label"]) for row in rows)
    made = []
    for stage in STAGES:
        here = [row for row in rows if row["stage"] == stage]
        cells = (found[stage, label] for label in labels)
        made.append([stage, str(len(here)), str(sum(bool(row["confirmed"]) for row in here)), *map(str, cells)])
    return ["stage", "failures", "confirmed", *labels], made


def told(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A failure as pairs of a name and a text, what is empty left out."""
    holding = set(row.get("holding", ()))
    sources = [f"[{n}] {title}{' (holds it)' if n in holding else ''}" for n, title in enumerate(row["evidence"], 1)]
    same = row["search_question"].casefold() == row["question"].casefold()
    pairs = [
        *(("before", line) for line in row["history"]),
        ("question", row["question"]),
        ("searched for", "" if same else row["search_question"]),
        ("a person's rewrite", row["rewrite"]),
        ("expected", row["expected"] or ("" if row["quotes"] else "nothing: the documents do not say")),
        *(("in the document", f"{one['document']}: {one['quote']}".removeprefix(": ")) for one in row["quotes"]),
        (row["status"], row["answer"] or "(no answer)"),
        ("evidence", "; ".join(sources) or "none"),
        (f"{'confirmed' if row['confirmed'] else 'not confirmed'} with", row["oracle"]),
        ("answer then", row["oracle_answer"]),
        ("trace", f"anaphora trace show {row['trace']}" if row["trace"] else ""),
    ]
    return [(name, text) for name, text in pairs if text]


def markdown(run: EvaluationRun, rows: Sequence[Mapping[str, Any]]) -> str:
    """The report as Markdown."""
    asked = run.description["questions"]
    lines = [f"# Diagnosis: {escaped(run.name)}", "", f"{headline(run, rows)} Asked: {asked}.", ""]
    lines += [f"Note: {escaped(note)}\n" for note in run.notes]
    lines += [table(*counts(rows)), ""]
    left = SHOWN
    for stage, advice in STAGES.items():
        here = [row for row in rows if row["stage"] == stage]
        if here:
            lines += [f"## {stage.capitalize()}: {len(here)}", "", advice, ""]
        for row in here[:left]:
            lines += [f"### {escaped(row['id'])}: {row['label']}", ""]
            lines += [f"- **{escaped(name)}:** {escaped(text)}" for name, text in told(row)]
            lines.append("")
        left = max(0, left - len(here))
    return "\n".join(lines)


def headline(run: EvaluationRun, rows: Sequence[Mapping[str, Any]]) -> str:
    """How many answers were right."""
    judged = next((one.n for one in run.metrics if (one.part, one.measure) == ("all", "right")), 0)
    return f"{judged - len(rows)} of {judged} answers are right."


def escaped(text: str) -> str:
    """A text on one line of Markdown that is nothing but text there."""
    return _MARKUP.sub(lambda at: f"&#{ord(at[0])};", showable_line(" ".join(text.split())))
