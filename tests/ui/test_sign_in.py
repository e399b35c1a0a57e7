"""Signing in as a browser does it: over another site and back, with cookies that other sites cannot send."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from testing.oidc_provider import FakeOidcProvider

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.door import OpenDoor

pytestmark = pytest.mark.browser


def test_a_person_signs_in_at_another_site_and_leaves_it(browser: Browser, open_door: OpenDoor) -> None:
    with FakeOidcProvider(asks=True) as provider:
        door = open_door(oidc={"issuer": provider.issuer, "client_id": "anaphora", "client_secret": "shared-secret"})
        # The provider is at 127.0.0.1, which a browser takes for another site.
        here = door.url.replace("127.0.0.1", "localhost")
        context = browser.new_context()
        page = context.new_page()
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
