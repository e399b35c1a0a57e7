"""How the server fares: counts, times and what found nothing, over what somebody may see."""

from __future__ import annotations

from server.chat.reviews import clustered
from testing.encoder import WordEncoder


def test_questions_that_ask_for_the_same_are_one_row_most_asked_first() -> None:
    asked = [
        ("t5", "how much is a moose"),
        ("t4", "where is the boiler valve"),
        ("t3", "how much is a moose"),
        ("t2", "how much is the moose"),
        ("t1", "<script>alert(1)</script>"),
    ]
    found = clustered(asked, WordEncoder())
    assert [(one.turns, one.newest, one.questions) for one in found] == [
        (3, "t5", ("how much is a moose", "how much is the moose")),
        (1, "t4", ("where is the boiler valve",)),
        (1, "t1", ("<script>alert(1)</script>",)),
    ]
