"""reStructuredText: docutils' reading of it, Sphinx's words, and nothing from outside the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from index.documents import LABELS, LINKS, Document
from index.errors import LoadError
from index.loaders import load
from index.records import DocumentInfo
from server.chat.documents import linked_spans

SOURCE = """\
Guide
=====

Read :ref:`the other page <other>` and :func:`~pkg.run`, or :unheard:`this`.

.. contents::
.. toctree::

   other

Install
-------

.. code-block:: python

   x = 1  # not. a heading

.. note:: Mind this.

.. versionadded:: 3.2
   The ``--fast`` flag.

.. unheard:: argument
   :option: 1

   Its content.

.. function:: run(x, y=None)

   Runs it over |thing|.

.. |thing| replace:: everything

====  ====
Name  Role
====  ====
Ann   cook
====  ====

Term
   What it means.

On Linux
~~~~~~~~

::

    literal block

Use
---
The end.
"""


def loaded(folder: Path, source: str) -> Document:
    path = folder / "guide.rst"
    path.write_text(source, encoding="utf-8")
    (document,) = load(path, "guide.rst")
    return document


def text_under(document: Document, *heading: str) -> str:
    return "\n".join(document.text[part.start : part.end] for part in document.sections if part.heading == heading)


def test_sections_tables_and_code_are_kept(tmp_path: Path) -> None:
    document = loaded(tmp_path, SOURCE)
    assert document.title == "Guide"
    assert document.metadata == {"source": "guide.rst", "format": "rst", LINKS: '[[14, 28, "?ref=other"]]'}
    assert [section.heading for section in document.sections] == [
        (), ("Install",), ("Install", "On Linux"), ("Use",),
    ]  # fmt: skip
    install = text_under(document, "Install")
    assert "```python\nx = 1  # not. a heading\n```" in install
    assert "| Ann | cook |" in install
    assert "literal block" in text_under(document, "Install", "On Linux")
    assert text_under(document, "Use") == "The end."


def test_sphinx_is_read_for_its_words(tmp_path: Path) -> None:
    document = loaded(tmp_path, SOURCE)
    assert text_under(document) == "Read the other page and `pkg.run`, or :unheard:`this`."
    install = text_under(document, "Install")
    for words in (
        "Mind this.",
        "Added in version 3.2 The `--fast` flag.",
        "run(x, y=None)",
        "Runs it over everything.",
    ):
        assert words in install
    assert "Its content." in install
    assert "toctree" not in document.text


def test_nothing_outside_the_file_is_read_and_nothing_raw_gets_in(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("hunter2")
    (tmp_path / "docutils.conf").write_text("[general]\nfile_insertion_enabled: yes\nraw_enabled: yes\n")
    document = loaded(
        tmp_path,
        f"""\
Words.

.. include:: secret.txt
.. literalinclude:: secret.txt
.. include:: {tmp_path}/secret.txt
   :literal:
.. csv-table::
   :file: {tmp_path}/secret.txt
.. csv-table::
   :url: file://{tmp_path}/secret.txt
.. raw:: html

   <script>steal()</script>

.. raw:: html
   :file: {tmp_path}/secret.txt

.. role:: evil(raw)
   :format: html

:evil:`<b onclick=steal()>`
""",
    )
    assert "hunter2" not in document.text
    assert "<script>" not in document.text
    assert document.text.startswith("Words.")


def test_faulty_markup_loses_no_words(tmp_path: Path) -> None:
    document = loaded(
        tmp_path, "Title\n===\n\n*unclosed and `half\n\n    indented\n  less\n\n.. image::\n\nLast words.\n"
    )
    for words in ("unclosed and", "half", "indented", "less", "Last words."):
        assert words in document.text
    assert "System Message" not in document.text


@pytest.mark.parametrize(
    ("source", "message"),
    [("x" * 20_000, "a line of 20000 characters"), (".. toctree::\n\n   a\n", "no text besides directives")],
)
def test_what_cannot_be_read_says_why(tmp_path: Path, source: str, message: str) -> None:
    with pytest.raises(LoadError, match=message):
        loaded(tmp_path, source)


@pytest.mark.timeout(90)
def test_nesting_without_end_is_an_error_not_a_crash(tmp_path: Path) -> None:
    source = "\n".join(f"{' ' * 2 * depth}* item" + "\n" for depth in range(700))
    with pytest.raises(LoadError, match=r"guide\.rst is not reStructuredText that can be parsed \(RecursionError"):
        loaded(tmp_path, source)


def test_links_to_pages_are_kept_beside_their_words(tmp_path: Path) -> None:
    path = tmp_path / "a.rst"
    path.write_text("Title\n=====\n\n:doc:`/guide/setup`, :doc:`the rest <more>` or `that <b.html>`_ and `gone`_.\n")
    (document,) = load(path, "a.rst")
    kept = json.loads(str(document.metadata[LINKS]))
    assert [(document.text[start:end], address) for start, end, address in kept] == [
        ("/guide/setup", "/guide/setup"),
        ("the rest", "more"),
        ("that", "b.html"),
    ]


def test_labels_lead_from_one_page_to_the_heading_of_another(tmp_path: Path) -> None:
    (tmp_path / "a.rst").write_text("Start\n=====\n\nSee :ref:`Set-Up`, :ref:`the words <some words>`, :ref:`gone`.\n")
    (tmp_path / "b.rst").write_text(
        ".. _top:\n\nTitle\n=====\n\nText.\n\n.. _some words:\n\nWords.\n\n"
        ".. _set-up:\n.. _again:\n\nSet it up\n---------\n\nSo.\n"
    )
    (a,), (b,) = (load(tmp_path / name, name) for name in ("a.rst", "b.rst"))
    labels = str(b.metadata[LABELS])
    assert json.loads(labels) == {"top": "", "some words": "", "set-up": "set-it-up", "again": "set-it-up"}
    infos = [DocumentInfo("b.rst", "B", "b.rst", "rst", 1, "", "", labels=labels)]
    assert [(a.text[link.start : link.end], link.document_id, link.anchor) for link in linked_spans(a, infos)] == [
        ("Set-Up", "b.rst", "set-it-up"),
        ("the words", "b.rst", ""),
    ]


def test_what_one_file_declares_is_unknown_in_the_next(tmp_path: Path) -> None:
    plain = "Title\n=====\n\nRead :shout:`this` aloud.\n"
    declaring = plain.replace("Read", ".. role:: shout\n\nRead")
    assert "Read this aloud." in loaded(tmp_path, declaring).text
    assert "Read :shout:`this` aloud." in loaded(tmp_path, plain).text
