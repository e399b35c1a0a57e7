"""Sources: places elsewhere whose documents a collection follows. Connectors know documents and files, nothing else.

A connector says what its source holds now (`protocol`), a mirror keeps that as files with their addresses (`mirror`),
and `index.indexer` reads those files as it reads any. When that is done, and for whom, is the server's business.
"""

from index.sources.mirror import Kept, SourceMirror, SyncReport, mirrors
from index.sources.protocol import Connector, Item
from index.sources.source import Source, open_connector

__all__ = ["Connector", "Item", "Kept", "Source", "SourceMirror", "SyncReport", "mirrors", "open_connector"]
