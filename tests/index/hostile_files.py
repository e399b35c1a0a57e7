"""Files made to hurt whoever reads them, as small as they can be: name → how it is made."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping


def merge_keys(levels: int = 25) -> bytes:
    """Front matter whose every level stands for three of the one before."""
    lines = [f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}, *a{n - 1}], b{n}: 1}}" for n in range(1, levels)]
    return "\n".join(["---", "a0: &a0 {k: 1}", *lines, "---", "# Hi", "", "Words of the page."]).encode()


def swollen_docx(mebibytes: int = 120) -> bytes:
    """A document of one paragraph, many times: a five-hundredth of that on disk."""
    paragraph = b"<w:p><w:r><w:t>a</w:t></w:r></w:p>"
    blank = paragraph * ((1 << 20) // len(paragraph))
    head = '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>'
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.writestr(
            "[Content_Types].xml",
            '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="xml" '
            'ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>',
        )
        archive.writestr(
            "_rels/.rels",
            '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship '
            'Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
            'Target="word/document.xml"/></Relationships>',
        )
        with archive.open("word/document.xml", "w") as part:
            part.write(head.encode())
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


HOSTILE: Mapping[str, Callable[[], bytes]] = {
    "merge-keys.md": merge_keys,
    "swollen.docx": swollen_docx,
    "corpus.jsonl": many_numbers,
    "lists.html": nested_lists,
    "inline.rst": inline_markup,
    "targets.rst": targets,
    "table.html": wide_table,
}
