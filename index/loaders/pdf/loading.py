"""The PDF loader: a file to a document, by the regions of its pages; and a page as a picture."""

from __future__ import annotations

import base64
import io
import re
import threading
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from index.documents import REFERENCES, Document, MetadataValue, Section
from index.errors import LoadError
from index.loaders.pdf.composing import Heading, compose, join_lines, reference_list
from index.loaders.pdf.glyphs import PageWords, read_page
from index.loaders.pdf.recognising import Recogniser
from index.loaders.pdf.regions import DROPPED, Region, heading_key, regions_of
from index.loaders.reading import clean, one_line, read_bytes, title_from_name

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument


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
    path: Path, document_id: str, max_bytes: int, warn: Callable[[str], None], recogniser: Recogniser | None
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
            listed = ", ".join(map(str, content.pictures[:_SHOWN])) + (", …" if len(content.pictures) > _SHOWN else "")
            warn(
                f"{path.name}: {len(content.pictures)} of {len(pdf)} pages are pictures without text ({listed}) and "
                f"were not read; {recogniser.lacking}"
            )
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
    import pypdfium2

    with _LOCK:
        data = read_bytes(path, max_bytes)
        try:
            pdf = pypdfium2.PdfDocument(data)
        except pypdfium2.PdfiumError as error:
            reason = _REASONS.get(getattr(error, "err_code", 0), _REASONS[6])
            raise LoadError(f"{path.name} cannot be read as PDF: {reason}") from error
        with closing(pdf):
            if len(pdf) > _MAX_PAGES:
                raise LoadError(f"{path.name} has {len(pdf)} pages, above the limit of {_MAX_PAGES}: split it")
            yield pdf


def _content(pdf: PdfDocument, name: str, recogniser: Recogniser) -> PdfContent:
    import pypdfium2

    outline = list(_outline(pdf))
    pages: list[PageWords] = []
    pictures: list[int] = []
    total, recognised, until = 0, 0, recogniser.until()
    for number in range(len(pdf)):
        try:
            page = pdf[number]
            words = read_page(page, _MAX_CHARACTERS - total)
            if words.images and not words.words and not words.aside:
                if recogniser.read(page, words, until):
                    recognised += 1
                else:
                    pictures.append(number + 1)
            page.close()
        except pypdfium2.PdfiumError as error:
            raise LoadError(
                f"{name} is broken on page {number + 1} ({error}): open it in a viewer and print it to a new PDF"
            ) from error
        pages.append(words)
        total += sum(len(word.text) for word in words.words)
        if total >= _MAX_CHARACTERS:
            raise LoadError(f"{name} holds more than {_MAX_CHARACTERS:,} characters of text: split it")
    named = {(entry.page + 1, heading_key(entry.words)) for entry in outline}
    return PdfContent(regions_of(pages, named), outline, pictures, recognised)


def _outline(pdf: PdfDocument) -> Iterator[Heading]:
    """The bookmarks that name a page."""
    for entry in islice(pdf.get_toc(max_depth=8), _MAX_BOOKMARKS):
        target = entry.get_dest()
        page = target.get_index() if target else None
        words = one_line(clean(entry.get_title() or ""), 200)
        if page is not None and words and not _PAGE_NAME.fullmatch(words):
            yield Heading(entry.level, page, words)


def _title(named: str, printed: str, regions: Sequence[Region]) -> str:
    """Return the title that a file's own field names, if its first page says it too or has none; else the page's."""
    lower = named.lower()
    if len(named) <= 3 or lower == "untitled" or _LEFTOVER.search(lower):  # what its writing program left there
        return printed
    first = " ".join(region.text for region in regions if region.page == 1 and region.kind not in DROPPED)
    words = _words_of(named)
    # A scan's first page may say only some of it as it is.
    matches = len(words & _words_of(first)) >= _SAID * len(words)
    return named if not printed or matches else printed


def _words_of(text: str) -> set[str]:
    return set(_TITLE_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))
