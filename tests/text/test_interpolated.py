"""Texts that remember what was put into them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from text.prompts import Interpolated, PromptPart, fill, parts_of

TEXTS = st.text(alphabet="ab{}\n é", max_size=12)


@given(question=TEXTS, passage=TEXTS)
def test_the_parts_join_to_the_text(question: str, passage: str) -> None:
    passages = Interpolated.of((PromptPart("[1] "), PromptPart(passage, "[1].text")))
    made = fill("Q: {{question}}\n{{passages}}.", {"question": question, "passages": passages})

    assert "".join(part.text for part in made.parts) == made == f"Q: {question}\n[1] {passage}."
    named = {part.expression: part.text for part in made.parts if part.expression}
    assert named == {name: text for name, text in (("question", question), ("passages[1].text", passage)) if text}


def test_what_is_filled_in_is_never_filled_again() -> None:
    assert fill("{{a}}", {"a": "{{b}}", "b": "x"}) == "{{b}}"
    with pytest.raises(KeyError):
        fill("{{other}}", {"a": "x"})
    assert fill("{{other}}", {}, missing=lambda name: f"<{name}>") == "<other>"


def test_a_plain_text_is_one_part() -> None:
    assert parts_of("x") == (PromptPart("x"),)
