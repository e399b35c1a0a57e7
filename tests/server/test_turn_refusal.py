"""The refusal token never reaches the user, in no spelling and not by halves."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.turn.filters import RefusalFilter

TOKENS = [
    "<cannot_answer>",
    "cannot_answer",
    "CANNOT_ANSWER.",
    "Cannot_Answer!",
    "**cannot_answer**",
    "`<cannot_answer>`",
    '"cannot_answer"',
    "cannot\\_answer",
    "<cannot answer>",
    "< cannot _ answer >",
    "[cannot-answer]",
    "(cannot_answer)",
    "</cannot_answer>",
    "<cannot_answer/>",
    "&lt;cannot_answer&gt;",
    "cannot_answercannot_answer",
    "<CannotAnswer>",
    "\n\n<cannot_answer>",
    "cannot__answer",
]
PROSE = [
    "I cannot answer this.",
    "You cannot, answer that?",
    "cannot answers",
    "a < b",
    "<canvas> and [candy] can",
    "cannot",
    "We cannot",
    "*canned* _can_",
]


def shown(text: str, cuts: list[int] | None = None) -> tuple[str, bool]:
    """What comes out, and whether a token was found, for a text cut at some places."""
    places = sorted({min(cut, len(text)) for cut in cuts or []} | {0, len(text)})
    refusal = RefusalFilter()
    out = "".join(refusal.feed(text[a:b]) for a, b in pairwise(places))
    return out + refusal.finish(), refusal.found


@pytest.mark.parametrize("token", TOKENS)
def test_a_token_alone_leaves_nothing(token: str) -> None:
    assert shown(token) == ("", True)


@pytest.mark.parametrize("token", [*TOKENS, "cannot_answer"])
def test_a_token_after_text_is_removed_with_the_blank_before_it(token: str) -> None:
    assert shown(f"Leave lasts ten weeks. {token}") == ("Leave lasts ten weeks.", True)


@pytest.mark.parametrize("alone", ["cannot answer", "Cannot answer.", " **CANNOT ANSWER** \n"])
def test_the_bare_words_alone_are_a_refusal(alone: str) -> None:
    assert shown(alone) == ("", True)


@pytest.mark.parametrize("text", PROSE)
def test_prose_passes(text: str) -> None:
    assert shown(text) == (text, False)


@pytest.mark.parametrize("half", ["<", "<c", "<cannot", "<cannot_answ", "cannot_", "cannot_answ", "**<cannot_an"])
def test_half_a_token_at_the_end_of_a_cut_answer_is_not_shown(half: str) -> None:
    text, _ = shown(f"Ten weeks. {half}")

    assert text in ("Ten weeks.", "Ten weeks. <")


def test_only_what_could_become_a_token_is_held_back() -> None:
    refusal = RefusalFilter()

    assert refusal.feed("Leave can") == "Leave"
    assert refusal.feed("n") == ""
    assert refusal.feed("y") == " canny"


def test_the_text_after_a_token_goes_on() -> None:
    assert shown("Ten weeks <cannot_answer> or so.") == ("Ten weeks or so.", True)
    assert shown("Ten weeks. cannot_answerSorry") == ("Ten weeks.Sorry", True)


FRAGMENTS = st.lists(
    st.one_of(
        st.sampled_from(
            [*TOKENS, *PROSE, "cannot", "_answer", "<", ">", "**", "`", " ", "\n", ".", "c", "ca", "é", "不"]
        ),
        st.text(max_size=6),
    ),
    max_size=8,
).map("".join)


@settings(deadline=None, max_examples=60)
@given(FRAGMENTS, st.lists(st.integers(0, 120), max_size=30))
def test_where_a_text_is_cut_changes_nothing(text: str, cuts: list[int]) -> None:
    assert shown(text, cuts) == shown(text) == shown(text, list(range(len(text))))


@settings(deadline=None, max_examples=60)
@given(FRAGMENTS, st.sampled_from(TOKENS), FRAGMENTS)
def test_no_token_is_ever_shown(before: str, token: str, after: str) -> None:
    text, found = shown(f"{before} {token} {after}")

    assert found
    assert "cannot_answer" not in text.lower()


@settings(deadline=None, max_examples=60)
@given(FRAGMENTS)
def test_what_is_shown_is_never_taken_back(text: str) -> None:
    """Whatever has been shown at any moment begins what is shown in the end, so nothing can leak halfway."""
    whole, _ = shown(text)
    refusal, out = RefusalFilter(), ""
    for char in text:
        out += refusal.feed(char)
        assert whole.startswith(out)
