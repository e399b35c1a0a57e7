"""The PDF loader: a file to a document, by the regions of its pages; and a page as a picture."""

from __future__ import annotations

import base64
import ctypes
import html
import io
import os
import re
import signal
import subprocess
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from index.documents import REFERENCES, Document, MetadataValue, Section
from index.errors import LoadError
from index.loaders.pdf.composing import Heading, compose, join_lines, reference_list
from index.loaders.pdf.glyphs import PageWord, PageWords, read_page
from index.loaders.pdf.regions import DROPPED, Region, heading_key, regions_of
from index.loaders.reading import clean, one_line, read_bytes, title_from_name

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument, PdfPage


_DPI = 300
_MOST_PIXELS = 16_000_000
_PR_SET_PDEATHSIG = 1
_SURE = 30
"""Words of which Tesseract is less sure, from 0 to 100, are specks."""
_LINE = re.compile(
    r"<span class='ocr_(?:line|header|caption|textfloat)'[^>]*title=\"bbox \d+ \d+ \d+ (\d+); "
    r"baseline (-?[\d.]+) (-?[\d.]+); x_size ([\d.]+); x_descenders ([\d.]+)"
)
_WORD = re.compile(
    r"<span class='ocrx_word'[^>]*title='bbox (\d+) (\d+) (\d+) (\d+); x_wconf (\d+)[^>]*>(.*?)</span>", re.DOTALL
)
_TAG = re.compile(r"<[^>]*>")


@dataclass(frozen=True, slots=True)
class Recogniser:
    """Reads pages by the program `tesseract` (its path, empty where there is none) in `languages`, such as `eng+deu`.

    A page may take `page_seconds`, and all of a file `seconds`; `working` is called before each.
    """

    program: str = ""
    languages: str = "eng"
    seconds: float = 300.0
    page_seconds: float = 60.0
    working: Callable[[], None] = lambda: None

    def until(self) -> float:
        """When the time of a file that is begun now is over (`time.monotonic`)."""
        return time.monotonic() + self.seconds

    @property
    def lacking(self) -> str:
        """Why pages are left unread, and what to do."""
        if not self.languages:
            return "recognising text is off (index.ocr_languages is empty)"
        if not self.program:
            return "Tesseract, which would recognise their text, is not installed: install it and index the file again"
        return (
            f"Tesseract could not read them ({self.languages}) within {self.seconds:g} seconds: see that the languages "
            "of index.ocr_languages are installed, or run text recognition (OCR) over the file first"
        )

    def read(self, page: PdfPage, words: PageWords, until: float) -> bool:
        """Put the words of a page that is a picture into `found`; whether it was read."""
        left = min(self.page_seconds, until - time.monotonic())
        if not self.program or not self.languages or left <= 0:
            return False
        self.working()
        scale = min(_DPI / 72, (_MOST_PIXELS / max(1.0, words.width * words.height)) ** 0.5)
        bitmap = page.render(scale=scale, grayscale=True, may_draw_forms=False)
        rows = bitmap.to_numpy().reshape(bitmap.height, -1)[:, : bitmap.width]
        picture = b"P5 %d %d 255\n" % (bitmap.width, bitmap.height) + rows.tobytes()
        command = [self.program, "stdin", "stdout", "-l", self.languages, "--dpi", str(round(72 * scale)), "hocr"]
        try:
            completed = subprocess.run(
                command,
                input=picture,
                capture_output=True,
                timeout=left,
                check=True,
                # Its threads wait for each other in circles, which on a busy machine takes several times as long.
                env={**os.environ, "OMP_THREAD_LIMIT": "1"},
                preexec_fn=_end_with_worker,
            ).stdout
        except (OSError, subprocess.SubprocessError):
            return False
        words.words = recognised(completed.decode("utf-8", "replace"), 1 / scale)
        return True


