"""Constructs of reStructuredText."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from benchmarks.constructs.making import WORDS, Make, indented, repeated


def _grid(size: int, columns: int = 4) -> bytes:
    rule, row = "+------" * columns + "+\n", "| cell " * columns + "|\n"
    return (WORDS + rule + (row + rule) * max(1, size // len(row + rule))).encode()


def _grid_wide(size: int) -> bytes:
    columns = max(1, size // 21)
    return _grid(0, columns)


def _simple(size: int) -> bytes:
    rule = "====  ====\n"
    return (WORDS + rule + "one   two\n" * max(1, size // 10) + rule).encode()


RST: Mapping[str, Make] = {
    "paragraphs": repeated("Some words make a sentence. Others make another.\n\n"),
    "one paragraph": repeated("Some words make a sentence, on and on and on.\n"),
    "inline openings": repeated("*a `b |c :d: \n"),
    "emphasis": repeated("*a* **b** ``c``\n"),
    "stars": repeated("*a\n"),
    "double stars": repeated("**a\n"),
    "backticks": repeated("`a\n"),
    "double backticks": repeated("``a\n"),
    "bars": repeated("|a\n"),
    "roles": repeated(":ref:`a`\n"),
    "unknown roles": repeated(":unheard:`a`\n"),
    "role openings": repeated(":a:`b\n"),
    "links": repeated("`a %d <https://example.org/%d>`__\n"),
    "named links": repeated("`a %d <https://example.org/%d>`_\n"),
    "references": repeated("a%d_\n"),
    "references to one": repeated("a_\n", after="\n.. _a: https://example.org\n"),
    "footnote references": repeated("[1]_\n", after="\n.. [1] note\n"),
    "automatic footnotes": repeated("[#]_\n\n.. [#] note\n\n"),
    "open footnotes": repeated("[#a%d]_\n"),
    "citations": repeated("[A%d]_\n\n.. [A%d] note\n\n"),
    "inline targets": repeated("_`a %d`\n"),
    "addresses": repeated("https://example.org/%d \n"),
    "mail addresses": repeated("a@b.c \n"),
    "at signs": repeated("a@"),
    "mail without end": repeated("a.", before=WORDS),
    "address without end": repeated("a/b\n", before=WORDS + "http://"),
    "colons": repeated(":a"),
    "underscores": repeated("a_ "),
    "targets": repeated(".. _target %d: https://example.org/%d\n"),
    "targets alone": repeated(".. _target %d:\n\n"),
    "targets and words": repeated(".. _target %d:\n\nWords.\n\n"),
    "chained targets": repeated(".. _t%d: t%d_\n"),
    "same targets": repeated(".. _target: https://example.org/%d\n"),
    "anonymous targets": repeated("a__\n\n__ https://example.org/%d\n\n"),
    "substitutions": repeated(".. |a%d| replace:: word\n"),
    "substitutions used": repeated("|a| \n", after="\n.. |a| replace:: word\n"),
    "substitutions undefined": repeated("|a%d|\n"),
    "comments": repeated(".. comment\n\n"),
    "list": repeated("* item %d\n"),
    "loose list": repeated("* item %d\n\n"),
    "numbered list": lambda size: b"".join(b"%d. item\n" % n for n in range(1, max(2, size // 12))),
    "automatic list": repeated("#. item\n"),
    "nested lists": partial(indented, "* item\n\n"),
    "nested lists in a line": repeated("* "),
    "nested numbers in a line": repeated("1. "),
    "nested quotes": partial(indented, "words\n\n"),
    "definitions": repeated("term %d\n  words\n\n"),
    "nested definitions": partial(indented, "term\n"),
    "fields": repeated(":field %d: words\n"),
    "nested fields": repeated(":a: "),
    "options": repeated("-a  words\n"),
    "long option": repeated("-a, ", after="-b  words\n"),
    "line blocks": repeated("| words\n"),
    "nested line blocks": partial(indented, "| a\n"),
    "literal blocks": repeated("a::\n\n    code\n\n"),
    "long literal block": repeated("    code\n", before=WORDS + "::\n\n"),
    "quoted literal block": repeated("> code\n", before=WORDS + "::\n\n"),
    "doctests": repeated(">>> 1\n1\n\n"),
    "grid table": _grid,
    "wide grid table": _grid_wide,
    "grid tables": repeated("+---+\n| a |\n+---+\n\n"),
    "simple table": _simple,
    "simple tables": repeated("===  ===\na    b\n===  ===\n\n"),
    "wide simple table": lambda size: (
        WORDS.encode() + b"\n".join((b"=  " * (size // 9), b"a  " * (size // 9), b"=  " * (size // 9))) + b"\n"
    ),
    "broken grid table": repeated("| a |\n", before=WORDS + "+---+\n"),
    "broken simple table": repeated("a    b\n", before=WORDS + "===  ===\n"),
    "sections": repeated("Heading %d\n============\n\nWords.\n\n"),
    "same sections": repeated("Heading\n=======\n\nWords.\n\n"),
    "overlined sections": repeated("=========\nHeading %d\n=========\n\nWords.\n\n"),
    "sections in levels": repeated("A\n=\n\nB\n-\n\nC\n~\n\nWords.\n\n"),
    "sections inconsistent": repeated("A\n=\n\nB\n-\n\nC\n~\n\nD\n=\n\nE\n~\n\n"),
    "short underlines": repeated("Heading\n===\n\nWords.\n\n"),
    "transitions": repeated("Words.\n\n-----\n\n"),
    "directives": repeated(".. note:: Words.\n\n"),
    "nested directives": partial(indented, ".. note::\n\n", step="   "),
    "nested notes in a line": repeated(".. note:: "),
    "unknown directives": repeated(".. unheard:: a\n\n   Words.\n\n"),
    "unknown directives alone": repeated(".. unheard:: a\n"),
    "functions": repeated(".. function:: run%d(x)\n\n   Runs it.\n\n"),
    "code blocks": repeated(".. code-block:: python\n\n   x = 1\n\n"),
    "toctrees": repeated(".. toctree::\n\n   other\n\n"),
    "csv tables": repeated("   a, b\n", before=WORDS + ".. csv-table::\n\n"),
    "list tables": repeated("   * - a\n     - b\n", before=WORDS + ".. list-table::\n\n"),
    "contents": repeated("Heading %d\n==========\n\n", before=WORDS + ".. contents::\n\n"),
    "mathematics": repeated(":math:`a^%d`\n"),
    "mathematics blocks": repeated(".. math:: a\n\n"),
    "pictures": repeated(".. image:: a.png\n\n"),
    "class directives": repeated(".. class:: a\n\n"),
    "roles defined": repeated(".. role:: a%d\n\n"),
    "meta": repeated("   :a: b\n", before=WORDS + ".. meta::\n"),
    "field lists at the top": repeated(":a%d: b\n", before=""),
    "unexpected indentation": repeated("a\n  b\nc\n"),
    "one line": repeated("word word word word word word\n" * 100 + "\n"),
    "long lines": repeated("word " * 1_900 + "\n\n"),
    "long words": repeated("x" * 9_900 + "\n\n"),
    "long lines of stars": repeated("*" * 9_900 + "\n\n"),
    "long lines of openings": repeated("*a `b |c " * 1_100 + "\n\n"),
    "long lines of colons": repeated(":a" * 4_900 + "\n\n"),
    "long lines of dots": repeated("a." * 4_900 + "\n\n"),
    "long lines of dashes": repeated("-a " * 3_300 + "\n\n"),
    "long lines of hyphens": repeated("a-" * 4_900 + "\n\n"),
    "long lines of brackets": repeated("[a" * 4_900 + "\n\n"),
    "long lines of angles": repeated("`a <b " * 1_600 + "\n\n"),
    "long lines of at signs": repeated("a@b." * 2_400 + "\n\n"),
    "long lines of slashes": repeated("a:/" * 3_200 + "\n\n"),
    "long lines of underscores": repeated("a_" * 4_900 + "\n\n"),
    "long lines of blanks": repeated("a" + " " * 9_900 + "b\n\n"),
}
