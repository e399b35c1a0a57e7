"""Ordinals and the items of lists that they name."""

from __future__ import annotations

import pytest

from rewriter.protocol import Conversation, Message
from rewriter.terms import enumerations, resolve

NUMBERED = "There are three ways: 1) by the web page, 2) by post (a form) or 3) at a counter. All are free."
BULLETS = "These kinds exist:\n\n- counters, which only grow\n- gauges\n- histograms\n\nPick one."
TWO_LISTS = "Modes:\n\n* fast\n  - `--fast`\n* slow\n\nSlow and safe is better.\n\nPorts:\n\n1. 53\n2. 80\n3. 443"
TABLE = "| Flag | Meaning |\n|:---|---|\n| `-p` | ports |\n| `-v` | volumes |\n\nAll are optional."
SENTENCE = "It sets `HOST`, `PORT` and `LOG_LEVEL`."
PAIR = "There are two modes: direct and metadata."


@pytest.mark.parametrize(
    ("answer", "question", "item"),
    [
        (NUMBERED, "and the second one, what does it cost?", "by post (a form)"),
        (NUMBERED, "the last sounds good, do I need an appointment?", "at a counter"),
        (NUMBERED, "option 1, please", "by the web page"),
        (BULLETS, "the first of those, can it go down?", "counters, which only grow"),
        (BULLETS, "third?", "histograms"),
        (SENTENCE, "is the third one needed?", "`LOG_LEVEL`"),
        (SENTENCE, "the middle one, what is it?", "`PORT`"),
        (NUMBERED, "the second form, does it cost anything", "by post (a form)"),
        (NUMBERED, "3: when is it open?", "at a counter"),
        (TWO_LISTS, "the third one, is it needed?", "443"),
        (TWO_LISTS, "the former, is it better?", "fast"),
        (TABLE, "the second one, is it needed?", "`-v`"),
        (PAIR, "how does the latter differ", "metadata"),
    ],
)
def test_an_ordinal_names_an_item(answer: str, question: str, item: str) -> None:
    asked = Message("user", "which are there?")
    assert resolve(Conversation((asked, Message("assistant", answer))), question, {}) == item
    later = (asked, Message("assistant", answer), Message("user", "why?"), Message("assistant", "It says nothing."))
    assert resolve(Conversation(later), question, {}) == item, "the list of the answer before counts too"


@pytest.mark.parametrize(
    "question",
    [
        "how long does it last", "is there a second form then", "is it slower the second time?",
        "back to the first one you named", "last question: what does it cost", "what must I do first",
        "the fifth one?", "which one is free?",
    ],
)  # fmt: skip
def test_other_questions_name_none(question: str) -> None:
    assert resolve(Conversation((Message("user", "how?"), Message("assistant", NUMBERED))), question, {}) is None


DEFINED = "There are core types. A counter is a number that grows. A gauge is one that goes up and down. A sum counts."


def test_things_that_are_defined_in_a_row_are_a_list() -> None:
    assert resolve(Conversation((Message("assistant", DEFINED),)), "when should I use the second one?", {}) == "gauge"


def test_of_several_lists_the_one_with_the_likelier_item_counts() -> None:
    answer = "It reads `HOST` and `PORT`. You can restart it and wait."
    said = Conversation((Message("assistant", answer),))
    assert resolve(said, "what is the second for?", {"port": 0.9}) == "`PORT`"
    assert resolve(said, "what is the second for?", {"wait": 0.9}) == "wait"


@pytest.mark.parametrize(
    "text", [" " * 99_000 + "a", "\n" * 99_000, "1) " * 33_000, "a, " * 33_000 + "and b", "(a) - " * 16_000]
)
def test_hostile_text_is_read_in_linear_time(text: str) -> None:
    assert len(list(enumerations(text))) <= 1
