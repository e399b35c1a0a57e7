"""Support is counted in words, guarded by numbers and negations, and points at a sentence."""

from __future__ import annotations

import pytest

from server.turn.support import SUPPORTED, SupportScorer
from tests.server.turn_fakes import FAX, LEAVE, evidence

SCORER = SupportScorer(evidence(LEAVE, FAX))


def test_the_supporting_sentence_is_found_with_its_place_in_the_document() -> None:
    support = SCORER.best("You can send the form by fax", [1, 2])

    assert support is not None
    assert (support.n, support.quote) == (2, "The form may also be sent by fax to 555-0199.")
    assert (support.start, support.end) == (1000 + FAX.index("The form"), 1000 + len(FAX))


def test_only_what_is_cited_counts() -> None:
    assert SCORER.score("You can send the form by fax.", [2]) >= SUPPORTED
    assert SCORER.score("You can send the form by fax.", [1]) < SUPPORTED
    assert SCORER.score("You can send the form by fax.", []) == 0
    assert SCORER.best("You can send the form by fax.", [7]) is None


def test_two_passages_may_support_one_statement_together() -> None:
    statement = "Parental leave lasts ten weeks and the form may be sent by fax."

    assert SCORER.score(statement, [1, 2]) > max(SCORER.score(statement, [1]), SCORER.score(statement, [2]))
    assert SCORER.score(statement, [1, 2]) >= SUPPORTED


@pytest.mark.parametrize(
    ("text", "statement", "supported"),
    [
        (LEAVE, "Parental leave lasts ten weeks, or 14 weeks.", False),  # a number from nowhere
        ("The fee is 1,000 euros for everyone.", "The fee is 1000 euros.", True),
        (LEAVE, "Leave is not paid after week 8.", True),
        (LEAVE, "Leave is paid after week 8.", False),
        # A negation in another clause does not count.
        ("Tickets are not sold here, but parking permits are issued at the desk.",
         "Parking permits are issued at the desk.", True),
    ],
)  # fmt: skip
def test_numbers_and_negations_must_agree(text: str, statement: str, supported: bool) -> None:
    assert (SupportScorer(evidence(text)).score(statement, [1]) >= SUPPORTED) is supported


def test_a_passage_without_sentences_or_words_is_survived() -> None:
    scorer = SupportScorer(evidence("", "…"))

    assert scorer.score("Parental leave.", [1, 2]) == 0
    assert scorer.matches("Parental leave?", 2)[0].quote == "…"
