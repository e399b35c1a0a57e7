"""What is wrong with a file of dialogs that quote their evidence, line by line; nothing is measured here.

Form and quotes are certain. Whether a rewrite stands alone is not: one that says what was typed, though its kind leans
on the conversation, does not; one that begins with a word that points back probably does not, and is only warned of.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import regex
import typer

from cli.shared.options import Searched, overriding
from cli.shared.state import InputError, state_of
from evaluation.questions import ROLES, document_id, json_rows, present, spans
from index.errors import LoadError
from index.loaders import load
from rewriter.examples import normalised
from synth.propositions import reference
from text.words import stems

LEANING = (
    "pronoun", "ellipsis", "description", "far", "answer", "correction", "compare", "list",
)  # fmt: skip
"""Kinds of reference that cannot be understood without the conversation."""
KINDS = ("first", "standalone", "shift", "comment", "greeting", *LEANING)
ANSWERABILITY = {"answerable": True, "partial": True, "unanswerable": False, "underspecified": None, "none": False}
"""Whether a turn needs evidence, or must have none; None where it may."""

Texts: TypeAlias = Callable[[str], Sequence[str]]
"""The texts a document may be quoted from; none where it is not there."""

Certainty: TypeAlias = Literal["error", "warning"]
Found: TypeAlias = Iterator[tuple[Certainty, str]]

_LOOKS_AHEAD = regex.compile(
    r"^\W*(?:is|was|would|isn['’]t) it\b.*\b(?:to|if|that|when|for|as)\b", regex.IGNORECASE | regex.DOTALL
)


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing about one line; `where` names file, line and turn."""

    where: str
    certainty: Certainty
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.certainty}: {self.text}"


def remarks(path: Path, texts: Texts) -> Iterator[Remark]:
    """Every remark about the dialogs of a file, in its order. Lines that are no JSON end it: raises BadRow."""
    seen = Counter[str]()
    for where, row in json_rows(path):
        name, turns = row.get("dialog_id"), row.get("turns")
        if not isinstance(name, str) or not name.strip():
            yield Remark(where, "error", 'there is no "dialog_id"')
        else:
            seen[name] += 1
            if seen[name] == 2:
                yield Remark(where, "error", f"the dialog_id {name!r} was used before")
        if not isinstance(turns, list) or not turns:
            yield Remark(where, "error", 'there are no "turns"')
            continue
        for n, turn in enumerate(turns):
            for certainty, text in _turn(turn, n, turns, texts):
                yield Remark(f"{where}, turn {n + 1}", certainty, text)


def dangling(text: str) -> str:
    """A word that points back before anything is named, as in "is it free?"; empty where there is none. English."""
    found = reference(text)
    at = text.casefold().find(found.casefold())
    return "" if not found or _LOOKS_AHEAD.search(text) or stems(text[: max(0, at)]) else found


def folder_texts(folder: Path) -> Texts:
    """The files below a folder, as they are and as they are indexed; the folder's own name may stand before a path."""
    root = folder.resolve()

    @cache
    def texts(document: str) -> tuple[str, ...]:
        names = (document, document.removeprefix(f"{root.name}/"))
        file = next(
            (at for name in names if (at := (root / name).resolve()).is_relative_to(root) and at.is_file()), None
        )
        if file is None:
            return ()
        raw = file.read_text("utf-8", errors="replace")
        try:
            return raw, *(one.text for one in load(file, document))
        except LoadError:
            return (raw,)

    return texts


def _turn(turn: object, n: int, turns: Sequence[object], texts: Texts) -> Found:
    if not isinstance(turn, dict) or turn.get("role") not in ROLES:
        yield "error", 'the "role" is neither user nor assistant'
        return
    if not _said(turn, "text"):
        yield "error", 'the "text" is empty'
    before = turns[n - 1] if n else None
    if isinstance(before, dict) and ROLES.get(str(before.get("role"))) == ROLES[turn["role"]]:
        yield "warning", f"two messages of the {ROLES[turn['role']]} follow each other"
    # Of a reviewed conversation, what nobody has judged wholly is history.
    if ROLES[turn["role"]] == "user" and turn.get("judged") is not False:
        yield from _fields(turn, n)
        yield from _rewrite(turn)
        yield from _evidence(turn, texts)


