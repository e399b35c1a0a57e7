"""Insights in the workbench: from what visitors ask to a gap that is closed, in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ui.conftest import site, visitor
from tests.ui.site import violations

if TYPE_CHECKING:
    from tests.ui.conftest import Visitor

__all__ = ["site", "visitor"]

pytestmark = pytest.mark.browser

SETTINGS = "[plugins.curated]\nenabled = true\n"
QUESTION = "Where is the ladle <img src=x onerror=window.owned=1>?"


@pytest.mark.extended
def test_a_gap_is_shown_with_a_draft_until_it_is_closed(visitor: Visitor) -> None:
    page = visitor.page
    visitor.ask("How often should I descale the kettle?")
    visitor.open()
    visitor.ask(QUESTION, "refused")
    page.goto(f"{visitor.address}/workbench/health")
    topics, gaps = (page.get_by_role("table", name=name) for name in ("Topics", "Gaps"))
    topics.get_by_role("cell", name="How often should I descale the kettle?").wait_for()
    gaps.get_by_text("Draft", exact=True).click()
    assert gaps.locator("pre").inner_text().startswith("## Where is the ladle \\<img")
    assert gaps.locator("img").count() == 0
    assert violations(page) == []
    gaps.get_by_role("link", name="Answer").click()
    page.wait_for_selector(".one:not([hidden])")
    page.get_by_text("Curated answers").click()
    page.get_by_role("button", name="From the turn at hand").click()
    page.get_by_label("The answer, in Markdown").fill("In the lower drawer.")
    page.locator("dialog").get_by_role("button", name="Save").click()
    page.get_by_role("cell", name=QUESTION, exact=True).wait_for()
    page.goto(f"{visitor.address}/workbench/health")
    gaps.get_by_text("Draft", exact=True).wait_for()
    page.get_by_role("button", name="Ask the gaps again").click()
    gaps.get_by_text("closed by a person’s answer").wait_for()
