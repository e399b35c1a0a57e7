"""A turn, running or stored, as it is shown."""

from __future__ import annotations

import re
from typing import Any

import pytest

from index.documents import Hit
from server.chat import (
    Event,
    FoldEvent,
    NearestEvent,
    Quotation,
    RewriteEvent,
    SectionView,
    StepEvent,
    SupportEvent,
    TokenEvent,
)
from server.chat.documents import DocumentText, LinkView
from server.turn.events import Alternative
from tests.server.turn_fakes import FakeCollection, passage
from tests.server.turn_playing import engine, play
from ui.source_panel import anchored, document_link, reader_html, sources_html
from ui.turns import TurnView, describe


class Shelf(FakeCollection):
    """Two pages of a guide and one of a book."""

    def search(self, *_: Any, **__: Any) -> list[Hit]:
        found = [
            passage("Boil it twice. Then wait.", "d1.md", title="Guide <b>", heading=("Use & care",)),
            passage("Nothing else.", "d2.md", title="Guide <b>", heading=("More",)),
            passage("Use the lid. Again the lid.", "d3.md", title="Book", heading=("1 Start",), page=4),
        ]
        return [Hit(one, 1 / n, {"typed/bm25": n}) for n, one in enumerate(found, 1)]


def events(*said: Any) -> list[Event]:
    """Those of a turn in which the model says that."""
    return play(engine(list(said), collection=Shelf(), style="full"), "q <i>?")


def played(*said: Any) -> TurnView:
    """The view of a turn after all its events."""
    view = TurnView("key", "q <i>?", "docs", None)
    for event in events(*said):
        view.add(event)
    return view


def text_of(name: str, *sections: tuple[str, str], page: int | None = None) -> DocumentText:
    """A document of sections, each with a heading."""
    text, views = "", []
    for heading, body in sections:
        views.append(SectionView(heading=(heading,), start=len(text), end=len(text) + len(body), page=page))
        text += body + "\n\n"
    return DocumentText(id=name, title=name, source=name, text=text, sections=tuple(views))


def rewritten(decision: str, **more: object) -> RewriteEvent:
    values = {
        "question": "q",
        "text": "q",
        "decision": decision,
        "rewriter": "t5",
        "variants": [],
        "seconds": 0.0,
        **more,
    }
    return RewriteEvent.model_validate(values)


def test_citations_become_chips_and_highlight_what_they_cite() -> None:
    view = played("Boil it twice [1]. The mayor of Springfield studied falconry.")
    html, sources = view.html(), view.sources_html()
    assert 'data-source="1"' in html
    assert "Source 1: Guide &lt;b&gt; › Use &amp; care" in html
    assert 'class="doubt"' in html
    assert '<mark data-citation="0">Boil it twice.</mark>' in sources
    assert sources.count("unmarked") == 2
    assert "p. 4" in sources


def test_a_source_is_opened_at_its_own_address_too_where_that_is_one() -> None:
    view = played("Boil it twice [1].")
    assert view.done is not None
    assert view.evidence is not None

    def shown(url: str) -> str:
        return sources_html("k", "docs", view.evidence, [view.done.citations[0].model_copy(update={"url": url})])

    html = shown("https://x.example/?a=1&b=2#:~:text=Boil")
    link = 'href="https://x.example/?a=1&amp;b=2#:~:text=Boil" target="_blank" rel="noopener noreferrer nofollow"'
    assert html.count("Open at its source") == html.count(link) == 1
    assert "<img>" not in shown('https://x.example/"><img>')
    for hostile in ("javascript:alert(1)", "mailto:a@x.example", ""):
        assert "Open at its source" not in shown(hostile)


def test_what_may_be_meant_is_offered_to_whoever_may_ask() -> None:
    asked = "Which of these is it about?\n\n1. Guide <b>\n2. Book"
    view = played(asked)
    assert view.done is not None
    found = [Alternative(n=1, text="Guide <b>"), Alternative(n=2, text="Book")]
    view.add(view.done.model_copy(update={"alternatives": found}))
    html = view.html()
    assert html.count('data-action="example"') == 2
    assert '<span class="text">Guide &lt;b&gt;</span>' in html
    # The list is shown where the buttons are not: once the question back is answered.
    assert 'class="answer prose-text asks"' in html
    assert html.count("<li>") == 2
    assert "read as the answer" in html
    view.own = False
    assert 'data-action="example"' not in view.html()
    assert "asks" not in view.html()
    assert view.html().count("<li>") == 2


