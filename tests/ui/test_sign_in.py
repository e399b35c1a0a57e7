"""Signing in with a key, as a browser does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from server.api import security
from server.store import credentials

if TYPE_CHECKING:
    from tests.ui.conftest import Visitor
    from tests.ui.site import Site

pytestmark = pytest.mark.browser


@pytest.mark.extended
def test_the_page_names_who_signed_in_and_signs_them_out(
    visitor: Visitor, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = visitor.page
    assert not page.locator(".person").is_visible()
    _, secret = site.service.core.database.write_blocking(
        lambda connection: credentials.create_key(connection, "Ada <b>L.</b>")
    )
    monkeypatch.setattr(security, "REMEMBERED_SECONDS", 0.0)
    page.goto(site.address)
    page.fill("input[name=key]", secret)
    page.click("button")
    page.wait_for_selector(".person:has-text('Ada <b>L.</b>')")
    page.click("text=Sign out")
    page.wait_for_selector("input[name=key]")
