"""Errors of the index.

IndexingError
├── LoadError              a file could not be turned into a Document
├── CollectionNotFound     no collection of that name
├── CollectionLocked       another process is writing to the collection
├── CollectionCorrupt      what lies on disk is not a collection this version can read
├── StorageError           the disk is full, or a write failed; the last good version still serves
└── ModelUnavailable       an encoder's or reranker's files are not there or cannot be loaded
"""


class IndexingError(Exception):
    """Base of every error the index raises; the message says what happened and what to do."""


class LoadError(IndexingError):
    """A file could not be turned into a Document."""


class CollectionNotFound(IndexingError):
    """No collection of that name."""


class CollectionLocked(IndexingError):
    """Another process is writing to the collection."""


class CollectionCorrupt(IndexingError):
    """What lies on disk is not a collection that this version can read."""


class StorageError(IndexingError):
    """The disk is full or a write failed; the last good version still serves."""


class ModelUnavailable(IndexingError):
    """An encoder's or a reranker's files are missing or cannot be loaded."""
