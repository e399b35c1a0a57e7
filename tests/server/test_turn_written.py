"""An answer that a person wrote ahead takes the place of the search and of the model."""

from __future__ import annotations

from typing import Any

from server.turn.events import DoneEvent, Event, Evidence, EvidenceEvent
from server.turn.reply import WrittenAnswer
from tests.server.turn_fakes import evidence
from tests.server.turn_playing import engine, play

[LEAVE] = evidence("It is ten weeks.")


def answered(text: str, *passages: Evidence, refuses: bool = False, **options: Any) -> tuple[DoneEvent, list[Event]]:
    written = WrittenAnswer("w1", text, passages, refuses)
    events = play(engine(["A model speaks [1]."], answerers=[lambda *_: written]), **options)
    done = events[-1]
    assert isinstance(done, DoneEvent)
    return done, events


def test_no_model_is_asked_and_the_answer_says_who_wrote_it() -> None:
    done, events = answered("Ten weeks, says Ada [1].", LEAVE)
    assert (done.status, done.answer, done.written) == ("answered", "Ten weeks, says Ada [1].", "w1")
    assert [citation.quote for citation in done.citations] == ["It is ten weeks."]
    assert [event.type for event in events] == ["rewrite", "evidence", "token", "citation", "token", "done"]
    assert (done.prompt_tokens, done.support) == (0, [])


def test_passages_that_it_does_not_cite_are_named_at_its_end() -> None:
    assert answered("Ten weeks.", LEAVE)[0].answer == "Ten weeks. [1]"
    assert answered("```\nten\n```", LEAVE)[0].answer.endswith("```\n\n[1]")


def test_a_marker_of_no_passage_is_not_shown() -> None:
    done, _ = answered("Ten weeks [3].")
    assert (done.answer, done.citations) == ("Ten weeks.", [])


def test_an_answer_that_sends_people_elsewhere_is_a_refusal() -> None:
    done, _ = answered("Ask the works council.", refuses=True)
    assert (done.status, done.answer) == ("refused", "Ask the works council.")


def test_without_one_the_turn_goes_on() -> None:
    events = play(engine(["It is ten weeks [1]."], answerers=[lambda *_: None]))
    assert isinstance(events[1], EvidenceEvent)
    assert isinstance(events[-1], DoneEvent)
    assert events[-1].written == ""
    assert events[1].passages
