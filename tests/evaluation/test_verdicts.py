"""What an answer is worth where a judge decides, and where it says nothing that counts."""

from __future__ import annotations

import pytest
from langchain_core.messages import BaseMessage

from evaluation.answers import AnsweredTurn
from evaluation.diagnosis import verdict
from evaluation.questions import JudgedQuestion, Question
from server.turn.system_messages import DOUBTFUL
from tests.chat_model import ScriptedChatModel

ASKED = "How long does the filter last?"


@pytest.mark.parametrize(
    ("answer", "said", "right", "label", "score"),
    [
        # Other words for the same, which a comparison of words takes for wrong.
        ("Twelve months. [1]", "5", True, "", 5.0),
        ("One year, for the seal. [1]", "The score is 2", False, "missing detail", 2.0),
        # A judge that names no number from 1 to 5 leaves the words to decide.
        ("Twelve months. [1]", "splendid", False, "wrong question", None),
        ("It lasts one year. [1]", "9", True, "", None),
    ],
)
def test_a_judge_decides_where_it_says_a_number(
    answer: str, said: str, right: bool, label: str, score: float | None
) -> None:
    gold = JudgedQuestion(Question("q", "d", ASKED, answer="It lasts one year."), (), ())
    turn = AnsweredTurn("q", ASKED, ASKED, "answered", answer, (), (), (), {}, {})
    prompts: list[str] = []

    def judge(messages: list[BaseMessage]) -> str:
        prompts.extend(one.text for one in messages)
        return said

    found = verdict(gold, turn, ScriptedChatModel(script=judge))

    assert (found.right, found.label, found.judged) == (right, label, score)
    assert "It lasts one year." in prompts[1]
    assert ASKED in prompts[1]


def test_no_judge_is_asked_of_a_refusal_or_a_quotation() -> None:
    gold = JudgedQuestion(Question("q", "d", ASKED, answer="It lasts one year."), (), ())
    model = ScriptedChatModel(script=["1"])
    refused = AnsweredTurn("q", ASKED, ASKED, "refused", "", (), (), (), {}, {})
    quoted = AnsweredTurn("q", ASKED, ASKED, "quoted", "> The filter lasts one year. [1]", (), (), (), {}, {})

    assert verdict(gold, refused, model).label == "false negative"
    assert verdict(gold, quoted, model).right
    assert model.asked == []


def test_quotes_with_a_doubt_are_judged_by_what_they_say() -> None:
    gold = JudgedQuestion(Question("q", "d", ASKED, answer="It lasts one year."), (), ())
    doubted = f"{DOUBTFUL}\n\n> The filter lasts one year. [1]"
    turn = AnsweredTurn("q", ASKED, ASKED, "quoted", doubted, (), (), (), {}, {}, doubted=True)

    assert verdict(gold, turn).right
