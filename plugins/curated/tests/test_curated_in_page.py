"""From a turn without an answer to one that a person wrote, in a real browser."""

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
QUESTION = "Where is the ladle?"


@pytest.mark.extended
def test_the_next_who_asks_gets_what_a_person_wrote_in_the_workbench(visitor: Visitor) -> None:
    page = visitor.page
    visitor.ask(QUESTION, "refused")
    page.click("[data-part=workbench] a")
    page.wait_for_selector(".one:not([hidden])")
    page.get_by_text("Curated answers").click()
    page.get_by_role("button", name="From the turn at hand").click()
    assert page.get_by_label("Ways to ask").input_value() == QUESTION
    page.get_by_label("The answer, in Markdown").fill("In the **lower** drawer <img src=x onerror=window.owned=1>.")
    page.get_by_label("Kept right by").fill("Ada")
    assert violations(page) == []
    page.locator("dialog").get_by_role("button", name="Save").click()
    page.get_by_role("cell", name=QUESTION, exact=True).wait_for()
    visitor.open()
    visitor.ask("where is the ladle")
    assert visitor.last(".answer strong") == "lower"
    assert page.locator(".answer img").count() == 0
    assert visitor.last(".banner") == "A person wrote this answer, no model."
    page.click("[data-part=workbench] a")
    page.get_by_text("Curated answers").click()
    page.get_by_role("button", name=f"Delete {QUESTION}").wait_for()
    assert page.locator("[data-part=curated-list] td.number").inner_text() == "1"
