"""Rules that work without a language model."""

from __future__ import annotations

import pytest

from plugins.evidence.decontextualize import insertions, long_forms, make_standalone, removals, rule_findings
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


def test_a_quote_that_needs_nothing_stays_as_it_is() -> None:
    quote = SourceQuote("Water boils at 100 degrees.", title="Water", passages=(SourcePassage("a", "Water is wet."),))
    readable = make_standalone(quote)
    assert (readable.text, [span.kind for span in readable.spans]) == (quote.snippet, ["kept"])
