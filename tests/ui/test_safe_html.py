"""Nothing in a document or an answer becomes more than text on the page."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ui.annotations import Annotation, Chip, Doubt, Highlight
from ui.safe_html import (
    ELEMENTS,
    LONGEST,
    MATH_ATTRIBUTES,
    MATH_ELEMENTS,
    clean,
    link_target,
    render_markdown,
    render_plain,
)

OURS = {"button", "mark"}
ATTRIBUTES = {
    "a": {"href", "title", "target", "rel"},
    "span": {"class", "title", "data-note", "tabindex"},
    "button": {"type", "class", "data-action", "data-source", "data-citation", "aria-label", "title"},
    "mark": {"data-citation"},
    "div": {"class"},
    "code": {"class"},
    **{name: MATH_ATTRIBUTES for name in MATH_ELEMENTS},
    "p": {"class"},
    "ol": {"start"},
}

HOSTILE = [
    '!!! note "<script>alert(1)</script>"\n    <img src=x onerror=alert(1)>',
    "/// tip | <img src=x onerror=alert(1)>\n<script>alert(1)</script>\n///",
    ':::x"onclick=alert(1)[<svg/onload=alert(1)>]\n[x](javascript:alert(1))\n:::',
    "<script>window.owned=1</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "<iframe src='javascript:alert(1)'></iframe>",
    "<form action=//evil.test><input name=a></form>",
    "<meta http-equiv=refresh content='0;url=//evil.test'>",
    "<style>body{background:url(//evil.test)}</style>",
    "<link rel=stylesheet href=//evil.test>",
    "<base href=//evil.test>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
    "[x](vbscript:x)",
    "![x](https://evil.test/pixel.png)",
    "![x](data:image/svg+xml,<svg onload=alert(1)>)",
    "[![x](https://evil.test/p.png)](https://evil.test)",
    '<https://evil.test/"onmouseover=alert(1)>',
    "[a]: javascript:alert(1)\n\n[a]",
    '<a href="java\nscript:alert(1)">x</a>',
    "```html\n<script>alert(1)</script>\n```",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
    "${alert(1)} {{constructor.constructor('alert(1)')()}} `${alert(1)}`",
    "</textarea><script>alert(1)</script>",
    '<!--<img src="--><img src=x onerror=alert(1)//">',
    "\u202etxt.exe <b\x00>",
    "[x](https://good.test/\u202egpj.exe)",
    "<scr",
    '<img src="',
    r"$x^2 \text{<img src=x onerror=alert(1)>} \href{javascript:alert(1)}{y} \style{color:red}{z}$",
    r"$$\class{pill}{\unicode{x3c}script\unicode{x3e}} \mathrm{</math><script>alert(1)</script>}$$",
    "&lt;script&gt;alert(1)&lt;/script&gt; &#60;img src=x onerror=alert(1)&#62;",
]


class Page(HTMLParser):
    """What a browser would make of a piece of HTML: its elements, attributes and text."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.depth = 0
        self.feed(str(html))  # not Markup, whose slices would be escaped once more
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError("a comment came through")

    def handle_decl(self, decl: str) -> None:
        raise AssertionError("a declaration came through")


def assert_safe(html: str) -> Page:
    page = Page(html)
    for tag, attributes in page.elements:
        assert tag in ELEMENTS | OURS | MATH_ELEMENTS, tag
        assert set(attributes) <= ATTRIBUTES.get(tag, set()), (tag, attributes)
        if "href" in attributes:
            assert link_target(attributes["href"] or "") == attributes["href"]
            assert attributes["rel"] == "noopener noreferrer nofollow"
            assert attributes["target"] == "_blank"
    return page


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(text: str) -> None:
    for html in (render_markdown(text), render_plain(text), render_markdown(f"- a\n\n> {text}\n\n| {text} |\n|--|")):
        page = assert_safe(html)
        assert not {"script", "img", "iframe", "form", "input", "style", "svg", "meta"} & {
            tag for tag, _ in page.elements
        }


@pytest.mark.parametrize("text", HOSTILE)
def test_every_half_of_a_hostile_answer_is_safe(text: str) -> None:
    for end in range(len(text)):
        assert_safe(render_markdown(f"Well, **see {text[:end]}"))


FRAGMENTS = st.sampled_from(
    [*HOSTILE, "\n", "\n\n", "- ", "**", "`", "|", "[1]", "word ", "# ", "> ", "```\n", "\U00010a50"]
)


@st.composite
def marked_texts(draw: st.DrawFn) -> tuple[str, list[Annotation]]:
    text = "".join(draw(st.lists(st.one_of(FRAGMENTS, st.text(max_size=8)), max_size=12)))
    place = st.integers(-2, len(text) + 3)
    label = st.sampled_from(HOSTILE)
    mark = st.one_of(
        st.builds(Chip, place, place, st.integers(0, 99), st.integers(0, 99), label),
        st.builds(Highlight, place, place, st.integers(0, 99)),
        st.builds(Doubt, place, place, label),
    )
    return text, draw(st.lists(mark, max_size=6))


@settings(max_examples=30, deadline=None)
@given(marked_texts())
def test_any_text_with_any_marks_is_safe(case: tuple[str, list[Annotation]]) -> None:
    text, marks = case
    assert_safe(render_markdown(text, marks))
    page = assert_safe(render_plain(text, [mark for mark in marks if not isinstance(mark, Chip)]))
    assert len(page.text) >= len(text.replace("\r", ""))


