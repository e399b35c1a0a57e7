"""Which found passages become numbered evidence."""

from __future__ import annotations

from collections.abc import Sequence

from index.documents import Hit
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


def test_nothing_found_is_no_evidence() -> None:
    assert select_evidence([], limit=5, budget=500) == ()
