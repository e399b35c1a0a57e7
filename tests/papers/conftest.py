"""Tests of papers reproduce experiments, which are no part of the product: they run in the extended tier."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import none of them, and no torch, where they are deselected anyway."""
    return True if "not extended" in config.option.markexpr else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.extended)
