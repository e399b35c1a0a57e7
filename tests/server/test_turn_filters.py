"""What no reader of an answer sees: refusal tokens, talk about the passages, headers of passages; however it is cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.turn.citations import DenialFilter, HeaderFilter, RefusalFilter
from server.turn.models import header
from tests.server.turn_fakes import evidence


def fed(part: Any, text: str, cuts: Sequence[int] = ()) -> str:
    """What comes out of a filter for a text cut at some places."""
    places = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    return "".join(part.feed(text[a:b]) for a, b in pairwise(places)) + part.finish()


def shown(text: str, cuts: Sequence[int] = ()) -> tuple[str, bool]:
    """What is left of an answer without refusal tokens, and whether there was one."""
    refusal = RefusalFilter()
    return fed(refusal, text, cuts), refusal.found


def opened(text: str, cuts: Sequence[int] = (), echoes: Sequence[str] = ()) -> tuple[str, bool]:
    """What is left of an answer behind its beginning, and whether that was a refusal."""
    opening = DenialFilter(echoes)
    return fed(opening, text, cuts), opening.refused


EVIDENCE = tuple(
    one.model_copy(update={"title": title, "heading": heading})
    for one, (title, heading) in zip(
        evidence("Text", "Text", "Text"), (("Documents", ["Which files?"]), ("Leave", []), ("", [])), strict=True
    )
)


def filtered(text: str, cuts: Sequence[int] = (), passages: Sequence[Any] = EVIDENCE) -> str:
    """What is left of an answer without lines that are a passage's header."""
    return fed(HeaderFilter(passages), text, cuts)


TOKENS = [
    "<cannot_answer>", "cannot_answer", "**cannot_answer**", "cannot\\_answer", "<cannot answer>",
    "< cannot _ answer >", "<cannot_answer/>", "&lt;cannot_answer&gt;", "cannot_answercannot_answer",
    "\n\n<cannot_answer>", "cannot__answer",
]  # fmt: skip
PROSE = [
    "I cannot answer this.", "cannot answers", "a < b", "<canvas> and [candy] can", "We cannot", "*canned* _can_",
]  # fmt: skip


@pytest.mark.parametrize("token", TOKENS)
def test_a_token_alone_leaves_nothing(token: str) -> None:
    assert shown(token) == ("", True)


@pytest.mark.parametrize("token", [*TOKENS, "cannot_answer"])
def test_a_token_after_text_is_removed_with_the_blank_before_it(token: str) -> None:
    assert shown(f"Leave lasts ten weeks. {token}") == ("Leave lasts ten weeks.", True)


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


PIECES = [*TOKENS, *PROSE, "cannot", "_answer", "<", ">", "**", "`", " ", "\n", ".", "c", "ca", "é", "不"]
TALK = ["Yes, ", "the ", "passages ", "state the answer", ". ", "do not ", "say", "[2]", "Leave", "[1] Documents › "]
FRAGMENTS = st.lists(st.one_of(st.sampled_from([*PIECES, *TALK]), st.text(max_size=6)), max_size=8).map("".join)


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


@pytest.mark.parametrize(
    "text",
    [
        "The passages do not contain the answer to this question.",
        "The passages do not say",
        "No, the passages don't mention the price.",
        "There is no information about the price in the passages.",
    ],
)
def test_saying_that_it_is_not_there_is_a_refusal(text: str) -> None:
    assert opened(text) == ("", True)


@pytest.mark.parametrize(
    "text",
    [
        "Yes, you can [1].", "Yes", "The passport is needed [1].", "The document does not contain personal data [1].",
        "There is no information desk [1].", "The passages state that leave lasts ten weeks [1].",
        "Ten weeks [1]. The passages do not say more.", "",
    ],
)  # fmt: skip
def test_answers_pass(text: str) -> None:
    assert opened(text) == (text, False)


@pytest.mark.parametrize("text", ["You can pay by card [2].", "[1] you can pay by card. Yes.", "- You can pay by card"])
def test_an_echo_is_a_refusal_wherever_it_is_cut(text: str) -> None:
    echoes = ["You can pay by card", "Really? (Yes)"]

    for cut in range(len(text)):
        assert opened(text, [cut], echoes) == ("", True)


def test_what_only_begins_like_an_echo_is_opened() -> None:
    assert opened("You can pay by bill [1].", [9], ["You can pay by card"]) == ("You can pay by bill [1].", False)
    assert opened("You can pay", (), ["You can pay by card"]) == ("You can pay", False)


def test_lines_that_are_headers_are_left_out() -> None:
    assert header(EVIDENCE[0]) == "Documents › Which files?"
    text = "[1] Documents › Which files?\nAll of them [1].\n[1]Documents › Which files?  \n[2] Leave"
    assert filtered(text) == "All of them [1].\n"


@pytest.mark.parametrize(
    "text",
    ["Leave [2]", "Leave\n", "It is called [2] Leave\n", "[2] Leave is paid.\nSo is\nLeave.", "[2] Lea", "[2]"],
)
def test_what_may_be_an_answer_stays(text: str) -> None:
    assert filtered(text) == text


@settings(deadline=None, max_examples=100)
@given(
    st.sampled_from([shown, opened, filtered]),
    FRAGMENTS,
    st.lists(st.integers(0, 120), max_size=30),
)
def test_where_a_text_is_cut_changes_nothing(left: Callable[..., Any], text: str, cuts: list[int]) -> None:
    assert left(text, cuts) == left(text) == left(text, range(len(text)))
