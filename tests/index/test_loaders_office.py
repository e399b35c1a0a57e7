"""DOCX and PDF: structure, pages, and files that are broken, locked, empty or a trap."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas

from index.documents import Document
from index.errors import LoadError
from index.loaders import load
from index.loaders.pdf import join_lines
from index.passages import split

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def paragraph(text: str, style: str = "") -> str:
    properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f'<w:p>{properties}<w:r><w:t xml:space="preserve">{escape(text)}</w:t></w:r></w:p>'


def table(*rows: tuple[str, ...]) -> str:
    cells = ["".join(f"<w:tc>{paragraph(cell)}</w:tc>" for cell in row) for row in rows]
    return f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in cells)}</w:tbl>"


def docx(body: str, doctype: str = "", **members: bytes) -> bytes:
    """A Word file with nothing in it but the parts a reader needs."""
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="{name.replace(" ", "")}"><w:name w:val="{name}"/></w:style>'
        for name in ("Title", "heading 1", "heading 2")
    )
    content = "application/vnd.openxmlformats-officedocument.wordprocessingml"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types">'
        f'<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/word/document.xml" ContentType="{content}.document.main+xml"/>'
        f'<Override PartName="/word/styles.xml" ContentType="{content}.styles+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="r1" '
        f'Type="{OFFICE}/officeDocument" Target="word/document.xml"/></Relationships>',
        "word/_rels/document.xml.rels": f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="r1" '
        f'Type="{OFFICE}/styles" Target="styles.xml"/></Relationships>',
        "word/styles.xml": f'<w:styles xmlns:w="{WORD}">{styles}</w:styles>',
        "word/document.xml": f'{doctype}<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>',
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def loaded(folder: Path, data: bytes, name: str) -> Document:
    path = folder / name
    path.write_bytes(data)
    (document,) = load(path, name)
    return document


def pdf(pages: list[list[str]], title: str = "", **options: object) -> bytes:
    """A PDF with one text line below the other; a line `# words` is bookmarked as a heading."""
    buffer = io.BytesIO()
    canvas = Canvas(buffer, **options)  # type: ignore[arg-type]
    canvas.setTitle(title)
    for page in pages:
        for number, line in enumerate(page):
            words = line.removeprefix("# ")
            if words != line:
                canvas.bookmarkPage(words)
                canvas.addOutlineEntry(words, words)
            canvas.drawString(72, 780 - 16 * number, words)
        canvas.showPage()
    canvas.save()
    return buffer.getvalue()


def test_docx_headings_and_tables_are_kept(tmp_path: Path) -> None:
    body = "".join(
        [
            paragraph("Travel rules", "Title"),
            paragraph("Who may travel."),
            paragraph("Refunds", "heading1"),
            paragraph("Keep <all> receipts & tickets."),
            paragraph("By train", "heading2"),
            table(("class", "paid"), ("first", "no")),
        ]
    )
    document = loaded(tmp_path, docx(body), "rules.docx")
    assert document.title == "Travel rules"
    assert document.metadata == {"source": "rules.docx", "format": "docx"}
    assert [(part.heading, document.text[part.start : part.end]) for part in document.sections[:2]] == [
        ((), "Who may travel."),
        (("Refunds",), "Keep <all> receipts & tickets."),
    ]
    assert document.sections[2].heading == ("Refunds", "By train")
    assert "| first | no |" in document.text


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    bomb = docx(paragraph("x"), **{"word/huge.xml": bytes(200 * 1024 * 1024)})
    assert len(bomb) < 1_000_000
    with pytest.raises(LoadError, match=r"would unpack to 200 MiB .* looks like a zip bomb"):
        loaded(tmp_path, bomb, "bomb.docx")


def test_entities_that_multiply_or_point_outside_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("hunter2")
    steps = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    laughs = docx(paragraph("MARK").replace("MARK", "&e11;"), f'<!DOCTYPE d [<!ENTITY e0 "ha">{steps}]>')
    with pytest.raises(LoadError, match=r"laughs\.docx is broken"):
        loaded(tmp_path, laughs, "laughs.docx")
    outside = f'<!DOCTYPE d [<!ENTITY s SYSTEM "file://{tmp_path}/secret.txt">]>'
    document = loaded(
        tmp_path, docx(paragraph("Seen.") + paragraph("MARK").replace("MARK", "&s;"), outside), "out.docx"
    )
    assert document.text == "Seen."


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (docx(""), "holds no text, only pictures or nothing"),
        (docx(paragraph("x"))[:-300], "is broken: it is no DOCX"),
        (docx(paragraph("x").replace("</w:p>", "")), "is broken: it is no DOCX"),
        (b"\xd0\xcf\x11\xe0" + bytes(500), "is encrypted or in the old Word format"),
        (b"just text", "is broken: it is no DOCX"),
    ],
    ids=["empty", "cut", "malformed", "old", "text"],
)
def test_a_docx_that_cannot_be_read_says_why(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(LoadError, match=message):
        loaded(tmp_path, data, "a.docx")


def test_a_zip_of_something_else_is_no_docx(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.txt", "x")
    with pytest.raises(LoadError, match="is a zip archive but no Word document"):
        loaded(tmp_path, buffer.getvalue(), "a.docx")


def test_pdf_sections_carry_pages_and_bookmarked_headings(tmp_path: Path) -> None:
    pages = [
        ["First words.", "# Refunds", "Keep the receipts."],
        ["They count.", "# By train", "First class is not paid."],
    ]
    document = loaded(tmp_path, pdf(pages, "Travel rules"), "rules.pdf")
    assert document.title == "Travel rules"
    assert document.metadata == {"source": "rules.pdf", "format": "pdf", "pages": 2}
    assert [(part.heading, document.text[part.start : part.end], part.page) for part in document.sections] == [
        ((), "First words.", 1),
        (("Refunds",), "Keep the receipts.", 1),
        (("Refunds",), "They count.", 2),
        (("By train",), "First class is not paid.", 2),
    ]
    for passage in split(document, 20, lambda text: len(text.split())):
        assert document.text[passage.start : passage.end] == passage.text
        assert passage.page is not None


@pytest.mark.parametrize(
    ("broken", "joined"),
    [
        ("the docu-\nments are", "the documents are"), ("the docu\u00ad\nments", "the documents"),
        ("the docu\ufffements", "the documents"), ("Anglo-\nSaxon", "Anglo-\nSaxon"), ("pages 3-\n5", "pages 3-\n5"),
        ("a -\nb", "a -\nb"), ("one\ntwo", "one\ntwo"),
    ],
)  # fmt: skip
def test_words_broken_at_line_ends_are_joined(broken: str, joined: str) -> None:
    assert join_lines(broken) == joined


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (pdf([["x"]])[:200], "is broken"),
        (b"%PDF-1.7\n" + bytes(500), "is broken"),
        (b"no pdf at all", "is broken or no PDF"),
        (pdf([[], []]), "has 2 pages and no text in them: .*Tesseract"),
        (pdf([["x"]], encrypt=StandardEncryption("secret")), "is encrypted and needs a password"),
    ],
    ids=["cut", "hollow", "text", "scanned", "locked"],
)
def test_a_pdf_that_cannot_be_read_says_why(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(LoadError, match=message):
        loaded(tmp_path, data, "a.pdf")
