"""What a model reads of the evidence: the sentences that matter, within the budget."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from server.turn.events import Evidence
from server.turn.models import GAP, HEADER_TOKENS, count_tokens, excerpts
from server.turn.support import SupportScorer
from tests.server.turn_fakes import FAX, LEAVE, evidence
from text.sentences import table_rows

LONG = " ".join(f"Sentence number {n} speaks of something else entirely." for n in range(20))
HIDDEN = f"{LONG} Refunds for returned books take nine working days. They go to the card used. {LONG}"


def read(question: str, passages: list[Evidence], budget: int) -> dict[int, str]:
    return excerpts(question, passages, SupportScorer(passages), budget)


def test_what_fits_is_shown_whole() -> None:
    assert read("How long is leave?", evidence(LEAVE, FAX), 500) == {1: LEAVE, 2: FAX}


def test_the_sentence_that_speaks_to_the_question_is_found_in_a_long_passage() -> None:
    shown = read("How long do refunds for books take?", evidence(LONG, HIDDEN), 80)

    assert "Refunds for returned books take nine working days." in shown[2]
    assert count_tokens(shown[2]) < 80


def test_what_follows_a_match_is_read_with_it() -> None:
    shown = read("How long do refunds for returned books take?", evidence(HIDDEN), 70)

    assert "nine working days. They go to the card used." in shown[1]


def test_a_list_is_read_with_what_leads_to_it() -> None:
    text = f"{LONG}\n\nThese of your files are left out:\n\n- hidden ones\n- empty ones\n- archives\n\n{LONG}"

    shown = read("Which files are left out?", evidence(text), 60)[1]

    assert "These of your files are left out:\n\n- hidden ones\n- empty ones\n- archives" in shown


def test_an_item_is_read_with_what_leads_to_its_list() -> None:
    text = f"{LONG}\n\nYou have to bring:\n\n- a pen\n- a photograph of the damaged car\n- a friend\n\n{LONG}"

    shown = read("Is a photograph of the damaged car needed?", evidence(text), 40)[1]

    assert "You have to bring:" in shown
    assert "- a photograph of the damaged car" in shown


def test_a_gap_is_marked() -> None:
    text = f"Refunds take nine days. {LONG} Refunds are free."

    shown = read("What of refunds?", evidence(text), 70)[1]

    assert shown.startswith("Refunds take nine days.")
    assert shown.endswith("Refunds are free.")
    assert shown.count(GAP) == 1


def test_one_sentence_is_shown_however_small_the_budget() -> None:
    assert read("How long is leave?", evidence(LEAVE, FAX), 0) == {1: "Parental leave lasts ten weeks."}


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.text(st.sampled_from("ab .\n|`*-#é字"), min_size=1, max_size=300).filter(str.strip), max_size=4),
    st.integers(0, 300),
)
def test_excerpts_keep_to_the_budget_and_the_text(texts: list[str], budget: int) -> None:
    passages = evidence(*texts)
    shown = read("a b", passages, budget)

    pieces = [piece for text in shown.values() for piece in text.split(GAP)]
    if len(pieces) > 1:
        heads = len(shown) * (HEADER_TOKENS + count_tokens("Handbook Leave"))
        assert heads + sum(count_tokens(piece) - 1 for piece in pieces) <= budget
    for n, text in shown.items():
        for piece in text.split(GAP):
            said = table_rows(passages[n - 1].text)  # the rows of a table are read as sentences
            assert piece in passages[n - 1].text or said
