"""Rules that work without a language model."""

from __future__ import annotations

import pytest

from plugins.evidence.decontextualize import (
    addition,
    anchor,
    insertions,
    long_forms,
    removals,
    rule_findings,
    shortened,
)
from plugins.evidence.source import SourcePassage, SourceQuote, apply, bracketed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We use named entity recognition (NER) here.", {"NER": "named entity recognition"}),
        ("A NER (named entity recognition) model.", {"NER": "named entity recognition"}),
        ("Long short-term memory (LSTM) networks (LSTMs).", {"LSTM": "Long short-term memory"}),
        ("It beats the baseline on 3 out of 5 metrics (BLEU).", {}),
        ("The old name (Wien) is kept, see below (2019).", {}),
    ],
)
def test_long_forms_are_found_where_the_letters_begin_words(text: str, expected: dict[str, str]) -> None:
    assert long_forms(text) == expected


def test_acronyms_and_first_person_are_settled() -> None:
    quote = SourceQuote(
        "We compare NER models with the help of Kumari.",
        title="Entities of Nepal",
        passages=(
            SourcePassage("a", "Named entity recognition (NER) finds names."),
            SourcePassage("b", "Kumari is a corpus of newspaper articles. It is large."),
        ),
    )
    additions = rule_findings(quote)
    assert [(addition.question, addition.passage) for addition in additions] == [
        ("Who is speaking?", ""),
        ("What does NER stand for?", "a"),
    ]
    assert bracketed(apply(quote.snippet, insertions(quote.snippet, additions))) == (
        "We [the authors of “Entities of Nepal”] compare NER [Named entity recognition] models with the help of Kumari."
    )


def test_what_the_quote_says_itself_is_left_alone() -> None:
    text = "Named entity recognition (NER) finds names."
    assert rule_findings(SourceQuote(text, title="T", passages=(SourcePassage("a", text),))) == []
    assert removals(text) == []


def test_markers_and_references_to_floats_go() -> None:
    text = "Moreover, it is fast (see Figure 2) and small, as shown in Table 3, too."
    assert bracketed(apply(text, removals(text))) == "it is fast and small too."


@pytest.mark.parametrize(
    ("question", "behind"),
    [
        ("What does NMT stand for?", "for NMT"),
        ('What is "the second corpus"?', "second corpus"),
        ("Which baseline systems are these?", "The baseline systems"),
        ("Why?", "converged"),
    ],
)
def test_an_answer_goes_behind_the_words_that_are_asked_about(question: str, behind: str) -> None:
    snippet = "The baseline systems for NMT were run on the second corpus until they converged."
    at = anchor(snippet, question)
    assert at is not None
    assert snippet[:at].endswith(behind)


def test_an_addition_is_the_answer_without_the_questions_words() -> None:
    snippet = "We use NMT here."
    assert addition(snippet, "NMT stands for neural machine translation.") == "neural machine translation"
    assert addition(snippet, "It is a way [1] to translate (Smith et al., 2019).") == "a way to translate"
    assert len(addition(snippet, "word " * 90).split()) <= 40
    assert shortened("One two three. Four five six seven.", 5) == "One two three."
