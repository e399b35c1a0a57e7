"""Loaders: files of many formats become Documents.

One module a format; each reads through `reading`, which refuses what is too large or no text. Other distributions may
add formats (`index.loaders.files.GROUP`).
"""

from index.loaders.files import load, suffixes
from index.loaders.folder import LoadedFile, SourceFile, scan, walk

__all__ = ["LoadedFile", "SourceFile", "load", "scan", "suffixes", "walk"]
