"""The schema of version 0.1. New databases are made from `server.store.schema`; later revisions change them."""

from __future__ import annotations

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Do nothing: the tables are made before Alembic runs."""
