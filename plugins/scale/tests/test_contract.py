"""The contract of a database kind: tests of the store, on PostgreSQL."""

from __future__ import annotations

import pytest

from tests.server.test_jobs import (
    runner,
)
from tests.server.test_store_conversations import (
    database,
)

__all__ = [name for name in dir() if name.startswith("test_")] + ["database", "runner"]


@pytest.fixture
def place(postgres_place: str) -> str:
    """Replace the file of the imported tests."""
    return postgres_place
