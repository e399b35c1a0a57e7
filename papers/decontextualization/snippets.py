"""Snippets of papers, and what people added to make them readable alone.

The set is that of Newman et al. (2023): snippets of papers with questions, answers, evidence and a rewrite. Whole
papers are missing, so what is searched is every abstract, context and evidence paragraph of the file ("pooled"), and
"whole" is what the file holds of the snippet's own paper. Its four examples for prompts (`split` other than `val`) are
left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluation.questions import BadRow, json_rows, optional, present, text
from papers.decontextualization.rules import SourceQuote
from papers.decontextualization.variants import PaperQuote
from plugins.evidence.source import SourcePassage

SET = "qa_decontext"


@dataclass(frozen=True, slots=True)
class GoldQuestion:
    """A question of a person, the answer, and the paragraphs it was answered from."""

    question: str
    answer: str
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Snippet:
    """A row of the set."""

    id: str
    paper: str
    quote: SourceQuote
    surface: str
    gold: str
    questions: tuple[GoldQuestion, ...]
    whole: tuple[SourcePassage, ...]


def load_snippets(data: Path, every: int = 1) -> tuple[list[Snippet], tuple[SourcePassage, ...]]:
    """The snippets and the pool. Raises MissingSet, BadRow."""
    path = present(data / SET / "snippets.jsonl", "The set of snippets", "It is published as QA-decontextualization.")
    rows = [(where, row) for where, row in json_rows(path)]
    pool: dict[str, str] = {}
    papers: dict[str, dict[str, None]] = {}
    introductions: dict[str, str] = {}
    for where, row in rows:
        paper, context = text(row, "paper_id", where), optional(row, "context_paragraph")
        own = papers.setdefault(paper, {})
        paragraphs = [(paper, row.get("abstract"), ""), (paper, context, str(row.get("section") or ""))]
        paragraphs += [
            (str(one.get("paper_id") or paper), one.get("paragraph"), str(one.get("section") or ""))
            for question in _questions(row, where)
            for one in question.get("evidence") or ()
        ]
        for paper_id, paragraph, section in paragraphs:
            if isinstance(paragraph, str) and paragraph.strip():
                pool.setdefault(paragraph, f"{paper_id}:{len(pool)}")
                if paper_id == paper:
                    own[paragraph] = None
                if section.strip().casefold().startswith("introduction"):
                    introductions.setdefault(paper_id, paragraph)
    passages = tuple(SourcePassage(name, paragraph) for paragraph, name in pool.items())
    found = []
    for where, row in rows:
        if row.get("split") != "val":
            continue
        paper = row["paper_id"]
        quote = PaperQuote(
            snippet=text(row, "snippet", where),
            title=optional(row, "title"),
            lead=optional(row, "abstract"),
            section=optional(row, "section"),
            paragraph=optional(row, "context_paragraph"),
            passages=passages,
            introduction=introductions.get(paper, ""),
        )
        gold = tuple(
            GoldQuestion(
                text(question, "question", where),
                text(question, "answer", where),
                tuple(one["paragraph"] for one in question.get("evidence") or () if one.get("paragraph")),
            )
            for question in _questions(row, where)
        )
        whole = tuple(SourcePassage(pool[paragraph], paragraph) for paragraph in papers[paper])
        surface, goal = optional(row, "snippet_surface_rewrite"), text(row, "gold_decontextualized", where)
        found.append(Snippet(text(row, "_id", where), paper, quote, surface, goal, gold, whole))
    return found[::every], passages


def _questions(row: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
    value = row.get("questions") or []
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise BadRow(f'{where}: "questions" is not a list of objects.')
    return value
