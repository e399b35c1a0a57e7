"""The measured rules of quotes that stand alone: additions, removals, and a changed quote as spans."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from papers.decontextualization.rules import SourceQuote, insertions, removals, rule_findings
from papers.spans import Edit, QuoteSpan, apply, bracketed, kept, original
from plugins.evidence.source import SourcePassage


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


def test_markers_and_references_to_floats_go() -> None:
    text = "Moreover, it is fast (see Figure 2) and small, as shown in Table 3, too."
    assert bracketed(apply(text, removals(text))) == "it is fast and small too."


@given(
    st.text(max_size=80), st.lists(st.tuples(st.integers(0, 80), st.integers(0, 10), st.text(max_size=5)), max_size=6)
)
def test_kept_and_removed_are_the_quote_whatever_is_edited(text: str, wanted: list[tuple[int, int, str]]) -> None:
    edits, at = [], 0
    for start, length, added in sorted(wanted):
        start = max(at, min(start, len(text)))
        at = min(start + length, len(text))
        edits.append(Edit(start, at, added))
    spans = apply(text, edits)
    assert original(spans) == text
    assert kept(spans) + "".join(s.text for s in spans if s.kind == "removed") is not None
    assert all(span.text for span in spans)


def test_additions_are_shown_in_brackets_behind_their_words() -> None:
    spans = apply("However, we set it to 4.", [Edit(0, 9), Edit(11, 11, "the authors"), Edit(18, 18, "the depth")])
    assert bracketed(spans) == "we [the authors] set it [the depth] to 4."
    assert original(spans) == "However, we set it to 4."
    assert [span.kind for span in spans] == ["removed", "kept", "added", "kept", "added", "kept"]


def test_brackets_of_ours_never_make_a_link() -> None:
    assert (
        bracketed([QuoteSpan("kept", "CNN"), QuoteSpan("added", "network"), QuoteSpan("kept", "(small)")])
        == "CNN [network] (small)"
    )
