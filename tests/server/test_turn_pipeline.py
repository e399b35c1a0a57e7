"""A turn from question to the last event, on every branch."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from langchain_core.messages import AIMessageChunk

from rewriter import Conversation, Message
from server.settings import RetrievalSettings, Settings
from server.tracing import Tracing
from server.turn import support
from server.turn.events import (
    DoneEvent,
    Event,
    EvidenceEvent,
    NearestEvent,
    RewriteEvent,
    TokenEvent,
)
from server.turn.run import TurnInput
from tests.chat_model import FOREVER, ScriptedChatModel
from tests.server.turn_fakes import FAX, LEAVE, FakeCollection, Reversing, Showing
from tests.server.turn_playing import FOLLOW_UP, Fixed, done, engine, play
from text.prompts import QuestionContext


def test_an_answer_streams_with_checked_citations() -> None:
    usage = {"input_tokens": 80, "output_tokens": 9, "total_tokens": 89}
    closing = AIMessageChunk(content="", response_metadata={"finish_reason": "stop"}, usage_metadata=usage)
    events = play(
        engine(["Parental leave ", "lasts ten weeks [1", "][8].", closing]), turn_id="t1", conversation_id="c1"
    )
    end = done(events)

    assert (end.turn_id, end.conversation_id, end.status) == ("t1", "c1", "answered")
    assert end.answer == "Parental leave lasts ten weeks [1]."
    assert [citation.quote for citation in end.citations] == ["Parental leave lasts ten weeks."]
    assert [one.supported for one in end.support] == [True]
    assert (end.dropped_citations, end.prompt_tokens, end.completion_tokens, end.finish_reason) == (1, 80, 9, "stop")
    assert {"rewrite", "search", "first_token", "generate", "total"} <= set(end.seconds)
    assert end.warning == ""


@pytest.mark.parametrize(
    ("script", "question", "kind"),
    [
        (
            ["Parental leave lasts [1] ten weeks [1]. It may be taken in two parts [1]."],
            "How long is leave?",
            "extractive",
        ),
        (["It lasts for ten weeks [1]."], "How long is leave?", "abstractive"),
        (["Yes, by fax [2]."], "Can I fax it?", "yes/no"),
        (["<cannot_answer>"], "Who is the mayor?", "unanswerable"),
        (None, "How long does parental leave last?", "extractive"),
        (None, "Which university did the mayor attend?", "unanswerable"),
        (None, "thanks!", None),
    ],
)
def test_the_end_says_what_kind_of_answer_it_was(script: list[str] | None, question: str, kind: str | None) -> None:
    assert done(play(engine(script), question)).answer_kind == kind


def test_tokens_are_passed_on_as_they_come() -> None:
    """The model says its second half only once the first has arrived."""

    async def arrivals() -> list[str]:
        arrived = asyncio.Event()
        turns = engine(["Parental leave lasts ", arrived, "ten weeks [1]."])
        texts = []
        async for event in turns.run(TurnInput(question="?", collection="docs")):
            if isinstance(event, TokenEvent):
                texts.append(event.text)
                arrived.set()
        return texts

    assert "".join(asyncio.run(arrivals())) == "Parental leave lasts ten weeks [1]."


def test_a_model_that_thinks_up_to_its_limit_is_not_taken_for_one_that_refuses() -> None:
    cut = AIMessageChunk(content=" fax?", response_metadata={"finish_reason": "length"})
    failed = play(engine(["<think>Is it by", cut]))[-1]

    assert failed.type == "error"
    assert "llm.answer_tokens" in failed.message


@pytest.mark.parametrize(
    "script",
    [
        ["<cannot", "_answer>"], ["CANNOT_ANSWER."], ["cannot answer"], ["The passages do ", "not state the answer."],
        [""], ["   \n"],
    ],
)  # fmt: skip
def test_a_refusal_is_said_honestly_and_never_as_a_token(script: list[str]) -> None:
    events = play(engine(script), "Who is the mayor?")
    end = done(events)

    assert end.status == "refused"
    assert "Who is the mayor?" in end.answer
    assert "2 passages" in end.answer
    assert "Handbook" in end.answer
    assert end.citations == []
    assert all("cannot_answer" not in event.text for event in events if isinstance(event, TokenEvent))


def test_after_a_refusal_the_model_is_not_heard_further() -> None:
    model = ScriptedChatModel(script=["<cannot_answer>", " ", "but ", FOREVER, "I think it is Mr. Doe [1]."])
    end = done(play(engine(model=model)))

    assert "Doe" not in end.answer
    assert model.closed == [True]


def test_below_an_answer_nothing_supports_the_nearest_sentences_are_quoted() -> None:
    said = "The mayor of Springfield studied medieval falconry [1]."
    end = done(play(engine([said], style="full"), "How long does parental leave last?"))

    assert "check it" in end.warning
    assert end.answer.startswith(said)
    assert "What comes nearest" in end.answer
    assert end.citations[-1].quote in end.answer
    assert [one.supported for one in end.support][:1] == [False]
    assert all(one.supported for one in end.support[1:])


@pytest.mark.parametrize(
    ("script", "question", "before"),
    [
        ("<cannot_answer>", "How long does parental leave last?", ""),
        ("The passages do not say how long it lasts.", "How long does parental leave last?", ""),
        ("The mayor of Springfield studied medieval falconry [1].", "How long does parental leave last?", ""),
        ("Parental leave lasts ten weeks [1]. </passages>", "How long does parental leave last?", ""),
        ("Handbook › Parental leave lasts [1]", "How long does parental leave last?", ""),
        ("Parental leave lasts `leave --weeks [1]` ten weeks [1].", "How long does parental leave last?", ""),
        ("How long does parental leave last [1].", "How long does parental leave last?", ""),
        ("[1] Parental leave lasts ten weeks.\n[2] Apply with form PL-7.", "How long does parental leave last?", ""),
        ("Parental leave lasts ten weeks [1].", "Where can I apply?", "Parental leave lasts ten weeks [1]."),
    ],
    ids=["refuses", "declines", "unsupported", "leak", "path", "marker in code", "echo", "copies", "repeats"],
)
def test_a_small_model_whose_text_cannot_stand_is_folded_and_the_quotes_answer(
    script: str, question: str, before: str
) -> None:
    said = (Message("user", "How long does parental leave last?"), Message("assistant", before)) if before else ()
    end = done(play(engine([script]), question, conversation=Conversation(said)))

    assert end.status == "quoted"
    assert end.answer.startswith("From the documents, word for word:\n\n> ")
    assert all(cited.quote in end.answer for cited in end.citations)
    assert "cannot_answer" not in end.folded
    # A large model's judgement stands, with a warning.
    large = done(play(engine([script], style="full"), question, conversation=Conversation(said)))
    assert large.folded == ""


@pytest.mark.parametrize("back", [1, 2, 3])
def test_a_small_model_that_repeats_any_earlier_answer_is_folded_unless_the_question_is_asked_again(back: int) -> None:
    asked, answer = "How long does parental leave last?", "Parental leave lasts ten weeks [1]."
    between = (Message("user", "Is it paid?"), Message("assistant", "Leave is paid for the first 8 weeks [1]."))
    said = Conversation((Message("user", asked), Message("assistant", answer), *between * (back - 1)))

    other = done(play(engine([answer]), "Where can I apply?", conversation=said))
    assert (other.status, other.folded) == ("quoted", answer)
    again = done(play(engine([answer]), "how long does parental leave last", conversation=said))
    assert (again.status, again.answer, again.folded) == ("answered", answer, "")
    both = f"{asked} And where can I apply?"
    parts = Conversation((Message("user", both), *said.messages[1:]))
    assert done(play(engine([answer]), asked, conversation=parts)).answer == answer, "a part of what was asked"


def test_what_a_small_model_writes_and_the_documents_bear_out_stands() -> None:
    said = "Parental leave lasts ten weeks [1]. It may be taken in two parts [1]."
    end = done(play(engine([said]), "How long does parental leave last?"))

    assert (end.status, end.answer, end.folded) == ("answered", said, "")

    # A sentence of the long quotes that answered before may be what is asked for next.
    quoted = (Message("user", "leave?"), Message("assistant", f"{LEAVE}\n\n{FAX}\n\n{FAX.replace('form', 'letter')}"))
    short = "It is not paid after week 8 [1]."
    end = done(play(engine([short]), "For which weeks is leave paid?", conversation=Conversation(quoted)))
    assert (end.answer, end.folded) == (short, "")


def test_a_small_model_s_copy_is_no_surer_than_the_quotes(monkeypatch: pytest.MonkeyPatch) -> None:
    copied, told = "It may be taken in two parts [1].", "Parental leave lasts for ten weeks [1]."
    read = Showing(0.9)
    assert done(play(engine([copied], reranker=read), "Which parts does leave have?")).answer == copied
    monkeypatch.setattr("server.turn.evidence.SURE", 2)
    end = done(play(engine([copied], reranker=read), "Which parts does leave have?"))
    assert (end.status, end.doubted, end.folded) == ("quoted", True, copied)
    assert done(play(engine([told], reranker=read), "Which parts does leave have?")).answer == told


def test_without_a_model_sentences_are_quoted() -> None:
    end = done(play(engine(), "How long does parental leave last?"))

    assert end.status == "quoted"
    assert end.answer.startswith("From the documents, word for word:")
    assert end.citations[0].quote == "Parental leave lasts ten weeks."
    assert end.citations[0].quote in end.answer
    assert all(one.supported for one in end.support)


def test_without_a_model_and_without_a_match_it_refuses() -> None:
    end = done(play(engine(), "Which university did the mayor attend?"))

    assert (end.status, end.citations) == ("refused", [])


@pytest.mark.parametrize("script", [None, ["I know it anyway."]])
def test_where_nothing_is_found_no_model_is_asked(script: list[str] | None) -> None:
    model = ScriptedChatModel(script=script) if script else None
    events = play(engine(model=model, collection=FakeCollection(texts=())))

    assert done(events).status == "refused"
    assert model is None or model.asked == []


def test_a_follow_up_is_searched_with_its_rewrite_and_read_with_both() -> None:
    model = ScriptedChatModel(script=["Yes, by fax [2]."])
    collection = FakeCollection()
    turns = engine(model=model, collection=collection, rewriter=Fixed("Can form PL-7 be sent by fax?"))
    events = play(turns, "and by fax?", conversation=FOLLOW_UP)
    rewrite = events[0]

    assert isinstance(rewrite, RewriteEvent)
    assert (rewrite.text, rewrite.decision, rewrite.rewriter) == ("Can form PL-7 be sent by fax?", "rewrite", "fixed")
    searched = [query.text for query in collection.asked[0][0]]
    assert {"and by fax?", "Can form PL-7 be sent by fax?"} <= set(searched)
    assert [variant.text for variant in rewrite.variants] == searched[: len(rewrite.variants)]
    assert "and by fax?\nThey mean: Can form PL-7 be sent by fax?" in model.asked[0][-1].text
    assert [message.type for message in model.asked[0]] == ["system", "human", "ai", "human"]


def test_a_slow_rewriter_leaves_the_typed_question() -> None:
    settings = Settings(retrieval=RetrievalSettings(profile={"rewrite_seconds": 0.1}))
    searched = threading.Event()
    turns = engine(
        ["The fax number is 555-0199 [2]."],
        settings=settings,
        rewriter=Fixed("Too late?", after=searched),
        collection=FakeCollection(before=searched.set),
    )
    events = play(turns, "and by fax?", conversation=FOLLOW_UP)
    rewrite = events[0]

    assert isinstance(rewrite, RewriteEvent)
    assert (rewrite.text, rewrite.decision) == ("and by fax?", "failed")
    assert "0.1 s" in rewrite.reason
    assert done(events).status == "answered"


def test_a_search_text_written_by_a_person_stands_in_for_the_rewrite() -> None:
    reranker, collection = Reversing(), FakeCollection()
    turns = engine(["x"], rewriter=Fixed("Wrong?"), reranker=reranker, collection=collection)
    events = play(turns, "and by fax?", conversation=FOLLOW_UP, search_for=" fax number of the office ")
    rewrite = events[0]

    assert isinstance(rewrite, RewriteEvent)
    assert (rewrite.text, rewrite.decision) == ("fax number of the office", "edited")
    assert "fax number of the office" in [query.text for query in collection.asked[0][0]]
    assert "Wrong?" not in [query.text for query in collection.asked[0][0]]
    assert set(reranker.asked) == {"fax number of the office"}


def test_a_cross_encoder_that_reads_conversations_has_the_question_as_typed_and_what_it_leans_on() -> None:
    """It needs no stand-alone question; where one was written in full, it reads that, and nothing beside it."""
    asked, answered = FOLLOW_UP.last_exchange()
    for more, question, context in (
        ({}, "and by fax?", QuestionContext("", asked, answered)),
        ({"rewriter": Fixed("Is fax possible?")}, "Is fax possible?", QuestionContext()),
        ({"search_for": "fax number"}, "fax number", QuestionContext()),
    ):
        reranker, played = Reversing(reads_conversations=True), dict[str, Any](more)
        turns = engine(["x"], reranker=reranker, **{key: played.pop(key) for key in {"rewriter"} & played.keys()})
        play(turns, "and by fax?", conversation=FOLLOW_UP, **played)
        assert (set(reranker.asked), set(reranker.contexts) - {None}) == ({question}, {context})


@pytest.mark.parametrize(
    ("how", "first", "follow_up"), [("auto", True, False), ("always", True, True), ("never", False, False)]
)
def test_reranking_needs_a_stand_alone_question(how: Any, first: bool, follow_up: bool) -> None:
    settings = Settings(retrieval=RetrievalSettings(rerank=how))
    for conversation, expected in ((Conversation(), first), (FOLLOW_UP, follow_up)):
        reranker = Reversing()
        events = play(engine(["x"], settings=settings, reranker=reranker), "and by fax?", conversation=conversation)
        evidence = events[1]

        assert isinstance(evidence, EvidenceEvent)
        assert evidence.reranked is bool(reranker.asked) is expected
        assert [one.text for one in evidence.passages] == ([FAX, LEAVE] if expected else [LEAVE, FAX])


def test_the_steps_are_told_with_content_apart() -> None:
    tracing = Tracing(content=True)
    turns = engine(["Ten weeks [1]."], reranker=Reversing())
    with tracing.begin_turn("t1", None, "docs", "?") as turn:
        play(turns)
    steps = tracing.end(turn, "answered").steps

    assert [step.name for step in steps] == ["rewrite", "search", "rerank", "sentences", "generate"]
    assert all(step.seconds >= 0 and step.started > 1e9 for step in steps)
    assert "How long is leave?" not in str([dict(step.values) for step in steps])
    assert LEAVE in str(steps[-1].prompt)
    assert steps[-1].output["text"] == "Ten weeks [1]."


@pytest.mark.parametrize("style", ["short", "full"])
def test_before_a_small_model_has_read_the_nearest_sentences_are_told(style: str) -> None:
    model = ScriptedChatModel(script=["Ten weeks [1]."])
    events = play(engine(model=model, style=style), "How long does parental leave last?")
    nearest = [event for event in events if isinstance(event, NearestEvent)]

    if style == "full":
        assert nearest == []
    else:
        assert events.index(nearest[0]) == 2
        assert nearest[0].sure
        assert "nearest:\n[1] Parental leave lasts ten weeks.\n" in model.asked[0][-1].text
        evidence = next(event for event in events if isinstance(event, EvidenceEvent))
        for quoted in nearest[0].quotes:
            passage = evidence.passages[quoted.n - 1]
            assert passage.text[quoted.start - passage.start : quoted.end - passage.start] == quoted.quote
        assert nearest[0].quotes[0].quote == "Parental leave lasts ten weeks."


@pytest.mark.parametrize("script", [None, ["Ten weeks [1]."], ["<cannot_answer>"]])
def test_evidence_is_cut_and_stemmed_off_the_event_loop(
    script: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    cutting, threads = support._cut, set[threading.Thread]()

    def slowly(text: str, language: str, begin: int = 0) -> tuple[support._Sentence, ...]:
        threads.add(threading.current_thread())
        until, begun = time.monotonic() + 60, ticks
        while ticks < begun + 6 and time.monotonic() < until:
            time.sleep(0.001)
        return cutting(text, language, begin)

    monkeypatch.setattr(support, "_cut", slowly)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.001)
            ticks += 1

    async def turn() -> Event:
        ticking = asyncio.create_task(tick())
        events = [
            event async for event in engine(script).run(TurnInput(question="How long is leave?", collection="docs"))
        ]
        ticking.cancel()
        return events[-1]

    assert isinstance(asyncio.run(turn()), DoneEvent)
    assert threads
    assert threading.main_thread() not in threads
    assert ticks > 5


def test_many_turns_run_at_once() -> None:
    turns = engine(["Parental leave ", 0.05, "lasts ten weeks [1]."])

    async def crowd() -> list[Event]:
        async def one() -> Event:
            return [event async for event in turns.run(TurnInput(question="How long?", collection="docs"))][-1]

        return await asyncio.gather(*(one() for _ in range(50)))

    assert {event.answer for event in asyncio.run(crowd()) if isinstance(event, DoneEvent)} == {
        "Parental leave lasts ten weeks [1]."
    }
