from rewriter.protocol import Conversation, Message, PassThroughRewriter, Rewrite, Term
from server.settings import LegsSettings, LegWeights, Settings
from server.turn.query_variants import HISTORY_CHARS, build_variants
from server.turn.search import TurnSearch
from text.asking import QuestionContext

TALK = Conversation(
    (
        Message("user", "How do I renew my license?"),
        Message("assistant", "Online or by mail."),
        Message("user", "what does it cost"),
        Message("assistant", "It costs 20 dollars."),
    )
)
UNKNOWN = Rewrite("and by fax?", "keep")


def legs_of(rewrite: Rewrite = UNKNOWN, weights: LegsSettings | None = None):
    return build_variants(TALK, "and by fax?", rewrite, weights or LegsSettings())


def test_first_question_is_searched_alone_and_may_be_reranked():
    legs = build_variants(Conversation(), "How do I renew?", Rewrite("How do I renew?", "keep", 1.0), LegsSettings())
    assert [(query.name, query.text) for query in legs.queries] == [("typed", "How do I renew?")]
    assert legs.rerank_question == "How do I renew?"


def test_follow_up_is_searched_in_every_form_of_its_history():
    texts = {query.name: query.text for query in legs_of().queries if not query.documents}
    assert texts == {
        "typed": "and by fax?",
        "users": "what does it cost and by fax?",
        "exchange": "and by fax? what does it cost It costs 20 dollars.",
        "opening": "How do I renew my license? and by fax?",
        "conversation": (
            "and by fax? It costs 20 dollars. what does it cost Online or by mail. How do I renew my license?"
        ),
    }


def test_nothing_is_reranked_while_no_stand_alone_question_is_known():
    assert legs_of().rerank_question is None
    assert legs_of(Rewrite("and by fax?", "failed", reason="too slow")).rerank_question is None


def test_rewrite_becomes_a_leg_and_the_question_to_rerank_by():
    legs = legs_of(Rewrite("Can I renew my license by fax?", "rewrite", confidence=0.5))
    rewritten = next(query for query in legs.queries if query.name == "rewritten")
    assert (rewritten.lexical, rewritten.dense) == (1.5, 2.0)
    assert legs.rerank_question == "Can I renew my license by fax?"


def test_question_kept_with_confidence_stands_alone():
    assert legs_of(Rewrite("and by fax?", "keep", confidence=0.9)).rerank_question == "and by fax?"


def test_refused_rewrite_leaves_the_typed_question_and_its_history():
    queries = legs_of(Rewrite("and by fax?", "refused", reason="it answers")).queries
    names = [query.name for query in queries if not query.documents]
    assert names == ["typed", "users", "exchange", "opening", "conversation"]


def test_an_expanded_question_is_a_leg_and_what_is_reranked_by():
    terms = (Term("renew license", 0.9),)
    expanded = Rewrite("and by fax? renew license", "expand", confidence=0.8, expansion=terms, history_probability=0.8)
    legs = legs_of(expanded)
    assert next(query.text for query in legs.queries if query.name == "expanded") == "and by fax? renew license"
    assert legs.rerank_question == "and by fax? renew license"


def test_a_sentence_written_from_words_is_shown_and_the_words_are_searched_and_read():
    terms = (Term("renew license", 0.9),)
    written = Rewrite("Can I renew my license by fax?", "rewrite", 0.8, expansion=terms, history_probability=0.8)
    searching = TurnSearch(collection=lambda _: None, rewriter=PassThroughRewriter(), settings=Settings())
    plan = searching.plan("and by fax?", TALK, written)
    assert next(query.text for query in plan.legs.queries if query.name == "expanded") == "and by fax? renew license"
    assert "rewritten" not in [query.name for query in plan.legs.queries]
    assert (plan.meaning, plan.asked) == (written.text, "and by fax?")
    assert plan.context == QuestionContext("renew license", "what does it cost", "It costs 20 dollars.")


def test_weights_follow_the_belief_that_history_is_needed():
    weights = LegsSettings(
        typed=LegWeights(lexical=1, dense=2, leaning=-2), exchange=LegWeights(lexical=1, dense=1, leaning=2)
    )
    by_belief = {}
    for belief in (0.0, 0.5, 1.0):
        legs = legs_of(Rewrite("?", "keep", 0.5, history_probability=belief), weights)
        by_belief[belief] = {query.name: query.dense for query in legs.queries}
    assert by_belief[0.5]["typed"] == 2
    assert by_belief[0.0]["typed"] > 2 > by_belief[1.0]["typed"]
    assert by_belief[0.0]["exchange"] < 1 < by_belief[1.0]["exchange"]


def test_the_conversation_says_which_document_is_spoken_of():
    voices = {query.name: query.text for query in legs_of().queries if query.documents}
    assert voices["said"] == "what does it cost It costs 20 dollars."
    assert voices["spoken of"].startswith("and by fax? It costs 20 dollars.")
    assert not [query for query in legs_of(weights=LegsSettings(subject=0)).queries if query.documents]


def test_leg_without_weight_is_left_out():
    weights = LegsSettings(exchange=LegWeights(lexical=0, dense=0))
    assert "exchange" not in [query.name for query in legs_of(weights=weights).queries]


def test_long_history_is_bounded_with_the_newest_kept():
    turns = tuple(Message("user", f"turn {n} " + "x" * 500) for n in range(100))
    legs = build_variants(Conversation(turns), "and then?", UNKNOWN, LegsSettings())
    text = next(query.text for query in legs.queries if query.name == "conversation")
    assert len(text) <= HISTORY_CHARS + len("and then? ")
    assert "turn 99" in text
    assert "turn 0 " not in text


def test_further_forms_of_a_rewrite_are_legs_that_weigh_less():
    rewrite = Rewrite("Can I renew by fax?", "rewrite", 0.5, alternatives=("Is fax possible?", "Renewal by fax?"))
    weights = [query.dense for query in legs_of(rewrite).queries if query.name.startswith("rewritten")]
    assert weights == [2.0, 1.0, 2.0 / 3]
