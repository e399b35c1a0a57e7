"""SARI-add and content-SARI against cases counted by hand."""

from __future__ import annotations

from papers.orconvqa.sari import Additions, additions, f1, paired, sari

SNIPPET = "We trained the NER model on it."
GOLD = "The authors trained the NER [named entity recognition] model on it [the Nepali corpus]."
SURFACE = "The authors trained the NER model on it."


def test_added_words_are_counted() -> None:
    # Wanted: authors named entity recognition nepali corpus; added: authors named entity parser.
    found = additions(SNIPPET, "The authors trained the NER [a named entity parser] model on it.", GOLD)
    assert found == Additions(hits=3, surplus=1, misses=3)
    assert f1([found]) == 6 / 10


def test_content_sari_counts_nothing_that_the_surface_rewrite_says() -> None:
    assert additions(SNIPPET, "The authors trained the NER model on it.", GOLD, SURFACE) == Additions(0, 0, 5)
    assert additions(SNIPPET, "Their NER [entity REF0] model", GOLD, SURFACE) == Additions(1, 0, 4)


def test_counts_are_summed_before_the_f1() -> None:
    rows = [Additions(1, 0, 0), Additions(0, 0, 9)]
    assert f1(rows) == 2 / 11
    value = sari(rows * 20, [n // 2 for n in range(40)])
    assert value.low == value.mean == value.high == 2 / 11


def test_a_clear_difference_is_significant_and_none_is_not() -> None:
    good, bad = [Additions(5, 1, 1)] * 30, [Additions(1, 5, 5)] * 30
    assert paired(bad, good, range(30)) < 0.01
    assert paired(good, good, range(30)) == 1
