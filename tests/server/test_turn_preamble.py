"""Talk about the passages at the beginning of an answer: cut where it affirms, a refusal where it denies."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.turn.filters import PreambleFilter


def shown(text: str, cuts: list[int] | None = None, echoes: Sequence[str] = ()) -> tuple[str, bool]:
    places = sorted({min(cut, len(text)) for cut in cuts or []} | {0, len(text)})
    opening = PreambleFilter(echoes)
    out = "".join(opening.feed(text[a:b]) for a, b in pairwise(places))
    return out + opening.finish(), opening.refused


@pytest.mark.parametrize(
    "opening",
    [
        "Yes, the passages state the answer to this question. ",
        "The passage contains the answer: ",
        "Yes. The provided passages do answer this question.\n\n".replace(
            "do answer this", "provide the answer to this"
        ),
    ],
)
def test_saying_that_the_answer_is_there_is_cut(opening: str) -> None:
    assert shown(opening + "Ten weeks [1].") == ("Ten weeks [1].", False)


@pytest.mark.parametrize(
    "text",
    [
        "The passages do not contain the answer to this question.",
        "No, the passages don't mention the price.",
        "Unfortunately, the provided documents do not specify a limit. Try 16 MB.",
        "None of the passages says so.",
        "There is no information about the price in the passages.",
    ],
)
def test_saying_that_it_is_not_there_is_a_refusal(text: str) -> None:
    assert shown(text) == ("", True)


@pytest.mark.parametrize(
    "text",
    [
        "Yes, you can [1].",
        "Yes",
        "The passport is needed [1].",
        "The document does not contain personal data [1].",
        "There is no information desk [1].",
        "The passages state that leave lasts ten weeks [1].",
        "Ten weeks [1]. The passages do not say more.",
        "",
    ],
)
def test_answers_pass(text: str) -> None:
    assert shown(text) == (text, False)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.sampled_from(["Yes, ", "the ", "passages ", "state the answer", ". ", "do not ", "say", "x", "\n"])
    ).map("".join),
    st.lists(st.integers(0, 80), max_size=12),
)
def test_where_a_text_is_cut_changes_nothing(text: str, cuts: list[int]) -> None:
    assert shown(text, cuts) == shown(text) == shown(text, list(range(len(text))))


@pytest.mark.parametrize("text", ["You can pay by card [2].", "[1] you can pay by card. Yes.", "- You can pay by card"])
def test_an_echo_is_a_refusal_wherever_it_is_cut(text: str) -> None:
    echoes = ["You can pay by card", "Really? (Yes)"]

    for cut in range(len(text)):
        assert shown(text, [cut], echoes) == ("", True)


def test_what_only_begins_like_an_echo_is_shown() -> None:
    assert shown("You can pay by bill [1].", [9], ["You can pay by card"]) == ("You can pay by bill [1].", False)
    assert shown("You can pay", [], ["You can pay by card"]) == ("You can pay", False)
