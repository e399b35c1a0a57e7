"""What something is comes before its uses, where a question asks for that."""

from __future__ import annotations

import pytest

from server.turn.evidence import nearest_sentences
from server.turn.quote_shapes import asked_term
from tests.server.test_turn_quote_shapes import reading, without_neighbours  # noqa: F401
from tests.server.turn_fakes import evidence


@pytest.mark.parametrize(
    ("question", "term"),
    [
        ("What is a chart?", "chart"), ("ok, what's a library chart exactly?", "library chart"),
        ("whats gravity", "gravity"), ("what does --atomic do", "--atomic"),
        ("what do you mean by post renderer", "post renderer"), ("What are hooks good for?", "hooks"),
        ("Was ist ein Chart?", "Chart"), ("什么是图表？", "图表"), ("How do I install a chart?", ""),
        ("which port is it", ""),
    ],
)  # fmt: skip
def test_the_term_whose_meaning_is_asked_for(question: str, term: str) -> None:
    assert asked_term(question) == term


USES = """\
A chart can be pulled by charts of charts, and charts that hold charts are charts too.

What a chart is not: a chart repository is a server for charts. When a chart is installed, it is a release.

{definition}
"""


@pytest.mark.parametrize(
    "definition",
    [
        "A *chart* is a Helm package.", "Charts are packages of resources.",
        "In Helm, a chart (`.tgz`) is a package.", "- **Chart**: a package of resources.",
        "- `chart` – what is packed.", "[Chart](chart.md) means a package.",
    ],
)  # fmt: skip
def test_a_definition_comes_before_what_is_liked_more(definition: str) -> None:
    passages = evidence(USES.format(definition=definition), heading=["Use"])
    quotes, sure = nearest_sentences(
        "What is a chart?", passages, chances=reading(passages, "pulled", "not:", "pack", "resources")
    )
    assert sure
    assert quotes[0].quote == definition
    assert len(quotes) > 1


@pytest.mark.parametrize(
    "sentence", ["A chart repository is a server.", "When a chart is new, wait.", "Charts are easy."]
)
def test_a_use_is_no_definition(sentence: str) -> None:
    passages = evidence(f"A release is made of it.\n\n{sentence}")
    quotes, _ = nearest_sentences("What is a chart?", passages, chances=reading(passages, "release", sentence))
    assert quotes[0].quote == "A release is made of it."


def test_the_first_sentence_of_the_section_named_so_defines() -> None:
    passages = evidence(
        "Gravity is updated weekly by gravity.",
        "Collects blocklists, and keeps them. It runs weekly.",
        heading=["Gravity"],
    )
    passages[0] = passages[0].model_copy(update={"heading": ["Updates"]})
    quotes, _ = nearest_sentences("what is gravity?", passages, chances=reading(passages, "runs", "Collects"))
    assert quotes[0].quote == "Collects blocklists, and keeps them."


def test_a_definition_that_the_reader_finds_wrong_stays_behind() -> None:
    passages = evidence("A chart is a plot.\n\nIn here it is pulled.")
    quotes, _ = nearest_sentences("What is a chart?", passages, chances=reading(passages, "pulled"))
    assert [quote.quote for quote in quotes] == ["In here it is pulled."]


@pytest.mark.parametrize(("asked", "defined"), [("What is a chart?", True), ("What are values?", False)])
def test_a_glossary_s_row_defines_its_first_cell(asked: str, defined: bool) -> None:
    table = "| Term | Meaning |\n|---|---|\n| **chart** | what is packed of resources |\n| values | 3 |\n"
    passages = evidence(f"Every chart is pulled again.\n\n{table}")
    quotes, _ = nearest_sentences(asked, passages, chances=reading(passages, "pulled", "packed", "values"))
    assert ("what is packed" in quotes[0].quote) == defined
