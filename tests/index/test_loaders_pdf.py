"""Reading the layout of PDFs that are made here: order, tables, what is left out, and where each line stands."""

from __future__ import annotations

import io
import re
import sys
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import psutil
import pytest
from reportlab.lib import colors
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.lib.utils import simpleSplit
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Paragraph, SimpleDocTemplate, Spacer, Table

from index.documents import REFERENCES, Document
from index.errors import IndexingCancelled, LoadError
from index.loaders import load
from index.loaders.pdf.composing import reference_list
from index.loaders.pdf.loading import read
from index.loaders.pdf.recognising import Recogniser, recognised, words_of_line
from index.loaders.reading import RAPIDOCR, find_recogniser
from index.loaders.sandbox import Limits, ParserPool
from index.passages import split

WIDTH, HEIGHT = A4
BODY = ("Times-Roman", 10)
ROWS = [
    ["Format", "Limit", "Remark"],
    ["PDF", "50 MB", "none"],
    ["DOCX", "20 MB", "without macros"],
    ["TXT", "5 MB", ""],
]


def saved(folder: Path, data: bytes) -> Path:
    path = folder / "made.pdf"
    path.write_bytes(data)
    return path


def loaded(folder: Path, data: bytes) -> Document:
    (document,) = load(saved(folder, data), "made.pdf")
    return document


def words(name: str, count: int) -> str:
    return " ".join(f"{name}{n}" for n in range(count))


