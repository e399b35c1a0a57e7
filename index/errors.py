"""Errors of the index, each a subclass of IndexingError."""


class IndexingError(Exception):
    """Base of every error the index raises; the message says what happened and what to do."""


class LoadError(IndexingError):
    """A file could not be turned into a Document."""


class ParserKilled(LoadError):
    """A file was given up because it took more than it may.

    `died` tells that the parser ended by itself, as it does where memory is not enough.
    """

    def __init__(self, message: str, *, died: bool = False) -> None:
        super().__init__(message)
        self.died = died


class PageMissing(LoadError):
    """A document has no such page."""


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
