"""Links and images said by their words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from text.sentences import without_linked, without_links


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "Use the [API server](https://kubernetes.io/docs/) and ![a plot](p.png 'Plot').",
            "Use the API server and a plot.",
        ),
        ("[![Build](b.svg)](https://ci.example.org)", "Build"),
        ("Call [`kustomize`](https://kustomize.io), not `[a](b)`.", "Call `kustomize`, not `[a](b)`."),
        ("An example is [here](https://example.org/post_(a)).", "An example is here (https://example.org/post_(a))."),
        ("Read [here](../local.md).", "Read here."),
        ("[text][name], [text][], but `x` is a[0][1]", "text, text, but `x` is a[0][1]"),
        ("[Get started](start.md){ .md-button } {{ .Values.x }}", "Get started {{ .Values.x }}"),
        ("Mail <mailto:a@example.org> or <https://example.org>.", "Mail mailto:a@example.org or https://example.org."),
        ("A claim.[^1]", "A claim."),
        ("```md\n[a](b)\n```\n\n[c](d)", "```md\n[a](b)\n```\n\nc"),
        ("a [b\nc](d) e", "a b\nc e"),
        (r"\[a](b) and [unclosed](c", r"\[a](b) and [unclosed](c"),
    ],
)
def test_a_link_is_said_by_its_words(text: str, said: str) -> None:
    assert without_links(text) == said


def test_what_is_left_without_links() -> None:
    assert without_linked("See [this](a.md) and <https://b.org>, `[c](d)`.").split() == ["See", "and", ",", "`[c](d)`."]


@given(st.text(alphabet='[]()!`\\<>^ \nab{}.:"', max_size=300))
def test_no_text_breaks_it_or_grows(text: str) -> None:
    # Words that only point have their address behind them, which is as long as the link.
    assert len(without_links(text)) <= len(text)
    assert len(without_linked(text)) <= len(text)


@pytest.mark.parametrize("part", ["[", "[a](", "`", "[`", "![[", "<", "[a]((", "\\[", "[a][", "```a\n", "<https://"])
def test_hostile_text_costs_little_and_stays(part: str) -> None:
    text = part * 2000
    assert without_links(text).count("[") <= text.count("[")