@settings(max_examples=30, deadline=None)
@given(marked_texts())
@example(('!!! note "A title"\n    Text.', [Chip(3, 9, 0, 0, 0, "Source")]))
@example(("``` py [1]\ncode\n```", [Chip(7, 10, 1, 1, 0, "Source")]))
def test_no_marker_is_ever_seen(case: tuple[str, list[Annotation]]) -> None:
    text, marks = case
    seen = Page(render_markdown(text.replace("\U00010a50", ""), marks)).text
    assert not any(0x10A50 <= ord(char) < 0x10A59 for char in seen)


def test_what_is_no_element_of_documents_is_shown_as_it_was_written() -> None:
    assert Page(render_markdown("Use <name>bold</name>.")).text.strip() == "Use <name>bold</name>."


def test_an_image_becomes_its_description() -> None:
    assert render_markdown("![A chart](https://evil.test/x.png)") == '<p><span class="image">A chart</span></p>\n'


def test_a_link_opens_elsewhere_and_says_where_to() -> None:
    page = Page(render_markdown("See [the page](https://example.org/a)."))
    assert page.text.strip() == "See the page (example.org)."
    assert page.elements[1] == (
        "a",
        {
            "href": "https://example.org/a",
            "title": "https://example.org/a",
            "target": "_blank",
            "rel": "noopener noreferrer nofollow",
        },
    )


@pytest.mark.parametrize(
    "address", ["javascript:x", "//evil.test", "/local", "data:,x", "file:///etc", "https:", "http://[", ""]
)
def test_only_web_and_mail_addresses_are_links(address: str) -> None:
    assert link_target(address) is None
    assert "<a" not in render_markdown(f"[text]({address})")


def test_a_highlight_survives_formatting() -> None:
    text = "Intro.\n\n- Use **bold** and `code` here.\n- Other."
    start = text.index("- Use")
    html = render_markdown(text, [Highlight(start, text.index("\n- Other"), 3)])
    assert html.count("<li>") == 2
    marked = "".join(piece.split("</mark>")[0] for piece in html.split('<mark data-citation="3">')[1:])
    assert marked == "Use bold and code here."


@pytest.mark.parametrize(
    ("text", "element"),
    [
        ("# Title\n\nText.", "h3"),
        ("```py\na = 1\n```", "pre"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "table"),
        ("1. One.", "ol"),
    ],
)
def test_a_highlight_over_everything_keeps_the_structure(text: str, element: str) -> None:
    html = render_markdown(text, [Highlight(0, len(text), 0)])
    assert f"<{element}>" in html
    assert "<mark" in html


def test_a_citation_becomes_a_button_where_its_marker_stood() -> None:
    text = "**It is so.**[2] And [3]: more."
    html = render_markdown(text, [Chip(13, 16, 2, 2, 0, 'A "title"')])
    assert "<strong>It is so.</strong><button" in html
    assert 'data-source="2"' in html
    assert "A &#34;title&#34;" in html
    assert "[2]" not in html
    assert "[3]" in html


def test_a_contradicted_sentence_looks_unlike_an_unsupported_one() -> None:
    html = render_markdown("Not so.", [Doubt(0, 7, "The passage says something else.", contradicted=True)])
    assert 'class="doubt turned"' in html


def test_a_doubted_sentence_says_why_once() -> None:
    html = render_markdown("Sure. *Not* so.", [Doubt(6, 15, "No source says so.")])
    assert html.count("tabindex") == 1
    assert html.count('class="doubt"') == 2


def test_a_very_long_text_is_cut_with_a_note() -> None:
    html = render_plain("x" * (LONGEST + 5))
    assert "5 more characters" in html
    assert len(html) < LONGEST + 200


def test_text_direction_cannot_be_turned() -> None:
    assert "\u202e" not in render_markdown("\u202eevil")


def test_cleaning_drops_what_is_not_listed() -> None:
    assert clean('<p onclick="x" style="color:red">a<script>b</script><img src=c></p>') == "<p>a</p>"


@pytest.mark.parametrize(
    ("source", "title"),
    [
        ('!!! note "Mind <x> this"\n    The lid is *hot*.\n', "Mind &lt;x&gt; this"),
        ("??? warning\n    The lid is *hot*.\n", "Warning"),
        ("/// tip | Use a cloth\nThe lid is *hot*.\n///\n", "Use a cloth"),
        ("/// tip\nThe lid is *hot*.\n", "Tip"),
        (":::danger[Mind this]\nThe lid is *hot*.\n:::\n", "Mind this"),
        ("::: info\nThe lid is *hot*.\n:::\n", "Info"),
    ],
)
def test_admonitions_are_boxes_with_a_title(source: str, title: str) -> None:
    html = render_markdown(source, [Highlight(0, source.index("hot") + 3, 0)])
    box = html[html.index('<div class="admonition">') : html.index("</div>")]
    assert f'<p class="admonition-title">{title}</p>' in box
    assert '<em><mark data-citation="0">hot</mark></em>' in box
    for marks in ("!!!", "???", "///", ":::", "note &"):
        assert marks not in html
