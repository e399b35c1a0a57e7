import asyncio
import math

import pytest

from rewriter.protocol import Conversation, Message, PassThroughRewriter, Rewrite, Term
from server.settings import RetrievalSettings, Settings
from server.settings.profile import RetrievalProfile, packaged_profile
from server.turn.events import Stopwatch
from server.turn.search import HISTORY_CHARS, UNREADABLE_SHARE, ReadPage, SearchPlan, TurnSearch, build_variants
from tests.server.turn_fakes import Reversing
from tests.server.turn_playing import engine, play
from text.prompts import QuestionContext

TALK = Conversation(
    (
        Message("user", "How do I renew my license?"),
        Message("assistant", "Online or by mail."),
        Message("user", "what does it cost"),
        Message("assistant", "It costs 20 dollars."),
    )
)
UNKNOWN = Rewrite("and by fax?", "keep")


PROFILE = packaged_profile()


def variants_of(rewrite: Rewrite = UNKNOWN, profile: RetrievalProfile = PROFILE):
    return build_variants(TALK, "and by fax?", rewrite, profile)


def test_first_question_is_searched_alone_and_may_be_reranked():
    variants = build_variants(Conversation(), "How do I renew?", Rewrite("How do I renew?", "keep", 1.0), PROFILE)
    assert [(query.name, query.text) for query in variants.queries] == [("typed", "How do I renew?")]
    assert variants.rerank_question == "How do I renew?"


def test_follow_up_is_searched_in_every_form_of_its_history():
    texts = {query.name: query.text for query in variants_of().queries if not query.document_prior_weight}
    assert texts == {
        "typed": "and by fax?",
        "exchange": "and by fax? what does it cost It costs 20 dollars.",
        "opening": "How do I renew my license? and by fax?",
        "conversation": (
            "and by fax? It costs 20 dollars. what does it cost Online or by mail. How do I renew my license?"
        ),
    }


def test_nothing_is_reranked_while_no_stand_alone_question_is_known():
    assert variants_of().rerank_question is None
    assert variants_of(Rewrite("and by fax?", "failed", reason="too slow")).rerank_question is None


def test_rewrite_becomes_a_variant_and_the_question_to_rerank_by():
    variants = variants_of(Rewrite("Can I renew my license by fax?", "rewrite", confidence=0.5))
    rewritten = next(query for query in variants.queries if query.name == "rewritten")
    assert (rewritten.lexical, rewritten.dense) == (1.5, 2.0)
    assert variants.rerank_question == "Can I renew my license by fax?"


def test_question_kept_with_confidence_stands_alone():
    assert variants_of(Rewrite("and by fax?", "keep", confidence=0.9)).rerank_question == "and by fax?"


def test_an_expanded_question_is_a_variant_and_what_is_reranked_by():
    terms = (Term("renew license", 0.9),)
    expanded = Rewrite("and by fax? renew license", "expand", confidence=0.8, expansion=terms, history_probability=0.8)
    variants = variants_of(expanded)
    assert next(query.text for query in variants.queries if query.name == "expanded") == "and by fax? renew license"
    assert variants.rerank_question == "and by fax? renew license"


def test_a_sentence_written_from_words_is_shown_and_the_words_are_searched_and_read():
    terms = (Term("renew license", 0.9),)
    written = Rewrite("Can I renew my license by fax?", "rewrite", 0.8, expansion=terms, history_probability=0.8)
    searching = TurnSearch(collection=lambda _: None, rewriter=PassThroughRewriter(), settings=Settings())
    plan = searching.plan("and by fax?", TALK, written)
    assert (
        next(query.text for query in plan.variants.queries if query.name == "expanded") == "and by fax? renew license"
    )
    assert "rewritten" not in [query.name for query in plan.variants.queries]
    assert (plan.meaning, plan.asked) == (written.text, "and by fax?")
    assert plan.context == QuestionContext("renew license", "what does it cost", "It costs 20 dollars.")


