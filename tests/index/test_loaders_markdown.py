"""Markdown and MDX: sections with exact source offsets, titles, and what belongs to no section."""

from __future__ import annotations

from pathlib import Path

import pytest

from index.documents import Document
from index.errors import LoadError
from index.loaders import load


def loaded(folder: Path, text: str, name: str = "first-steps.md") -> Document:
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="")
    (document,) = load(path, f"guide/{name}")
    return document


def shown(document: Document) -> list[tuple[tuple[str, ...], str]]:
    return [(section.heading, document.text[section.start : section.end]) for section in document.sections]


def test_text_is_the_source_and_sections_point_into_it(tmp_path: Path) -> None:
    source = "---\r\ntitle: Steps\r\n---\r\nIntro.\r\n\r\n## One\r\nText.\r\n"
    document = loaded(tmp_path, source)
    assert document.text == source.replace("\r\n", "\n")
    assert shown(document) == [((), "Intro."), (("One",), "Text.")]
    assert document.id == "guide/first-steps.md"


def test_headings_nest_and_the_title_is_left_out_of_their_paths(tmp_path: Path) -> None:
    text = "# Guide\nA.\n\nInstall\n-------\nB.\n### On Linux #\nC.\n#### Deep\nD.\n## Use\nE.\n# Appendix\nF."
    document = loaded(tmp_path, text)
    assert document.title == "Guide"
    assert shown(document) == [
        ((), "A."), (("Install",), "B."), (("Install", "On Linux"), "C."), (("Install", "On Linux", "Deep"), "D."),
        (("Use",), "E."), (("Appendix",), "F."),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("---\ntitle: From front matter\n---\n# Heading\nx", "From front matter"),
        ("Intro\n\n# The *first* `h1`\nx", "The first h1"),
        ("## Only h2\nx", "first steps"),
    ],
)
def test_the_title_comes_from_front_matter_then_h1_then_file_name(tmp_path: Path, text: str, title: str) -> None:
    assert loaded(tmp_path, text).title == title


def test_what_looks_like_a_heading_in_code_quotes_or_boxes_opens_no_section(tmp_path: Path) -> None:
    text = (
        "# T\n\n```sh\n# comment\n```\n\n~~~\n## x\n~~~\n\n    # indented\n\n> # quoted\n\n- # in a list\n\n"
        '!!! note "Hm"\n    # in a note\n\n???+ tip\n    ## folded\n\n:::tip[Hey]\n### boxed\nx\n:::\n\n'
        "/// warning | Oh\n## in slashes\n///\n\n<div>\n# raw\n</div>\n\nEnd.\n"
    )
    assert [section.heading for section in loaded(tmp_path, text).sections] == [()]


def test_a_reference_directive_that_never_closes_does_not_swallow_the_page(tmp_path: Path) -> None:
    document = loaded(tmp_path, "# T\n\n## A\n::: package.module\n    options:\n\n## B\n:::note\nopen\n\n## C\nx")
    assert [section.heading for section in document.sections] == [("A",), ("B",), ("C",)]


@pytest.mark.parametrize(
    "heading", ["Set up { #set-up }", "Set up {#set-up .x}", "Set up {: #set-up }", "**Set** [up](x.md)", "Set up ##"]
)
def test_heading_words_come_without_markup_and_attributes(tmp_path: Path, heading: str) -> None:
    assert loaded(tmp_path, f"## {heading}\nx").sections[0].heading == ("Set up",)


def test_comments_and_front_matter_belong_to_no_section(tmp_path: Path) -> None:
    text = (
        "---\na: 1\n---\n<!-- one\n\n# two -->\nSeen <!-- three --> too, and `<!-- code -->`.\n\n<!-- four --> rest\n"
    )
    joined = " ".join(part for _, part in shown(loaded(tmp_path, text)))
    assert joined == "Seen too, and `<!-- code -->`. rest"


def test_mdx_code_lines_belong_to_no_section_but_prose_does(tmp_path: Path) -> None:
    text = (
        "import { Tabs } from '/x.mdx';\nexport const a = 1\n\n{/* note to self */}\n\nimport data as you like.\n\n"
        "<Tabs>\n```python\n\n# not a heading\n```\n</Tabs>\n\n  ## Indented in JSX\n  Text.\n"
    )
    document = loaded(tmp_path, text, "page.mdx")
    assert shown(document) == [
        ((), "import data as you like.\n\n<Tabs>\n```python\n\n# not a heading\n```\n</Tabs>"),
        (("Indented in JSX",), "  Text."),
    ]
    assert "import { Tabs }" in shown(loaded(tmp_path, text))[0][1]


def test_a_heading_with_nothing_under_it_can_still_be_found(tmp_path: Path) -> None:
    document = loaded(tmp_path, "# T\n## Parent\n### Kept as text\n## Next\nx")
    assert shown(document) == [(("Parent",), "### Kept as text"), (("Next",), "x")]


def test_front_matter_scalars_become_bounded_metadata(tmp_path: Path) -> None:
    lines = [
        "title: T", "draft: true", "weight: 3", "rate: .5", "date: 2024-05-01", "tags: [a, b]", "nested: {a: 1}",
        "source: ftp://x", "format: pdf", "nan: .nan", f"long: {'x' * 2000}", f"big: {10**30}", "'': empty",
    ]  # fmt: skip
    many = [f"key{number}: 1" for number in range(100)]
    document = loaded(tmp_path, "\n".join(["---", *lines, *many, "---", "Body"]))
    metadata = dict(document.metadata)
    assert metadata.pop("source") == "guide/first-steps.md"
    assert metadata.pop("format") == "markdown"
    assert len(metadata) == 32
    assert {key: value for key, value in metadata.items() if not key.startswith("key")} == {
        "draft": True,
        "weight": 3,
        "rate": 0.5,
        "date": "2024-05-01",
    }


def test_a_web_address_in_front_matter_is_the_source(tmp_path: Path) -> None:
    assert loaded(tmp_path, "---\nurl: https://example.org/a\n---\nx").metadata["source"] == "https://example.org/a"


@pytest.mark.parametrize(
    "front",
    ["a: [", "- 1\n- 2", "!!python/object:os.system {}", "x: " + "[" * 5000, "n: " + "9" * 9000, "d: 2024-99-99"],
)
def test_malformed_front_matter_says_nothing_and_loses_nothing(tmp_path: Path, front: str) -> None:
    assert shown(loaded(tmp_path, f"---\n{front}\n---\nBody.")) == [((), "Body.")]


def test_a_rule_across_the_first_line_is_not_front_matter(tmp_path: Path) -> None:
    assert shown(loaded(tmp_path, "---\n\nBody: text.\n")) == [((), "---\n\nBody: text.")]


@pytest.mark.parametrize("text", ["---\ntitle: T\n---\n", " \n\n", "<!-- only -->", "---\na: 1\n---"])
def test_a_file_without_text_says_so(tmp_path: Path, text: str) -> None:
    with pytest.raises(LoadError, match=r"first-steps\.md holds no text"):
        loaded(tmp_path, text)


@pytest.mark.parametrize(
    "text",
    ["[" * 20_000, "> " * 5_000 + "x", "<!--" * 5_000, "# a\n" * 5_000, "*_" * 10_000, "- " * 3_000 + "x", "`" * 9_999],
    ids=["brackets", "quotes", "comments", "headings", "marks", "lists", "ticks"],
)
@pytest.mark.timeout(90)
def test_hostile_markup_is_read_in_bounded_time(tmp_path: Path, text: str) -> None:
    assert loaded(tmp_path, "Text.\n\n" + text).sections
