"""Passages: exact offsets, bounded windows, borders where a reader would put them."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from index.documents import OPENING, Document, Section
from index.loaders.markdown import outline
from index.passages import split
from text.sentences import sentence_spans

_PIECES = re.compile(r"\w+|[^\w\s]")


def count_words(text: str) -> int:
    """A tokenizer as simple as can be: words and marks."""
    return len(_PIECES.findall(text))


def markdown(text: str, title: str = "") -> Document:
    structure = outline(text, title=title)
    return Document("guide.md", structure.title, text, structure.sections, {"format": "markdown"})


BLOCKS = r"""# Guide|## Install it|### Deep|Setext
------|||Plain words here. And more of them! Really?|```python
x = 1. # not a heading

y = 2
```|```|- an item. Two|    indented code|!!! note "Mind"
    Inner text. More.|:::tip[Hey]|:::|/// note|<!-- gone -->|text <!-- gone --> text|> quoted. words|第一句。第二句！
**Bold.** Then more.|---|<div>|[link]: http://a.b"""
LINES = st.sampled_from(
    [*BLOCKS.split("|"), "| a | b |\n|---|---|\n| 1. x | 2 |", "word " * 60, "a" * 300, "\f", "e\u0301 \u00a0 \u2028 x"]
)
TEXTS = st.one_of(st.lists(LINES, max_size=14).map("\n".join), st.text(max_size=200).map(lambda t: t.replace("\r", "")))


@given(TEXTS)
def test_sentences_cover_every_word_once_and_in_order(text: str) -> None:
    covered = 0
    for start, end in sentence_spans(text):
        assert covered <= start < end <= len(text)
        assert not text[covered:start].strip()
        assert text[start:end].strip()
        covered = end
    assert not text[covered:].strip()


@given(TEXTS, st.integers(8, 80))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_passages_keep_offsets_window_and_unique_ids(text: str, window: int) -> None:
    document = markdown(text)
    passages = split(document, window, count_words)
    assert split(document, window, count_words, len(passages)) == passages
    for most in range(1, len(passages), max(1, len(passages) // 3)):
        assert len(split(document, window, count_words, most)) == most
    for passage in passages:
        assert document.text[passage.start : passage.end] == passage.text
        assert passage.text.strip()
        assert count_words(passage.indexed_text) <= window
    assert len({passage.id for passage in passages}) == len(passages)
    assert all(left.end <= right.start for left, right in pairwise(passages))
    assert passages == split(document, window, count_words)


@given(TEXTS, st.integers(8, 80))
def test_section_passages_lose_no_word(text: str, window: int) -> None:
    document = markdown(text)
    inside = "".join(text[section.start : section.end] for section in document.sections)
    kept = "".join(passage.text for passage in split(document, window, count_words))
    assert "".join(kept.split()) == "".join(inside.split())


def test_code_blocks_and_table_rows_stay_whole_where_the_window_allows() -> None:
    code = "```python\n" + "\n\n".join(f"call_{number}(1.0). End" for number in range(8)) + "\n```"
    table = "| name | what |\n|---|---|\n" + "\n".join(f"| row {n} | It is. It was. |" for n in range(30))
    document = markdown(f"# T\n\n{'Some words here. ' * 12}\n\n{code}\n\n{table}\n")
    passages = split(document, 100, count_words)
    assert sum(code in passage.text for passage in passages) == 1
    for row in table.splitlines():
        assert sum(row in passage.text for passage in passages) == 1


def test_a_code_block_longer_than_the_window_is_cut_at_line_ends() -> None:
    lines = [f"value_{number} = compute({number})" for number in range(60)]
    document = markdown("# T\n\n```python\n" + "\n".join(lines) + "\n```\n")
    passages = split(document, 40, count_words)
    assert len(passages) > 2
    assert all(line in lines or line.startswith("```") for passage in passages for line in passage.text.splitlines())


