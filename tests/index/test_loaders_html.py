"""HTML: what a reader of the page sees, as Markdown with sections."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from index.documents import LINKS, Document
from index.errors import LoadError
from index.loaders import load
from index.passages import split

PAGE = """<!doctype html><html><head><title>Setup | Site</title><script>var stolen = 1</script>
<link rel="canonical" href="https://example.org/setup"></head><body>
<header><a href="/">The site</a></header><nav><ul><li>Home</li><li>Blog</li></ul></nav>
<main><div class="breadcrumbs">Docs / Setup</div><article>
<h1>Setup<a class="headerlink" href="#setup">¶</a></h1><!-- a secret -->
<p>Read <b>this</b> <a href="javascript:alert(1)">first</a>, &lt;script&gt; and all.</p>
<h2 id="linux">On Linux</h2>
<div class="highlight-python notranslate"><div class="highlight"><pre><span>def f():</span>

    # not a heading


    return "```"</pre></div></div>
<table><thead><tr><th>a</th><th>b</th></tr></thead>
<tbody><tr><td colspan="1000">1</td><td>2<br>3</td></tr></tbody></table>
<ul><li>one<ul><li>two</li></ul></li></ul>
<p hidden>unseen</p><div style="display: none">unseen</div><img src="x" onerror="alert(1)" alt="A picture">
<aside class="note">Mind this.</aside><form><input value="typed"><button>Send</button></form>
</article></main><footer>All rights</footer></body></html>"""


def loaded(folder: Path, html: str | bytes, name: str = "page.html") -> Document:
    path = folder / name
    path.write_bytes(html if isinstance(html, bytes) else html.encode())
    (document,) = load(path, name)
    return document


def test_headings_make_sections_and_tables_lists_and_code_stay(tmp_path: Path) -> None:
    document = loaded(tmp_path, PAGE)
    assert document.title == "Setup"
    assert document.metadata == {"source": "https://example.org/setup", "format": "html"}
    intro, linux = document.sections
    assert document.text[intro.start : intro.end] == "Read this first, <script> and all."
    assert linux.heading == ("On Linux",)
    text = document.text[linux.start : linux.end]
    assert '````python\ndef f():\n\n    # not a heading\n\n\n    return "```"\n````' in text
    assert "| a | b |\n| --- | --- |\n| 1 | 2 3 |" in text
    assert "- one\n  - two" in text
    assert "Mind this." in text
    assert "A picture" in text


@pytest.mark.parametrize(
    "word", ["stolen", "The site", "Home", "Docs /", "¶", "secret", "javascript", "unseen", "onerror", "Send", "rights"]
)
def test_what_is_no_reading_text_is_left_out(tmp_path: Path, word: str) -> None:
    assert word not in loaded(tmp_path, PAGE).text


def test_a_page_without_landmarks_loses_its_navigation_only(tmp_path: Path) -> None:
    html = (
        "<title>Old page</title><body><header>Top</header><div class='menu'>Home</div><p>Words of it.</p><p>More.</p>"
    )
    document = loaded(tmp_path, html)
    assert document.title == "Old page"
    assert document.text == "Words of it.\n\nMore."


def test_a_main_part_that_holds_nothing_is_not_taken_for_the_page(tmp_path: Path) -> None:
    html = f"<main></main><div class='content'><h2>A</h2><p>{'Words of the page. ' * 20}</p></div>"
    assert loaded(tmp_path, html).sections[0].heading == ("A",)


@pytest.mark.parametrize("html", ["<script>x()</script><div id='app'></div>", "<html></html>", "<!-- x -->"])
def test_a_page_filled_by_scripts_says_so(tmp_path: Path, html: str) -> None:
    with pytest.raises(LoadError, match="shows no text: it is empty or filled by scripts"):
        loaded(tmp_path, html)


@pytest.mark.parametrize(
    "data",
    [
        '<meta charset="windows-1252"><p>Café au lait — “très bon”</p>'.encode("cp1252"),
        "<p>Café au lait — “très bon”</p>".encode("utf-16"),
        '<meta charset="no-such-charset"><p>Café au lait — “très bon”</p>'.encode(),
    ],
    ids=["declared", "marked", "misdeclared"],
)
def test_character_sets_are_honoured(tmp_path: Path, data: bytes) -> None:
    assert loaded(tmp_path, data).text == "Café au lait — “très bon”"


def test_elements_and_numbers_that_are_no_html_are_words(tmp_path: Path) -> None:
    """Their names and values mean something to the converter: methods of its own, digits that are no number."""
    html = "<p>a <soup>b</soup> <convert>c</convert></p><ol start='²'><li>d</ol><ol start=4><li>e<li>f</ol><h0>g</h0>"
    assert loaded(tmp_path, html).text == "a b c\n\n1. d\n\n4. e\n5. f\n\ng"


def test_a_page_that_nests_beyond_reason_is_refused(tmp_path: Path) -> None:
    assert loaded(tmp_path, "<ul><li>a" * 20).text.split().count("a") == 20
    with pytest.raises(LoadError, match="nests its elements deeper than any page needs"):
        loaded(tmp_path, "<p>words</p>" + "<div>" * 3000 + "deep")


def test_rows_of_tables_stand_below_a_head(tmp_path: Path) -> None:
    """By a head, by a first row of heads, or by an empty row."""
    for head, first in (
        ("<thead><tr><td>a</td></tr></thead><tbody><tr><td>b</td></tr></tbody><tbody><tr><td>c</td></tr></tbody>", "a"),
        ("<tr><th>a</th></tr><tr><td>b</td></tr><tr><td>c</td></tr>", "a"),
        ("<tbody><tr><td>b</td></tr></tbody><tbody><tr><td>c</td></tr></tbody>", ""),
    ):
        lines = loaded(tmp_path, f"<table>{head}</table>").text.split("\n")
        assert lines[:2] == [f"| {first} |" if first else "|  |", "| --- |"], lines
        assert lines[2] == "| b |"
        assert lines[-1] == "| c |"


def test_offsets_of_passages_point_into_the_text(tmp_path: Path) -> None:
    document = loaded(tmp_path, PAGE)
    passages = split(document, 20, lambda text: len(text.split()))
    assert len(passages) > 3
    assert all(document.text[passage.start : passage.end] == passage.text for passage in passages)


def links(document: Document) -> list[tuple[str, str]]:
    kept = json.loads(str(document.metadata.get(LINKS, "[]")))
    return [(document.text[start:end], address) for start, end, address in kept]


def test_what_links_lead_to_is_kept_beside_their_words(tmp_path: Path) -> None:
    page = (
        '<main><h1>A <a href="one.html">title</a></h1><p>Go<a href="two.html#part"> to <b>two</b> </a>now, '
        '<a href="/three">or three</a>.</p><ul><li><a href=four.html>Four</a></ul>'
        '<table><tr><td><a href="five.html">five </a><td>5</table><pre><a href="six.html">six</a>()</pre>'
        '<p><a href="#top">up</a> <a href="mailto:a@b.c">mail</a> <a href=" JavaScript:alert(1)">js</a> '
        '<a href="//evil.invalid/x">out</a> <a href="seven.html"><img alt=""></a> <a>none</a> '
        '<a href="https://example.org/eight">eight</a></p></main>'
    )
    document = loaded(tmp_path, page)
    assert links(document) == [
        ("title", "one.html"), ("to two", "two.html#part"), ("or three", "/three"), ("Four", "four.html"),
        ("five", "five.html"), ("six", "six.html"), ("eight", "https://example.org/eight"),
    ]  # fmt: skip
    bare = loaded(tmp_path, re.sub("</?a[^>]*>", "", page))
    assert document.text == bare.text
    assert LINKS not in document.passage_metadata


def test_a_page_full_of_links_or_of_the_marks_around_them_keeps_its_words(tmp_path: Path) -> None:
    many = loaded(tmp_path, "<p>" + '<a href="a.html">word</a> ' * 2000 + "</p>")
    assert len(links(many)) == 500
    assert many.text.split() == ["word"] * 2000
    marks = "".join(chr(code) for code in range(0x10A50, 0x10A59))
    taken = loaded(tmp_path, f'<p>{marks} <a href="a.html">word</a></p>')
    assert (taken.text, links(taken)) == (f"{marks} word", [])
