"""Loaders: files of many formats become Documents.

One module a format (plain text: `reading`). Each reads through `reading`, which refuses what is too large or no text.
Other distributions may add formats (`index.loaders.files.GROUP`).
"""

from index.loaders.files import SourceFile, load, suffixes, walk

__all__ = ["SourceFile", "load", "suffixes", "walk"]
