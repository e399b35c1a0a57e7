"""The server's own words are said to people and read by no later turn; thanks are answered as thanks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewriter import Conversation, Message, Rewrite
from server.turn.system_messages import (
    DOUBTFUL,
    GREETING,
    INTRODUCTION,
    NEAREST_INSTEAD,
    NOT_BORNE_OUT,
    WELCOME,
    history_for_model,
    no_answer,
    smalltalk_reply,
)
from tests.chat_model import ScriptedChatModel
from tests.server.turn_fakes import FakeCollection
from tests.server.turn_playing import FOLLOW_UP, done, engine, play


@pytest.mark.parametrize(
    "said",
    [
        "thanks!", "ok great, thx", "merci beaucoup", "ありがとうございます。", "谢谢！",
    ],
)  # fmt: skip
def test_thanks_are_answered_as_thanks(said: str) -> None:
    collection, model = FakeCollection(), ScriptedChatModel(script=["Leave lasts ten weeks [1]."])
    events = play(engine(model=model, collection=collection), said, conversation=FOLLOW_UP)
    end = done(events)
    assert (end.status, end.answer, end.citations) == ("answered", WELCOME, [])
    assert collection.asked == model.asked == []


def test_a_greeting_is_greeted() -> None:
    for said in ("Hi there", "こんにちは。", "你好"):
        assert done(play(engine(), said)).answer == GREETING, said


@pytest.mark.parametrize(
    "said",
    [
        "thanks, and by fax?",
        "thanks. now the docker version",
        "and by fax",
        "ok",
        "the second one, thanks",
        "",
        "🙂",
        "thanks " * 40,
        "great expectations",
    ],
)
def test_what_may_be_a_question_is_searched(said: str) -> None:
    assert smalltalk_reply(said) == ""


def test_words_that_a_person_searches_for_are_searched_whatever_was_typed() -> None:
    collection = FakeCollection()
    play(engine(collection=collection), "thanks", search_for="parental leave")
    assert collection.asked


@given(st.text(max_size=200))
def test_any_text_is_judged(said: str) -> None:
    assert smalltalk_reply(said) in ("", WELCOME, GREETING)


REFUSED = no_answer("tax\n\nforms", ["Hand\n\nbook; I found nothing near enough to quote.", "b"], 6, nearest=True)


def said(*texts: str) -> tuple[Message, ...]:
    return tuple(Message("assistant" if n % 2 else "user", text) for n, text in enumerate(texts))


@pytest.mark.parametrize(
    ("answer", "left"),
    [
        (REFUSED, ""),
        (f"{REFUSED}\n\n> Leave lasts ten weeks. [1]", "Leave lasts ten weeks."),
        (f"{DOUBTFUL}\n\n> Ten weeks. [1]\n\n> | a |\n>\n> [2]", ""),
        (f"{INTRODUCTION}\n\n> Ten weeks. [1]\n\n> It is paid. [2]", "Ten weeks.\n\nIt is paid."),
        (f"{DOUBTFUL}\n\n> Ten. [1]\n\n**And?**\n\n{INTRODUCTION}\n\n> Paid. [2]", "**And?**\n\nPaid."),
        (f"{DOUBTFUL}\n\nIt is ten weeks.", "It is ten weeks."),
        (no_answer("x", ["t"], 1), ""),
        (no_answer("x", ["t"], 1, far=True), ""),
        ("Two.\n\nThree [1].\n\nWhat comes nearest in the documents:\n\n> Ten. [1]", "Ten."),
        (
            f"**Paid?**\n\nYes [1].\n\n**How?**\n\nI guess.\n\n{NEAREST_INSTEAD}\n\n> Ten. [1]",
            "**Paid?**\n\nYes [1].\n\n**How?**\n\nTen.",
        ),
        (f"I guess [1].\n\n---\n\n{NOT_BORNE_OUT}\n\n{INTRODUCTION}\n\n> Ten. [1]", "Ten."),
        (f"I guess [1].\n\n---\n\n{NOT_BORNE_OUT}\n\n{DOUBTFUL}\n\n> Ten. [1]", ""),
        ("Ten weeks [1].\n\n\n  It is paid.", "Ten weeks [1].\n\n\n  It is paid."),
    ],
)
def test_what_the_server_says_itself_is_no_history(answer: str, left: str) -> None:
    kept = history_for_model(said("How long?", answer)).messages
    assert kept[0] == Message("user", "How long?")
    assert "".join(message.text for message in kept[1:]) == left


def test_quotes_told_with_a_doubt_are_heard_by_the_rewriter_alone() -> None:
    read = list[Conversation]()

    class Reading:
        name = "reading"

        def rewrite(self, conversation: Conversation, question: str) -> Rewrite:
            read.append(conversation)
            return Rewrite(question, "keep", history_probability=0.9)

    told = said("How long?", f"{INTRODUCTION}\n\n> Ten weeks. [1]", "Paid?", f"{DOUBTFUL}\n\n> By the employer. [1]")
    collection, model = FakeCollection(), ScriptedChatModel(script=["Yes [1]."])
    turns = engine(model=model, collection=collection, rewriter=Reading())
    play(turns, "by whom?", conversation=history_for_model(told))
    assert [[message.text for message in one.messages] for one in read] == [
        ["How long?", "Ten weeks.", "Paid?", "By the employer."]
    ]
    others = [*(query.text for query in collection.asked[0][0]), *(message.text for message in model.asked[0])]
    assert any("Ten weeks." in text for text in others)
    assert not any("employer" in text for text in others)
    assert not history_for_model(told[:2]).heard, "nothing was doubted"


def test_courtesies_are_no_history() -> None:
    kept = history_for_model(said("How long is leave?", "Ten weeks [1].", "thanks!", WELCOME)).messages
    assert [message.text for message in kept] == ["How long is leave?", "Ten weeks [1]."]
    answered = said("thanks!", "Which form do you mean?")
    assert history_for_model(answered) == Conversation(answered), "what a client's own server said stays"


def test_whatever_a_turn_refuses_or_quotes_leaves_no_word_of_the_server() -> None:
    for script, question in ((["<cannot_answer>"], "Who is the mayor?"), (None, "How long is parental leave?")):
        answer: Any = done(play(engine(script), question)).answer
        assert answer
        for message in history_for_model(said(question, answer)).messages[1:]:
            assert all(f"> {part}" in answer for part in message.text.split("\n\n")), "only what was quoted"


@pytest.mark.parametrize(("style", "status"), [("short", "quoted"), ("full", "answered")])
def test_what_a_model_invents_enters_no_later_turn(style: str, status: str) -> None:
    invented, question = "The mayor of Springfield studied medieval falconry [1].", "How long does parental leave last?"
    end = done(play(engine([invented], style=style), question))
    assert (end.status, bool(end.folded)) == (status, style == "short")
    history = history_for_model(said(question, end.answer))
    assert "ten weeks" in history.messages[-1].text, "the quotes that stand instead are read"

    collection, model = FakeCollection(), ScriptedChatModel(script=["Form PL-7 is faxed [2]."])
    play(engine(model=model, collection=collection), "and by fax?", conversation=history)
    read = [*(query.text for query in collection.asked[0][0]), *(message.text for message in model.asked[0])]
    assert any("ten weeks" in text for text in read)
    assert not any("falconry" in text for text in read)
