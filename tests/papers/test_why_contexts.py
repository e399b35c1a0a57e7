"""The words a source is looked for with: contexts exact to the word, markers out, keywords that differ."""

from __future__ import annotations

import pytest

from papers.citation_summaries.setups import Citance, WhyContext, context, keywords
from tests.encoder import WordEncoder

PARAGRAPH = (
    "Boilers are old. Their valves differ by maker. The safety valve opens at four bar [2]. It is cheap. "
    "A valve that opens late is no safety valve."
)
CITED = "The safety valve opens at four bar [2]."
BEFORE, AFTER = PARAGRAPH.split(CITED)
BARE = "The safety valve opens at four bar."


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("citance", BARE),
        ("neighbours", f"Their valves differ by maker. {BARE} It is cheap."),
        ("similar", f"Their valves differ by maker. {BARE} A valve that opens late is no safety valve."),
    ],
)
def test_a_context_in_the_middle_of_a_paragraph(kind: WhyContext, expected: str) -> None:
    assert context(Citance(CITED, BEFORE, AFTER), kind, WordEncoder()) == expected


@pytest.mark.parametrize(
    ("before", "after", "neighbours"),
    [
        ("", AFTER, f"{BARE} It is cheap."),
        (BEFORE, "", f"Their valves differ by maker. {BARE}"),
        ("", "", BARE),
    ],
    ids=["first", "last", "alone"],
)
def test_a_context_at_the_edges_of_a_paragraph(before: str, after: str, neighbours: str) -> None:
    citance = Citance(CITED, before, after)
    assert context(citance, "neighbours") == neighbours
    assert context(citance, "citance") == BARE
    assert BARE in context(citance, "similar", WordEncoder())
    assert context(citance, "similar") == neighbours, "without an encoder"


def test_keywords_are_near_the_text_and_differ() -> None:
    chosen = dict(
        keywords("The safety valve of the boiler opens at four bar, and the safety valve is cheap.", WordEncoder())
    )
    assert "safety valve" in chosen
    assert "the" not in chosen
    assert len(chosen) <= 10
    assert all(weight > 0 for weight in chosen.values())
    assert keywords("of the and", WordEncoder()) == []
