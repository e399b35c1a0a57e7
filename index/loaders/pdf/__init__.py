"""PDF: what stands on each page, in the order in which it is read, with the place of each line.

`glyphs` gives the words and lines of a page, `columns` orders them, `regions` says what each part is and finds cells of
tables, `composing` makes a document of them, and `loading` is the loader, which has pages that are pictures read by
Tesseract.
"""

from index.loaders.pdf.composing import join_lines
from index.loaders.pdf.loading import load

__all__ = ["join_lines", "load"]
