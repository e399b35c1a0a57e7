"""`Show what it refers to` and `Why this source?` under a source, in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ui.conftest import site, visitor

if TYPE_CHECKING:
    from tests.ui.conftest import Visitor

__all__ = ["site", "visitor"]

pytestmark = pytest.mark.browser


@pytest.mark.extended
def test_a_quote_is_made_readable_and_its_original_is_one_click_away(visitor: Visitor) -> None:
    page = visitor.page
    visitor.ask("How many bar has the SRV?")
    page.click(".turn:last-child .chip")
    source = page.locator(".source.selected")
    source.get_by_role("button", name="Show what it refers to").first.click()
    quote = source.locator('[data-part="readable"]').first
    quote.wait_for()
    assert quote.inner_text() == (
        "However, we [the authors of “Steam”] set the SRV [safety release valve] to 4 bar (see Table 2)."
    )
    # Told apart without colour: what was added by brackets and a line below, what was removed by a line through.
    lines = {tag: quote.locator(tag).first.evaluate("one => getComputedStyle(one).textDecorationLine")
             for tag in ("ins", "del")}  # fmt: skip
    assert lines == {"ins": "underline", "del": "line-through"}
    copied = source.locator('[data-action="copy-readable"]').get_attribute("data-text")
    assert copied == "we [the authors of “Steam”] set the SRV [safety release valve] to 4 bar."
    source.locator('[data-action="original"]').click()
    assert source.locator('[data-part="original"]').inner_text() == "However, we set the SRV to 4 bar (see Table 2)."
    assert not quote.is_visible()
    source.locator('[data-action="original"]').click()
    assert quote.is_visible()
    source.get_by_role("button", name="Why this source?").first.click()
    why = source.locator('[data-part="why"]')
    why.wait_for()
    assert "we set the SRV to 4 bar" in why.inner_text()
    why.get_by_role("link", name="Open in the document").first.click()
    page.wait_for_selector(".reader mark")
    page.get_by_role("button", name="Close the document").click()
    # Another turn's sources, and back: it is still there.
    visitor.ask("How often should I descale the kettle?")
    page.click(".turn:first-child .chip")
    page.wait_for_selector('.source.selected [data-part="readable"]')