def two_columns(interleaved: bool) -> tuple[bytes, str]:
    """Two pages with a title across two columns, heads and feet; lines drawn column by column or across. Its text."""
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=A4)
    text = words("word", 1100)
    lines = simpleSplit(text, *BODY, 225)
    at = 0
    for number in (1, 2):
        canvas.setFont("Times-Italic", 8)
        canvas.drawString(60, HEIGHT - 30, "Journal of Made Things, volume 3")
        canvas.drawCentredString(WIDTH / 2, 25, str(number))
        top = HEIGHT - 70
        if number == 1:
            canvas.setFont("Times-Bold", 18)
            canvas.drawCentredString(WIDTH / 2, top, "A Title Across the Page")
            top -= 40
        canvas.setFont(*BODY)
        rows = min(55, (len(lines) - at + 1) // 2)
        drawn = [(60, top - 12 * n, lines[at + n]) for n in range(rows)]
        drawn += [(310, top - 12 * n, line) for n, line in enumerate(lines[at + rows : at + 2 * rows])]
        at += 2 * rows
        for x, y, line in sorted(drawn, key=lambda one: -one[1]) if interleaved else drawn:
            canvas.drawString(x, y, line)
        canvas.showPage()
    assert at >= len(lines)
    canvas.save()
    return buffer.getvalue(), text


def with_table(style: list[object], header: str = "Limits of uploads") -> bytes:
    buffer = io.BytesIO()
    styles = getSampleStyleSheet()
    document = SimpleDocTemplate(buffer, pagesize=A4)
    table = Table(ROWS, colWidths=[80, 90, 140])
    table.setStyle(style)
    prose = "Files above their limit are refused when they are handed in, and whoever hands them in is told why. " * 4
    document.build(
        [
            Paragraph(header, styles["Heading1"]),
            Paragraph(prose, styles["Normal"]),
            Spacer(1, 14),
            table,
            Spacer(1, 14),
            Paragraph("What is refused is not kept. " * 8, styles["Normal"]),
        ]
    )
    return buffer.getvalue()


@pytest.mark.parametrize("interleaved", [False, True])
def test_two_columns_are_read_one_after_the_other_without_head_and_foot(tmp_path: Path, interleaved: bool) -> None:
    data, text = two_columns(interleaved)
    document = loaded(tmp_path, data)
    assert document.title == "A Title Across the Page"
    assert " ".join(document.text.split()) == f"A Title Across the Page {text}"
    kinds = {region.kind for region in read(saved(tmp_path, data), 1 << 20).regions}
    assert kinds == {"header", "title", "text", "footer"}


@pytest.mark.parametrize(
    "style",
    [
        [("GRID", (0, 0), (-1, -1), 0.5, colors.black)],
        [("BOX", (0, 0), (-1, -1), 1, colors.black), ("INNERGRID", (0, 0), (-1, -1), 0.25, colors.grey)],
        [],
        [
            ("LINEABOVE", (0, 0), (-1, 0), 1, colors.black),
            ("LINEBELOW", (0, 0), (-1, 0), 0.5, colors.black),
            ("LINEBELOW", (0, -1), (-1, -1), 1, colors.black),
        ],
    ],
    ids=["grid", "box", "without rules", "level rules"],
)
def test_a_table_keeps_its_cells_and_its_header(tmp_path: Path, style: list[object]) -> None:
    data = with_table(style)
    (table,) = [region for region in read(saved(tmp_path, data), 1 << 20).regions if region.kind == "table"]
    assert [[cell.text for cell in row] for row in table.rows] == ROWS
    document = loaded(tmp_path, data)
    assert "| Format | Limit | Remark |\n| --- | --- | --- |\n| PDF | 50 MB | none |\n| DOCX |" in document.text
    assert document.sections[-1].heading == ("Limits of uploads",) or document.title == "Limits of uploads"
    assert document.text.endswith("What is refused is not kept.")


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_boxes_hold_the_characters_of_their_passages(tmp_path: Path, rotation: int) -> None:
    import pypdfium2

    data, _ = two_columns(interleaved=False)
    pdf = pypdfium2.PdfDocument(data)
    for page in pdf:
        page.set_rotation(rotation)
    buffer = io.BytesIO()
    pdf.save(buffer)
    document = loaded(tmp_path, buffer.getvalue())
    passages = split(document, 60, lambda text: len(text.split()))
    assert len(passages) > 10
    drawn = pypdfium2.PdfDocument(buffer.getvalue())
    for passage in passages:
        inside = ""
        for box in passage.boxes:
            page = drawn[box.page - 1]
            x0, y0, x1, y1 = turned((box.x0, box.y0, box.x1, box.y1), rotation)
            inside += page.get_textpage().get_text_bounded(x0 - 1, y0 - 1, x1 + 1, y1 + 1) + "\n"
        found = set(inside.split())
        assert passage.page == passage.boxes[0].page
        assert set(passage.text.split()) <= found, passage


def turned(box: tuple[float, ...], rotation: int) -> tuple[float, float, float, float]:
    """From the page as it is shown to the file's own space: left, bottom, right, top."""
    x0, y0, x1, y1 = box
    return {
        0: (x0, HEIGHT - y1, x1, HEIGHT - y0),
        90: (y0, x0, y1, x1),
        180: (WIDTH - x1, y0, WIDTH - x0, y1),
        270: (WIDTH - y1, HEIGHT - x1, WIDTH - y0, HEIGHT - x0),
    }[rotation]


def test_references_are_no_evidence_and_what_follows_them_is(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    styles = getSampleStyleSheet()
    parts = [
        ("Results", "The blue one was faster than the others. " * 12),
        ("References", ""),
        ("A. Proofs", "The first lemma holds for all of them. " * 12),
    ]
    story = []
    for heading, text in parts:
        story.append(Paragraph(heading, styles["Heading1"]))
        entries = [text] if text else [f"Author {n}. 199{n}. On colours. In Proceedings of Colours." for n in range(6)]
        story += [Paragraph(entry, styles["Normal"]) for entry in entries]
    SimpleDocTemplate(buffer, pagesize=A4).build(story)
    document = loaded(tmp_path, buffer.getvalue())
    assert "faster" in document.text
    assert "first lemma" in document.text
    assert "On colours" not in document.text
    entries = str(document.metadata[REFERENCES]).splitlines()
    assert entries == [f"Author {n}. 199{n}. On colours. In Proceedings of Colours." for n in range(6)]
    assert not any(REFERENCES in passage.metadata for passage in split(document, 200, lambda text: len(text.split())))


@pytest.mark.parametrize("form", ["labels", "numbers", "indents"])
def test_references_are_told_apart_by_numbers_or_indents(tmp_path: Path, form: str) -> None:
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=A4)
    canvas.setFont("Times-Bold", 14)
    canvas.drawString(60, HEIGHT - 80, "References")
    canvas.setFont(*BODY)
    marks = {"labels": "[{}] ", "numbers": "{}. ", "indents": ""}[form]
    for n in range(5):
        top = HEIGHT - 110 - 36 * n
        canvas.drawString(60, top, f"{marks.format(n + 1)}Author{n}, A. and Other, B. 199{n}. On the colours of lam-")
        canvas.drawString(74 if form == "indents" else 60, top - 12, "ps at night. In Proceedings of Colours.")
    canvas.save()
    entries = reference_list(read(saved(tmp_path, buffer.getvalue()), 1 << 20).regions)
    said = "Author{0}, A. and Other, B. 199{0}. On the colours of lamps at night. In Proceedings of Colours."
    assert entries == [marks.format(n + 1) + said.format(n) for n in range(5)]


@pytest.mark.extended
def test_a_manual_of_500_pages_is_read_within_bounds(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=A4)
    for number in range(500):
        canvas.drawString(60, HEIGHT - 30, "The manual")
        for n in range(8):
            canvas.drawString(60, HEIGHT - 100 - 14 * n, f"Step {n} of part{number} turns the wheel by hand.")
        canvas.drawString(290, 25, str(number + 1))
        canvas.showPage()
    canvas.save()
    with closing(ParserPool(Limits(seconds=120, memory_mb=1024))) as pool:
        (document,) = pool.parse(saved(tmp_path, buffer.getvalue()), "made.pdf", 64).documents
    assert [section.page for section in document.sections] == list(range(1, 501))
    assert "The manual" not in document.text
    assert "Step 7 of part499 turns the wheel by hand." in document.text


def test_pages_that_are_pictures_are_named(tmp_path: Path) -> None:
    from PIL import Image

    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=A4)
    for number in (1, 2, 3):
        if number == 2:
            canvas.drawInlineImage(Image.new("L", (40, 40), 90), 60, 60, WIDTH - 120, HEIGHT - 120)
        else:
            canvas.drawString(60, 600, f"Words of the part{number}.")
        canvas.showPage()
    canvas.save()
    warnings: list[str] = []
    load(saved(tmp_path, buffer.getvalue()), "made.pdf", warn=warnings.append)
    (warning,) = warnings
    assert "1 of 3 pages are pictures without text (2)" in warning


