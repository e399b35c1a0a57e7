"""Constructs of HTML."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from benchmarks.constructs.making import Make, again, both


def _html(unit: str, before: str = "<p>Words of the page.</p>", after: str = "") -> Make:
    return partial(again, unit, before=before, after=after)


def _within(opening: str, closing: str) -> Make:
    return partial(both, opening, closing, before="<p>Words of the page.</p>")


HTML: Mapping[str, Make] = {
    "paragraphs": _html("<p>Some words make a sentence. Others make another.</p>\n"),
    "open paragraphs": _html("<p>words"),
    "one word": _html("x"),
    "one line": _html("words without end "),
    "entities": _html("&lt;&amp;&#8212;"),
    "openings": _html("<"),
    "open lists": _html("<ol><li>"),
    "nested lists": _within("<ul><li>a", "</li></ul>"),
    "nested numbered lists": _within("<ol><li>a", "</li></ol>"),
    "list": _html("<li>item %d</li>", "<ol>", "</ol>"),
    "list of paragraphs": _html("<li><p>item</p><p>more</p></li>", "<ul>", "</ul>"),
    "list without list": _html("<li>item"),
    "definitions": _html("<dt>term %d</dt><dd>words</dd>", "<dl>", "</dl>"),
    "nested definitions": _within("<dl><dd>a", "</dd></dl>"),
    "divs": _html("<div>words</div>"),
    "nested divs": _within("<div>", "</div>"),
    "nested divs with words": _within("<div>words", "words</div>"),
    "open divs": _html("<div>words"),
    "nested bold": _within("<b>", "</b>"),
    "open bold": _html("<b>words"),
    "open bold and paragraphs": _html("<p><b><i>words"),
    "nested spans": _within("<span>", "</span>"),
    "nested quotes": _within("<blockquote>a", "</blockquote>"),
    "nested code": _within("<code>", "</code>"),
    "nested sections": _within("<section><p>a</p>", "</section>"),
    "unknown tags": _within("<x-a>", "</x-a>"),
    "closing tags": _html("</div>"),
    "table": _html("<tr><td>cell</td><td>cell</td></tr>", "<table>", "</table>"),
    "table with a head": _html(
        "<tr><td>cell</td></tr>", "<table><thead><tr><th>a</th></tr></thead><tbody>", "</table>"
    ),
    "tables": _html("<table><tr><td>cell</td></tr></table>"),
    "wide table": _html("<td>cell</td>", "<p>Words.</p><table><tr>", "</tr></table>"),
    "nested tables": _within("<table><tr><td>a", "</td></tr></table>"),
    "open tables": _html("<table><tr><td>"),
    "spans of columns": _html("<tr><td colspan=1000>a</td></tr>", "<table>", "</table>"),
    "row heads": _html("<tr><th>a</th><td>b</td></tr>", "<table>", "</table>"),
    "captions": _html("<caption>a</caption>", "<table>", "</table>"),
    "headings": _html("<h2>Heading %d</h2><p>words</p>"),
    "headings alone": _html("<h1>a</h1>"),
    "nested headings": _within("<h1>a", "</h1>"),
    "code": _html("<pre><code>x = 1</code></pre>"),
    "long code": _html("x = 1\n", "<p>Words.</p><pre>", "</pre>"),
    "highlighted code": _html("<span class=k>x</span> ", "<p>Words.</p><pre>", "</pre>"),
    "backticks in code": _html("` ", "<p>Words.</p><pre>", "</pre>"),
    "nested pre": _within("<pre>a", "</pre>"),
    "line breaks": _html("word<br>"),
    "rules": _html("<hr>"),
    "links": _html("<a href='/b'>a</a> "),
    "pictures": _html("<img src=a alt=b>"),
    "long attribute": _html("x", "<p>Words.</p><p class='", "'>more</p>"),
    "long style": _html("display ", "<p>Words.</p><p style='", "'>more</p>"),
    "many attributes": _html(" a%d=b", "<p>Words.</p><p", ">more</p>"),
    "many classes": _html(" a%d", "<p>Words.</p><p class='", "'>more</p>"),
    "long alt": _html("x ", "<p>Words.</p><img alt='", "'>"),
    "comments": _html("<!-- a -->word "),
    "open comments": _html("<!-- a"),
    "declarations": _html("<!a>"),
    "instructions": _html("<?a>"),
    "scripts": _html("<script>a()</script>word "),
    "hidden": _html("<p hidden>a</p>word "),
    "nested hidden": _within("<div hidden>", "</div>"),
    "navigation": _html("<nav>a</nav>word "),
    "nested navigation": _within("<nav>a", "</nav>"),
    "navigation around all": _within("<nav>", "</nav>"),
    "sidebars": _html("<div class=sidebar>a</div><p>words and words</p>"),
    "mains": _html("<main>words</main>"),
    "forms": _html("<form><input><button>a</button></form>word "),
    "picture in words": _html("<svg><path d='a'/></svg>word "),
    "blanks": _html("<p> </p>"),
    "white space": _html(" \n", "<p>Words.</p><p>", "more"),
    "no-break spaces": _html("&nbsp;"),
    "literal spans": _html("<span class=literal>a</span> "),
    "bodies": _html("<body>a"),
    "framesets": _html("<frameset>"),
    "selects": _html("<select><option>a"),
    "quotes in words": _html("<q>a</q>"),
    "rubies": _html("<ruby>a<rt>b</rt></ruby>"),
    "text areas": _html("<textarea>"),
    "titles": _html("<title>a</title>"),
}
