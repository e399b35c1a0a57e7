"""Errors of the index.

IndexingError
├── LoadError              a file could not be turned into a Document
├── CollectionNotFound     no collection of that name
├── CollectionLocked       another process is writing to the collection
├── CollectionCorrupt      what lies on disk is not a collection this version can read
├── CollectionMismatch     the collection was built with another embedding model or vector store
├── DocumentNotFound       no document of that id in the collection
├── InvalidName            a collection cannot be called that
├── IndexingCancelled      indexing was stopped on request; running it again resumes
├── StorageError           the disk is full, or a write failed; the last good version still serves
├── StoreUnavailable       there is no vector store of that name, or what it needs is not installed
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
    """Raised if the files on disk are not a collection that this version can read."""


class CollectionMismatch(IndexingError):
    """The collection was built with another embedding model or vector store than the one asked for."""


class DocumentNotFound(IndexingError):
    """No document of that id in the collection."""


class InvalidName(IndexingError):
    """A collection cannot be called that."""


class IndexingCancelled(IndexingError):
    """Indexing was stopped on request; what was embedded so far is kept for the next run."""


class StorageError(IndexingError):
    """The disk is full or a write failed; the last good version still serves."""


class StoreUnavailable(IndexingError):
    """There is no vector store of that name, or what it needs is not installed."""


class ModelUnavailable(IndexingError):
    """An encoder's or a reranker's files are missing or cannot be loaded."""