def test_a_sentence_longer_than_the_window_is_cut_between_words() -> None:
    document = markdown("endless " * 200)
    passages = split(document, 30, count_words)
    assert all(set(passage.text.split()) == {"endless"} for passage in passages)
    assert len(passages) == 7


def test_a_passage_that_begins_within_a_table_or_code_carries_what_opens_it() -> None:
    rows = [f"| option{n} | what option number {n} is for |" for n in range(6)]
    head = "| Option | Use |\n|---|---|"
    table = "\n".join([head, *rows])
    passages = split(markdown(f"Words before the table.\n\nThese are all:\n\n{table}\n\nAfter."), 40, count_words)
    assert len(passages) > 2
    for passage in passages:
        begins_within = passage.text.startswith("| option")
        assert passage.metadata.get(OPENING) == (head if begins_within else None)
        # A header alone says nothing: its first row stands below it, and above it stands what leads to it.
        assert not passage.text.endswith(("|---|", "all:"))
    code = "```sh\n" + "\n".join(f"run step {n} of all" for n in range(12)) + "\n```"
    parts = split(markdown(code), 20, count_words)
    assert [part.metadata.get(OPENING) for part in parts] == [None, *["```sh"] * (len(parts) - 1)]


def test_windows_are_evened_out_and_end_with_paragraphs() -> None:
    paragraph = "One two three four. Five six seven eight. Nine ten."  # 13 tokens
    passages = split(markdown("\n\n".join([paragraph] * 5)), 52, count_words)
    assert [passage.text.count("One") for passage in passages] in ([3, 2], [2, 3])


def test_what_announces_a_list_is_not_left_behind() -> None:
    text = "Word " * 20 + "end.\n\nThese are the choices:\n\n- first thing to do\n- second thing to do\n"
    passages = split(markdown(text), 30, count_words)
    assert passages[-1].text.startswith("These are the choices:")


def test_heading_and_title_count_and_are_shortened_only_where_they_fill_the_window() -> None:
    long_title = "A very long title that goes on " * 9
    text = "\n".join(["## " + "outer words " * 9, "### inner", "Body text. " * 30])
    for passage in split(markdown(text, long_title.strip()), 24, count_words):
        assert count_words(passage.indexed_text) <= 24
        assert passage.heading in (("inner",), ())
    plain = split(markdown("## Outer\n### Inner\nBody.", "Guide"), 24, count_words)
    assert plain[0].indexed_text == "Guide > Outer > Inner\nBody."


def test_ids_change_with_the_text_and_with_nothing_else() -> None:
    one, two = markdown("# T\nSame words."), markdown("# T\nOther words.")
    tagged = Document(one.id, one.title, one.text, one.sections, {"format": "markdown", "tag": "new"})
    ids = [split(document, 99, count_words)[0].id for document in (one, two, tagged)]
    assert ids[0] == ids[2] != ids[1]
    assert re.fullmatch(r"[0-9a-f]{32}", ids[0])


def test_page_and_metadata_come_from_the_section() -> None:
    sections = (Section((), 0, 4, 3), Section((), 5, 9, 4, metadata={"tone": "dry"}))
    document = Document("d", "T", "One.\nTwo.", sections, {"format": "pdf"})
    passages = split(document, 50, count_words)
    assert [(p.page, dict(p.metadata)) for p in passages] == [
        (3, {"format": "pdf"}),
        (4, {"format": "pdf", "tone": "dry"}),
    ]


def test_count_tokens_is_called_about_once_a_sentence() -> None:
    calls = 0

    def count(text: str) -> int:
        nonlocal calls
        calls += 1
        return count_words(text)

    split(markdown("A sentence of words. " * 500), 100, count)
    assert calls <= 502


def test_a_window_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="max_tokens"):
        split(markdown("x"), 0, count_words)


def test_sections_are_never_joined() -> None:
    passages = split(markdown("# T\n## A\nOne.\n## B\nTwo.\n"), 200, count_words)
    assert [(passage.heading, passage.text) for passage in passages] == [(("A",), "One."), (("B",), "Two.")]
