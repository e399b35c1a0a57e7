"""Complete questions worded by rules: what the last exchange named is pointed at or left out, nothing else."""

from __future__ import annotations

from random import Random

import pytest

from synth.dialogs.checks import form_reason
from synth.rules.wording import worded

PERMIT = ("What does a parking permit cost?", "A parking permit costs $35 a year.")


@pytest.mark.parametrize(
    ("question", "exchange", "wordings"),
    [
        (
            "How do I renew a parking permit online?",
            PERMIT,
            {"how do i renew it online?", "how do i renew this permit online?", "how do i renew that permit online?"},
        ),
        (
            "Can I get a refund for a parking permit?",
            PERMIT,
            {
                "can i get a refund?",
                "can i get a refund for it?",
                "can i get a refund for this permit?",
                "can i get a refund for that permit?",
            },
        ),
        (
            "Where do I report my work credits?",
            ("How many work credits do I need?", "You need 40 work credits."),
            {
                "where do i report them?",
                "where do i report these credits?",
                "where do i report those credits?",
            },
        ),
    ],
)
def test_what_was_named_is_pointed_at_or_left_out(question: str, exchange: tuple[str, str], wordings: set[str]) -> None:
    made = {worded(question, exchange, Random(seed)) for seed in range(60)}
    assert {str(text).lower().removeprefix("and ") for text in made} == wordings
    assert any(str(text).startswith("And ") for text in made)
    assert not any(form_reason(str(text), question, "\n".join(exchange)) for text in made)


@pytest.mark.parametrize(
    ("question", "exchange"),
    [
        ("When is the town library open?", PERMIT),
        ("What is NA Form 13055?", ("Where do I get NA Form 13055?", "Online.")),
        ("Does it cost a parking permit or a fine?", PERMIT),
        ("What is the process for paying?", ("What is the process for applying?", "You apply online.")),
        ("Parking permit?", PERMIT),
        ("How do I renew a *parking permit* online?", PERMIT),
        ("What is the color of a parking permit?", ("What is the color of a fine?", "A parking permit is green.")),
        ("", PERMIT),
    ],
)
def test_what_was_not_named_or_is_a_part_of_a_name_stays(question: str, exchange: tuple[str, str]) -> None:
    made = {worded(question, exchange, Random(seed)) for seed in range(20)}
    assert not any(text and " it 13055" in text for text in made)
    if "13055" not in question:
        assert made == {None}


def test_the_same_seed_gives_the_same_wording() -> None:
    asked = "How do I renew a parking permit online?"
    assert worded(asked, PERMIT, Random(5)) == worded(asked, PERMIT, Random(5))
