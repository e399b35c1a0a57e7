"""A model that writes with the term rewriter's words: what it learns and reads, and what is left where it fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from rewriter.conditional import ConditionalRewriter, Decided, Form, Stop, read_description
from rewriter.conditional_training import IGNORED, collate, conditional_features
from rewriter.examples import RewriteExample
from rewriter.load import describe
from rewriter.protocol import Conversation, Message, Rewrite, RewriteGate, Term
from rewriter.recipe import Recipe
from text.progress import read_progress, track_progress

pytestmark = pytest.mark.extended

TALK = Conversation((Message("user", "How do I renew a bus pass?"), Message("assistant", "Ask the office.")))


class Words:
    """A term rewriter that opens for questions of few words and finds one thing."""

    name = "terms"

    def rewrite(self, conversation: Conversation, question: str) -> Rewrite:
        if len(question.split()) > 4:
            return Rewrite(question, "keep", 0.9, history_probability=0.1)
        return Rewrite(
            f"{question} bus pass", "expand", 0.8, expansion=(Term("bus pass", 0.8),), history_probability=0.8
        )


class Writes:
    """An engine that notes what it reads and writes one sentence."""

    def __init__(self, form: Form, sentence: str) -> None:
        self.form, self.sentence, self.read = form, sentence, list[str]()

    def decide(self, sources: Sequence[Sequence[int]], limit: int, stop: Stop) -> list[Decided]:
        raise AssertionError("the term rewriter decides")

    def phrase(self, sources: Sequence[Sequence[int]], limit: int, stop: Stop) -> list[tuple[int, ...]]:
        self.read += [self.form.text(source) for source in sources]
        return [tuple(self.form.tokenizer.encode(self.sentence, add_special_tokens=False).ids) for _ in sources]


@pytest.fixture(scope="module")
def form(trained: Path) -> Form:
    return read_description(trained, describe(trained)).form


def served(form: Form, sentence: str) -> tuple[Writes, ConditionalRewriter]:
    engine = Writes(form, sentence)
    return engine, ConditionalRewriter(engine, form, RewriteGate(), timeout_seconds=30, words=Words())


def test_the_term_rewriter_decides_and_its_words_are_read_and_kept(form: Form) -> None:
    engine, rewriter = served(form, "What does a bus pass cost?")
    assert rewriter.rewrite(TALK, "Where do I apply for a library card?").decision == "keep"
    assert not engine.read
    made = rewriter.rewrite(TALK, "What does it cost?")
    assert (made.text, made.decision, made.history_probability) == ("What does a bus pass cost?", "rewrite", 0.8)
    assert [term.text for term in made.expansion] == ["bus pass"]
    assert engine.read[0].endswith("What does it cost?| bus pass")


def test_a_sentence_that_the_guard_refuses_leaves_the_words(form: Form) -> None:
    _, rewriter = served(form, "Who may have a fishing licence?")
    made = rewriter.rewrite(TALK, "What does it cost?")
    assert (made.text, made.decision) == ("What does it cost? bus pass", "expand")
    assert "drifts" in made.reason


def test_what_the_guard_would_refuse_or_the_term_rewriter_keeps_is_not_learned(form: Form, tmp_path: Path) -> None:
    def row(question: str, rewrite: str) -> RewriteExample:
        return RewriteExample("d#1", TALK.messages, question, rewrite)

    asked = row("What does it cost?", "What does a bus pass cost?")
    drops = row("What does it cost?", "Who may have a fishing licence?")
    kept = row("Where do I apply for a library card?", "Where do I apply for a library card?")
    with track_progress(tmp_path):
        features = conditional_features([asked, drops, asked, kept], form, Words())
        told = read_progress(tmp_path)
    assert told is not None
    assert (told.stage, told.total) == ("preparing rows", 3)
    assert len(features) == 2
    assert form.text(features[0]["input_ids"]).endswith("| bus pass")
    assert features[0] == features[1]


def test_logits_are_asked_for_where_a_target_begins() -> None:
    rows = [
        {"input_ids": [5, 6, 7, 8], "labels": [IGNORED, IGNORED, 7, 8]},
        {"input_ids": [5, 6, 4, 7, 9], "labels": [IGNORED, IGNORED, IGNORED, 7, 9]},
    ]
    batch = collate(rows, 0, cut=True)
    assert batch["logits_to_keep"] == 4
    assert batch["labels"].tolist() == [[IGNORED, 7, 8, IGNORED], [IGNORED, IGNORED, 7, 9]]  # type: ignore[union-attr]


@pytest.mark.extended
def test_a_run_says_that_it_reads_words(
    recipe_of: Callable[..., Recipe], run: Callable[..., Path], papers: Path, tmp_path: Path
) -> None:
    made = recipe_of(model={"words": True}, stage={"steps": 2}, dev_examples=4)
    assert describe(run(made, papers, tmp_path / "run"))["words"]
