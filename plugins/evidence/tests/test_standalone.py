"""Quotes made readable away from their pages: the rules, the spans, their HTML, the API, and the page in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.documents import Document
from plugins.evidence.decontextualize import (
    QuoteSpan,
    bracketed,
    long_forms,
    make_standalone,
    place_behind,
    untouchable,
)
from plugins.evidence.page import readable_html
from plugins.evidence.service import StandaloneView
from testing.plugin import PluginContract
from tests.serving import MakeSettings, Serve
from tests.ui.conftest import Visitor, site, visitor

__all__ = ["site", "visitor"]


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


def shown(text: str, quote: str, title: str = "") -> str:
    start = text.index(quote)
    spans = make_standalone(Document("a.md", title, text, ()), start, start + len(quote))
    assert "".join(span.text for span in spans if span.kind == "kept") == quote
    assert all(span.text for span in spans)
    return "".join(shown for _, shown in bracketed(spans))


PAPER = """NER stands in the title. Named entity recognition (NER) finds names, but NMT(small) translates.

We compare NERs and NMT(small) in this paper; so do we. `NMT`, Water boils in the US.

Neural machine translation (NMT) and the page <b>for you</b> (PFY).
"""


@pytest.mark.parametrize(
    ("quote", "expected"),
    [
        (
            "We compare NERs and NMT(small) in this paper; so do we.",
            "We [the authors of “Names”] compare NERs [Named entity recognition] and NMT [Neural machine translation] "
            "(small) in this paper [“Names”]; so do we.",
        ),
        ("Named entity recognition (NER) finds names,", "Named entity recognition (NER) finds names,"),
        ("`NMT`,", "`NMT` [Neural machine translation],"),
        ("Water boils in the US.", "Water boils in the US."),
        ("(PFY)", "(PFY)"),
    ],
)
def test_acronyms_and_speakers_are_told_in_brackets_once(quote: str, expected: str) -> None:
    assert shown(PAPER, quote, "Names") == expected


@pytest.mark.parametrize("title", ["See https://evil.example", "<script>", "a [link](x)", "A\u202eB", ""])
def test_a_title_that_is_an_address_or_markup_is_not_added(title: str) -> None:
    assert shown("We compare.", "We compare.", title) == "We compare."


@given(st.text(max_size=80), st.text(max_size=20))
def test_the_quote_stays_whatever_it_is(text: str, title: str) -> None:
    spans = make_standalone(Document("a.md", title, text, ()), 0, len(text))
    assert "".join(span.text for span in spans if span.kind == "kept") == text


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


def test_a_quote_made_readable_is_escaped() -> None:
    spans = (QuoteSpan(kind="kept", text="Hold the button."), QuoteSpan(kind="added", text="in <b>this</b> document"))
    view = StandaloneView(document_id="a.md", start=0, end=16, text="Hold", spans=spans)
    html = str(readable_html(view))
    assert "Hold the button. <ins>[in &lt;b&gt;this&lt;/b&gt; document]</ins>" in html
    assert "<b>" not in html


PAGE = """# Boilers

## Valve

However, we set the SRV to 4 bar (see Table 2). It never opens below that.

## Parts

The safety release valve (SRV) opens by itself.
"""
QUOTE = "However, we set the SRV to 4 bar (see Table 2)."
READABLE = "However, we [the authors of “Boilers”] set the SRV [safety release valve] to 4 bar (see Table 2)."


@pytest.fixture
def client(settings_for: MakeSettings, serve: Serve) -> Iterator[httpx.Client]:
    running = serve(settings_for("none"))
    running.upload("boilers.md", PAGE)
    with running.client() as client:
        yield client


def place(client: httpx.Client, quote: str = QUOTE) -> dict[str, Any]:
    document = "uploads/boilers.md"
    text = client.get(f"/v1/collections/docs/documents/{document}").json()["text"]
    start = text.index(quote)
    return {"document_id": document, "start": start, "end": start + len(quote)}


def test_a_quote_is_made_readable(client: httpx.Client) -> None:
    body = place(client)
    first = client.post("/v1/standalone", json=body).json()
    assert first["text"] == READABLE
    assert "".join(span["text"] for span in first["spans"] if span["kind"] != "added") == QUOTE
    assert {span["kind"] for span in first["spans"]} == {"kept", "added"}


def test_the_quote_of_a_turn_is_that_of_its_source(client: httpx.Client) -> None:
    conversation = client.post("/v1/conversations", json={}).json()["id"]
    asked_turn = client.post(f"/v1/conversations/{conversation}/turns", json={"question": "How is the SRV set?"})
    turn = client.get(f"/v1/turns/{asked_turn.headers['x-turn-id']}").json()
    cited = turn["done"]["citations"][0]
    quote = client.post("/v1/standalone", json={"turn_id": turn["id"], "n": cited["n"]}).json()
    assert (quote["document_id"], quote["start"], quote["end"]) == (
        cited["document_id"], cited["start"], cited["end"]
    )  # fmt: skip
    assert client.post("/v1/standalone", json={"turn_id": turn["id"], "n": 99}).status_code == 404


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"document_id": "uploads/gone.md"}, 404),
        ({"start": 50, "end": 50}, 400),
        ({"end": 10**6, "start": 10**6 - 5}, 400),
        ({"start": 0, "end": 9000}, 400),
        ({"turn_id": "x", "n": 1}, 400),
        ({"document_id": ""}, 400),
        ({"collection": "nothing"}, 404),
    ],
)
def test_what_is_no_quote_is_refused(client: httpx.Client, change: dict[str, Any], status: int) -> None:
    assert client.post("/v1/standalone", json={**place(client), **change}).status_code == status


@pytest.mark.browser
@pytest.mark.extended
def test_a_quote_is_made_readable_and_its_original_is_one_click_away(visitor: Visitor) -> None:
    page = visitor.page
    visitor.ask("How many bar has the SRV?")
    page.click(".turn:last-child .chip")
    source = page.locator(".source.selected")
    source.get_by_role("button", name="Show what it refers to").first.click()
    quote = source.locator('[data-part="readable"]').first
    quote.wait_for()
    readable = "However, we [the authors of “Steam”] set the SRV [safety release valve] to 4 bar (see Table 2)."
    assert quote.inner_text() == readable
    # Told apart without colour: by brackets and a line below.
    assert quote.locator("ins").first.evaluate("one => getComputedStyle(one).textDecorationLine") == "underline"
    copied = source.locator('[data-action="copy-readable"]').get_attribute("data-text")
    assert copied == readable
    source.locator('[data-action="original"]').click()
    assert source.locator('[data-part="original"]').inner_text() == "However, we set the SRV to 4 bar (see Table 2)."
    assert not quote.is_visible()
    source.locator('[data-action="original"]').click()
    assert quote.is_visible()
    source.get_by_role("button", name="Why this source?").first.click()
    why = source.locator('[data-part="why"]')
    why.wait_for()
    assert "we set the SRV to 4 bar" in why.inner_text()
    why.get_by_role("link", name="Open in the document").first.click()
    page.wait_for_selector(".reader mark")
    page.get_by_role("button", name="Close the document").click()
    # Another turn's sources, and back: it is still there.
    visitor.ask("How often should I descale the kettle?")
    page.click(".turn:first-child .chip")
    page.wait_for_selector('.source.selected [data-part="readable"]')


class TestPlugin(PluginContract):
    name = "evidence"