def scanned(pages: int) -> bytes:
    """A page of two columns as its picture, so many times, behind a page that is text."""
    import pypdfium2

    sheet = io.BytesIO()
    canvas = Canvas(sheet, pagesize=A4)
    canvas.setFont("Helvetica-Bold", 18)
    canvas.drawString(60, HEIGHT - 70, "The Wheel of the Mill")
    canvas.setFont("Helvetica", 11)
    for x, name in ((60, "left"), (320, "right")):
        for n in range(12):
            canvas.drawString(x, HEIGHT - 110 - 15 * n, f"The {name} wheel is turned by hand {n + 10}")
    canvas.save()
    picture = pypdfium2.PdfDocument(sheet.getvalue())[0].render(scale=200 / 72).to_pil()
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=A4)
    canvas.drawString(60, 600, "Words of the part that is text.")
    for _ in range(pages):
        canvas.showPage()
        canvas.drawInlineImage(picture, 0, 0, WIDTH, HEIGHT)
    canvas.save()
    return buffer.getvalue()


TESSERACT = pytest.mark.skipif(which("tesseract") is None, reason="Tesseract is not installed")
PACKAGE = (
    pytest.mark.extended,
    pytest.mark.skipif(find_spec(RAPIDOCR) is None, reason="the extra `ocr` is not installed"),
)
BUSY = 600.0
"""Seconds in which a busy machine finds the lines of a page."""


def test_pages_are_read_by_tesseract_or_else_by_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "tesseract"
    program.touch(0o755)
    (tmp_path / "rapidocr.py").touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    assert find_recogniser() == str(program)
    program.unlink()
    assert find_recogniser() == RAPIDOCR
    assert Recogniser(RAPIDOCR, "eng+DEU+chi_sim").problem == ""
    assert re.search("does not read ell, rus .*install Tesseract", Recogniser(RAPIDOCR, "rus+eng+ell").problem)
    monkeypatch.setitem(sys.modules, RAPIDOCR, None)
    assert find_recogniser() == ""
    assert re.search("Tesseract.* is not installed: install it, or the extra `ocr`", Recogniser("").problem)


