"""Every kind of construct of every format that is read, in any size: what `bench_loaders` doubles.

A construct is a file of about as many bytes as it is asked for, most of them the construct itself. Some are what a
large honest file holds, others what hurts a parser.
"""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.constructs.docx import DOCX
from benchmarks.constructs.html import HTML
from benchmarks.constructs.making import Make
from benchmarks.constructs.markdown import MARKDOWN, MDX
from benchmarks.constructs.pdf import PDF
from benchmarks.constructs.plain import CORPUS, TEXT
from benchmarks.constructs.rst import RST

CONSTRUCTS: Mapping[str, Mapping[str, Make]] = {
    ".md": MARKDOWN,
    ".mdx": MDX,
    ".html": HTML,
    ".rst": RST,
    ".txt": TEXT,
    ".docx": DOCX,
    ".pdf": PDF,
    ".jsonl": CORPUS,
}
