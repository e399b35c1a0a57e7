"""Words, numbers, negations and quoted terms as rewrites and support are compared."""

from __future__ import annotations

import pytest

from text.words import negations, numbers, quoted_terms, stems, words


def test_stems_leave_out_function_words_and_endings() -> None:
    assert stems("How do I renew my licenses?") == stems("renewing the license")


def test_unspaced_scripts_are_compared_by_pairs_of_characters() -> None:
    assert words("汽车保险") == ["汽车", "车保", "保险"]
    assert set(words("도서관")) < set(words("도서관에서"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The driver’s form isn't", ["the", "driver", "form", "isn"]),
        ("Call foo_bar or --dry-run", ["call", "foo", "bar", "or", "dry", "run"]),
        ("soft\u00adware ﬁle", ["software", "file"]),
        ("l'assurance d’O'Brien", ["l", "assurance", "d", "o", "brien"]),
    ],
)
def test_words_are_what_the_index_finds(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("within 1,000 days", {"1000"}),
        ("3.5 percent, 20%", {"3.5", "20"}),
        ("at 12:30.", {"12:30"}),
        ("form_7 and PL-7", {"7"}),
        ("ten weeks, or Ten", {"10"}),
        ("twenty-one; the other one", set()),
        ("٣ days", {"٣"}),
    ],
)
def test_numbers(text: str, expected: set[str]) -> None:
    assert numbers(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "You don't pay", "you dont pay", "You can t pay", "without a fee", "Das geht nicht", "ce n'est pas", "不可以",
        "не работает", "できない",
    ],
)  # fmt: skip
def test_negations_are_seen_in_several_languages(text: str) -> None:
    assert negations(text) > 0


def test_ordinary_words_are_no_negations() -> None:
    assert negations("The notice is known in the north, and I want to count it") == 0


def test_quoted_terms_of_every_kind_of_quotes() -> None:
    assert quoted_terms('Set `A_b` to "on" or “Off”') == {"a_b", "on", "off"}