@pytest.mark.parametrize("program", [pytest.param("tesseract", marks=TESSERACT), pytest.param(RAPIDOCR, marks=PACKAGE)])
def test_a_scanned_page_is_recognised_in_its_columns(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(tmp_path, scanned(1))
    if program == RAPIDOCR:
        monkeypatch.setenv("PATH", str(tmp_path))
    with closing(ParserPool(Limits(seconds=BUSY, ocr_seconds=BUSY))) as pool:
        (document,) = pool.parse(path, "made.pdf", 64).documents
    assert document.metadata["recognised_pages"] == 1
    text = " ".join(document.text.split())
    sides = [[f"The {side} wheel is turned by hand {n + 10}" for n in range(12)] for side in ("left", "right")]
    left, right = map(" ".join, sides)
    assert text.index("The Wheel of the Mill") < text.index(left) < text.index(right)
    regions = read(path, 1 << 20, Recogniser(program, seconds=BUSY, page_seconds=BUSY)).regions
    title = next(region for region in regions if region.text == "The Wheel of the Mill")
    assert title.kind == "title"
    assert title.box == pytest.approx([60, 57, 239, 74], abs=4)


def test_words_of_a_line_stand_where_their_letters_were_read_and_slope_with_it() -> None:
    corners = [(10, 100), (110, 110), (110, 130), (10, 120)]
    read = words_of_line([["a", "b"], ["<c", ">"], ["d"]], [[0, 3], [11, 14], [19]], 20, corners)
    assert [(one.text, one.x0, one.y0, one.x1, one.y1) for one in read] == [
        ("ab", 10, 101.25, 35, 121.25),
        ("<c>", 60, 106.5, 90, 126.5),
        ("d", 102.5, 109.625, 110, 129.625),
    ]
    assert words_of_line([], [], 20, corners) == []


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (Limits(ocr_languages=""), r"recognising text is off \(index.ocr_languages is empty\)"),
        (Limits(ocr_languages="none"), r"could not read them \(none\)|does not read none|not installed"),
    ],
)
def test_what_is_not_recognised_is_said_with_its_reason(tmp_path: Path, limits: Limits, said: str) -> None:
    with closing(ParserPool(limits)) as pool:
        parsed = pool.parse(saved(tmp_path, scanned(1)), "made.pdf", 64)
    assert parsed.documents[0].text == "Words of the part that is text."
    (warning,) = parsed.warnings
    assert re.search(f"1 of 2 pages are pictures without text \\(2\\) and were not read; .*{said}", warning)
    with pytest.raises(LoadError, match=r"holds pictures only; Tesseract, .* is not installed: install it, or the"):
        load(saved(tmp_path, pictures_only()), "made.pdf")


@TESSERACT
def test_recognising_ends_with_its_worker(tmp_path: Path) -> None:
    path = saved(tmp_path, scanned(8))

    def recognising() -> list[psutil.Process]:
        return [one for one in psutil.Process().children(recursive=True) if one.name() == "tesseract"]

    with closing(ParserPool(Limits())) as pool:
        started: list[psutil.Process] = []

        def seen() -> bool:
            started.extend(recognising())
            return bool(started)

        with pytest.raises(IndexingCancelled):
            pool.parse(path, "made.pdf", 64, seen)
        psutil.wait_procs(started, timeout=90)
        assert not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in started)


def pictures_only() -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=A4)
    canvas.drawInlineImage(Image.new("L", (40, 40), 90), 60, 60, WIDTH - 120, HEIGHT - 120)
    canvas.save()
    return buffer.getvalue()


def test_recognised_words_stand_on_their_lines() -> None:
    hocr = """<span class='ocr_line' title="bbox 0 100 90 130; baseline 0 -10; x_size 40; x_descenders 10; x_asc 9">
      <span class='ocrx_word' id='w1' title='bbox 0 105 30 125; x_wconf 96'><strong>a&amp;b</strong></span>
      <span class='ocrx_word' id='w2' title='bbox 40 105 60 125; x_wconf 12'>~</span></span>
     <span class='ocr_header' id='m' title="bbox 0 200 90 230; baseline 0 0; x_size 20; x_descenders 4; x_ascenders 5">
      <span class='ocrx_word' id='w3' title='bbox 0 210 30 230; x_wconf 90'>next</span></span>"""
    assert [(one.text, one.x0, one.y0, one.x1, one.y1) for one in recognised(hocr, 0.5)] == [
        ("a&b", 0, 45, 15, 65),
        ("next", 0, 107, 15, 117),
    ]
    assert recognised("<div class='ocr_page'></div>", 0.5) == []  # a picture without a word fails no file


def test_passages_know_the_kind_of_their_region(tmp_path: Path) -> None:
    style = getSampleStyleSheet()["BodyText"]
    buffer = io.BytesIO()
    grid = Table(ROWS, style=[("GRID", (0, 0), (-1, -1), 0.5, colors.black)])
    SimpleDocTemplate(buffer, pagesize=A4).build([Paragraph(words("plain", 120), style), Spacer(1, 20), grid])
    (document,) = load(saved(tmp_path, buffer.getvalue()), "made.pdf")
    passages = split(document, 70, lambda text: len(text.split()))
    assert [passage.region for passage in passages] == ["text", "text", "table"]
    assert {box.region for passage in passages for box in passage.boxes} == {"text", "table"}
