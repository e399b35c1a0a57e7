"""PDF: what stands on each page, in the order in which it is read, with the place of each line.

`glyphs` gives the words of a page, `lines` joins them, `columns` orders them, `tables` finds cells, `regions` says what
each part is, `composing` makes a document of them, `loading` is the loader; `whole` reads pages without any of it.
`recognising` has pages that are pictures read by Tesseract.
"""

from index.loaders.pdf.composing import join_lines
from index.loaders.pdf.loading import load

__all__ = ["join_lines", "load"]
