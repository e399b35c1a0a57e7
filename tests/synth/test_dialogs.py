"""Lists, the reading of the three prompts' answers, the checks, and what becomes of a rejected pair."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from synth.assembling import SeenQuestions, assemble, form_reason, pair_reason
from synth.dialogs import (
    Draft,
    Grounding,
    Pair,
    PropositionList,
    contextualising,
    grounding,
    make_lists,
    sides,
    writing,
)
from synth.propositions import Proposition, SourceSpan
from synth.tasks import ModelReply, Sampling
from tests.encoder import WordEncoder


def proposition(text: str, name: str = "d.md", *others: str) -> Proposition:
    sources = tuple(SourceSpan(document_id=one, start=0, end=1) for one in (name, *others))
    where = {"document_id": name, "start": 0, "end": 1, "source": "x", "sources": sources}
    return Proposition(id=f"{name}:{text}", title="Town", text=text, **where)


def numbered(count: int, name: str) -> list[Proposition]:
    return [proposition(f"Fact {number} of {name}.", name) for number in range(count)]


def test_lists_follow_the_documents_and_may_span_them() -> None:
    given_ones = [*numbered(3, "a"), *numbered(3, "b")]
    lists, unused = make_lists(given_ones, 4, 0)
    assert [len(one.propositions) for one in lists] == [4, 2]
    assert [one for each in lists for one in each.propositions] == given_ones
    assert unused == 0


def test_what_several_sides_say_is_in_no_list() -> None:
    names = [f"d{number}" for number in range(12)]
    everything = [one for name in names for one in numbered(5, name)]
    side_of = sides(dict.fromkeys(names, 5), 0)
    train, test = (next(name for name in names if side_of[name] == side) for side in ("train", "test"))
    lists, unused = make_lists([*everything, proposition("Shared.", train, test)], 5, 0)
    assert unused == 1
    assert all(one.text != "Shared." for each in lists for one in each.propositions)


@settings(deadline=None)
@example({"0": 1, "00": 13, "000": 1}, 0)
@given(st.dictionaries(st.text(min_size=1), st.integers(1, 90), min_size=3, max_size=40), st.integers())
def test_every_document_is_on_one_side_and_every_side_has_one(sizes: dict[str, int], seed: int) -> None:
    found = sides(sizes, seed)
    assert found.keys() == sizes.keys()
    assert set(found.values()) == {"train", "dev", "test"}
    assert found == sides(dict(reversed(sizes.items())), seed)


MATERIAL = PropositionList(
    "train",
    0,
    (
        proposition("A parking permit costs $35 a year."),
        proposition("You can order a parking permit online."),
        proposition("A parking permit is not refundable."),
    ),
)
DRAFT = Draft(
    (
        Pair("What does a parking permit cost?", "It costs $35 a year.", (0,)),
        Pair("How do I order a parking permit?", "You can order it online.", (1,)),
        Pair("Can I get a refund for a parking permit?", "No, it is not refundable.", (2,)),
    )
)
WORDINGS = ("What does a parking permit cost?", "How do I order it?", "And can I get a refund?")
GROUNDED = tuple(Grounding((number,), True) for number in range(3))


def made(draft: Draft = DRAFT, wordings: Any = WORDINGS, groundings: Any = GROUNDED) -> Any:
    return assemble(MATERIAL, draft, wordings, groundings, SeenQuestions(WordEncoder()), "m", 0)


def texts(assembled: Any) -> list[str]:
    return [turn.text for turn in assembled.dialog.questions()]


def test_questions_are_worded_as_within_the_conversation() -> None:
    assert texts(made()) == list(WORDINGS)


def test_after_a_rejected_pair_the_next_question_stands_alone() -> None:
    refused = (GROUNDED[0], Grounding((1,), False), GROUNDED[2])
    assembled = made(groundings=refused)
    assert texts(assembled) == [WORDINGS[0], "Can I get a refund for a parking permit?"]
    assert [(one.what, one.reason) for one in assembled.rejected] == [("pair", "not accepted")]


ALONE = tuple(pair.question for pair in DRAFT.pairs)


def test_a_wording_that_is_another_question_is_given_up() -> None:
    assembled = made(wordings=(ALONE[0], ALONE[2], WORDINGS[2]))
    assert texts(assembled) == [ALONE[0], ALONE[1], WORDINGS[2]]
    assert [(one.what, one.reason) for one in assembled.rejected] == [("wording", "another question")]


def test_the_same_answer_is_given_once() -> None:
    again = Draft((*DRAFT.pairs, Pair("What is the price of a parking permit?", "It costs $35 a year.", (0,))))
    assembled = made(again, (*WORDINGS, "And its price?"), (*GROUNDED, GROUNDED[0]))
    assert texts(assembled) == list(WORDINGS)
    assert [(one.what, one.reason) for one in assembled.rejected] == [("pair", "answer repeated")]


@pytest.mark.parametrize("written_from", [(0,), ()])
def test_misnumbered_facts_are_mended_by_what_the_answer_says(written_from: tuple[int, ...]) -> None:
    draft = Draft((Pair("What is the price of a permit?", "A parking permit costs $35 a year.", written_from),))
    assembled = made(draft, ("",), (Grounding((2,), True),))
    (question,) = assembled.dialog.questions()
    assert question.relevant == (MATERIAL.propositions[0].id,)
    assert assembled.regrounded == 1


def test_a_question_asked_before_is_a_near_duplicate() -> None:
    again = Pair(DRAFT.pairs[0].question, "A parking permit costs $35 a year.", (0,))
    twice = Draft((DRAFT.pairs[0], again, DRAFT.pairs[1]))
    assembled = made(twice, ("",) * 3, (GROUNDED[0], GROUNDED[0], GROUNDED[1]))
    assert [one.reason for one in assembled.rejected if one.what == "pair"] == ["near-duplicate"]


@pytest.mark.parametrize(
    ("question", "answer", "facts", "reason"),
    [
        ("What does a permit cost?", "It costs $35.", ["A permit costs $35."], ""),
        ("What does a permit cost?", "It costs $35.", [], "no proposition"),
        ("What?", "It costs $35.", ["A permit costs $35."], "form"),
        ("What does a permit cost?", "* and costs $35.", ["A permit costs $35."], "form"),
        ("What does the third fact say?", "It costs $35.", ["A permit costs $35."], ""),
        ("What do the facts say about permits?", "It costs $35.", ["A permit costs $35."], "about the material"),
        ("What does it cost?", "It costs $35.", ["A permit costs $35."], "not stand-alone"),
        ("What does a permit cost?", "It costs $45.", ["A permit costs $35."], "number not covered"),
        ("Who sells permits?", "The baker in Dover sells bread.", ["A permit costs $35."], "answer not covered"),
        ("Does a permit expire?", "A permit does not expire.", ["A permit expires."], "answer not covered"),
        ("Can I renew a permit?", "No, a permit expires.", ["A permit expires."], ""),
        ("Is $35 what a town permit costs each year?", "A town permit costs $35 each year.",
         ["A town permit costs $35 each year."], "answer leaked"),
    ],
)  # fmt: skip
def test_pairs_are_rejected_for_a_reason(question: str, answer: str, facts: list[str], reason: str) -> None:
    assert pair_reason(question, answer, facts) == reason


HISTORY = "What does a parking permit cost?\nIt costs $35 a year."


@pytest.mark.parametrize(
    ("wording", "rewrite", "reason"),
    [
        ("How do I order it?", "How do I order a parking permit?", ""),
        ("And by mail?", "Can I order a bike sticker by mail?", "not resolvable"),
        ("How do I order a parking permit?", "How do I order a parking permit?", ""),
        ("How would I order a parking permit?", "How do I order a parking permit?", "independent of history"),
        ("Why?", "Why does the town library close in winter?", "not resolvable"),
        ("How do I not order it?", "How do I order a parking permit?", "changed meaning"),
        ("How do I order 3 of it?", "How do I order a parking permit?", "changed meaning"),
        ("Which planets have rings?", "How do I order a parking permit?", "changed meaning"),
        ("", "How do I order a parking permit?", "empty"),
        ('{"question": "it?"}', "How do I order a parking permit?", "form"),
    ],
)
def test_wordings_are_given_up_for_a_reason(wording: str, rewrite: str, reason: str) -> None:
    assert form_reason(wording, rewrite, HISTORY) == reason


def judged(task: Any, text: str) -> Any:
    return task.judge(ModelReply(task.key(Sampling("m")), 0, task.step, task.item, text))


def test_a_draft_is_read_with_what_names_nothing_left_out() -> None:
    answer = {
        "greeting": {"user": "Hi\nthere", "assistant": "Hello."},
        "pairs": [
            {"question": "What  is it?", "answer": "A permit.", "facts": [1, 9, 1, 0, "2", True]},
            {"question": "", "answer": "x", "facts": [1]},
            {"question": "x" * 999, "answer": "x", "facts": [1]},
        ],
        "thanks": "bye",
    }
    draft = judged(writing(MATERIAL, len), json.dumps(answer)).value
    assert draft == Draft((Pair("What is it?", "A permit.", (0,)),), ("Hi there", "Hello."), None)


@pytest.mark.parametrize("text", ['{"pairs": 3}', '{"pairs": []}', '{"pairs": ["a"]}', '{"pairs": [{"question": 1}]}'])
def test_a_draft_without_pairs_is_invalid(text: str) -> None:
    assert judged(writing(MATERIAL, len), text).verdict == "invalid"


def test_a_draft_that_was_cut_keeps_its_complete_pairs() -> None:
    whole = json.dumps({"pairs": [{"question": "What is it?", "answer": "A permit.", "facts": [1]}] * 3})
    task = writing(MATERIAL, len)
    cut = ModelReply(task.key(Sampling("m")), 0, "dialog", "x", whole[: whole.rindex("answer") + 12], "length")
    outcome = task.judge(cut)
    assert (outcome.verdict, len(outcome.value.pairs)) == ("mended", 2)


def test_as_many_wordings_and_groundings_as_questions_or_none() -> None:
    wording, ground = contextualising(MATERIAL, DRAFT, len), grounding(MATERIAL, DRAFT)
    assert (
        judged(wording, '{"questions": ["a", "b"]}').error == '"questions" has 2 entries where there are 3 questions.'
    )
    assert judged(wording, '{"questions": ["a", "b", 3]}').verdict == "invalid"
    assert judged(wording, '{"questions": ["a", "b", "c"]}').value == ("a", "b", "c")
    entry = {"facts": [3], "accepted": True}
    assert judged(ground, json.dumps({"pairs": [entry]})).verdict == "invalid"
    assert judged(ground, json.dumps({"pairs": [entry, {"facts": [7]}, {"accepted": "yes"}]})).value == (
        Grounding((2,), True),
        Grounding((), False),
        Grounding((), False),
    )


def test_small_talk_that_asks_something_is_left_out() -> None:
    asking = Draft(DRAFT.pairs, ("Hello, is the pool open?", "Yes."), ("Thank you!", "Bye."))
    turns = made(asking).dialog.turns
    assert turns[0].text == WORDINGS[0]
    assert (turns[-2].text, turns[-2].kind, turns[-1].text) == ("Thank you!", "thanks", "Bye.")
