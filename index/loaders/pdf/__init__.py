"""PDF: what stands on each page, in the order in which it is read, with the place of each line.

`glyphs` gives the words and lines of a page, `columns` orders them, `regions` says what each part is and finds cells of
tables, `composing` makes a document of them, `recognising` reads pages that are pictures, and `loading` is the
loader.
"""

from index.loaders.pdf.composing import join_lines
from index.loaders.pdf.loading import load

__all__ = ["join_lines", "load"]