def test_steps_of_a_slow_way_of_answering_are_told_until_it_answers() -> None:
    view = TurnView("k", "How long?", "docs")
    view.add(StepEvent(name="perplexity", done=3, of=20, text="Reading the passages <one> by one"))
    assert "Reading the passages &lt;one&gt; by one (3 of 20)" in view.html()
    view.add(TokenEvent(text="Ten weeks."))
    assert "3 of 20" not in view.html()
    view.add(StepEvent(name="part", done=1, of=2, text="What does it cost?"))
    assert "What does it cost? (2 of 2)" in view.html()


def test_until_something_is_cited_what_is_nearest_is_highlighted() -> None:
    whole = played("Boil it twice [1].")
    assert whole.evidence is not None
    passage = whole.evidence.passages[0]
    place = {"n": 1, "start": passage.start, "end": passage.start + len("Boil it twice."), "score": 0.9}
    view = TurnView("key", "q", "docs")
    view.add(whole.evidence)
    assert view.sources_html().count("unmarked") == 3
    assert "Highlighted" not in view.sources_html()
    view.add(NearestEvent(quotes=[Quotation(quote="Boil it twice.", **place)]))
    assert '<mark class="near">Boil it twice.</mark>' in view.sources_html()
    assert view.sources_html().count("unmarked") == 2
    assert "nearest to the question" in view.sources_html()
    # To be read at once, until the answer has ended.
    assert "Boil it twice." in view.html().partition('class="nearest"')[2]
    view.add(TokenEvent(text="Boil"))
    assert "Boil it twice." in view.html().partition('class="nearest"')[2]
    view.add(whole.citations[0])
    assert "near" not in view.sources_html()
    assert '<mark data-citation="0">Boil it twice.</mark>' in view.sources_html()


def test_what_the_documents_do_not_bear_out_is_folded_away() -> None:
    view = played("Boil it twice [1].")
    running = TurnView("key", "q", "docs")
    running.add(TokenEvent(text="**One.** Use <b>owls</b> [1]."))
    running.add(FoldEvent(start=9))
    assert (running.text, running.folded) == ("**One.** ", "Use <b>owls</b> [1].")
    assert view.done is not None
    running.add(view.done.model_copy(update={"status": "quoted", "folded": "Use <b>owls</b> [1]."}))
    html = running.html()
    assert "the documents do not bear it out" in html
    assert "Use owls" in html.partition('class="folded"')[2]
    assert "owls" not in html.partition('class="folded"')[0]


def test_nothing_of_a_question_or_title_is_markup() -> None:
    view = played("Yes [1].")
    for html in (view.html(), view.sources_html()):
        assert "<i>" not in html
        assert "<b>" not in html
    assert "q &lt;i&gt;?" in view.html()


def test_a_refusal_says_so_and_how_to_go_on() -> None:
    html = played("<cannot_answer>").html()
    assert 'data-state="refused"' in html
    assert "Other words in “Searched” may find better sources." in html
    # The server has said in the answer that the documents do not hold it: once is enough.
    assert html.count("found no sure answer") == 1


def test_an_error_shows_its_remedy_and_keeps_the_citations_shown_until_then() -> None:
    view = played("Boil it twice [1]. ", ConnectionError("gone"))
    html = view.html()
    assert 'role="alert"' in html
    assert "The language model" in html.partition('role="alert"')[2]
    assert 'data-source="1"' in html


def test_every_half_of_a_stream_can_be_shown() -> None:
    view, shown = TurnView("key", "q", "docs"), []
    for event in events("Say **bold [1]** and `code [2]` then <b"):
        view.add(event)
        shown.append(str(view.html()) + str(view.sources_html()))
    assert "Searching" not in shown[-1]
    assert all("<b>" not in html for html in shown)


@pytest.mark.parametrize(
    ("event", "edited", "said"),
    [
        (rewritten("keep"), False, "searched as typed"),
        (rewritten("rewrite", confidence=0.8), False, "rewritten to stand on its own"),
        (rewritten("refused", reason="it dropped a number."), False, "The question was searched as typed."),
        (rewritten("failed", reason="timeout"), False, "The question was searched as typed."),
        (rewritten("rewrite", text="another"), True, "words you chose"),
        (rewritten("rewrite"), True, "left the conversation out"),
    ],
)
def test_a_decision_is_explained(event: RewriteEvent, edited: bool, said: str) -> None:
    assert said in describe(event, edited).explanation


def test_details_of_the_search_are_for_agents() -> None:
    view = played("Boil it twice [1].")
    assert view.evidence is not None
    view.add(view.evidence.model_copy(update={"reranked": True}))
    view.add(rewritten("expand", confidence=0.8, expansion=["boil"]))
    words = (
        "/traces/", "Confidence: 80%", "Fused score", "Keyword weight", "Why it was found", "Rewriter",
        "cross-encoder",
    )  # fmt: skip
    for traced in (False, True):
        view.traced = traced
        shown = f"{view.html()}{view.sources_html()}"
        for word in words:
            assert (word in shown) is traced, word
        assert not re.search("query legs|words added|Make readable|Usual model", shown)
    assert describe(rewritten("rewrite", confidence=0.8), False).details.endswith("Confidence: 80%.")
    for decision, told in (("refused", "turned down (it lost a number)"), ("failed", "failed (it lost a number)")):
        described = describe(rewritten(decision, reason="it lost a number."), False)
        assert told in described.details
        assert "rewrit" not in f"{described.label} {described.explanation}".lower()


