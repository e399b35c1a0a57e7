"""Storage of the server: conversations, turns, feedback, traces, keys and jobs, in a SQLite file or a PostgreSQL
database.

`Database` runs work on it; the modules beside it are functions of a connection, and
`server.store.records` names what they return.
"""

from server.store.database import Database
from server.store.jobs import Runner
from server.store.records import StoreError, StoreFull

__all__ = ["Database", "Runner", "StoreError", "StoreFull"]
