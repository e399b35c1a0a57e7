"""Markers are read, checked and shown while they stream; code, links and indexes are left alone."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from server.turn.citations import CitationParser, Marker, escape_citations


def read(text: str, cuts: list[int] | None = None) -> tuple[str, list[int], int]:
    """The text shown, the numbers cited and the number dropped, with evidence 1 to 3."""
    places = sorted({min(cut, len(text)) for cut in cuts or []} | {0, len(text)})
    parser = CitationParser({1, 2, 3})
    pieces: list[str | Marker] = []
    for a, b in pairwise(places):
        pieces.extend(parser.feed(text[a:b]))
    pieces.extend(parser.finish())
    shown = "".join(piece if isinstance(piece, str) else piece.text for piece in pieces)
    return shown, [piece.n for piece in pieces if isinstance(piece, Marker)], parser.dropped


@pytest.mark.parametrize(
    ("text", "shown", "cited"),
    [
        ("Ten weeks [1].", "Ten weeks [1].", [1]),
        ("Ten weeks [1, 2].", "Ten weeks [1][2].", [1, 2]),
        ("Ten weeks [1] [2].", "Ten weeks [1] [2].", [1, 2]),
        ("Ten weeks [1-3].", "Ten weeks [1][2][3].", [1, 2, 3]),
        ("Ten weeks [1 – 2; 3]", "Ten weeks [1][2][3]", [1, 2, 3]),
        ("十周【1】。", "十周[1]。", [1]),
        ("Ten weeks 【2†leave.md】.", "Ten weeks [2].", [2]),
        ("Ten weeks [Passages 1 and 2].", "Ten weeks [1][2].", [1, 2]),
        ("Ten weeks [^1]", "Ten weeks [1]", [1]),
        ("[1] Ten weeks", "[1] Ten weeks", [1]),
    ],
)
def test_markers_of_every_form_become_plain_ones(text: str, shown: str, cited: list[int]) -> None:
    assert read(text) == (shown, cited, 0)


@pytest.mark.parametrize(
    ("text", "shown", "cited", "dropped"),
    [
        ("Ten weeks [9].", "Ten weeks.", [], 1),
        ("Ten weeks  [9] long", "Ten weeks long", [], 1),
        ("Ten weeks [0] [4][5]!", "Ten weeks!", [], 3),
        ("Ten weeks [2-5]", "Ten weeks [2][3]", [2, 3], 2),
        ("Ten weeks [1-900]", "Ten weeks [1]", [1], 1),
    ],
)
def test_markers_that_cite_nothing_go_with_their_blank(text: str, shown: str, cited: list[int], dropped: int) -> None:
    assert read(text) == (shown, cited, dropped)


@pytest.mark.parametrize(
    "text",
    [
        "Use `x[1]` and ` [9]`", "``a ` [9]``", "```python\nx = [1]\ny = [9]\n```", "~~~\n [9]\n~~~",
        "  ```\n[1]\n  ```", "[1](https://example.org)", "[docs](https://example.org/[9])",
        "a[1] and items[9] and d['k'][2]", "x[1] = 2", "(1) first (9) second", "[2024] and [n] and [abc] and []",
        "an open [12",
    ],
)  # fmt: skip
def test_what_is_no_marker_is_untouched(text: str) -> None:
    assert read(text) == (text, [], 0)


def test_after_code_markers_count_again() -> None:
    assert read("```\n[9]\n```\nSee [1] and `[2]` [3]") == ("```\n[9]\n```\nSee [1] and `[2]` [3]", [1, 3], 0)


def test_a_lone_back_quote_ends_with_its_paragraph() -> None:
    assert read("a ` lone tick [9]\n\nThen [2]")[1:] == ([2], 0)


FRAGMENTS = st.lists(
    st.one_of(
        st.sampled_from(
            ["[1]", "[9]", "[1, 2]", "【3】", "`", "```", "\n", " ", "[", "]", "(", ")", "a[1]", "x", ".", "[1-"]
        ),
        st.text(max_size=4),
    ),
    max_size=12,
).map("".join)


@settings(deadline=None, max_examples=60)
@given(FRAGMENTS, st.lists(st.integers(0, 60), max_size=20))
def test_where_a_text_is_cut_changes_nothing(text: str, cuts: list[int]) -> None:
    assert read(text, cuts) == read(text) == read(text, list(range(len(text))))


SHAPES = (
    "[2]", "[source 2]", "[passage 2]", "[Documents 1 and 2]", "[^2]", "[#2]", "[ 1 ,  2 ]", "[1-3]", "[1][2]", "【2】",
    "【2†leave.md】", "［2］", "［source ２］", "〔2〕", "[evidence\n2]",
)  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("around", ["It lasts {}.", "f(x){},"])
def test_what_looks_like_a_citation_in_a_document_cites_nothing_when_it_is_copied(shape: str, around: str) -> None:
    shown = escape_citations(around.format(shape))

    assert read(shown) == (shown, [], 0)
    # Nor where a model writes other brackets than it read.
    plain = shown.translate(str.maketrans("［］〔〕", "[][]"))
    assert read(plain) == (plain, [], 0)


@pytest.mark.parametrize("text", ["`items[2]`", "```\nrows[1][2] = f(x)[0]\n```", "a[1] and x.y[2]", "[a](b) [n] (2)"])
def test_indexes_of_a_document_stay(text: str) -> None:
    assert escape_citations(text) == text


def test_an_index_copied_out_of_code_is_no_citation() -> None:
    parser = CitationParser({1, 2, 3}, lambda words: words in "Use `items[2]` or `f(b)[1]`.")
    copied = [*parser.feed("Use items[2]. Or f(b)[1], not things[3]."), *parser.finish()]

    assert [piece.n for piece in copied if isinstance(piece, Marker)] == [3]


DOCUMENT = st.lists(
    st.one_of(
        st.sampled_from([*SHAPES, "[", "]", "word", "x", ".", ",", " ", "\n", "(", ")", "=", "2", "source "]),
        st.text(st.characters(exclude_characters="`~"), max_size=3),
    ),
    max_size=10,
).map("".join)


@settings(deadline=None, max_examples=200)
@given(DOCUMENT)
@example("\u1a00[2]")  # one letter of a script without blanks between words
def test_a_copied_document_never_cites(text: str) -> None:
    assert read(escape_citations(text))[1:] == ([], 0)
