"""Sentence borders: offsets, abbreviations, scripts, code and tables."""

from __future__ import annotations

import pytest

from text.sentences import sentence_spans


def cut(text: str) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Dr. Smith came. He left.", ["Dr. Smith came.", "He left."]),
        ("It is 3.5 long, e.g. this one. Next?", ["It is 3.5 long, e.g. this one.", "Next?"]),
        ("A line\nthat wraps. Another\none.", ["A line\nthat wraps.", "Another\none."]),
        ("第一句。第二句！三", ["第一句。", "第二句！", "三"]),
        ("كيف أبدأ؟ اضغط على الزر. انتظر!", ["كيف أبدأ؟", "اضغط على الزر.", "انتظر!"]),
        ("Siehe Nr. 5 bzw. Abb. 3. Ende.", ["Siehe Nr. 5 bzw. Abb. 3.", "Ende."]),
        ("Am 3. Mai kam es. Der 2. Schritt folgt.", ["Am 3. Mai kam es.", "Der 2. Schritt folgt."]),
        ("I am 3. He is 2. Die.", ["I am 3.", "He is 2.", "Die."]),
        ("मैं हूँ। तुम हो।", ["मैं हूँ।", "तुम हो।"]),
        ("**Bold.** Then this.", ["**Bold.**", "Then this."]),
        ("Call `a.b. C` now. Done.", ["Call `a.b. C` now.", "Done."]),
        ("  \n \t ", []),
        ("", []),
    ],
)
def test_prose_is_cut_where_sentences_end(text: str, expected: list[str]) -> None:
    assert cut(text) == expected


def test_code_fences_and_table_rows_are_one_sentence_each() -> None:
    text = "See:\n\n```python\nx = 1. # No. Not here.\n\ny = 2\n```\n\n| a | b |\n|---|---|\n| One. Two. | 3 |\n"
    assert cut(text) == [
        "See:",
        "```python\nx = 1. # No. Not here.\n\ny = 2\n```",
        "| a | b |\n|---|---|",
        "| One. Two. | 3 |",
    ]


def test_a_fence_right_below_a_tag_is_still_code() -> None:
    text = "<CodeGroup>\n```python Python\nx = 1. # A\n\n# B. C\n```\n</CodeGroup>"
    assert "```python Python\nx = 1. # A\n\n# B. C\n```" in cut(text)


def test_admonitions_are_cut_like_prose() -> None:
    text = '!!! note "Mind"\n    First one. Second one.\n\n:::tip\nThird. Fourth.\n:::\n'
    assert cut(text) == ['!!! note "Mind"', "First one.", "Second one.", ":::tip", "Third.", "Fourth.", ":::"]


def test_a_paragraph_of_any_length_is_cut_between_sentences() -> None:
    sentence = "This is one sentence of several words."
    assert cut(" ".join([sentence] * 5000)) == [sentence] * 5000


def test_a_sentence_without_end_is_cut_between_words() -> None:
    assert {word for part in cut("endless " * 5000) for word in part.split()} == {"endless"}
