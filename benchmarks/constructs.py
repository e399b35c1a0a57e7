"""Every kind of construct of every format that is read, in any size: what `bench_loaders` doubles.

A construct is a file of about as many bytes as it is asked for, most of them the construct itself. Some are what a
large honest file holds, others what hurts a parser.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Mapping
from functools import partial

Make = Callable[[int], bytes]

_WORDS = "Words of the page stand here, some of them twice.\n\n"
HEAD = b'<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>'
TYPES = (
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="xml" '
    'ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>'
)
RELATIONS = (
    '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" '
    'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
    'Target="word/document.xml"/></Relationships>'
)


def docx(body: str | bytes) -> bytes:
    """A Word document of this body."""
    body = body.encode() if isinstance(body, str) else body
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("[Content_Types].xml", TYPES)
        archive.writestr("_rels/.rels", RELATIONS)
        archive.writestr("word/document.xml", HEAD + body + b"</w:body></w:document>")
    return made.getvalue()


def pdf(contents: list[bytes], extra: Mapping[int, bytes] | None = None, root: bytes = b"") -> bytes:
    """A PDF with a page for each content stream; `extra` objects count from 1000000, `root` joins the catalogue."""
    objects = {
        1: b"<</Type/Catalog/Pages 2 0 R" + root + b">>",
        2: b"<</Type/Pages/Count %d/Kids[%s]>>"
        % (len(contents), b" ".join(b"%d 0 R" % (4 + 2 * n) for n in range(len(contents)))),
        3: b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        **(extra or {}),
    }
    for n, content in enumerate(contents):
        objects[4 + 2 * n] = (
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F1 3 0 R>>>>/Contents %d 0 R>>"
            % (5 + 2 * n)
        )
        objects[5 + 2 * n] = b"<</Length %d>>stream\n%s\nendstream" % (len(content), content)
    made, places = bytearray(b"%PDF-1.7\n"), {}
    for number in sorted(objects):
        places[number] = len(made)
        made += b"%d 0 obj%s endobj\n" % (number, objects[number])
    start = len(made)
    made += b"xref\n0 1\n0000000000 65535 f \n"
    for number, place in places.items():
        made += b"%d 1\n%010d 00000 n \n" % (number, place)
    made += b"trailer<</Size %d/Root 1 0 R>>startxref\n%d\n%%%%EOF" % (max(objects) + 1, start)
    return bytes(made)


def _again(unit: str, size: int, before: str = _WORDS, after: str = "") -> bytes:
    """A unit as often as it takes; `%d` in it is its number."""
    if "%d" not in unit:
        return (before + unit * max(1, size // len(unit)) + after).encode()
    return (before + "".join(unit.replace("%d", str(n)) for n in range(max(1, size // len(unit)))) + after).encode()


def _both(opening: str, closing: str, size: int, before: str = _WORDS) -> bytes:
    """Opened as often as closed: nested."""
    count = max(1, size // len(opening + closing))
    return (before + opening * count + "deep words" + closing * count).encode()


def _indented(unit: str, size: int, step: str = "  ") -> bytes:
    """Each line indented further than the one before; so few that all of it comes to `size`."""
    count = max(1, int((2 * size / len(step)) ** 0.5))
    return (_WORDS + "".join(step * n + unit for n in range(count))).encode()


def _wide(opening: str, cell: str, closing: str, size: int, rule: str = "") -> bytes:
    """One row of a table with as many cells as it takes."""
    count = max(1, size // (len(cell) + len(rule)))
    below = closing + "|" + rule * count + "\n" if rule else closing
    return (_WORDS + opening + cell * count + below).encode()


def _backticks(size: int) -> bytes:
    """Runs of backticks, no two of them alike, so that none closes another."""
    count = max(1, int((2 * size) ** 0.5))
    return (_WORDS + "# " + " ".join("`" * n for n in range(1, count)) + "\n").encode()


def _grid(size: int, columns: int = 4) -> bytes:
    rule, row = "+------" * columns + "+\n", "| cell " * columns + "|\n"
    return (_WORDS + rule + (row + rule) * max(1, size // len(row + rule))).encode()


def _grid_wide(size: int) -> bytes:
    columns = max(1, size // 21)
    return _grid(0, columns)


def _simple(size: int) -> bytes:
    rule = "====  ====\n"
    return (_WORDS + rule + "one   two\n" * max(1, size // 10) + rule).encode()


def _corpus(size: int, one_document: bool) -> bytes:
    rows, n, total = [], 0, 0
    while total < size:
        metadata = {"doc_id": "one"} if one_document else {}
        rows.append(
            json.dumps({"_id": str(n), "title": f"Title {n}", "text": _WORDS, "metadata": {**metadata, "n": n}})
        )
        total += len(rows[-1])
        n += 1
    return "\n".join(rows).encode()


def _corpus_nested(size: int) -> bytes:
    return b'{"_id": "1", "text": "Words."}\n{"_id": "2", "text": "a", "metadata": ' + b"[" * size + b"}"


def _paragraph(words: str) -> str:
    return f"<w:p><w:r><w:t>{words}</w:t></w:r></w:p>"


def _docx_again(unit: str, size: int, before: str = "", after: str = "") -> bytes:
    return docx(_again(unit, size, _paragraph("Words of the page.") + before, after))


def _docx_both(opening: str, closing: str, size: int) -> bytes:
    return docx(_both(opening, closing, size, _paragraph("Words of the page.")).replace(b"deep words", b""))


def _docx_wide(size: int) -> bytes:
    cell = f"<w:tc>{_paragraph('cell')}</w:tc>"
    return _docx_again(cell, size, "<w:tbl><w:tr>", "</w:tr></w:tbl>")


_SHOW = b"BT /F1 9 Tf %d %d Td (word %d) Tj ET\n"


def _pdf_pages(size: int) -> bytes:
    return pdf([_SHOW % (50, 700, n) for n in range(max(1, size // 300))])


def _pdf_objects(size: int) -> bytes:
    return pdf([b"".join(_SHOW % (50 + n * 31 % 500, 50 + n * 7 % 700, n) for n in range(max(1, size // 36)))])


def _pdf_line(size: int) -> bytes:
    return pdf([b"BT /F1 9 Tf 50 700 Td (" + b"word " * max(1, size // 5) + b") Tj ET"])


def _pdf_word(size: int) -> bytes:
    return pdf([b"BT /F1 9 Tf 50 700 Td (" + b"x" * size + b") Tj ET"])


def _pdf_hyphens(size: int) -> bytes:
    return pdf([b"BT /F1 9 Tf 10 TL 50 700 Td " + b"(word-) Tj T* " * max(1, size // 14) + b"ET"])


def _pdf_bookmarks(size: int, chapter: bytes = b"Chapter") -> bytes:
    count = max(1, min(5_000, size // 120))
    lines = b"".join(b"(%s %d) Tj T* (and its words) Tj T* " % (chapter, n) for n in range(count))
    marks = {
        1_000_001 + n: b"<</Title(Chapter %d)/Parent 1000000 0 R/Dest[4 0 R/Fit]%s>>"
        % (n, b"/Next %d 0 R" % (1_000_002 + n) if n + 1 < count else b"")
        for n in range(count)
    }
    top = b"<</Type/Outlines/First 1000001 0 R/Last %d 0 R/Count %d>>" % (1_000_000 + count, count)
    page = b"BT /F1 9 Tf 1 TL 50 700 Td " + lines + b"ET"
    return pdf([page], {1_000_000: top, **marks}, b"/Outlines 1000000 0 R")


def _pdf_nested(size: int) -> bytes:
    return pdf([b"[" * size + b"BT /F1 9 Tf 50 700 Td (words) Tj ET"])


def _md(unit: str, before: str = _WORDS, after: str = "") -> Make:
    return partial(_again, unit, before=before, after=after)


def _html(unit: str, before: str = "<p>Words of the page.</p>", after: str = "") -> Make:
    return partial(_again, unit, before=before, after=after)


def _within(opening: str, closing: str) -> Make:
    return partial(_both, opening, closing, before="<p>Words of the page.</p>")


MARKDOWN: Mapping[str, Make] = {
    "paragraphs": _md("Some words make a sentence. Others make another one.\n\n"),
    "one paragraph": _md("Some words make a sentence, on and on and on.\n"),
    "one line": _md("some words without end and "),
    "one word": _md("x"),
    "word of closers": _md('x.*"'),
    "closers": _md('"*)'),
    "full stops": _md("."),
    "short sentences": _md("A. "),
    "blank lines": _md("\n", after="End."),
    "blanks": _md(" ", after="End."),
    "blanks within a line": _md(" ", before="Begin"),
    "no-break spaces": _md("\u00a0", after="End."),
    "headings": _md("## Heading %d\n\nWords.\n\n"),
    "headings alone": _md("# Heading %d\n"),
    "headings in levels": _md("# A\n## B\n### C\n#### D\n##### E\n###### F\n\nWords.\n"),
    "underlined headings": _md("Heading %d\n---\n\nWords.\n\n"),
    "long heading": _md("word ", before="# "),
    "long underlined heading": _md("word\n", after="---\n\nWords.\n"),
    "emphasis in a heading": _md("*a **b _c ", before="# "),
    "emphasis in many headings": _md("# *a **b _c `d [e\n\n"),
    "hashes in a heading": _md("#", before="# a "),
    "braces in a heading": _md("{ #a ", before="# a"),
    "list": _md("- item %d of it\n"),
    "loose list": _md("- item %d of it\n\n"),
    "numbered list": _md("1. item\n"),
    "nested lists": partial(_indented, "- item\n"),
    "nested lists in a line": _md("- "),
    "list then text": _md("- item\n  more\n\n  more\n"),
    "quotes": _md("> words\n\n"),
    "nested quotes": _md(">"),
    "nested quotes, lines": partial(_indented, "words\n", step="> "),
    "quotes and lists": _md("> - "),
    "emphasis": _md("*a **b _c "),
    "stars": _md("*"),
    "brackets": _md("["),
    "links": _md("[a](b) "),
    "open links": _md("[a]("),
    "link definitions": _md("[a%d]: /b%d\n"),
    "link definitions with titles": _md("[a%d]: /b%d '\n"),
    "open link definitions": _md("[a"),
    "pictures": _md("![a](b)"),
    "backticks": _backticks,
    "angle brackets": _md("<a "),
    "entities": _md("&a;&amp;"),
    "backslashes": _md("\\"),
    "table": _md("| a%d | b |\n", before=_WORDS + "| a | b |\n|---|---|\n"),
    "wide table": partial(_wide, "|", " a |", "\n", rule="---|"),
    "wide row": partial(_wide, "| a |\n|---|\n|", " a |", "\n"),
    "short rows of a wide table": lambda size: (
        _again("a |", size // 3, _WORDS) + b"\n" + _again("---|", size // 3, "|") + _again("\n| a |", size // 3, "")
    ),
    "tables": _md("| a |\n|---|\n| b |\n\n"),
    "pipes": _md("|"),
    "fences": _md("```\ncode\n```\n\n"),
    "open fence": _md("code = 1\n", before=_WORDS + "```python\n"),
    "fences of all lengths": partial(_indented, "\n", step="`"),
    "long line of code": _md("code ", before=_WORDS + "```\n", after="\n```\n"),
    "indented code": _md("    code\n\n"),
    "rules": _md("---\n\n"),
    "html blocks": _md("<div>\nwords\n</div>\n\n"),
    "open html": _md("<div>"),
    "html comments": _md("<!-- a -->\n\nWords.\n\n"),
    "open html comments": _md("<!-- a\n\n"),
    "comments in a paragraph": _md("a <!-- b --> c\n"),
    "comment openings in a paragraph": _md("a <!-- b "),
    "comment and emphasis": _md("*a **b _c ", before=_WORDS + "a <!-- b --> "),
    "comment and brackets": _md("[a](", before=_WORDS + "a <!-- b --> "),
    "comment and stars": _md("a**b*", before=_WORDS + "a <!-- b --> "),
    "comment and openings": _md("<", before=_WORDS + "a <!-- b --> "),
    "comment and tags": _md("<a b='", before=_WORDS + "a <!-- b --> "),
    "comment and pictures": _md("![", before=_WORDS + "a <!-- b --> "),
    "comment and declarations": _md("<!A ", before=_WORDS + "a <!-- b --> "),
    "comment and instructions": _md("<?", before=_WORDS + "a <!-- b --> "),
    "comment and cdata": _md("<![CDATA[", before=_WORDS + "a <!-- b --> "),
    "containers": _md(":::note\nWords.\n:::\n\n"),
    "open containers": _md(":::note\n"),
    "open containers, slashes": _md("/// note\n"),
    "admonitions": _md("!!! note\n    Words.\n\n"),
    "nested admonitions": partial(_indented, "!!! note\n", step="    "),
    "long admonition title": _md("x", before="!!! note ", after="\n    Words.\n"),
    "front matter": _md("k%d: v\n", before="---\n", after="---\n\nWords.\n"),
    "long front matter": _md("x", before="---\nk: ", after="\n---\n\nWords.\n"),
    "nested front matter": _md("[", before="---\nk: ", after="\n---\n\nWords.\n"),
    "nested front matter, maps": _md("? ", before="---\n", after="\n---\n\nWords.\n"),
    "open front matter": _md("k: v\n", before="---\n"),
    "carriage returns": _md("\r"),
    "control characters": _md("a\x1bb\u202e "),
    "no spaces": _md("話"),
    "arabic": _md("كلمة "),
    "surrogate pairs": _md("😀"),
}

MDX: Mapping[str, Make] = {
    "imports": _md("import a from 'b'\n\n"),
    "comments": _md("{/* a */}\n\nWords.\n\n"),
    "open comments": _md("{/* a\n\n"),
    "tags": _md("<Note>\n\nWords.\n\n</Note>\n\n"),
    "deep indentation": partial(_indented, "words\n\n"),
}

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

RST: Mapping[str, Make] = {
    "paragraphs": _md("Some words make a sentence. Others make another.\n\n"),
    "one paragraph": _md("Some words make a sentence, on and on and on.\n"),
    "inline openings": _md("*a `b |c :d: \n"),
    "emphasis": _md("*a* **b** ``c``\n"),
    "stars": _md("*a\n"),
    "double stars": _md("**a\n"),
    "backticks": _md("`a\n"),
    "double backticks": _md("``a\n"),
    "bars": _md("|a\n"),
    "roles": _md(":ref:`a`\n"),
    "unknown roles": _md(":unheard:`a`\n"),
    "role openings": _md(":a:`b\n"),
    "links": _md("`a %d <https://example.org/%d>`__\n"),
    "named links": _md("`a %d <https://example.org/%d>`_\n"),
    "references": _md("a%d_\n"),
    "references to one": _md("a_\n", after="\n.. _a: https://example.org\n"),
    "footnote references": _md("[1]_\n", after="\n.. [1] note\n"),
    "automatic footnotes": _md("[#]_\n\n.. [#] note\n\n"),
    "open footnotes": _md("[#a%d]_\n"),
    "citations": _md("[A%d]_\n\n.. [A%d] note\n\n"),
    "inline targets": _md("_`a %d`\n"),
    "addresses": _md("https://example.org/%d \n"),
    "mail addresses": _md("a@b.c \n"),
    "at signs": _md("a@"),
    "mail without end": _md("a.", before=_WORDS),
    "address without end": _md("a/b\n", before=_WORDS + "http://"),
    "colons": _md(":a"),
    "underscores": _md("a_ "),
    "targets": _md(".. _target %d: https://example.org/%d\n"),
    "targets alone": _md(".. _target %d:\n\n"),
    "targets and words": _md(".. _target %d:\n\nWords.\n\n"),
    "chained targets": _md(".. _t%d: t%d_\n"),
    "same targets": _md(".. _target: https://example.org/%d\n"),
    "anonymous targets": _md("a__\n\n__ https://example.org/%d\n\n"),
    "substitutions": _md(".. |a%d| replace:: word\n"),
    "substitutions used": _md("|a| \n", after="\n.. |a| replace:: word\n"),
    "substitutions undefined": _md("|a%d|\n"),
    "comments": _md(".. comment\n\n"),
    "list": _md("* item %d\n"),
    "loose list": _md("* item %d\n\n"),
    "numbered list": lambda size: b"".join(b"%d. item\n" % n for n in range(1, max(2, size // 12))),
    "automatic list": _md("#. item\n"),
    "nested lists": partial(_indented, "* item\n\n"),
    "nested lists in a line": _md("* "),
    "nested numbers in a line": _md("1. "),
    "nested quotes": partial(_indented, "words\n\n"),
    "definitions": _md("term %d\n  words\n\n"),
    "nested definitions": partial(_indented, "term\n"),
    "fields": _md(":field %d: words\n"),
    "nested fields": _md(":a: "),
    "options": _md("-a  words\n"),
    "long option": _md("-a, ", after="-b  words\n"),
    "line blocks": _md("| words\n"),
    "nested line blocks": partial(_indented, "| a\n"),
    "literal blocks": _md("a::\n\n    code\n\n"),
    "long literal block": _md("    code\n", before=_WORDS + "::\n\n"),
    "quoted literal block": _md("> code\n", before=_WORDS + "::\n\n"),
    "doctests": _md(">>> 1\n1\n\n"),
    "grid table": _grid,
    "wide grid table": _grid_wide,
    "grid tables": _md("+---+\n| a |\n+---+\n\n"),
    "simple table": _simple,
    "simple tables": _md("===  ===\na    b\n===  ===\n\n"),
    "wide simple table": lambda size: (
        _WORDS.encode() + b"\n".join((b"=  " * (size // 9), b"a  " * (size // 9), b"=  " * (size // 9))) + b"\n"
    ),
    "broken grid table": _md("| a |\n", before=_WORDS + "+---+\n"),
    "broken simple table": _md("a    b\n", before=_WORDS + "===  ===\n"),
    "sections": _md("Heading %d\n============\n\nWords.\n\n"),
    "same sections": _md("Heading\n=======\n\nWords.\n\n"),
    "overlined sections": _md("=========\nHeading %d\n=========\n\nWords.\n\n"),
    "sections in levels": _md("A\n=\n\nB\n-\n\nC\n~\n\nWords.\n\n"),
    "sections inconsistent": _md("A\n=\n\nB\n-\n\nC\n~\n\nD\n=\n\nE\n~\n\n"),
    "short underlines": _md("Heading\n===\n\nWords.\n\n"),
    "transitions": _md("Words.\n\n-----\n\n"),
    "directives": _md(".. note:: Words.\n\n"),
    "nested directives": partial(_indented, ".. note::\n\n", step="   "),
    "nested notes in a line": _md(".. note:: "),
    "unknown directives": _md(".. unheard:: a\n\n   Words.\n\n"),
    "unknown directives alone": _md(".. unheard:: a\n"),
    "functions": _md(".. function:: run%d(x)\n\n   Runs it.\n\n"),
    "code blocks": _md(".. code-block:: python\n\n   x = 1\n\n"),
    "toctrees": _md(".. toctree::\n\n   other\n\n"),
    "csv tables": _md("   a, b\n", before=_WORDS + ".. csv-table::\n\n"),
    "list tables": _md("   * - a\n     - b\n", before=_WORDS + ".. list-table::\n\n"),
    "contents": _md("Heading %d\n==========\n\n", before=_WORDS + ".. contents::\n\n"),
    "mathematics": _md(":math:`a^%d`\n"),
    "mathematics blocks": _md(".. math:: a\n\n"),
    "pictures": _md(".. image:: a.png\n\n"),
    "class directives": _md(".. class:: a\n\n"),
    "roles defined": _md(".. role:: a%d\n\n"),
    "meta": _md("   :a: b\n", before=_WORDS + ".. meta::\n"),
    "field lists at the top": _md(":a%d: b\n", before=""),
    "unexpected indentation": _md("a\n  b\nc\n"),
    "one line": _md("word word word word word word\n" * 100 + "\n"),
    "long lines": _md("word " * 1_900 + "\n\n"),
    "long words": _md("x" * 9_900 + "\n\n"),
    "long lines of stars": _md("*" * 9_900 + "\n\n"),
    "long lines of openings": _md("*a `b |c " * 1_100 + "\n\n"),
    "long lines of colons": _md(":a" * 4_900 + "\n\n"),
    "long lines of dots": _md("a." * 4_900 + "\n\n"),
    "long lines of dashes": _md("-a " * 3_300 + "\n\n"),
    "long lines of hyphens": _md("a-" * 4_900 + "\n\n"),
    "long lines of brackets": _md("[a" * 4_900 + "\n\n"),
    "long lines of angles": _md("`a <b " * 1_600 + "\n\n"),
    "long lines of at signs": _md("a@b." * 2_400 + "\n\n"),
    "long lines of slashes": _md("a:/" * 3_200 + "\n\n"),
    "long lines of underscores": _md("a_" * 4_900 + "\n\n"),
    "long lines of blanks": _md("a" + " " * 9_900 + "b\n\n"),
}

TEXT: Mapping[str, Make] = {
    "paragraphs": _md("Some words make a sentence. Others make another.\n\n"),
    "one line": _md("words without end "),
    "one word": _md("x"),
    "one word of digits": _md("1"),
    "one word of dashes": _md("-"),
    "one word of quotes": _md('"'),
    "one word of brackets": _md(")"),
    "one word of dots": _md("a.b"),
    "one word of signs": _md("!?"),
    "abbreviations": _md("e.g. Dr. No. "),
    "initials": _md("A.B. "),
    "lines": _md("a line\n"),
    "pages": _md("a page\f"),
    "blank pages": _md("\f"),
    "no spaces": _md("話"),
    "no spaces, sentences": _md("話。"),
    "thai": _md("ภาษาไทย"),
    "latin": lambda size: ("Café très bon. " * (size // 15)).encode("latin-1"),
    "wide characters": lambda size: ("Some words. " * (size // 24)).encode("utf-16"),
    "other signs": _md("\u0300"),
    "combined signs": _md("a\u0300\u0301"),
    "joiners": _md("\u200d"),
    "admonition line": _md("x", before="!!! a\nb ", after="\nc"),
    "admonition lines": lambda size: b"!!! " + b"x" * size + b"\nwords\n",
    "slash lines": lambda size: b"/// " + b"ab " * (size // 3) + b"\nwords\n",
    "colons": _md(":"),
    "colon lines": _md("a:\n"),
    "colons in one line": _md("a: "),
    "closing tag": _md("x", before="</", after=""),
    "signs before a word": _md("!", before="", after="a"),
    "parentheses": _md("("),
    "quotes, open": _md(' "a. b'),
    "quotes, closed": _md(' "a. b"'),
}

DOCX: Mapping[str, Make] = {
    "paragraphs": partial(_docx_again, _paragraph("Some words make a sentence. Others make another.")),
    "empty paragraphs": partial(_docx_again, "<w:p/>"),
    "one word": lambda size: docx(_again("x", size, "<w:p><w:r><w:t>", "</w:t></w:r></w:p>")),
    "one line": lambda size: docx(_again("words without end ", size, "<w:p><w:r><w:t>", "</w:t></w:r></w:p>")),
    "runs": lambda size: docx(_again("<w:r><w:t>word </w:t></w:r>", size, "<w:p>", "</w:p>")),
    "bold runs": lambda size: docx(_again("<w:r><w:rPr><w:b/></w:rPr><w:t>a</w:t></w:r>", size, "<w:p>", "</w:p>")),
    "mixed runs": lambda size: docx(
        _again("<w:r><w:rPr><w:b/></w:rPr><w:t>a</w:t></w:r><w:r><w:rPr><w:i/></w:rPr><w:t>b </w:t></w:r>", size,
               "<w:p>", "</w:p>")
    ),
    "texts of one run": lambda size: docx(_again("<w:t>a </w:t>", size, "<w:p><w:r>", "</w:r></w:p>")),
    "tabs": lambda size: docx(_again("<w:tab/>", size, "<w:p><w:r><w:t>a</w:t>", "<w:t>b</w:t></w:r></w:p>")),
    "line breaks": lambda size: docx(_again("<w:t>a</w:t><w:br/>", size, "<w:p><w:r>", "</w:r></w:p>")),
    "entities": lambda size: docx(_again("&lt;&amp;", size, "<w:p><w:r><w:t>", "</w:t></w:r></w:p>")),
    "headings": partial(_docx_again, '<w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr>'
                        "<w:r><w:t>Heading %d</w:t></w:r></w:p>"),
    "list": partial(_docx_again, '<w:p><w:pPr><w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr></w:pPr>'
                    "<w:r><w:t>item</w:t></w:r></w:p>"),
    "list in levels": partial(_docx_again, "".join(
        f'<w:p><w:pPr><w:numPr><w:ilvl w:val="{n}"/><w:numId w:val="1"/></w:numPr></w:pPr><w:r><w:t>a</w:t></w:r></w:p>'
        for n in range(9))),
    "code": partial(_docx_again, '<w:p><w:pPr><w:pStyle w:val="Code"/></w:pPr><w:r><w:t>x = 1</w:t></w:r></w:p>'),
    "table": partial(_docx_again, f"<w:tr><w:tc>{_paragraph('a')}</w:tc><w:tc>{_paragraph('b')}</w:tc></w:tr>",
                     before="<w:tbl>", after="</w:tbl>"),
    "tables": partial(_docx_again, f"<w:tbl><w:tr><w:tc>{_paragraph('a')}</w:tc></w:tr></w:tbl>"),
    "wide table": _docx_wide,
    "nested tables": partial(_docx_both, "<w:tbl><w:tr><w:tc>", "</w:tc></w:tr></w:tbl>"),
    "merged cells": partial(
        _docx_again, f"<w:tr><w:tc><w:tcPr><w:vMerge/></w:tcPr>{_paragraph('a')}</w:tc></w:tr>",
        before="<w:tbl>", after="</w:tbl>"),
    "merged columns": partial(
        _docx_again, f'<w:tr><w:tc><w:tcPr><w:gridSpan w:val="100000"/></w:tcPr>{_paragraph("a")}</w:tc></w:tr>',
        before="<w:tbl>", after="</w:tbl>"),
    "links": lambda size: docx(_again('<w:hyperlink w:anchor="a"><w:r><w:t>b</w:t></w:r></w:hyperlink>', size,
                                      "<w:p>", "</w:p>")),
    "bookmarks": lambda size: docx(_again('<w:bookmarkStart w:id="1" w:name="a%d"/>', size, "<w:p>",
                                          "<w:r><w:t>a</w:t></w:r></w:p>")),
    "nested content controls": partial(_docx_both, "<w:sdt><w:sdtContent>", "</w:sdtContent></w:sdt>"),
    "nested insertions": lambda size: docx(_both("<w:ins>", "</w:ins>", size, "<w:p><w:r><w:t>a</w:t></w:r>")
                                           .replace(b"deep words", b"") + b"</w:p>"),
    "deletions": partial(_docx_again, "<w:p><w:del><w:r><w:delText>a</w:delText></w:r></w:del>"
                         "<w:r><w:t>b</w:t></w:r></w:p>"),
    "deleted paragraphs": partial(_docx_again, "<w:p><w:pPr><w:rPr><w:del/></w:rPr></w:pPr>"
                                  "<w:r><w:t>b</w:t></w:r></w:p>"),
    "fields": lambda size: docx(_again('<w:r><w:fldChar w:fldCharType="begin"/></w:r>', size, "<w:p>",
                                       "<w:r><w:t>a</w:t></w:r></w:p>")),
    "field codes": lambda size: docx(_again("<w:r><w:instrText>a</w:instrText></w:r>", size, "<w:p>",
                                            "<w:r><w:t>a</w:t></w:r></w:p>")),
    "unknown elements": partial(_docx_again, "<w:unheard/>"),
    "text boxes": partial(_docx_again, "<w:p><w:r><w:pict><w:txbxContent><w:p><w:r><w:t>a</w:t></w:r></w:p>"
                          "</w:txbxContent></w:pict></w:r></w:p>"),
    "symbols": lambda size: docx(_again('<w:r><w:sym w:font="Wingdings" w:char="F028"/></w:r>', size, "<w:p>",
                                        "</w:p>")),
    "footnote references": lambda size: docx(_again('<w:r><w:footnoteReference w:id="1"/></w:r>', size, "<w:p>",
                                                    "<w:r><w:t>a</w:t></w:r></w:p>")),
}  # fmt: skip

PDF: Mapping[str, Make] = {
    "pages": _pdf_pages,
    "text objects": _pdf_objects,
    "one line": _pdf_line,
    "one word": _pdf_word,
    "hyphens": _pdf_hyphens,
    "bookmarks": _pdf_bookmarks,
    "bookmarks that name nothing": partial(_pdf_bookmarks, chapter=b"Words"),
    "nested arrays": _pdf_nested,
    "nested states": lambda size: pdf([b"q " * (size // 2) + b"BT /F1 9 Tf 50 700 Td (words) Tj ET"]),
    "pages of pictures": lambda size: pdf([b"0 0 10 10 re f " * (size // 15) + b"BT /F1 9 Tf 9 9 Td (words) Tj ET"]),
}

CORPUS: Mapping[str, Make] = {
    "rows": partial(_corpus, one_document=False),
    "rows of one document": partial(_corpus, one_document=True),
    "nested": _corpus_nested,
    "malformed rows": _md("{\n", before='{"_id": "1", "text": "Words."}\n'),
    "same rows": _md('{"_id": "1", "text": "Words."}\n', before=""),
    "long text": _md("word ", before='{"_id": "1", "text": "', after='"}'),
    "many keys": _md(', "k%d": 1', before='{"_id": "1", "text": "Words.", "metadata": {"a": 1', after="}}"),
    "long number": _md("1", before='{"_id": "1", "text": "Words.", "metadata": {"a": ', after="}}"),
}

CONSTRUCTS: Mapping[str, Mapping[str, Make]] = {
    ".md": MARKDOWN,
    ".mdx": MDX,
    ".html": HTML,
    ".rst": RST,
    ".txt": TEXT,
    ".docx": DOCX,
    ".pdf": PDF,
    ".jsonl": CORPUS,
}
