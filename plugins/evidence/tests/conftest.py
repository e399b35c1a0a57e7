"""Fixtures of the page's tests."""

from __future__ import annotations

from tests.ui.conftest import site, visitor

__all__ = ["site", "visitor"]
