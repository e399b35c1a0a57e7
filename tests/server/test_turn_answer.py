"""From a model's text to events: tokens, citations with their quotes, judged statements."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.turn.answer import AnswerReader
from server.turn.events import CitationEvent, SupportEvent, TokenEvent
from server.turn.models import examples, instructions
from server.turn.support import Support
from tests.server.turn_fakes import FAX, LEAVE, evidence

EVIDENCE = evidence(LEAVE, FAX)


def read(*pieces: str) -> tuple[AnswerReader, list[TokenEvent | CitationEvent | SupportEvent]]:
    reader = AnswerReader(EVIDENCE)
    events = [event for piece in pieces for event in reader.feed(piece)]
    return reader, events + reader.finish()


def test_the_tokens_are_the_answer() -> None:
    reader, events = read("\n Leave lasts ", "ten weeks [1", "]. ", "Fax it [2][7].  \n")

    assert "".join(event.text for event in events if isinstance(event, TokenEvent)) == reader.shown
    assert reader.shown == "Leave lasts ten weeks [1]. Fax it [2]."
    assert reader.answer().dropped_citations == 1


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("<think>\nIs it [2]? <cannot_answer>\n</think>\n\nLeave lasts ten weeks [1].", "Leave lasts ten weeks [1]."),
        ("\n<think>It never ends", ""),
        ("<thin> paper, </think> it says.", "<thin> paper, </think> it says."),
        ("<thi", "<thi"),
    ],
)
def test_what_a_model_thinks_first_is_not_its_answer(written: str, shown: str) -> None:
    for pieces in ([written], list(written), [written[:5], written[5:]]):
        assert read(*pieces)[0].shown == shown


def test_a_citation_quotes_the_sentence_that_supports_what_was_said() -> None:
    reader, _ = read("The form can be sent by fax [2]. It takes ten weeks [1].")
    fax, leave = reader.answer().citations

    assert fax.quote == "The form may also be sent by fax to 555-0199."
    assert leave.quote == "Parental leave lasts ten weeks."
    for citation, passage in ((fax, EVIDENCE[1]), (leave, EVIDENCE[0])):
        assert passage.text[citation.start - passage.start : citation.end - passage.start] == citation.quote
        assert reader.shown[citation.answer_start : citation.answer_end] == f"[{citation.n}]"


def test_statements_are_judged_by_what_they_cite() -> None:
    reader, _ = read("Parental leave lasts ten weeks [1].\nDogs love long walks [1].")
    right, invented = reader.answer().support

    assert right.supported
    assert right.score > 0.9
    assert not invented.supported


def test_a_changed_number_or_negation_is_not_supported() -> None:
    reader, _ = read(
        "Fax it to 555-0100 with the form [2].\nThe form may not be sent by fax [2].\nThe form may be sent by fax [2]."
    )

    assert [event.supported for event in reader.answer().support] == [False, False, True]


def test_a_marker_speaks_for_the_sentences_before_it_on_its_line() -> None:
    reader, _ = read("Parental leave is easily taken. It may be taken in two parts [1].\n\nDogs love long walks.")
    first, second, other = reader.answer().support

    assert (first.cited, second.cited, other.cited) == ([1], [1], [])
    assert second.supported
    assert not other.supported


def test_an_uncited_statement_is_attributed_to_the_passage_that_says_it() -> None:
    reader, events = read("The form may be sent by fax to 555-0199. Dogs love it. Leave lasts ten ", "weeks.\n")
    fax, leave = reader.answer().citations

    assert reader.shown == "The form may be sent by fax to 555-0199. [2] Dogs love it. Leave lasts ten weeks. [1]"
    assert (fax.attributed, leave.attributed) == (True, True)
    assert reader.shown[fax.answer_start : fax.answer_end] == "[2]"
    assert "".join(event.text for event in events if isinstance(event, TokenEvent)) == reader.shown
    spans = [(reader.shown[one.answer_start : one.answer_end], one.supported) for one in reader.answer().support]
    assert ("Leave lasts ten weeks.", True) in spans
    assert ("Dogs love it.", False) in spans


def test_what_the_model_cites_is_not_attributed_again() -> None:
    reader, _ = read("The form may be sent by fax. [2] Leave lasts ten weeks [1].")

    assert reader.shown == "The form may be sent by fax. [2] Leave lasts ten weeks [1]."
    assert not any(cited.attributed for cited in reader.answer().citations)


def test_a_wrong_number_gives_way_to_the_passage_that_says_it() -> None:
    reader, _ = read("The form may be sent by fax to 555-0199 [1]. Dogs love long walks [1].")
    fax, dogs = reader.answer().citations

    assert reader.shown == "The form may be sent by fax to 555-0199 [2]. Dogs love long walks [1]."
    assert (fax.n, fax.attributed) == (2, True)
    assert (dogs.n, dogs.attributed) == (1, False)
    assert [one.supported for one in reader.answer().support] == [True, False]


def test_a_model_that_repeats_itself_is_noticed() -> None:
    reader = AnswerReader(EVIDENCE)

    reader.feed("Leave lasts ten weeks. It is paid. ")
    assert not reader.repeating
    reader.feed("Leave lasts  ten weeks. It")
    assert reader.repeating


@pytest.mark.parametrize(
    "text",
    [
        "Leave lasts nine weeks.",
        "The form may be sent by fax to 555-0100.",
        "The form may not be sent by fax.",
        "| leave | ten weeks |",
    ],
)
def test_what_the_evidence_does_not_plainly_say_is_not_attributed(text: str) -> None:
    reader, _ = read(text)

    assert reader.answer().citations == []
    assert reader.shown == text


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("Parental leave lasts ten weeks. [1] The form may be sent by fax. [2]", [[1], [2]]),
        ("Send forms, e.g. form PL-7, by fax [2].", [[2]]),
        ("## How to apply\n\nDo it like this:\n\n```python\napply(form='PL-7', copies=3)\n```\n", []),
    ],
    ids=["marker after the full stop", "abbreviation", "heading, lead-in and code"],
)
def test_statements_end_where_sentences_do(text: str, cited: list[list[int]]) -> None:
    assert [event.cited for event in read(text)[0].answer().support] == cited


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("Parental leave lasts ten weeks [1]. <cannot_answer>", "Parental leave lasts ten weeks [1]."),
        ("Ten\x1b[31m weeks\x00\ud83d \u202eskeew", "Ten[31m weeks skeew"),
        ("```python\napply(form='PL-7')\n```\n", "```python\napply(form='PL-7')\n```"),
    ],
    ids=["a refusal at the end", "controls and half characters", "code"],
)
def test_an_answer_is_shown_without_what_is_no_part_of_it(written: str, shown: str) -> None:
    reader, _ = read(written)
    assert (reader.shown, reader.refused) == (shown, False)


def test_the_example_of_the_instructions_is_no_answer_unless_a_document_says_it() -> None:
    example = f"{examples()[0]} [1]."
    assert examples()[0] in instructions().text

    reader = AnswerReader(EVIDENCE)
    reader.feed(example)
    reader.finish()
    assert (reader.shown, reader.refused) == ("", True)

    reader = AnswerReader(evidence(f"In our shops: {examples()[0]}, or in cash."))
    reader.feed(example)
    reader.finish()
    assert (reader.shown, reader.refused) == (example, False)


def test_a_quotation_is_shown_and_cited_exactly() -> None:
    reader = AnswerReader(EVIDENCE)
    reader.say("The documents say:")
    reader.quote(Support(1, 0.8, "Line one [9].\nLine two.", 0, 23))

    answer = reader.answer()
    assert answer.text == "The documents say:\n\n> Line one [9].\n> Line two. [1]"
    assert answer.citations[0].quote == "Line one [9].\nLine two."
    assert answer.text[answer.citations[0].answer_start : answer.citations[0].answer_end] == "[1]"


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.sampled_from(
            [
                "Parental leave lasts ten weeks", " [1]", ". ", "\n", "[2, 9]", "`a[1]`", "```\n", "cannot_answer",
                "> ", "十周。",
            ]
        ),
        max_size=10,
    ).map("".join),
    st.lists(st.integers(0, 150), max_size=12),
)  # fmt: skip
def test_where_an_answer_is_cut_changes_nothing(text: str, cuts: list[int]) -> None:
    places = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    whole, _ = read(text)
    cut, _ = read(*(text[a:b] for a, b in pairwise(places)))

    assert cut.answer() == whole.answer()


INSTALL = "Install it first. Add the package to your project:\n\n```sh\npip install kestrel\n```\n\nThen restart."


@pytest.mark.parametrize(
    "written", ["Add the package to your project [1]:", "Add the package to your project:", "Add the package [1]."]
)
def test_the_code_that_a_cited_sentence_leads_to_belongs_to_the_answer(written: str) -> None:
    reader = AnswerReader(evidence(INSTALL))
    events = [*reader.feed(written), *reader.finish(), *reader.complete()]
    assert reader.shown == f"{written}\n\n> ```sh\n> pip install kestrel\n> ```\n>\n> [1]"
    assert "".join(event.text for event in events if isinstance(event, TokenEvent)) == reader.shown
    quote = reader.answer().citations[-1]
    assert INSTALL[quote.start : quote.end] == quote.quote == "```sh\npip install kestrel\n```"
