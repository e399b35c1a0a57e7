"""The form below a refused turn, in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from plugins.handoff.handoffs import HandoffService
from tests.ui.conftest import site, visitor
from tests.ui.site import violations

if TYPE_CHECKING:
    from tests.ui.conftest import Visitor
    from tests.ui.site import Site

__all__ = ["site", "visitor"]

pytestmark = pytest.mark.browser

SETTINGS = '[plugins.handoff]\nkind = "webhook"\naddress = "http://127.0.0.1:9/"\nsecret = "s"\n'


@pytest.mark.extended
def test_a_refused_turn_is_handed_over_with_consent(visitor: Visitor, site: Site) -> None:
    page = visitor.page
    visitor.ask("How often should I descale the kettle?")
    visitor.ask("Where is the ladle?", "refused")
    page.get_by_text("Ask a person").click()
    assert page.locator("[data-form]").count() == 1, "the answered turn offers nobody"
    assert violations(page) == []
    page.get_by_label("What is still open?").fill("The ladle <img src=x onerror=window.owned=1>")
    page.get_by_label("Your e-mail address").fill("ada@example.org")
    page.locator('[data-call="hand_over"]').click()
    assert page.get_by_label("What is still open?").is_visible(), "nothing is sent without consent"
    page.get_by_label("This conversation may be sent").check()
    page.locator('[data-call="hand_over"]').click()
    page.locator(".banner", has_text="Your conversation was passed on to a person.").wait_for()
    service = site.service
    (row,) = site.ask(HandoffService(service.core, service.principal).listing())
    assert (row.reason, row.delivered) == ("refused", None)
    page.reload()
    page.wait_for_selector(".turn:nth-child(2)[data-state=refused]")
    assert page.locator("[data-form]").count() == 0
