"""Answer, ask back or refuse: told from a search, and monotone in what supports an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from index.documents import Hit, Passage
from index.encoders import Encoder, Vectors
from rewriter import Conversation, PassThroughRewriter
from server.settings import RetrievalSettings, Settings
from server.turn.decision import (
    KINDS,
    MONOTONE,
    OTHERS,
    WITH_QUESTION,
    Chances,
    chances,
    decide,
    is_bare_complaint,
    models,
    signals,
)
from server.turn.events import RewriteEvent
from server.turn.search import SearchPlan, TurnSearch
from tests.chat_model import ScriptedChatModel
from tests.server.test_turn_ask_back import Sections
from tests.server.turn_fakes import FakeCollection, Showing
from tests.server.turn_playing import FOLLOW_UP, done, engine, play
from text.prompts import QuestionContext

ASKED = "How long does parental leave last?"


def hit(text: str, rank: int, relevance: float | None = None) -> Hit:
    found = Passage(f"p{rank}", "d", "", text, 0, len(text))
    return Hit(found, 1 / rank, {"typed/bm25": rank, "typed/dense": rank}, relevance)


GOOD = [hit("Parental leave lasts ten weeks, however long it is asked for.", 1, 6.0), hit("Badges are blue.", 2, -9.0)]
BAD = [hit("Badges are blue.", 1, -9.0), hit("Taxi rides are refunded.", 2, -10.0)]


def planned(question: str = ASKED, conversation: Conversation = Conversation()) -> SearchPlan:  # noqa: B008  (frozen)
    rewriter = PassThroughRewriter()
    search = TurnSearch(collection=lambda _: FakeCollection(), rewriter=rewriter, settings=Settings())
    return search.plan(question, conversation, rewriter.rewrite(conversation, question))


def unread(hits: Sequence[Hit]) -> list[Hit]:
    return [replace(one, relevance=None) for one in hits]


def test_a_search_that_found_the_words_is_likelier_to_answer() -> None:
    for good, bad in ((GOOD, BAD), (unread(GOOD), unread(BAD))):
        assert chances(planned(), good).answer > chances(planned(), bad).answer
    assert chances(planned(), []) == Chances(0.0, 0.0, 1.0)


def test_what_the_documents_do_not_speak_of_they_do_not_answer() -> None:
    far = [hit("Badges are blue.", 1, -10.5), hit("Taxi rides are refunded.", 2, -10.0)]
    nothing = Chances(0.0, 0.0, 1.0)
    assert chances(planned("Who won the football world cup?"), far) == nothing
    # Near by the words, by the cross-encoder, or in letters and words that it never learnt.
    assert chances(planned("Are badges blue?"), far) != nothing
    assert chances(planned("Who won the football world cup?"), BAD) != nothing
    assert chances(planned("Wer hat die Fußballweltmeisterschaft gewonnen?"), far) != nothing


@pytest.mark.parametrize("question", [ASKED, "", "the of and", "ß漢字🙂" * 50, "x" * 5000])
def test_signals_stay_within_bounds_whatever_comes_in(question: str) -> None:
    for hits in (GOOD, BAD, [], [replace(GOOD[0], relevance=float("nan"))], [replace(GOOD[0], ranks={})]):
        found = signals(planned(question), hits)
        assert all(-1 <= value <= 1 for value in found.values()), found
        assert ("best relevance" in found) == any(one.relevance is not None for one in hits)
        whole = chances(planned(question), hits)
        assert whole.answer + whole.ask + whole.refuse == pytest.approx(1)


def test_the_packaged_weights_know_their_signals_and_the_packaged_encoder(encoder: Encoder) -> None:
    assert models().encoder == encoder.name
    assert set(models().by_kind) == {kind + more for kind in KINDS for more in ("", WITH_QUESTION)}
    for name, model in models().by_kind.items():
        assert set(model.bias) == set(model.weights) == set(OTHERS)
        assert all(tuple(weights) == KINDS[name.split()[0]] for weights in model.weights.values())
        lengths = {encoder.dimension} if name.endswith(WITH_QUESTION) else set()
        assert {len(weights) for weights in model.question.values()} == lengths


class Knowing(FakeCollection):
    """A collection that knows the vector of every question, by one encoder."""

    def __init__(self, encoder: Encoder, name: str) -> None:
        super().__init__()
        self._encoder, self._name = encoder, name

    def question_vector(self, text: str, encoder: str) -> Vectors | None:
        return self._encoder.encode([text])[0] if encoder == self._name else None


def test_the_questions_own_vector_tells_what_must_be_asked_back(encoder: Encoder) -> None:
    for hits in (GOOD, unread(GOOD)):
        searched = Knowing(encoder, encoder.name)
        vague, plain = (chances(planned(text), hits, searched=searched) for text in ("it doesn't work", ASKED))
        assert vague.ask > 3 * plain.ask
        blind = chances(planned(ASKED), hits)
        assert plain != blind
        assert chances(planned(ASKED), hits, searched=Knowing(encoder, "another")) == blind


values = st.floats(-1, 1)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(sorted(models().by_kind)), st.data())
def test_more_support_never_makes_an_answer_less_likely(kind: str, data: Any) -> None:
    model, names = models().by_kind[kind], KINDS[kind.split()[0]]
    found = {name: data.draw(values) for name in names}
    name = data.draw(st.sampled_from([name for name in names if name in MONOTONE]))
    more = found | {name: data.draw(st.floats(found[name], 1))}
    assert model.chances(more).answer >= model.chances(found).answer - 1e-12


@pytest.mark.parametrize(
    ("found", "refusing", "asking", "outcome"),
    [
        (Chances(0.1, 0.1, 0.8), 0.0, 0.0, "answer"),
        (Chances(0.1, 0.1, 0.8), 0.5, 0.0, "refuse"),
        (Chances(0.6, 0.1, 0.3), 0.5, 0.0, "answer"),
        (Chances(0.3, 0.6, 0.1), 0.5, 0.5, "ask"),
        (Chances(0.1, 0.4, 0.5), 0.6, 0.4, "refuse"),
        (Chances(0.1, 0.5, 0.4), 0.7, 0.4, "ask"),
        (Chances(0.1, 0.5, 0.4), 0.7, 0.0, "refuse"),
    ],
)
def test_the_settings_decide_from_which_chance_on(found: Chances, refusing: float, asking: float, outcome: str) -> None:
    assert decide(found, RetrievalSettings(profile={"answerable": refusing, "ask_back": asking}).profile) == outcome


def test_by_default_the_unlikely_is_refused_and_the_unclear_asked_back() -> None:
    profile = RetrievalSettings().profile
    assert decide(Chances(0.9, 0.05, 0.05), profile) == "answer"
    assert decide(Chances(0.3, 0.05, 0.65), profile) == "refuse"
    assert decide(Chances(0.6, 0.3, 0.1), profile) == "ask"
    # "And how do I remove it again?" is a question, if a short one.
    assert decide(Chances(0.78, 0.2, 0.02), profile) == "answer"
    assert decide(Chances(0.6, 0.3, 0.1), profile, may_ask=False) == "answer"


@pytest.mark.parametrize(
    ("said", "bare"),
    [
        ("it doesn't work", True),
        ("hmm now the signup crashes", True),
        ("uv is slow on this server", True),
        ("why does it fail?", False),
        ("is it slower than the other one", False),
        ('it fails with "permission denied"', False),
        ("it failed when i ran it straight after install, second time was fine", False),
        ("does it work offline", False),
    ],
)
def test_a_bare_complaint_is_asked_back_whatever_its_chances(said: str, bare: bool) -> None:
    profile = RetrievalSettings().profile
    assert is_bare_complaint(said) == bare
    for likely in (Chances(0.9, 0.05, 0.05), Chances(0.4, 0.05, 0.55)):
        assert (decide(likely, profile, complaint=is_bare_complaint(said)) == "ask") == bare
        assert decide(likely, profile, may_ask=False, complaint=True) != "ask"
        assert decide(likely, RetrievalSettings(profile={"ask_back": 0}).profile, complaint=True) != "ask"
    assert decide(Chances(0.0, 0.0, 1.0), profile, complaint=True) == "refuse"


def test_a_turn_asks_back_at_a_bare_complaint() -> None:
    settings = Settings(retrieval=RetrievalSettings(profile={"ask_back": 0.99}, rerank="never"))
    turns = engine(collection=Sections(), settings=settings)
    assert done(play(turns, "it still fails")).status == "asked"
    assert done(play(turns, "why does it still fail for how long")).status != "asked"


def test_below_the_threshold_no_model_is_asked() -> None:
    model = ScriptedChatModel(script=["Mr. Doe is the mayor [1]."])
    strict = Settings(retrieval=RetrievalSettings(profile={"answerable": 0.99}, rerank="never"))
    end = done(play(engine(model=model, settings=strict), "Which university did the mayor of Springfield attend?"))
    assert end.status == "refused"
    assert model.asked == []
    assert "2 passages" in end.answer


class ByItself(Showing):
    """A cross-encoder to which a question with its conversation says nothing, and `score` without it."""

    def rerank(self, question: str, hits: Sequence[Hit], *args: Any, **options: Any) -> list[Hit]:
        self.relevance = -11.0 if options["context"] != QuestionContext() else self.score
        return super().rerank(question, hits, *args, **options)


@pytest.mark.parametrize(("alone", "status"), [(5.0, "quoted"), (-11.5, "refused")])
def test_a_follow_up_to_be_refused_is_searched_as_a_new_question_too(alone: float, status: str) -> None:
    reranker, collection = ByItself(alone, reads_conversations=True), FakeCollection()
    turns = engine(
        reranker=reranker, collection=collection, settings=Settings(retrieval=RetrievalSettings(rerank="always"))
    )
    events = play(turns, "Which form can be sent by fax?", conversation=FOLLOW_UP)
    assert done(events).status == status
    with_conversation, as_new = (queries for queries, _ in collection.asked)
    assert len(with_conversation) > 1
    assert [query.name for query in as_new] == ["typed"]
    told = [event for event in events if isinstance(event, RewriteEvent)]
    assert [len(event.variants) > 1 for event in told] == [True, False][: 1 + (status == "quoted")]


def test_a_first_question_is_searched_once() -> None:
    collection = FakeCollection()
    turns = engine(reranker=Showing(0.2, relevance=-11.0), collection=collection)
    assert done(play(turns, "Which university did the mayor attend?")).status == "refused"
    assert len(collection.asked) == 1