def _end_with_worker() -> None:
    """Ask the kernel, where it can, to kill this process with its parent, which may be killed at any moment."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def recognised(hocr: str, scale: float) -> list[PageWord]:
    """The words of a page in hOCR, whose pixels are `scale` points; all of a line are as high as its letters can be."""
    words: list[PageWord] = []
    starts = list(_LINE.finditer(hocr))
    for line, following in zip(starts, [*starts[1:], None][: len(starts)], strict=True):
        bottom, slope, offset, size, descenders = map(float, line.groups())
        for word in _WORD.finditer(hocr, line.end(), following.start() if following else len(hocr)):
            x0, _, x1, _, sure = map(int, word.groups()[:5])
            text = html.unescape(_TAG.sub("", word[6])).strip()
            if text and sure >= _SURE:
                y1 = bottom + offset + slope * x0 + descenders
                box = (x0 * scale, (y1 - size) * scale, x1 * scale, y1 * scale)
                words.append(PageWord("".join(text.split()), *box))
    return words


_SHOWN = 10
_MAX_PAGES = 10_000
_MOST_PIXELS_LOADING = 8_000_000
_MAX_BOOKMARKS = 5_000
_MAX_CHARACTERS = 64_000_000
_PAGE_NAME = re.compile(r"(?i)page\s*\d+")
_TITLE_WORD = re.compile(r"[^\W\d_]{4,}|[\u3040-\u9fff\uac00-\ud7af]")
_SAID = 0.25
_LEFTOVER = re.compile(
    r"\.(?:docx?|tex|dvi|indd|pdf|pptx?|xlsx?|ps|qxd)$|\.\.\.$|^microsoft word|^arxiv:"
    r"|^\(?(?:anonymous|unspecified)\)?$|^proceedings (?:of|from)\b"
)
_LOCK = threading.Lock()  # pdfium is one state machine for the whole process
_REASONS = {
    2: "it could not be opened",
    3: "it is broken or no PDF: open it in a viewer and print it to a new PDF",
    4: "it is encrypted and needs a password: save a copy without one",
    5: "it is encrypted in a way that cannot be read: save a copy without encryption",
    6: "it is broken: open it in a viewer and print it to a new PDF",
}


def load(
    path: Path,
    document_id: str,
    max_bytes: int,
    warn: Callable[[str], None] = lambda _: None,
    recogniser: Recogniser | None = None,
) -> list[Document]:
    """One document with a section below each heading.

    Pages that are pictures are read by the `recogniser`. Where the layout cannot be read, pages come as they are drawn,
    a section each. Raises LoadError for a PDF that is broken, encrypted, or holds nothing that can be read.
    """
    recogniser = recogniser or Recogniser()
    with opened_pdf(path, max_bytes) as pdf:
        metadata: dict[str, MetadataValue] = {"source": document_id, "format": "pdf", "pages": len(pdf)}
        title = one_line(clean(pdf.get_metadata_value("Title")))
        try:
            content = _content(pdf, path.name, recogniser)
            composed = compose(content.regions, content.outline)
        except (ArithmeticError, LookupError, ValueError) as error:
            warn(f"{path.name}: its layout could not be read ({error!r}); its pages are read as they are drawn")
            text, sections = _as_drawn(pdf)
            return [Document(document_id, title or title_from_name(path.name), text, sections, metadata)]
        if not composed.text.strip():
            raise LoadError(
                f"{path.name} has {len(pdf)} pages and no text in them: it is scanned or holds pictures only; "
                + ("no text was recognised in them" if content.recognised else recogniser.lacking)
            )
        if content.pictures:
            warn(_unread(path.name, content.pictures, len(pdf), recogniser))
    if content.recognised:
        metadata["recognised_pages"] = content.recognised
    if references := "\n".join(reference_list(content.regions)):
        metadata[REFERENCES] = references
    title = _title(title, composed.title, content.regions) or title_from_name(path.name)
    return [Document(document_id, title, composed.text, composed.sections, metadata)]


def _as_drawn(pdf: PdfDocument) -> tuple[str, tuple[Section, ...]]:
    """The text of all pages, a section each."""
    text, sections = "", list[Section]()
    for number, page in enumerate(pdf, 1):
        page_text = clean(join_lines(page.get_textpage().get_text_range().replace("\r\n", "\n"))).strip()
        if page_text:
            sections.append(Section((), len(text), len(text) + len(page_text), number))
            text += page_text + "\n\n"
    return text, tuple(sections)


@dataclass(frozen=True, slots=True)
class PdfContent:
    """Content of a file: its regions in reading order, and its outline."""

    regions: list[Region]
    outline: list[Heading]
    pictures: list[int]
    """Pages that hold pictures and not a word: nobody has read what they show."""
    recognised: int = 0
    """How many pages are pictures whose text was recognised."""


def read(path: Path, max_bytes: int, recogniser: Recogniser | None = None) -> PdfContent:
    """The regions of a file. Raises LoadError."""
    with opened_pdf(path, max_bytes) as pdf:
        return _content(pdf, path.name, recogniser or Recogniser())


def drawn(path: Path, page: int, width: int, max_bytes: int) -> dict[str, object]:
    """The page of this number, from 1, as a picture so many pixels wide, as JSON. Raises LoadError."""
    import pypdfium2

    with opened_pdf(path, max_bytes) as pdf:
        if not 1 <= page <= len(pdf):
            return {"missing": f"{path.name} has {len(pdf)} pages, and none of number {page}"}
        try:
            sheet = pdf[page - 1]
            across, down = sheet.get_size()
            scale = min(width / across, (_MOST_PIXELS_LOADING / (across * down)) ** 0.5)
            image = sheet.render(scale=scale, may_draw_forms=False).to_pil()
        except pypdfium2.PdfiumError as error:
            raise LoadError(f"{path.name}: page {page} cannot be drawn ({error})") from error
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return {"png": base64.b64encode(buffer.getvalue()).decode(), "width": across, "height": down}


@contextmanager
def opened_pdf(path: Path, max_bytes: int) -> Iterator[PdfDocument]:
    """A file, open; nobody else in this process uses pdfium meanwhile. Raises LoadError."""
    with _LOCK:
        yield from _opened(path, max_bytes)


def _opened(path: Path, max_bytes: int) -> Iterator[PdfDocument]:
    import pypdfium2

    data = read_bytes(path, max_bytes)
    try:
        pdf = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        reason = _REASONS.get(getattr(error, "err_code", 0), _REASONS[6])
        raise LoadError(f"{path.name} cannot be read as PDF: {reason}") from error
    try:
        if len(pdf) > _MAX_PAGES:
            raise LoadError(f"{path.name} has {len(pdf)} pages, above the limit of {_MAX_PAGES}: split it")
        yield pdf
    finally:
        pdf.close()


def _content(pdf: PdfDocument, name: str, recogniser: Recogniser) -> PdfContent:
    outline = list(_outline(pdf))
    named = {(entry.page + 1, heading_key(entry.words)) for entry in outline}
    pictures: list[int] = []
    recognised: list[int] = []
    pages = list(_pages(pdf, name, recogniser, pictures, recognised))
    return PdfContent(regions_of(pages, named), outline, pictures, len(recognised))


def _pages(
    pdf: PdfDocument, name: str, recogniser: Recogniser, pictures: list[int], recognised: list[int]
) -> Iterator[PageWords]:
    """The words of each page; the numbers of those that are pictures go into `pictures` or, read, into `recognised`."""
    import pypdfium2

    total, until = 0, recogniser.until()
    for number in range(len(pdf)):
        try:
            page = pdf[number]
            words = read_page(page, _MAX_CHARACTERS - total)
            if words.images and not words.words and not words.aside:
                (recognised if recogniser.read(page, words, until) else pictures).append(number + 1)
            page.close()
        except pypdfium2.PdfiumError as error:
            raise LoadError(
                f"{name} is broken on page {number + 1} ({error}): open it in a viewer and print it to a new PDF"
            ) from error
        total += sum(len(word.text) for word in words.words)
        if total >= _MAX_CHARACTERS:
            raise LoadError(f"{name} holds more than {_MAX_CHARACTERS:,} characters of text: split it")
        yield words


def _outline(pdf: PdfDocument) -> Iterator[Heading]:
    """The bookmarks that name a page."""
    for entry in islice(pdf.get_toc(max_depth=8), _MAX_BOOKMARKS):
        target = entry.get_dest()
        page = target.get_index() if target else None
        words = one_line(clean(entry.get_title() or ""), 200)
        if page is not None and words and not _PAGE_NAME.fullmatch(words):
            yield Heading(entry.level, page, words)


def _unread(name: str, pictures: Sequence[int], pages: int, recogniser: Recogniser) -> str:
    listed = ", ".join(map(str, pictures[:_SHOWN])) + (", …" if len(pictures) > _SHOWN else "")
    return (
        f"{name}: {len(pictures)} of {pages} pages are pictures without text ({listed}) and were not read; "
        + recogniser.lacking
    )


def _title(named: str, printed: str, regions: Sequence[Region]) -> str:
    """Return the title that a file's own field names, if its first page says it too or has none; else the page's."""
    if not _is_title(named):
        return printed
    first = " ".join(region.text for region in regions if region.page == 1 and region.kind not in DROPPED)
    words = _words_of(named)
    # A scan's first page may say only some of it as it is.
    matches = len(words & _words_of(first)) >= _SAID * len(words)
    return named if not printed or matches else printed


def _words_of(text: str) -> set[str]:
    return set(_TITLE_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


def _is_title(title: str) -> bool:
    """Whether the file's own title field holds a title, not what its writing program left there."""
    lower = title.lower()
    return len(title) > 3 and lower != "untitled" and not _LEFTOVER.search(lower)
