"""HTML of the evidence: document text is escaped, places are linked; and the contract of every plugin."""

from __future__ import annotations

from plugins.evidence.page import readable_html, why_html
from plugins.evidence.views import SpanView, StandaloneView, WhyPlace, WhySentenceView, WhyView
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
    view = StandaloneView(document_id="a.md", start=0, end=16, text="Hold", spans=spans, questions=(), model="none")
    html = str(readable_html(view))
    assert "Hold the button. <ins>[in &lt;b&gt;this&lt;/b&gt; document]</ins>" in html
    assert "<b>" not in html


class TestPlugin(PluginContract):
    """The contract of every plugin."""

    name = "evidence"
