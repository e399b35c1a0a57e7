"""Constructs of Word documents."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from functools import partial

from benchmarks.constructs.making import Make, again, both

HEAD = b'<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>'
TYPES = (
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="xml" '
    'ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>'
)
RELATIONS = (
    '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" '
    'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
    'Target="word/document.xml"/></Relationships>'
)


def docx(body: str | bytes) -> bytes:
    """A Word document of this body."""
    body = body.encode() if isinstance(body, str) else body
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("[Content_Types].xml", TYPES)
        archive.writestr("_rels/.rels", RELATIONS)
        archive.writestr("word/document.xml", HEAD + body + b"</w:body></w:document>")
    return made.getvalue()


def _paragraph(words: str) -> str:
    return f"<w:p><w:r><w:t>{words}</w:t></w:r></w:p>"


def _again(unit: str, size: int, before: str = "", after: str = "") -> bytes:
    return docx(again(unit, size, _paragraph("Words of the page.") + before, after))


def _both(opening: str, closing: str, size: int) -> bytes:
    return docx(both(opening, closing, size, _paragraph("Words of the page.")).replace(b"deep words", b""))


def _wide(size: int) -> bytes:
    cell = f"<w:tc>{_paragraph('cell')}</w:tc>"
    return _again(cell, size, "<w:tbl><w:tr>", "</w:tr></w:tbl>")


DOCX: Mapping[str, Make] = {
    "paragraphs": partial(_again, _paragraph("Some words make a sentence. Others make another.")),
    "empty paragraphs": partial(_again, "<w:p/>"),
    "one word": lambda size: docx(again("x", size, "<w:p><w:r><w:t>", "</w:t></w:r></w:p>")),
    "one line": lambda size: docx(again("words without end ", size, "<w:p><w:r><w:t>", "</w:t></w:r></w:p>")),
    "runs": lambda size: docx(again("<w:r><w:t>word </w:t></w:r>", size, "<w:p>", "</w:p>")),
    "bold runs": lambda size: docx(again("<w:r><w:rPr><w:b/></w:rPr><w:t>a</w:t></w:r>", size, "<w:p>", "</w:p>")),
    "mixed runs": lambda size: docx(
        again("<w:r><w:rPr><w:b/></w:rPr><w:t>a</w:t></w:r><w:r><w:rPr><w:i/></w:rPr><w:t>b </w:t></w:r>", size,
               "<w:p>", "</w:p>")
    ),
    "texts of one run": lambda size: docx(again("<w:t>a </w:t>", size, "<w:p><w:r>", "</w:r></w:p>")),
    "tabs": lambda size: docx(again("<w:tab/>", size, "<w:p><w:r><w:t>a</w:t>", "<w:t>b</w:t></w:r></w:p>")),
    "line breaks": lambda size: docx(again("<w:t>a</w:t><w:br/>", size, "<w:p><w:r>", "</w:r></w:p>")),
    "entities": lambda size: docx(again("&lt;&amp;", size, "<w:p><w:r><w:t>", "</w:t></w:r></w:p>")),
    "headings": partial(_again, '<w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr>'
                        "<w:r><w:t>Heading %d</w:t></w:r></w:p>"),
    "list": partial(_again, '<w:p><w:pPr><w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr></w:pPr>'
                    "<w:r><w:t>item</w:t></w:r></w:p>"),
    "list in levels": partial(_again, "".join(
        f'<w:p><w:pPr><w:numPr><w:ilvl w:val="{n}"/><w:numId w:val="1"/></w:numPr></w:pPr><w:r><w:t>a</w:t></w:r></w:p>'
        for n in range(9))),
    "code": partial(_again, '<w:p><w:pPr><w:pStyle w:val="Code"/></w:pPr><w:r><w:t>x = 1</w:t></w:r></w:p>'),
    "table": partial(_again, f"<w:tr><w:tc>{_paragraph('a')}</w:tc><w:tc>{_paragraph('b')}</w:tc></w:tr>",
                     before="<w:tbl>", after="</w:tbl>"),
    "tables": partial(_again, f"<w:tbl><w:tr><w:tc>{_paragraph('a')}</w:tc></w:tr></w:tbl>"),
    "wide table": _wide,
    "nested tables": partial(_both, "<w:tbl><w:tr><w:tc>", "</w:tc></w:tr></w:tbl>"),
    "merged cells": partial(
        _again, f"<w:tr><w:tc><w:tcPr><w:vMerge/></w:tcPr>{_paragraph('a')}</w:tc></w:tr>",
        before="<w:tbl>", after="</w:tbl>"),
    "merged columns": partial(
        _again, f'<w:tr><w:tc><w:tcPr><w:gridSpan w:val="100000"/></w:tcPr>{_paragraph("a")}</w:tc></w:tr>',
        before="<w:tbl>", after="</w:tbl>"),
    "links": lambda size: docx(again('<w:hyperlink w:anchor="a"><w:r><w:t>b</w:t></w:r></w:hyperlink>', size,
                                      "<w:p>", "</w:p>")),
    "bookmarks": lambda size: docx(again('<w:bookmarkStart w:id="1" w:name="a%d"/>', size, "<w:p>",
                                          "<w:r><w:t>a</w:t></w:r></w:p>")),
    "nested content controls": partial(_both, "<w:sdt><w:sdtContent>", "</w:sdtContent></w:sdt>"),
    "nested insertions": lambda size: docx(both("<w:ins>", "</w:ins>", size, "<w:p><w:r><w:t>a</w:t></w:r>")
                                           .replace(b"deep words", b"") + b"</w:p>"),
    "deletions": partial(_again, "<w:p><w:del><w:r><w:delText>a</w:delText></w:r></w:del>"
                         "<w:r><w:t>b</w:t></w:r></w:p>"),
    "deleted paragraphs": partial(_again, "<w:p><w:pPr><w:rPr><w:del/></w:rPr></w:pPr>"
                                  "<w:r><w:t>b</w:t></w:r></w:p>"),
    "fields": lambda size: docx(again('<w:r><w:fldChar w:fldCharType="begin"/></w:r>', size, "<w:p>",
                                       "<w:r><w:t>a</w:t></w:r></w:p>")),
    "field codes": lambda size: docx(again("<w:r><w:instrText>a</w:instrText></w:r>", size, "<w:p>",
                                            "<w:r><w:t>a</w:t></w:r></w:p>")),
    "unknown elements": partial(_again, "<w:unheard/>"),
    "text boxes": partial(_again, "<w:p><w:r><w:pict><w:txbxContent><w:p><w:r><w:t>a</w:t></w:r></w:p>"
                          "</w:txbxContent></w:pict></w:r></w:p>"),
    "symbols": lambda size: docx(again('<w:r><w:sym w:font="Wingdings" w:char="F028"/></w:r>', size, "<w:p>",
                                        "</w:p>")),
    "footnote references": lambda size: docx(again('<w:r><w:footnoteReference w:id="1"/></w:r>', size, "<w:p>",
                                                    "<w:r><w:t>a</w:t></w:r></w:p>")),
}  # fmt: skip
