"""The rewriter that every installation has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rewriter.load import load_rewriter
from rewriter.protocol import Conversation, Message, Rewriter
from rewriter.recipe import read_recipe
from rewriter.terms import ConversationReader

FOLDER = Path(__file__).resolve().parents[2] / "rewriter" / "default"
TALK = Conversation(
    (
        Message("user", "How do I renew my driver license?"),
        Message("assistant", "Fill in form MV-44 and send it to the licensing office by mail."),
    )
)


@pytest.fixture(scope="module")
def rewriter() -> Rewriter:
    return load_rewriter(FOLDER)


@pytest.mark.parametrize("question", ["and by fax?", "how much does it cost", "Where is their office?"])
def test_a_question_that_leans_on_the_conversation_is_expanded(rewriter: Rewriter, question: str) -> None:
    made = rewriter.rewrite(TALK, question)
    assert made.decision == "expand"
    assert made.text.startswith(question)
    assert "license" in made.text or "MV-44" in made.text
    assert made.history_probability is not None
    assert made.history_probability > 0.8


@pytest.mark.parametrize(
    "question", ["How do I apply for a student loan?", "What documents do I need to register a motorcycle in New York?"]
)
def test_a_question_that_stands_alone_is_kept(rewriter: Rewriter, question: str) -> None:
    made = rewriter.rewrite(TALK, question)
    assert (made.decision, made.text) == ("keep", question)
    assert made.confidence is not None
    assert made.confidence > 0.8


def test_of_a_list_the_item_that_is_named_is_added(rewriter: Rewriter) -> None:
    asked = Message("user", "How can I renew my license?")
    answer = Message("assistant", "You can renew it 1) online, 2) by mail with form MV-44, or 3) at a DMV office.")
    made = rewriter.rewrite(Conversation((asked, answer)), "what does the second one cost?")
    assert made.text == "what does the second one cost? by mail with form MV-44"


def test_every_added_word_was_said(rewriter: Rewriter) -> None:
    made = rewriter.rewrite(TALK, "and by fax?")
    said = " ".join(turn.text for turn in TALK.messages)
    assert made.expansion
    assert all(term.text in said and 0 < term.score <= 1 for term in made.expansion)


def test_a_long_conversation_costs_no_more_than_a_short_one() -> None:
    """What a rewrite costs are the tokens that the model is given."""
    reader = ConversationReader.open(FOLDER / "tokenizer.json")
    long = reader.read(Conversation(TALK.messages * 200), "and by fax?" * 200)
    assert len(long.ids) < 300


def test_it_is_small_and_says_where_it_comes_from() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 25_000_000
    card = json.loads((FOLDER / "card.json").read_text())
    assert set(card["data"]["sha256"]) == {part.path for part in read_recipe("terms").stage.data}
    assert card["metrics"]["gate_auc"] > 0.9
