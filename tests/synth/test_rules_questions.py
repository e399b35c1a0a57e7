"""What the rules ask of single sentences and headings, all of them written for these tests."""

from __future__ import annotations

import pytest

from synth.rules.asking import Asked, asked, purposes
from synth.rules.clauses import clause_of, listed
from synth.rules.headings import heading_questions
from synth.rules.phrases import chunks
from synth.rules.questions import rendered
from synth.rules.tagging import tagged


def asked_of(sentence: str) -> Asked:
    clause = clause_of(tagged(sentence))
    assert clause is not None, sentence
    made = asked(clause, 0)
    assert made is not None, sentence
    return made


def texts(sentence: str) -> set[str]:
    return {rendered(one.parts) for one in asked_of(sentence).questions}


def test_words_that_can_be_noun_or_verb_are_told_by_what_stands_around_them() -> None:
    tags = {token.text: token.tag for token in tagged("You must report a change of address to the office.")}
    assert (tags["must"], tags["report"], tags["change"]) == ("MD", "VB", "NN")
    assert [token.tag for token in tagged("The gateway filters requests with filters.")][2:6:3] == ["VBZ", "NNS"]


@pytest.mark.parametrize(
    ("sentence", "question"),
    [
        ("You can send the form by mail.", "Can I send the form by mail?"),
        ("You must return the library card.", "Do I have to return the library card?"),
        ("The city office issues parking permits.", "What does the city office issue?"),
        ("The city office issues parking permits.", "Who issues parking permits?"),
        ("A parking permit is a card for residents.", "What is a parking permit?"),
        ("The parking permit costs $40.", "How much does the parking permit cost?"),
        ("You can pay the fee within 30 days.", "How soon can I pay the fee?"),
        ("The library closes its doors because visitors complained.", "Why does the library close its doors?"),
        ("If you lose the card, you must call the office.", "What happens if I lose the card?"),
        ("If you lose the card, you must call the office.", "What should I do if I lose the card?"),
        ("You can renew the permit through the resident portal.", "How can I renew the permit?"),
        ("To renew the permit, use the resident portal.", "How do I renew the permit?"),
        ("Send the form to the city office.", "How do I send the form to the city office?"),
        ("You send the receipt to the city office.", "Who do I send the receipt to?"),
        ("Residents receive two permits in spring.", "How many permits do residents receive in spring?"),
    ],
)
def test_a_plain_sentence_is_asked_for_its_parts(sentence: str, question: str) -> None:
    assert question in texts(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "This also applies to visitors.",
        "We will send you a letter.",
        "It can be renewed by mail.",
        "An exception are permits for visitors.",
    ],
)
def test_a_sentence_that_points_outside_itself_or_was_misread_is_not_asked_about(sentence: str) -> None:
    clause = clause_of(tagged(sentence))
    assert clause is None or asked(clause, 0) is None


def test_words_are_turned_to_the_asking_person() -> None:
    assert "Can the office send me my card?" in texts("The office can send you your card.")
    assert "Am I eligible for a permit?" in texts("You are eligible for a permit.")


def test_conditions_and_actions_are_kept_for_the_conversation() -> None:
    made = asked_of("If you are self-employed, you must file the annual report.")
    assert made.condition == "I am self-employed"
    assert made.action is not None
    assert made.action.text == "file the annual report"
    assert [one.text for one in purposes(tagged("Use the portal to request a refund."))] == ["request a refund"]


def test_enumerations_are_seen_as_lists() -> None:
    items = listed(tagged("The card opens the pool, the gym, and the reading room."))
    assert [item.phrase.text for item in items] == ["the pool", "the gym", "the reading room"]


def test_phrases_know_their_head_number_and_kind() -> None:
    (chunk,) = chunks(tagged("Bring the old parking permits."))
    phrase = chunk.phrase
    assert (phrase.head, phrase.plural, phrase.kind) == ("permit", True, "form")


@pytest.mark.parametrize(
    ("heading", "above", "question"),
    [
        ("Refunds", "Online orders", "How do refunds work for online orders?"),
        ("Requirements", "Parking permits", "What are the requirements for parking permits?"),
        ("Renewing a parking permit", "", "How do I renew a parking permit?"),
        ("Cancel your order", "", "How do I cancel my order?"),
        ("How to return a parcel", "", "How do I return a parcel?"),
        ("Can I pay in cash?", "Fees", "Can I pay in cash?"),
        ("2. Parking permits", "", "What are parking permits?"),
    ],
)
def test_headings_are_asked_together_with_what_stands_above_them(heading: str, above: str, question: str) -> None:
    assert question in {rendered(one.parts) for one in heading_questions(heading, above, 0)}


def test_a_heading_that_points_elsewhere_is_not_a_question() -> None:
    assert not list(heading_questions("How do I get this?", "Fees", 0))
    assert not list(heading_questions("{{ template }}", "Fees", 0))