def test_the_document_prior_follows_the_probability_that_history_is_needed():
    strengths = []
    for probability in (0.0, 0.5, 1.0):
        variants = variants_of(Rewrite("?", "keep", 0.5, history_probability=probability))
        strengths.append(next(query.document_prior_weight for query in variants.queries if query.name == "said"))
    assert strengths[0] < strengths[1] == PROFILE.document_prior < strengths[2]


def test_the_conversation_says_which_document_is_spoken_of():
    voices = {query.name: query.text for query in variants_of().queries if query.document_prior_weight}
    assert voices["said"] == "what does it cost It costs 20 dollars."
    assert voices["spoken of"].startswith("and by fax? It costs 20 dollars.")
    assert not [
        query
        for query in variants_of(profile=PROFILE.model_copy(update={"document_prior": 0.0})).queries
        if query.document_prior_weight
    ]


def test_long_history_is_bounded_with_the_newest_kept():
    turns = tuple(Message("user", f"turn {n} " + "x" * 500) for n in range(100))
    variants = build_variants(Conversation(turns), "and then?", UNKNOWN, PROFILE)
    text = next(query.text for query in variants.queries if query.name == "conversation")
    assert len(text) <= HISTORY_CHARS + len("and then? ")
    assert "turn 99" in text
    assert "turn 0 " not in text


class Gate:
    """A rewriter that adds a word of the history, and tells how likely it is that the question leans on it."""

    name = "gate"

    def __init__(self, probability: float) -> None:
        self.probability = probability

    def rewrite(self, conversation: Conversation, question: str) -> Rewrite:
        if not conversation:
            return Rewrite(question, "keep", 1.0, history_probability=0.0)
        terms = (Term("Alerts", 0.9),)
        return Rewrite(f"{question} Alerts", "expand", 0.9, expansion=terms, history_probability=self.probability)


def on_a_page(probability: float, conversation: Conversation = Conversation()) -> SearchPlan:  # noqa: B008  (frozen)
    page = ReadPage("Alerts", ({"source": "https://x.example/alerts/"},))
    search = TurnSearch(collection=lambda _: None, rewriter=Gate(probability), settings=Settings())
    return asyncio.run(search.planned("how do I turn this off", conversation, None, Stopwatch(), page=page))


def test_a_first_question_favours_the_page_that_is_read_and_is_not_searched_with_its_words():
    alone, leaning = on_a_page(0.1), on_a_page(0.9)
    for plan in (alone, leaning):
        assert [(query.name, query.text) for query in plan.variants.queries] == [
            ("typed", "how do I turn this off"), ("page", "how do I turn this off"),
        ]  # fmt: skip
    weights = [plan.variants.queries[-1].dense for plan in (alone, leaning)]
    assert 0 < weights[0] < PROFILE.page < weights[1] < 1
    assert (alone.about, alone.context, alone.matching) == ("", QuestionContext(), "how do I turn this off")
    assert (leaning.about, leaning.context) == ("Alerts", QuestionContext("Alerts"))
    assert leaning.matching == "Alerts how do I turn this off"


def test_a_follow_up_keeps_its_history_on_a_page():
    plan = on_a_page(0.9, TALK)
    assert plan.context.asked == "what does it cost"
    assert [query.name for query in plan.variants.queries][-1] == "page"
    others = sum(query.lexical + query.dense for query in plan.variants.shown[:-1])
    assert plan.variants.queries[-1].lexical == pytest.approx(
        PROFILE.page * math.exp(0.4 * PROFILE.page_exponent) * others / 2
    )


@pytest.mark.parametrize(
    ("question", "packaged", "share"),
    [
        ("How long is parental leave?", True, 1),
        ("Elternzeit: wie lange?", True, 1),
        ("育児休暇は何日ですか？", True, UNREADABLE_SHARE),
        ("PL-7の用紙はどこですか？", True, UNREADABLE_SHARE),
        ("育児休暇は何日ですか？", False, 1),
    ],
)
def test_the_packaged_cross_encoder_counts_little_in_letters_that_it_never_learnt(question, packaged, share):
    reranker = Reversing(reads_conversations=packaged)
    play(engine(reranker=reranker, settings=Settings(retrieval=RetrievalSettings(rerank="always"))), question)
    assert set(reranker.weights) == {share * PROFILE.rerank_weight}
