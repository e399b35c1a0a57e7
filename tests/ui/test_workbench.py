"""The workbench in a real browser: reached from the chat, a turn reviewed by keys alone, and nothing is markup."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ui.site import violations

if TYPE_CHECKING:
    from tests.ui.conftest import Visitor
    from tests.ui.site import Site

pytestmark = pytest.mark.browser

HOSTILE = "Where is the ladle <img src=x onerror=window.owned=1>?"


def test_turns_are_reviewed_by_keys(visitor: Visitor, site: Site) -> None:
    page = visitor.page
    visitor.ask("How often should I descale the kettle?")
    visitor.ask(HOSTILE, "refused")
    page.click("[data-part=workbench] a")
    page.wait_for_selector(".one:not([hidden])")
    assert page.url.startswith(f"{site.address}/workbench/review")
    # The refused turn comes first, and is at hand.
    assert page.locator(".turns button").all_inner_texts()[0].startswith(HOSTILE)
    assert page.locator("[data-part=asked]").inner_text() == HOSTILE
    assert page.locator("[data-part=history] p").first.inner_text() == ""  # folded

    page.keyboard.press("r")
    page.keyboard.type("In which drawer is the ladle kept?")
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-part=rows] li:has-text('you: corrected, question')")
    page.keyboard.press("s")
    page.keyboard.type("warranty repair receipt")
    page.keyboard.press("Enter")
    # Passages are shown as the source reader shows them, and hostile ones do nothing.
    page.wait_for_selector(".passages li:has-text('W-17') .prose-text p")
    assert page.locator(".passages :is(img, script, iframe)").count() == 0
    page.keyboard.press("Escape")
    page.keyboard.press("1")
    page.wait_for_selector(".passages li:first-child :checked")
    page.keyboard.press("0")
    page.wait_for_selector("[data-part=none]:checked")
    page.keyboard.press("u")
    page.wait_for_selector(".passages li:first-child :checked")
    page.keyboard.press("w")
    page.keyboard.type("In the lower one.")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("[data-part=rows] li:has-text('answer (counts)')")
    assert violations(page) == []
    turn = page.url.partition("turn=")[2]
    kept = site.ask(site.service.reviews.get(turn)).current
    assert kept is not None
    assert (kept.rewrite, kept.answer, len(kept.passages or ())) == (
        "In which drawer is the ladle kept?",
        "In the lower one.",
        1,
    )

    page.keyboard.press("j")
    page.wait_for_selector("[data-part=asked]:has-text('How often')")
    page.keyboard.press("a")
    page.wait_for_selector("[data-part=rows] li:has-text('approved')")
    page.select_option("[name=state]", "done")
    page.wait_for_selector(".turns li:nth-child(1):has-text('How often') + li:has-text('ladle')")
    page.fill("[name=query]", "ladle")
    page.wait_for_selector(".turns li:only-child:has-text('ladle')")
    page.set_viewport_size({"width": 390, "height": 844})
    page.click("[data-action=theme]")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert violations(page) == []
    page.reload()
    page.wait_for_selector("[data-part=asked]:has-text('ladle'), [data-part=asked]:has-text('How often')")
