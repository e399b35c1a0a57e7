"""From what visitors of a web site ask to the answer that the next one gets, in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.serving import new_key
from tests.ui.conftest import site
from tests.ui.site import Site, violations

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

__all__ = ["site"]

pytestmark = pytest.mark.browser

SETTINGS = """
[plugins.curated]
enabled = true
[plugins.insights]
enabled = true
[plugins.widget]
origins = ["https://www.example.org"]
"""
QUESTION = "Where is the ladle <img src=x onerror=window.owned=1>?"


@pytest.mark.extended
def test_visitors_find_a_gap_that_a_person_answers_and_the_next_visitor_gets_it(browser: Browser, site: Site) -> None:
    pytest.importorskip("plugins.widget")
    pytest.importorskip("plugins.curated")

    of_site, of_agent = new_key(site.service, "visitor"), new_key(site.service, "agent")

    def visit(question: str, state: str) -> Locator:
        """Ask as a new visitor of the site; return the turn once it has that state."""
        page = browser.new_context(service_workers="block").new_page()
        page.goto(f"{site.address}/widget#key={of_site}&collection=docs")
        page.fill("#question", question)
        page.press("#question", "Enter")
        turn = page.locator(f"article[data-state={state}]")
        turn.wait_for()
        return turn

    for question in ("How often should I descale the kettle?", QUESTION, QUESTION):
        visit(question, "refused" if question == QUESTION else "answered").page.context.close()

    headers = {"Authorization": f"Bearer {of_agent}"}
    page = browser.new_context(service_workers="block", extra_http_headers=headers).new_page()
    page.goto(f"{site.address}/workbench/health")
    topics, gaps = (page.get_by_role("table", name=name) for name in ("Topics", "Gaps"))
    topics.get_by_role("cell", name="How often should I descale the kettle?").wait_for()
    assert "answered 1, refused 2 · English 3" in page.locator("[data-part=insights-outcomes]").inner_text()
    assert "kettle.md" in page.get_by_role("table", name="Cited most").inner_text()
    assert gaps.locator("tbody td").first.inner_text() == "2"
    gaps.get_by_text("Draft", exact=True).click()
    assert gaps.locator("pre").inner_text().startswith("## Where is the ladle \\<img")
    assert gaps.locator("img").count() == 0
    assert violations(page) == []
    gaps.get_by_role("link", name="Answer").click()
    page.wait_for_selector(".one:not([hidden])")
    page.get_by_text("Curated answers").click()
    page.get_by_role("button", name="From the turn at hand").click()
    assert page.get_by_label("Ways to ask").input_value() == QUESTION
    page.get_by_label("Kept right by").fill("Ada")
    assert violations(page) == []
    page.get_by_label("The answer, in Markdown").fill("In the **lower** drawer <img src=x onerror=window.owned=1>.")
    page.locator("dialog").get_by_role("button", name="Save").click()
    page.get_by_role("cell", name=QUESTION, exact=True).wait_for()

    turn = visit("where is the ladle <img src=x onerror=window.owned=1>", "answered")
    assert turn.locator(".answer strong").inner_text() == "lower"
    assert turn.locator(".notice").inner_text() == "A person wrote this answer, no model."
    assert turn.locator("img").count() == 0
    assert turn.page.evaluate("window.owned") is None
    turn.page.context.close()

    page.goto(f"{site.address}/workbench/health")
    gaps.get_by_text("Draft", exact=True).wait_for()
    page.get_by_role("button", name="Ask the gaps again").click()
    gaps.get_by_text("closed by a person’s answer").wait_for()
    assert "answered 2, refused 2" in page.locator("[data-part=insights-outcomes]").inner_text()
    assert page.evaluate("window.owned") is None
    page.context.close()
