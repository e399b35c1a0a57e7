"""Questions answered part by part: one stream of events, evidence numbered once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from index.documents import Hit, Query, Where
from server.settings import Settings
from server.turn.events import Event, EvidenceEvent, RewriteEvent, StepEvent
from tests.chat_model import ScriptedChatModel
from tests.server.turn_fakes import FakeCollection, passage
from tests.server.turn_playing import done, engine, failed, play
from text.words import stems

LEAVE = "Parental leave lasts ten weeks."
FAX = "The fax number of the office is 555-0199."
BOTH = "Parental leave lasts ten weeks, and the fax number of the office is 555-0199."
QUESTION = "How long is parental leave and what is the fax number of the office?"
PLAIN = Settings.model_validate({"answer": {"split_questions": False}})


@dataclass
class WordCollection(FakeCollection):
    """Finds those texts that share words with what is asked, the most first."""

    texts: Sequence[str] = (LEAVE, FAX)

    def search(
        self, queries: Sequence[Query], k: int = 20, where: Where | None = None, depth: int = 100, rrf_k: int = 60
    ) -> list[Hit]:
        super().search(queries, k, where, depth, rrf_k)
        asked = set(stems(queries[0].text))
        shared = [(len(asked & set(stems(text))), n, text) for n, text in enumerate(self.texts, 1)]
        found = sorted((one for one in shared if one[0]), key=lambda one: (-one[0], one[1]))
        return [Hit(passage(text, f"d{n}.md"), 1.0, {"typed/bm25": n}) for _, n, text in found][:k]


def answers(messages: list[Any]) -> str:
    """Answers from the first passage that it is shown."""
    shown = messages[-1].text
    for text in (LEAVE, FAX):
        if text in shown:
            number = shown.split(text)[0].rpartition("[")[2].partition("]")[0]
            return f"{text.rstrip('.')} [{number}]."
    return "<cannot_answer>"


def of(events: list[Event], kind: type[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def test_each_part_is_searched_and_answered_with_citations_of_its_own() -> None:
    model = ScriptedChatModel(script=answers)
    events = play(engine(model=model, collection=WordCollection()), QUESTION)
    ending = done(events)
    assert ending.answer == (
        "**How long is parental leave?**\n\nParental leave lasts ten weeks [1].\n\n"
        "**What is the fax number of the office?**\n\nThe fax number of the office is 555-0199 [2]."
    )
    assert [(one.n, one.quote, ending.answer[one.answer_start : one.answer_end]) for one in ending.citations] == [
        (1, LEAVE, "[1]"), (2, FAX, "[2]"),
    ]  # fmt: skip
    assert all(one.supported for one in ending.support)
    assert [one.n for one in of(events, EvidenceEvent)[0].passages] == [1, 2]
    rewrite = of(events, RewriteEvent)[0]
    assert (rewrite.decision, rewrite.question, len(rewrite.parts)) == ("parts", QUESTION, 2)
    assert [(one.done, one.of, one.text) for one in of(events, StepEvent)] == [
        (0, 2, "How long is parental leave?"), (1, 2, "What is the fax number of the office?"),
    ]  # fmt: skip
    assert len(model.asked) == 2
    assert ending.prompt_tokens == 20
    assert FAX not in model.asked[0][-1].text


def test_a_question_that_one_section_covers_is_answered_whole() -> None:
    collection = WordCollection([BOTH, FAX])
    model = ScriptedChatModel(script=["It lasts ten weeks [1]."])
    events = play(engine(model=model, collection=collection), QUESTION)
    assert of(events, RewriteEvent)[0].decision == "keep"
    assert len(model.asked) == 1
    assert len(collection.asked) == 1, "what was found to decide is not searched for again"


def test_parts_are_left_together_where_settings_or_a_request_say_so_or_another_part_asks() -> None:
    for settings, options in (
        (PLAIN, {}),
        (Settings(), {"split_questions": False}),
        (Settings(), {"search_for": "fax"}),
    ):
        model = ScriptedChatModel(script=["Ten weeks [1]."])
        events = play(engine(model=model, collection=WordCollection(), settings=settings), QUESTION, **options)
        assert not of(events, StepEvent)
        assert len(model.asked) == 1


def test_without_a_model_each_part_is_quoted() -> None:
    ending = done(play(engine(collection=WordCollection()), QUESTION))
    assert ending.status == "quoted"
    assert ending.answer.count("From the documents, word for word:") == 1
    assert f"> {LEAVE} [1]" in ending.answer
    assert f"> {FAX} [2]" in ending.answer
    assert [one.n for one in ending.citations] == [1, 2]


def test_a_passage_that_two_parts_find_has_one_number_and_a_refused_part_says_so() -> None:
    texts = ["Parental leave, fax and office are explained elsewhere.", LEAVE]
    model = ScriptedChatModel(script=answers)
    events = play(engine(model=model, collection=WordCollection(texts), style="full"), QUESTION)
    shown = of(events, EvidenceEvent)[0].passages
    assert [one.n for one in shown] == [1, 2]
    assert len({one.passage_id for one in shown}) == 2
    ending = done(events)
    assert ending.status == "answered"
    assert "I found no sure answer to this in the documents." in ending.answer


def test_a_part_that_a_small_model_makes_up_is_folded_alone() -> None:
    def script(messages: list[Any]) -> Any:
        return "Send owls [2]." if FAX in messages[-1].text else answers(messages)

    ending = done(play(engine(model=ScriptedChatModel(script=script), collection=WordCollection()), QUESTION))
    assert ending.folded == "Send owls [2]."
    assert ending.answer.startswith("**How long is parental leave?**\n\nParental leave lasts ten weeks [1].\n\n")
    assert ending.answer.endswith(f"\n\n> {FAX} [2]")
    assert [ending.answer[one.answer_start : one.answer_end] for one in ending.citations] == ["[1]", "[2]"]


def test_what_points_back_is_searched_with_the_part_before_it() -> None:
    collection = WordCollection()
    play(engine(collection=collection), "What is parental leave and who pays for it?")
    last = [query.text for query in collection.asked[-1][0]]
    assert any("What is parental leave?" in text for text in last)


def test_an_error_in_a_part_ends_the_turn_with_what_was_shown() -> None:
    def script(messages: list[Any]) -> Any:
        return RuntimeError("gone") if FAX in messages[-1].text else answers(messages)

    events = play(engine(model=ScriptedChatModel(script=script), collection=WordCollection()), QUESTION)
    assert failed(events).code == "llm_failed"
    assert failed(events).answer.startswith("**How long is parental leave?**\n\nParental leave lasts ten weeks [1].")
