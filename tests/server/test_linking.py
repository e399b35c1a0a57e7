"""Where a document leads: markers to entries, entries and links to documents of the same collection."""

from __future__ import annotations

import json

import pytest

from index.documents import LINKS, Document
from index.records import DocumentInfo
from server.chat.documents import cited_documents, linked_documents, linked_spans, markers

NUMBERED = [
    "[1] A. Stone. Care of the Pump. 2001.",
    "[2] B. Wick, C. Moth. On Oil. 1990.",
    "[Moth04] C. Moth. Night. 2004.",
]
NAMED = [
    "Ada Wick and Bea Stone. 1990. On oil.",
    "Wick, A. (1990). Lamps.",
    "P. F. Brown, A. S. Della Pietra, and C. Moth. 1993a. Parameters.",
    "Stone, B., Brown, P. 1993b. Care of the pump: a study.",
    "A page without a year",
]


@pytest.mark.parametrize(
    ("entries", "text", "expected"),
    [
        (NUMBERED, "As in [2], and [1, 2; Moth04].", [("2", 1), ("1", 0), ("2", 1), ("Moth04", 2)]),
        (NUMBERED, "From [1-2] on; `a[0]`, [7] and [note] name nothing.", [("1-2", 0)]),
        (NAMED, "Wick and Stone (1990) say so.", [("Wick and Stone (1990", 0)]),
        (NAMED, "Lamps burn (Wick, 1990; Brown et al., 1993a).", [("Wick, 1990", 1), ("Brown et al., 1993a", 2)]),
        (NAMED, "See Stone and Brown, 1993b, not Brown (1993b) or Moth (2001).", [("Stone and Brown, 1993b", 3)]),
        ([], "As in [2].", []),
    ],
)
def test_markers_name_their_entries(entries: list[str], text: str, expected: list[tuple[str, int]]) -> None:
    assert [(text[one.start : one.end], one.reference) for one in markers(text, entries)] == expected


def info(name: str, title: str = "", source: str = "") -> DocumentInfo:
    return DocumentInfo(name, title, source or name, "markdown", 1, "", f"/docs/{name}")


def test_entries_lead_to_the_document_whose_title_they_hold() -> None:
    infos = [info("a.pdf", "Care of the Pump"), info("b.pdf", "On oil"), info("me.pdf", "A page without a year")]
    infos.append(info("c.pdf", "Care of the pump: a study"))
    assert cited_documents("me.pdf", [NUMBERED[0], *NAMED], infos) == ["a.pdf", "", "", "", "c.pdf", ""]


def test_links_lead_to_documents_of_the_collection_and_nowhere_else() -> None:
    infos = [info(name) for name in ("guide/a.md", "guide/b.md", "guide/more/index.md", "c.md", "../secret.md")]
    infos.append(info("web.md", source="https://example.org/web/"))
    text = (
        '[b](b.md#part) [more](more/) [c](../c.html "C") [web](https://example.org/web#x) [me](a.md) [two][2]\n'
        "[out](../../../etc/passwd) [mail](mailto:a@b.c) [js](javascript:alert(1)) [gone](gone.md) [top](#top)\n\n"
        "[2]: <./b%2Emd>\n"
    )
    assert linked_documents(Document("guide/a.md", "A", text, ()), infos) == {
        "b.md#part": "guide/b.md",
        "more/": "guide/more/index.md",
        "../c.html": "c.md",
        "https://example.org/web#x": "web.md",
        "./b%2Emd": "guide/b.md",
    }


def test_words_that_were_links_lead_to_documents_of_the_collection() -> None:
    infos = [info(name) for name in ("guide/a.html", "guide/b.html", "guide/more/index.html", "top.rst")]
    kept = [[0, 1, "b.html#part"], [2, 3, "more/"], [4, 5, "/top"], [6, 7, "gone.html"], [8, 9, "#here"]]
    document = Document("guide/a.html", "A", "b m t g h", (), {LINKS: json.dumps(kept)})
    assert [tuple(dict(span).values()) for span in linked_spans(document, infos)] == [
        (0, 1, "guide/b.html", "part"),
        (2, 3, "guide/more/index.html", ""),
        (4, 5, "top.rst", ""),
    ]


@pytest.mark.parametrize("kept", ["", "{", "[1]", '[["a", 1, 2]]', "null", "[[1, 2]]"])
def test_links_that_were_not_kept_well_lead_nowhere(kept: str) -> None:
    labelled = DocumentInfo("b.rst", "B", "b.rst", "rst", 1, "", "", labels=kept)
    link = Document("a.rst", "A", "text", (), {LINKS: '[[0, 1, "?ref=a"]]'})
    assert linked_spans(link, [labelled]) == []
    assert linked_spans(Document("a.html", "A", "text", (), {LINKS: kept}), [info("b.html")]) == []
