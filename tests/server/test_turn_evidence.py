"""Which found passages become numbered evidence."""

from __future__ import annotations

from collections.abc import Sequence

from index.documents import Document, Section
from index.query import Hit
from server.turn.evidence import passage_tokens, select_evidence
from tests.server.turn_fakes import passage


def hits(texts: Sequence[str]) -> list[Hit]:
    return [Hit(passage(text, f"d{n}.md"), 1 / n, {"typed/bm25": n}) for n, text in enumerate(texts, 1)]


def test_passages_keep_their_order_and_are_numbered_from_one() -> None:
    chosen = select_evidence(hits(["one", "two", "three"]), limit=2, budget=1000)

    assert [(one.n, one.text, one.document_id) for one in chosen] == [(1, "one", "d1.md"), (2, "two", "d2.md")]
    assert chosen[0].ranks == {"typed/bm25": 1}
    assert (chosen[0].title, chosen[0].heading, chosen[0].source) == ("Handbook", ["Leave"], "d1.md")


def test_one_that_does_not_fit_gives_way_to_a_shorter_one() -> None:
    found = hits(["short", "long " * 200, "also short"])
    selection = select_evidence(found, limit=5, budget=60)

    assert [one.text for one in selection] == ["short", "also short"]
    assert passage_tokens(found[0]) + passage_tokens(found[2]) <= 60


def test_the_first_is_taken_even_where_it_alone_is_too_long() -> None:
    assert len(select_evidence(hits(["long " * 500]), limit=3, budget=50)) == 1


def test_the_same_place_is_shown_once() -> None:
    twice = [Hit(passage("same", id=name), 1.0) for name in ("a", "b")]

    assert len(select_evidence(twice, limit=5, budget=500)) == 1


def test_a_proposition_is_shown_with_its_source_text() -> None:
    source = "It may be sent by fax."
    proposition = passage("Form PL-7 may be sent by fax.", start=5, end=5 + len(source), kind="proposition")
    document = Document("d1.md", "Handbook", "Well. " + source, (Section((), 0, 28),))
    shown = select_evidence([Hit(proposition, 1.0)], limit=1, budget=500, document=lambda _: document)[0]

    assert shown.text == document.text[5 : 5 + len(source)]


def test_propositions_of_one_section_show_it_once() -> None:
    text = "Well. It may be sent by fax. It may be sent by mail."
    around = {"section_start": 0, "section_end": len(text)}
    found = [
        Hit(passage(said, id=said, start=start, end=end, kind="proposition", metadata=around), 1.0)
        for said, start, end in (("Form PL-7 may be faxed.", 6, 28), ("Form PL-7 may be mailed.", 29, len(text)))
    ]
    document = Document("d1.md", "Handbook", text, (Section((), 0, len(text)),))
    selection = select_evidence(found, limit=5, budget=500, document=lambda _: document)

    (shown,) = selection
    assert (shown.text, shown.start, shown.end) == (text, 0, len(text))


def test_nothing_found_is_no_evidence() -> None:
    assert select_evidence([], limit=5, budget=500) == ()