def _fields(turn: dict[str, Any], n: int) -> Found:
    for key, known in (("kind", KINDS), ("answerability", tuple(ANSWERABILITY))):
        value = turn.get(key)
        if value is None:
            yield "error", f'there is no "{key}"'
        elif value not in known:
            yield "error", f"the {key} {value!r} is not one of {', '.join(known)}"
    if turn.get("kind") in LEANING and n == 0:
        yield "error", f"a first message cannot refer back: kind {turn['kind']!r}"


def _rewrite(turn: dict[str, Any]) -> Found:
    typed, rewrite, kind = _said(turn, "text"), _said(turn, "rewrite"), turn.get("kind")
    if not rewrite:
        yield "error", 'there is no "rewrite", or an empty one'
    elif kind in LEANING and normalised(rewrite) == normalised(typed):
        yield "error", f"the rewrite does not stand alone: it is what was typed, though the kind is {kind!r}"
    elif kind in ("first", "standalone") and normalised(rewrite) != normalised(typed):
        yield "warning", f"the rewrite differs from what was typed, though the kind is {kind!r}"
    if kind != "greeting" and (words := dangling(rewrite)):
        yield "warning", f"the rewrite may not stand alone: {words!r} points back in {rewrite!r}"


def _evidence(turn: dict[str, Any], texts: Texts) -> Found:
    evidence = turn.get("evidence")
    if not isinstance(evidence, list):
        yield "error", 'there is no "evidence": a list, empty where nothing answers'
        return
    needed = ANSWERABILITY.get(str(turn.get("answerability")))
    if needed is not None and bool(evidence) != needed:
        yield "error", f"{turn['answerability']!r} with {len(evidence)} quotes"
    for n, one in enumerate(evidence, 1):
        document, quote = (_said(one, key) for key in ("document", "quote")) if isinstance(one, dict) else ("", "")
        if not document or not quote:
            yield "error", f'evidence {n} needs a "document" and a "quote"'
        elif not (pages := texts(document)):
            yield "error", f"evidence {n}: there is no document {document!r}"
        elif not any(one["quote"] in page for page in pages):
            certainty: Certainty = "warning" if any(spans(page, quote) for page in pages) else "error"
            only = "only its words stand" if certainty == "warning" else "the quote does not stand"
            yield certainty, f"evidence {n}: {only} in {document}: {json.dumps(quote[:80], ensure_ascii=False)}"


def _said(row: dict[str, Any], key: str) -> str:
    value = row.get(key)
    return value.strip() if isinstance(value, str) else ""


def check(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="Dialogs, one JSON object a line (see docs/lab/evaluation.md).")],
    docs: Annotated[Path | None, typer.Option(help="Folder of the pages that are quoted.")] = None,
    collection: Searched = "",
) -> None:
    """Say line by line what is wrong with dialogs that quote their evidence; the exit code is 3 where something is.

    Quotes are looked for in the pages of --docs, else in an indexed collection.
    """
    state = state_of(context)
    present(file, "A file of dialogs", "docs/lab/evaluation.md describes its lines.")
    with ExitStack() as stack:
        if docs is not None:
            if not docs.is_dir():
                raise InputError(f"There is no folder {docs}; --docs names the one with the pages.")
            texts = folder_texts(docs)
        else:
            from cli.shared.resources import fetch_models, open_collection
            from server.chat.loaded_models import Models

            settings = state.settings(overriding(collection=collection))
            fetch_models(settings, state, reranker=False)
            opened = stack.enter_context(open_collection(settings, Models(settings)))
            known = {one.id for one in opened.documents()}

            def texts(document: str) -> Sequence[str]:
                name = document_id(document, known)
                return (opened.document(name).text,) if name else ()

        errors = warnings = 0
        for remark in remarks(file, texts):
            errors += remark.certainty == "error"
            warnings += remark.certainty == "warning"
            state.out.print(str(remark), soft_wrap=True)
    if errors:
        raise InputError(f"{file}: {errors} errors, {warnings} warnings.")
    state.err.print(f"{file}: no error, {warnings} warnings.")
