"""Fixtures of the index's tests."""

from __future__ import annotations

from tests.index.conftest import closed, documents

__all__ = ["closed", "documents"]
