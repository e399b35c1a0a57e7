"""Markup of documentation tools never reaches the reader, and what it marks does."""

from __future__ import annotations

import pytest

from ui.annotations import Highlight
from ui.safe_html import render_markdown


@pytest.mark.parametrize(
    ("source", "html"),
    [
        ('An <abbr title="x">API</abbr> is <a href="https://x.test">here</a>.', "<p>An API is here.</p>"),
        ("Press <kbd>Ctrl</kbd>.<br>Then wait.", "<p>Press Ctrl.<br>Then wait.</p>"),
        ("{* ../../docs_src/first.py hl[3] *}\n\nThen go on.", "<p>Then go on.</p>"),
        ("See {ref}`the guide <guide-target>` and :doc:`install`.", "<p>See the guide and install.</p>"),
        ("Use :py:class:`~kestrel.Client` or {func}`run`.", "<p>Use <code>Client</code> or <code>run</code>.</p>"),
        ("Title { #title }", "<p>Title</p>"),
        ('<img src="a.png" alt="The panel">', '<p><span class="image">The panel</span></p>'),
        ("a `<b>` b", "<p>a <code>&lt;b&gt;</code> b</p>"),
        ("Set {x} to `y`, as in {a: 1}.", "<p>Set {x} to <code>y</code>, as in {a: 1}.</p>"),
    ],
)
def test_markup_is_left_out_and_its_words_stay(source: str, html: str) -> None:
    assert render_markdown(source).strip() == html


def test_code_in_an_element_of_a_tool_is_code_with_colours_and_a_button() -> None:
    html = render_markdown('<div class="termy">\n\n```python\nreturn "<b>"\n```\n\n</div>')
    assert "termy" not in html
    assert '<div class="code"><button type="button" class="pill" data-action="copy-code"' in html
    assert '<span class="k">return</span>' in html
    assert "&lt;b&gt;" in html


def test_a_highlight_in_code_and_beside_a_tag_stays_where_it_is() -> None:
    source = 'An <abbr title="a b c">API</abbr> is it.\n\n```python\nreturn 1\n```'
    begin = source.index("title")
    html = render_markdown(
        source, [Highlight(begin, begin + 30, 0), Highlight(source.index("return"), len(source) - 4, 1)]
    )
    assert '<mark data-citation="0">' in html
    assert '<mark data-citation="1">return 1' in html
    assert "abbr" not in html


def test_what_would_do_something_is_shown_as_text() -> None:
    assert "&lt;a onclick=" in render_markdown('<a onclick="x()">here</a>')


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        (
            r"Area $\pi r^2$ here.",
            '<math display="inline"><mrow><mi>π</mi><msup><mi>r</mi><mn>2</mn></msup></mrow></math>',
        ),
        ("$$a = \\frac{b}{c}$$", '<math display="block">'),
        ("It costs $5 and $10 = all.", "It costs $5 and $10 = all."),
        ("Set $HOME/$USER first.", "Set $HOME/$USER first."),
        (r"A broken $\frac{$ one.", r"\frac{"),
        ("`$x^2$`", "<code>$x^2$</code>"),
    ],
)
def test_a_formula_is_set_and_money_is_not(source: str, shown: str) -> None:
    assert shown in render_markdown(source)


def test_a_highlighted_sentence_with_a_formula_stays_whole() -> None:
    html = render_markdown("The area $x^2$ is large.", [Highlight(0, 24, 0)])
    assert '<msup><mi><mark data-citation="0">x</mark></mi>' in html


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("![Lid](images/lid.png)", '<img src="x?name=images%2Flid.png" alt="Lid" loading="lazy"'),
        ('<img src="../lid.jpg" alt="Lid">', '<img src="x?name=..%2Flid.jpg" alt="Lid" loading="lazy"'),
        ("![Lid](https://evil.test/lid.png)", '<span class="image">Lid</span>'),
        ("![Lid](//evil.test/lid.png)", '<span class="image">Lid</span>'),
        ("![Lid](lid.svg)", '<span class="image">Lid</span>'),
        ('<img src="lid.png" onerror="x()">', "&lt;img src="),
    ],
)
def test_images_are_those_of_the_collection_alone(source: str, shown: str) -> None:
    assert shown in render_markdown(source, images="x?name=")
    assert "<img" not in render_markdown(source)
