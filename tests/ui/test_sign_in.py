"""Signing in as a browser does it: over another site and back, with cookies that other sites cannot send."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from server.api.security import authentication
from server.store import keys
from testing.oidc_provider import FakeOidcProvider

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.door import OpenDoor
    from tests.ui.conftest import Visitor
    from tests.ui.site import Site

pytestmark = pytest.mark.browser


def test_a_person_signs_in_at_another_site_and_leaves_it(browser: Browser, open_door: OpenDoor) -> None:
    with FakeOidcProvider(asks=True) as provider:
        door = open_door(oidc={"issuer": provider.issuer, "client_id": "anaphora", "client_secret": "shared-secret"})
        # The provider is at 127.0.0.1, which a browser takes for another site.
        here = door.url.replace("127.0.0.1", "localhost")
        context = browser.new_context()
        page = context.new_page()
        page.set_default_timeout(90_000)
        page.goto(f"{here}/a")
        assert page.url == f"{here}/login?next=/a"
        page.get_by_text("Sign in with").click()
        page.get_by_text("Go on").click()
        page.wait_for_url(f"{here}/a")
        assert f'"id":"oidc:{provider.issuer}:u1"' in page.content()
        page.goto(f"{here}/logout")
        page.wait_for_url(f"{here}/login**")
        assert [path for path, _ in provider.requests][-1] == "/logout"
        assert page.goto(f"{here}/a").url == f"{here}/login?next=/a"  # type: ignore[union-attr]
        context.close()


def test_the_page_names_who_signed_in_and_signs_them_out(
    visitor: Visitor, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = visitor.page
    assert not page.locator(".person").is_visible()
    _, secret = site.service.core.database.write_blocking(lambda connection: keys.create(connection, "Ada <b>L.</b>"))
    monkeypatch.setattr(authentication, "REMEMBERED_SECONDS", 0.0)
    page.goto(site.address)
    page.fill("input[name=key]", secret)
    page.click("button")
    page.wait_for_selector(".person:has-text('Ada <b>L.</b>')")
    page.click("text=Sign out")
    page.wait_for_selector("input[name=key]")
