"""Loaders: files of many formats become Documents.

One module a format; each reads through `reading`, which refuses what is too large or no text.
"""

from index.loaders.files import SUFFIXES, load
from index.loaders.scan import LoadedFile, scan
from index.loaders.walk import SourceFile, walk

__all__ = ["SUFFIXES", "LoadedFile", "SourceFile", "load", "scan", "walk"]
