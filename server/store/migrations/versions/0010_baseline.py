"""The state that the frozen scripts leave a file in, and that the first databases on a server were made in."""

from __future__ import annotations

revision = "0010"
down_revision = None


def upgrade() -> None:
    """Nothing: an older file has run the scripts, a newer database is made from `server.store.schema`."""
