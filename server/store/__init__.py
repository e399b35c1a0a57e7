"""What the server remembers: conversations, turns, feedback, traces, keys and jobs, in one SQLite file.

`Database` runs work on the file; the modules beside it are functions of a connection, and
`server.store.records` names what they return.
"""

from server.store.database import Database
from server.store.errors import StoreError, StoreFull
from server.store.runners import Runner

__all__ = ["Database", "Runner", "StoreError", "StoreFull"]
