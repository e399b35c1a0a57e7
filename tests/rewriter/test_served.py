"""A served model beside a trained rewriter: when it is asked, whose rewrite counts, and what a slow one costs."""

import asyncio

import pytest

from rewriter.protocol import Conversation, Message, Rewrite, Term
from rewriter.served import MISSES, PAUSE, Patience, ServedRewriter

TALK = Conversation((Message("user", "renew the passport"), Message("assistant", "By fax.")))
FULL = Rewrite("Can a passport be renewed by mail?", "rewrite")


class Trained:
    name = "terms"

    def __init__(self, probability: float | None = 0.8) -> None:
        self.probability = probability

    def rewrite(self, conversation: Conversation, question: str) -> Rewrite:
        words = (Term("passport", 0.9),)
        return Rewrite(f"{question} passport", "expand", expansion=words, history_probability=self.probability)


class Writer:
    name = "prompted"

    def __init__(self, written: Rewrite = FULL) -> None:
        self.written, self.asked = written, 0

    def rewrite(self, conversation: Conversation, question: str) -> Rewrite:
        self.asked += 1
        return self.written

    async def arewrite(self, conversation: Conversation, question: str) -> Rewrite:
        return self.rewrite(conversation, question)


def test_the_sentence_takes_the_place_of_the_words_and_keeps_the_probability() -> None:
    rewriter = ServedRewriter(Trained(), Writer())
    rewrite = rewriter.rewrite(TALK, "and by mail?")
    assert (rewrite.text, rewrite.decision, rewrite.expansion) == (FULL.text, "rewrite", ())
    assert rewrite.history_probability == 0.8
    first = rewriter.first.rewrite(TALK, "and by mail?")
    assert asyncio.run(rewriter.afinish(TALK, "and by mail?", first)) == rewrite
    assert rewriter.name == "terms+prompted"


@pytest.mark.parametrize("probability", [0.2, None])
def test_a_question_that_stands_alone_is_not_written_anew(probability: float | None) -> None:
    writer = Writer()
    assert ServedRewriter(Trained(probability), writer).rewrite(TALK, "and by mail?").decision == "expand"
    assert writer.asked == 0


def test_a_first_question_is_not_written_anew() -> None:
    writer = Writer()
    ServedRewriter(Trained(), writer).rewrite(Conversation(), "and by mail?")
    assert writer.asked == 0


@pytest.mark.parametrize("decision", ["keep", "refused", "failed"])
def test_without_a_sentence_the_words_stay(decision: str) -> None:
    written = Rewrite("and by mail?", decision)  # type: ignore[arg-type]
    assert ServedRewriter(Trained(), Writer(written)).rewrite(TALK, "and by mail?").text == "and by mail? passport"


def test_a_server_that_is_too_slow_is_left_alone_for_a_while_and_tried_again() -> None:
    writer, patience = Writer(Rewrite("and by mail?", "failed")), Patience()
    for _ in range(MISSES + PAUSE):
        # Each turn has a writer of its own; the patience is the server's.
        ServedRewriter(Trained(), writer, patience).rewrite(TALK, "and by mail?")
    assert writer.asked == MISSES
    writer.written = FULL
    for _ in range(3):
        assert ServedRewriter(Trained(), writer, patience).rewrite(TALK, "and by mail?").text == FULL.text
    assert writer.asked == MISSES + 3
