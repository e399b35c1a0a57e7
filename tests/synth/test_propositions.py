"""Windows, alignment, refusals and merging: from a document's text to what may be called a proposition."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.documents import Document, Section
from synth.propositions import (
    DocumentWindow,
    Proposition,
    SourceSpan,
    WindowAligner,
    build,
    merged,
    read,
    reference,
    refusal,
    windows,
)
from synth.tasks import InvalidAnswer
from tests.encoder import WordEncoder
from tests.towns import document

LIST = """Before you apply:

- Bring the form, signed and dated. Bring two copies of it, please, and a stamped envelope.
- Bring a photo.
  It must be new. It must show your face, without a hat, from the front.
- Bring the fee.

| kind | price of a permit for a year |
|---|---|
| car | thirty five dollars, or twenty for residents over sixty five |
| bike | five dollars, and free for everybody under eighteen years |

Then send all of it to the clerk. The clerk answers within a week.
"""


def count(text: str) -> int:
    return len(text.split())


def shown(text: str, tokens: int) -> list[str]:
    return [window.text for window in windows(document("d.md", text), tokens, count)]


def test_a_window_splits_no_row() -> None:
    parts = shown(LIST, 14)
    assert len(parts) > 4
    for whole in (
        "| car | thirty five dollars, or twenty for residents over sixty five |",
        "| bike | five dollars, and free for everybody under eighteen years |",
    ):
        assert sum(whole in part for part in parts) == 1


@settings(deadline=None)
@given(st.text(alphabet="ab. \n-|`#1", max_size=300), st.integers(1, 30))
def test_windows_of_any_text_hold_every_word_once(text: str, tokens: int) -> None:
    made = list(windows(document("d.md", text), tokens, count))
    spans = [(piece.start, piece.end) for window in made for piece in window.pieces]
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    assert sum(map(str.isalnum, "".join(text[start:end] for start, end in spans))) == sum(map(str.isalnum, text))


def test_short_sections_share_a_window_that_names_their_headings() -> None:
    text = "Open at nine. Closed on Sunday."
    sections = (Section(("Library", "Hours"), 0, 13), Section(("Library", "Days"), 14, len(text)))
    (window,) = windows(Document("d.md", "Town", text, sections), 100, count)
    assert window.heading == ("Library",)
    assert window.text == "## Hours\n\nOpen at nine.\n\n## Days\n\nClosed on Sunday."


def test_long_code_is_cut_between_its_lines() -> None:
    text = "```\n" + "\n".join(f"line {number} of code" for number in range(20)) + "\n```"
    parts = shown(text, 20)
    assert len(parts) > 2
    assert "".join(parts).count("of code") == 20
    assert all(line.endswith("of code") for part in parts for line in part.splitlines() if line.startswith("line"))


SOURCE = (
    "Form PL-7 costs $35. It can be sent by fax or by mail. You do not need a stamp. "
    "The office in Dover answers within 10 days. Ask for Ms. Reed."
)


@pytest.fixture
def window() -> DocumentWindow:
    (made,) = windows(document("d.md", SOURCE, "Parental leave"), 100, count)
    return made


def aligned(window: DocumentWindow, text: str) -> Any:
    return WindowAligner(window, WordEncoder()).align([text])[0]


@pytest.mark.parametrize(
    ("proposition", "source"),
    [
        ("Form PL-7 costs $35.", "Form PL-7 costs $35."),
        ("Form PL-7 can be sent by fax.", "It can be sent by fax or by mail."),
        ("The office in Dover answers within 10 days.", "The office in Dover answers within 10 days."),
    ],
)
def test_a_proposition_is_aligned_to_the_sentence_it_says(
    window: DocumentWindow, proposition: str, source: str
) -> None:
    found = aligned(window, proposition)
    assert source in SOURCE[found.start : found.end]


@pytest.mark.parametrize(
    ("proposition", "reason"),
    [
        ("Form PL-7 costs $35.", ""),
        ("Form PL-7 costs $45.", "number"),
        ("The office in Exeter answers within 10 days.", "name"),
        ("Form PL-9 can be sent by fax.", "number"),
        ("Form PL-7 cannot be sent by fax or by mail.", "negation"),
        ("You need a stamp.", "lost negation"),
        ("You do not need a stamp.", ""),
        ("What does Form PL-7 cost, $35?", "no statement"),
        ("Form PL-7 by fax or by mail", "no statement"),
        ("Form PL-7 can be sent by *fax* or by mail.**", ""),
        ("The section describes that Form PL-7 can be sent by fax.", "no statement"),
        ("Form PL-7 can be sent by fax or by mail ครับ", ""),
    ],
)
def test_what_the_source_lacks_is_refused(window: DocumentWindow, proposition: str, reason: str) -> None:
    found = aligned(window, proposition)
    assert found is not None
    assert refusal(proposition, window, found) == reason


def test_left_out_sentences_are_kept_apart_with_their_reason(window: DocumentWindow) -> None:
    said = ["Form PL-7 costs $35.", "Form PL-7 costs $350.", "It can be sent by fax.", "Pools open early in summer."]
    built = build([(window, [*said, "word " * 100])], WordEncoder(), "m")
    assert [one.text for one in built.kept] == said[:1]
    assert [one.reason for one in built.left_out] == ["number", "reference", "unaligned", "too long"]
    assert built.written == 5


def proposition(text: str, name: str) -> Proposition:
    source = SourceSpan(document_id=name, start=0, end=len(text))
    return Proposition(
        id=f"{name}-{text}",
        document_id=name,
        title="",
        text=text,
        start=0,
        end=len(text),
        source=text,
        sources=(source,),
    )


def test_near_duplicates_are_one_with_all_their_sources() -> None:
    same = "The parking permit of the town costs thirty dollars every year"
    kept = merged(
        [proposition(same, "a"), proposition("Dogs need a leash.", "a"), proposition(f"{same}.", "b")], WordEncoder()
    )
    assert [one.text for one in kept] == [same, "Dogs need a leash."]
    assert kept[0].documents == ("a", "b")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("A permit of the town costs 5 dollars a year.", "A permit of the town costs 6 dollars a year."),
        ("A hunting licence of the town costs 5 dollars.", "A fishing licence of the town costs 5 dollars."),
        ("Plan A of the town pays for a doctor.", "Plan B of the town pays for a doctor."),
        ("Residents of the town need a permit.", "Residents of the town do not need a permit."),
    ],
)
def test_another_number_name_or_negation_is_another_fact(one: str, other: str) -> None:
    assert len(merged([proposition(one, "a"), proposition(other, "a")], WordEncoder())) == 2


@pytest.mark.parametrize(
    "data", [{}, {"propositions": "A."}, {"propositions": [1]}, {"propositions": [{"text": "A."}]}]
)
def test_an_answer_of_another_form_is_told_what_is_wrong(data: Any) -> None:
    with pytest.raises(InvalidAnswer, match="propositions"):
        read(data)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("How does it work?", "it"), ("And by fax?", "And"), ("Is that possible online?", "Is that"),
        ("What is the fee for this form?", "this form"), ("How do I get there?", "get there"),
        ("If I lose my card, how do I replace it?", ""), ("Is it possible to renew a card online?", ""),
        ("What does `it` mean?", ""), ("Is there a fee for a card?", ""),
    ],
)  # fmt: skip
def test_references_are_told_from_what_a_sentence_resolves_itself(text: str, found: str) -> None:
    assert reference(text) == found
