"""A changed quote as spans, and the HTML of the evidence: escaped and linked; and the contract of every plugin."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from plugins.evidence.page import readable_html, why_html
from plugins.evidence.service import SpanView, StandaloneView, WhyPlace, WhySentenceView, WhyView
from plugins.evidence.source import Edit, QuoteSpan, apply, bracketed, kept, original, place_behind, untouchable
from testing.plugin import PluginContract


def why(bears: bool) -> WhyView:
    view = (
        WhySentenceView(text="It opens <b>by itself</b>.", places=(WhyPlace(start=16, end=30),)),
        WhySentenceView(text="It is cheap.", places=(WhyPlace(start=31, end=40),)),
    )
    return WhyView(
        document_id="a.md",
        collection="docs",
        title="Steam",
        citance="The <i>valve</i> opens.",
        bears=bears,
        lead="<script>alert(1)</script> A page about steam.",
        lead_first=True,
        shown=view if bears else (),
    )


def test_why_a_source_is_cited_is_escaped_and_linked() -> None:
    html = str(why_html(why(bears=True)))
    assert html.index("&lt;script&gt;alert(1)&lt;/script&gt; A page") < html.index("&lt;b&gt;by itself")
    assert "<b>" not in html
    assert "<script" not in html
    assert "<i>" not in html
    assert 'data-start="16" data-end="30"' in html
    assert "No sentence of this source could be matched with it." in str(why_html(why(bears=False)))


def test_a_quote_made_readable_is_escaped() -> None:
    spans = (SpanView(kind="kept", text="Hold the button."), SpanView(kind="added", text="in <b>this</b> document"))
    view = StandaloneView(document_id="a.md", start=0, end=16, text="Hold", spans=spans, questions=())
    html = str(readable_html(view))
    assert "Hold the button. <ins>[in &lt;b&gt;this&lt;/b&gt; document]</ins>" in html
    assert "<b>" not in html


class TestPlugin(PluginContract):
    """The contract of every plugin."""

    name = "evidence"


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


def test_code_links_citations_and_formulas_are_left_alone() -> None:
    text = "Call `arr[0]` as in [2] or [the guide](http://x.y/z) at https://a.b/c?d=1 with $x[1]$ (Smith, 2019)."
    spans = [text[a:b] for a, b in untouchable(text)]
    assert spans == ["`arr[0]`", "[2]", "[the guide](http://x.y/z)", "https://a.b/c?d=1", "$x[1]$", "(Smith, 2019)"]
    for part in spans:
        at = text.index(part) + 2
        place = place_behind(text, at)
        assert place is not None
        assert place >= text.index(part) + len(part)


def test_nothing_is_put_into_a_code_block_or_a_word() -> None:
    text = "Run it:\n\n```\nfoo --bar\n```\n\nThe state-of-the-art way."
    assert place_behind(text, text.index("--bar")) is None
    place = place_behind(text, text.index("of-the"))
    assert place is not None
    assert text[:place].endswith("state-of-the-art")
