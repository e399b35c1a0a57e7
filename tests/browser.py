"""A real headless browser, for tests of pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

CHROMIUM = next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None)
WAIT = 120_000
"""Milliseconds that anything in a page may take."""
QUIET = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's chromium, headless, whose pages are waited for as long as busy machines take.

    Gone with its module: while it lives, its thread has a running event loop.
    """
    if CHROMIUM is None:
        pytest.skip("chromium is not installed; the page cannot be looked at")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET, timeout=WAIT)
        new_context = chromium.new_context

        def patient_context(**options: Any) -> BrowserContext:
            context = new_context(**options)
            context.set_default_timeout(WAIT)
            return context

        chromium.new_context = patient_context  # type: ignore[method-assign]
        yield chromium
        chromium.close()
