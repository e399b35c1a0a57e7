"""Files made to hurt whoever reads them, as small as they can be, each with what reading it may take.

What is read, or refused in words, must stay within its seconds of processor time and its MiB; what is given up was
stopped by the limits of the parser's process. Seconds are some ten times what they are on an idle machine.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from benchmarks.constructs import CONSTRUCTS
from benchmarks.constructs.docx import HEAD, RELATIONS, TYPES, docx
from benchmarks.constructs.pdf import pdf

# The memory of the parser's process in the tests: more than any file here needs that is read.
SMALL_MB = 400


def merge_keys(levels: int = 25) -> bytes:
    """Front matter whose every level stands for three of the one before."""
    lines = [f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}, *a{n - 1}], b{n}: 1}}" for n in range(1, levels)]
    return "\n".join(["---", "a0: &a0 {k: 1}", *lines, "---", "# Hi", "", "Words of the page."]).encode()


def swollen_docx(mebibytes: int = 120) -> bytes:
    """A document of one paragraph, many times: a five-hundredth of that on disk."""
    paragraph = b"<w:p><w:r><w:t>a</w:t></w:r></w:p>"
    blank = paragraph * ((1 << 20) // len(paragraph))
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.writestr("[Content_Types].xml", TYPES)
        archive.writestr("_rels/.rels", RELATIONS)
        with archive.open("word/document.xml", "w") as part:
            part.write(HEAD)
            for _ in range(mebibytes):
                part.write(blank)
            part.write(b"</w:body></w:document>")
    return made.getvalue()


def many_numbers(count: int = 8_000_000) -> bytes:
    """A row whose numbers take eight times its size in memory."""
    return b'{"_id": "1", "text": "Words of the page.", "metadata": {"n": [' + b"1.5," * count + b"1]}}"


def nested_lists(count: int = 32_000) -> bytes:
    """Lists in lists, never closed."""
    return b"<p>Words of the page.</p>" + b"<ol><li>" * count


def inline_markup(count: int = 34_000) -> bytes:
    """Marks that may each begin something and never end it."""
    return b"Words of the page.\n\n" + b"\n".join(b"*a `b |c :d: " * 8 for _ in range(count // 104))


def targets(count: int = 30_000) -> bytes:
    """Link targets, each compared with all others."""
    return b"Words of the page.\n\n" + b"".join(
        b".. _target %d: https://example.org/%d\n" % (n, n) for n in range(count)
    )


def wide_table(rows: int = 3_000, columns: int = 40) -> bytes:
    """A table of many cells."""
    row = b"<tr>" + b"<td>cell</td>" * columns + b"</tr>"
    return b"<p>Words of the page.</p><table>" + row * rows + b"</table>"


def false_sizes() -> bytes:
    """A Word document that unpacks to more than its directory says."""
    made = bytearray(docx("<w:p><w:r><w:t>" + "a" * 100_000 + "</w:t></w:r></w:p>"))
    entry = made.rindex(b"PK\x01\x02")
    made[entry + 24 : entry + 28] = (64).to_bytes(4, "little")
    return bytes(made)


def entities(levels: int = 20) -> bytes:
    """XML whose every entity stands for ten of the one before."""
    lines = [f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, levels)]
    head = f'<!DOCTYPE d [<!ENTITY e0 "words ">{"".join(lines)}<!ENTITY x SYSTEM "file:///etc/passwd">]>'
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("[Content_Types].xml", TYPES)
        archive.writestr("_rels/.rels", RELATIONS)
        body = f"<w:p><w:r><w:t>&e{levels - 1};&x;</w:t></w:r></w:p></w:body></w:document>"
        archive.writestr("word/document.xml", head.encode() + HEAD + body.encode())
    return made.getvalue()


def swollen_page(mebibytes: int = 256) -> bytes:
    """A page packed twice: a millionth of its size on disk."""
    packer, inner = zlib.compressobj(9), bytearray()
    for _ in range(mebibytes):
        inner += packer.compress(b" " * (1 << 20))
    content = zlib.compress(bytes(inner + packer.flush()), 9)
    stream = b"<</Length %d/Filter[/FlateDecode/FlateDecode]>>stream\n%s\nendstream" % (len(content), content)
    return pdf([b""], {5: stream})


def circles() -> bytes:
    """A PDF whose pages, bookmarks and forms hold themselves."""
    box = b"<</Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</F 9 0 R>>>>/Length 4>>"
    form = box + b"stream\n/F Do\nendstream"
    page = (
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 5 0 R"
        b"/Resources<</Font<</F1 3 0 R>>/XObject<</F 9 0 R>>>>>>"
    )
    marks = b"<</Title(Circle)/Parent 8 0 R/First 8 0 R/Last 8 0 R/Next 8 0 R/Dest[4 0 R/Fit]>>"
    pages = b"<</Type/Pages/Count 1000000000/Kids[4 0 R 2 0 R 2 0 R]/Parent 2 0 R>>"
    content = b"BT /F1 9 Tf 50 700 Td (Words of the page) Tj ET /F Do"
    return pdf([content], {2: pages, 4: page, 8: marks, 9: form}, b"/Outlines 8 0 R")


@dataclass(frozen=True, slots=True)
class Hostile:
    """How a file is made, what becomes of it, and what that may take: processor seconds, MiB of memory."""

    make: Callable[[], bytes]
    becomes: Literal["read", "refused", "given up"] = "read"
    seconds: float = 5.0
    memory_mb: int = 250


def construct(ending: str, name: str, kibibytes: int) -> Callable[[], bytes]:
    """A construct that the benchmark doubles, in one size."""
    return partial(CONSTRUCTS[ending][name], kibibytes << 10)


HOSTILE: Mapping[str, Hostile] = {
    "merge-keys.md": Hostile(merge_keys, "given up"),
    "nested-front-matter.md": Hostile(construct(".md", "nested front matter", 60)),
    "quotes.md": Hostile(construct(".md", "nested quotes", 1024)),
    "lists.md": Hostile(construct(".md", "quotes and lists", 256)),
    "stars.md": Hostile(construct(".md", "comment and stars", 64)),
    "links.md": Hostile(construct(".md", "comment and brackets", 64)),
    "backticks.md": Hostile(construct(".md", "backticks", 256)),
    "containers.md": Hostile(construct(".md", "open containers", 64)),
    "row.md": Hostile(construct(".md", "wide row", 256)),
    "lists.html": Hostile(partial(nested_lists, 4_000), "refused"),
    "closings.html": Hostile(lambda: b"<p>Words</p>" + b"<div>" * 9_000 + b"</b>" * 20_000, "refused"),
    "numbered.html": Hostile(construct(".html", "list", 64), seconds=8.0),
    "table.html": Hostile(partial(wide_table, 300), seconds=8.0),
    "heads.html": Hostile(construct(".html", "table with a head", 64), seconds=8.0),
    "blanks.html": Hostile(lambda: b"<p>a" + b"\t" * 200_000 + b"b", "given up"),
    "scripts.html": Hostile(construct(".html", "scripts", 64), seconds=8.0),
    "names.html": Hostile(lambda: b"<p>Words</p><soup>a</soup><fn-cache>b</fn-cache><ol start='\xc2\xb2'><li>c"),
    "inline.rst": Hostile(partial(inline_markup, 15_000), seconds=8.0),
    "targets.rst": Hostile(partial(targets, 10_000), seconds=8.0),
    "substitutions.rst": Hostile(
        lambda: b"|s0|\n\n" + b"".join(b".. |s%d| replace:: |s%d| |s%d|\n" % (n, n + 1, n + 1) for n in range(40)),
        "refused",
    ),
    "lists.rst": Hostile(construct(".rst", "nested lists", 512), "refused", memory_mb=400),
    "line.rst": Hostile(lambda: b"*a `b |c " * 20_000, "refused"),
    "swollen.docx": Hostile(swollen_docx, "given up", memory_mb=SMALL_MB),
    "false-sizes.docx": Hostile(false_sizes, "refused"),
    "entities.docx": Hostile(entities, "refused", memory_mb=SMALL_MB),
    "tables.docx": Hostile(construct(".docx", "nested tables", 256), "refused"),
    "tabs.docx": Hostile(construct(".docx", "tabs", 64), seconds=10.0),
    "circles.pdf": Hostile(circles),
    "bookmarks.pdf": Hostile(construct(".pdf", "bookmarks that name nothing", 600)),
    "arrays.pdf": Hostile(construct(".pdf", "nested arrays", 1024), "refused"),
    "swollen.pdf": Hostile(swollen_page, "refused"),
    "numbers-corpus.jsonl": Hostile(many_numbers, "given up", memory_mb=SMALL_MB),
    "nested-corpus.jsonl": Hostile(construct(".jsonl", "nested", 1024)),
    "digits-corpus.jsonl": Hostile(construct(".jsonl", "long number", 1024), "refused"),
    "half-a-character.txt": Hostile(lambda: "Words of the page, Zürich".encode()[:-3] + b"\xf0\x9f"),
    "odd-utf-16.txt": Hostile(
        lambda: b"\xff\xfe" + ("Words of the page " * 20 + "\ud800").encode("utf-16-le", "surrogatepass") + b"a"
    ),
    "short-utf-32.txt": Hostile(lambda: b"\xff\xfe\x00\x00" + b"\xff\xff\xff\xff" * 9, "refused"),
    "zeros.txt": Hostile(lambda: bytes(1 << 20), "refused"),
    "binary.txt": Hostile(lambda: bytes(range(256)) * 4_000, "refused"),
    "escapes.txt": Hostile(lambda: b"Words " * 99 + b"\x1b]0;owned\x07 \xe2\x80\xae"),
    "utf-7.html": Hostile(lambda: b"<meta charset=utf-7><p>Words +ADw-script+AD4-x+ADw-/script+AD4-"),
    "no-charset.html": Hostile(lambda: b"<meta charset=idna><p>Words \xff of the page \xe9\xe8"),
}
