"""Statements are read beside what they cite: what turns the passage is never called supported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from server.rewriters import open_pairs
from server.settings import Settings
from server.turn.events import FoldEvent, SupportEvent
from server.turn.support import (
    READINGS,
    SUPPORTED,
    Judged,
    PairReading,
    SupportScorer,
    evidence_text,
    joined,
    plain,
    statement_text,
    verify,
)
from tests.server.turn_fakes import FAX, LEAVE, FakeCollection, evidence
from tests.server.turn_playing import done, engine, play

SCORER = SupportScorer(evidence(LEAVE, FAX))
SURE, TURNED, SILENT = PairReading(0.98, 0.01), PairReading(0.01, 0.98), PairReading(0.05, 0.05)


class Reader:
    """A pair model that says what `says` makes of a pair, and keeps the pairs."""

    def __init__(self, says: Callable[[str, str], PairReading]) -> None:
        self._says = says
        self.pairs: list[tuple[str, str]] = []

    def read(self, statement: str, evidence: str) -> PairReading:
        self.pairs.append((statement, evidence))
        return self._says(statement, evidence)


def judged(text: str, *cited: int, start: int = 0) -> Judged:
    score = SCORER.score(text, cited)
    return Judged(
        text,
        SupportEvent(
            answer_start=start,
            answer_end=start + len(text),
            cited=list(cited),
            score=score,
            supported=bool(cited) and score >= SUPPORTED,
        ),
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- See [the **guide**](https://example.org/a_b) for `--set`.", "See the guide for `--set`."),
        ("## Keep _it_ {#keep}", "Keep it"),
        ("<b>Bold</b> <!-- not this --> and *so* on", "Bold and so on"),
        ("snake_case and 2 * 3 stay", "snake_case and 2 * 3 stay"),
        ("!!! note\n    Mind   the gap.", "Mind the gap."),
    ],
)
def test_what_is_read_is_words_without_markup(text: str, words: str) -> None:
    assert plain(text) == words


def test_a_sentence_is_read_below_its_heading_between_its_neighbours() -> None:
    sentences = ["One.", "- Two", "Three.", "Four."]
    assert evidence_text("Numbers", sentences, 1) == "Numbers. One. Two. Three."
    assert evidence_text("", sentences, 0) == "One. Two."
    assert len(evidence_text("x" * 10, ["a" * 5000] * 3, 1)) < 800
    assert statement_text("It is **ten**.", "how long is leave?") == "how long is leave? It is ten."


def test_rows_of_tables_are_read_with_the_names_of_their_columns() -> None:
    scorer = SupportScorer(evidence("| Format | Limit |\n|---|---|\n| PDF | 50 MB |\n| PNG | 5 MB |\n"))
    reader = Reader(lambda *_: SURE)
    text = "PNG files have a limit of 50 MB."
    event = SupportEvent(answer_start=0, answer_end=9, cited=[1], score=0.3, supported=False)
    verify([Judged(text, event)], scorer, reader)  # type: ignore[arg-type]
    [(_, read)] = reader.pairs
    assert "Format: PNG; Limit: 5 MB." in read


def test_what_is_turned_is_not_supported_whatever_its_words_say() -> None:
    statement = judged("Parental leave lasts ten weeks and may be taken in three parts.", 1, start=7)
    [event] = verify([statement], SCORER, Reader(lambda *_: TURNED), "How long is leave?")  # type: ignore[arg-type]
    assert event.contradicted
    assert not event.supported
    assert event.score < SUPPORTED
    assert (event.answer_start, event.answer_end, event.cited) == (7, statement.event.answer_end, [1])


def test_a_paraphrase_that_is_borne_out_becomes_supported() -> None:
    statement = judged("You get 10 weeks off as a new parent.", 1)
    assert not statement.event.supported
    [event] = verify([statement], SCORER, Reader(lambda *_: SURE))  # type: ignore[arg-type]
    assert event.supported
    assert not event.contradicted


def test_one_cited_passage_that_bears_it_out_is_enough() -> None:
    statement = judged("The form can be faxed.", 1, 2)
    reader = Reader(lambda _, read: SURE if "fax" in read else TURNED)
    [event] = verify([statement], SCORER, reader)  # type: ignore[arg-type]
    assert event.supported
    assert len(reader.pairs) == 2


def test_what_cites_nothing_or_is_quoted_word_for_word_is_not_read() -> None:
    reader = Reader(lambda *_: TURNED)
    statements = [judged("Leave is long."), judged("It may be taken in two parts.", 1), judged("Leave is long.", 7)]
    assert verify(statements, SCORER, reader) == []  # type: ignore[arg-type]
    assert not reader.pairs


def test_a_statement_that_begins_with_yes_or_no_is_judged_by_its_words() -> None:
    reader = Reader(lambda *_: TURNED)
    assert verify([judged("Yes, leave lasts ten weeks.", 1)], SCORER, reader) == []  # type: ignore[arg-type]
    assert not reader.pairs


def test_sentences_are_cut_where_a_passage_begins_within_its_block() -> None:
    lead = "| Format | Limit |\n|---|---|\n| GIF | 1 MB |\n"
    [whole] = evidence(lead + "| PDF | 50 MB |\n| PNG | 5 MB |\n")
    cut = whole.model_copy(update={"text": whole.text[len(lead) :], "start": len(lead), "opening": lead.rstrip("\n")})
    assert cut.opened == whole.text
    _, texts, place = SupportScorer([cut]).around("PNG files may have 5 MB.", 1)
    assert texts[place] == "Format: PNG; Limit: 5 MB."
    assert not any("GIF" in text for text in texts)


def test_a_long_answer_is_read_no_further_than_the_bound() -> None:
    reader = Reader(lambda *_: SILENT)
    verify([judged(f"Leave lasts {n} weeks.", 1, 2) for n in range(40)], SCORER, reader)  # type: ignore[arg-type]
    assert len(reader.pairs) == READINGS


def test_the_joined_score_follows_each_of_its_parts() -> None:
    assert joined(0.9, [SURE])[0] > joined(0.3, [SURE])[0]
    assert joined(0.5, [SURE])[0] > joined(0.5, [SILENT])[0] > joined(0.5, [TURNED])[0]
    assert joined(1.0, [TURNED]) == (joined(1.0, [TURNED])[0], True)
    assert joined(1.0, [TURNED])[0] < SUPPORTED
    assert not joined(0.1, [SILENT])[1]
    assert joined(1.0, [SURE, TURNED]) == joined(1.0, [SURE])


@pytest.mark.parametrize(
    ("statement", "borne_out"),
    [
        ("Leave for new parents lasts ten weeks.", True),
        ("You may take it in two parts.", True),
        ("Parental leave lasts nine weeks.", False),
        ("Parental leave lasts ten days.", False),  # which shares all but one of its words
        ("It may not be taken in two parts.", False),
    ],
)
def test_the_packaged_model_tells_a_paraphrase_from_what_turns_the_passage(
    model_home: Path, statement: str, borne_out: bool
) -> None:
    model = open_pairs(Settings(home=model_home))
    assert model is not None
    [event] = verify([judged(statement, 1)], SCORER, model, "How long is parental leave?")
    assert (event.supported, event.contradicted) == (borne_out, not borne_out)


def test_a_large_model_s_contradicted_sentence_is_told_before_the_turn_is_done() -> None:
    reader = Reader(lambda said, _: TURNED if "nine" in said else SURE)
    script = ["Parental leave lasts nine weeks [1]. It may be taken in two separate parts [1]."]
    events = play(engine(script, collection=FakeCollection(), style="full", pairs=reader))
    judgements = [event for event in events if isinstance(event, SupportEvent)]
    assert [(one.supported, one.contradicted) for one in done(events).support] == [(False, True), (True, False)]
    again = [one for one in judgements if one.contradicted]
    assert len(again) == 1
    assert any(one.answer_start == again[0].answer_start and not one.contradicted for one in judgements)
    assert all(said.startswith("How long is leave? ") for said, _ in reader.pairs)


def test_a_small_model_s_contradicting_answer_gives_way_to_the_quotes() -> None:
    script = ["Parental leave lasts nine weeks [1]."]
    turns = engine(script, collection=FakeCollection(), pairs=Reader(lambda *_: TURNED))
    events = play(turns, "How many weeks does parental leave last?")
    assert any(isinstance(event, FoldEvent) for event in events)
    assert done(events).status == "quoted"
    assert done(events).folded == "Parental leave lasts nine weeks [1]."


def test_another_language_than_english_is_not_read() -> None:
    reader = Reader(lambda *_: TURNED)
    script = ["Parental leave lasts nine weeks [1]."]
    question = "Wie viele Wochen dauert die Elternzeit bei uns eigentlich insgesamt?"
    play(engine(script, collection=FakeCollection(), style="full", pairs=reader), question)
    assert not reader.pairs