def test_dashed_numbers_and_underlined_sentences_are_explained() -> None:
    view = played("Boil it twice [1].")
    assert view.done is not None
    assert not re.search("dashed|Underlined", view.html())
    cited = [citation.model_copy(update={"attributed": True}) for citation in view.done.citations]
    judged = [SupportEvent(answer_start=0, answer_end=13, cited=[1], score=0, supported=False)]
    view.add(view.done.model_copy(update={"citations": cited, "support": judged}))
    assert "A dashed number is a source that the answer did not name itself." in view.html()
    assert "Underlined: the sources named there do not bear it out." in view.html()


def test_the_reader_shows_the_place_and_counts_what_it_leaves_out() -> None:
    document = text_of("long.txt", *((str(n), f"Sentence {n}. " * 200) for n in range(60)))
    start = document.text.index("Sentence 30.")
    html = reader_html(document, start, start + 12)
    assert html.count("<mark") == 1
    assert ">Sentence 30.</mark>" in html
    assert "earlier characters not shown" in html
    assert "later characters not shown" in html
    assert len(html) < 60_000


@pytest.mark.parametrize("place", [(-5, 3), (10**9, 10**9 + 5), (5, 2), (0, 0)])
def test_the_reader_takes_any_place(place: tuple[int, int]) -> None:
    assert "it twice" in reader_html(text_of("a.md", ("Use", "Boil it twice. Then wait.")), *place)


def test_links_to_documents_lead_into_the_reader_and_others_stay_as_they_are() -> None:
    text = '[b](b.md#part "x") and [c](c.md) <a href="?collection=docs&document=d.md" class="inside">d</a> [e](?at=1)'
    document = text_of("a.md", ("Part [1] of it", text))
    html = reader_html(document.model_copy(update={"links": {"b.md#part": 'b".md'}}), 0, 0, None, "docs")
    assert re.findall(r"<a [^>]*>", html) == [
        '<a href="?collection=docs&amp;document=b%22.md&amp;at=0-0&amp;part=part" class="inside" '
        'rel="noopener noreferrer nofollow">'
    ]
    assert anchored(document, "part-1-of-it") == (0, len(text))
    assert anchored(document, "gone") == (0, 0)


def test_a_source_that_is_no_web_address_is_no_link() -> None:
    document = text_of("a.md", ("Use", "Wait.")).model_copy(update={"source": "javascript:alert(1)"})
    assert "href" not in reader_html(document, 0, 0)


def test_a_link_into_a_document_is_escaped() -> None:
    assert document_link("a b", 'x"&y', 1, 2) == "?collection=a%20b&document=x%22%26y&at=1-2"


def test_citation_numbers_begin_at_one_in_the_order_of_the_answer() -> None:
    view = played("Use the lid [3]. Boil it twice [1]. Again the lid [3].")
    numbers = re.findall(r'class="chip[^"]*" data-action="cite" data-source="(\d)"[^>]*>(\d)<', str(view.html()))
    assert numbers == [("3", "1"), ("1", "2"), ("3", "1")]
    shown = re.findall(r'data-source="(\d)" tabindex.*?class="number"[^>]*>(\d)<', str(view.sources_html()), re.DOTALL)
    assert shown[:2] == [("3", "1"), ("1", "2")]
    assert [number for _, number in shown] == [str(n) for n in range(1, len(shown) + 1)]


def test_a_warning_is_shown_as_text() -> None:
    view = played("Yes [1].")
    assert view.done is not None
    assert "Check <b>" not in view.html()
    view.add(view.done.model_copy(update={"warning": "Check <b> this."}))
    assert '<p class="banner warning">Check &lt;b&gt; this.</p>' in view.html()


def test_words_that_were_links_lead_into_the_reader() -> None:
    document = text_of("a.html", ("A", "Go to **the rest** now."))
    linked = (LinkView(start=3, end=18, document_id='b".html', anchor="part"),)
    html = reader_html(document.model_copy(update={"linked": linked}), 0, 23, None, "docs")
    assert re.findall(r"<a [^>]*>([^<]*)</a>", html) == ["to ", "the rest"]
    assert 'document=b%22.html&amp;at=0-0&amp;part=part" class="inside"' in html
