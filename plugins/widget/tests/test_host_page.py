"""The widget on pages that are strict, hostile or differently coloured, in a real browser."""

from __future__ import annotations

import base64
import hashlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from plugins.widget.tests.test_widget import OnSite, WebSite, ask, inside, on_site, page, web_site
from tests.openai_server import FakeOpenAIServer
from tests.ui.site import violations

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["on_site", "page", "web_site"]

pytestmark = [pytest.mark.browser, pytest.mark.extended]
LEAVE = "How long is parental leave?"
RICH = """It lasts ten weeks [1], that is $\\sum_{w=1}^{10} w$ parts.

| week | paid |
|---|---|
| 1 | all |

```sh
apply --form PL-7
```
"""


def test_a_page_with_a_strict_policy_shows_it_and_reads_nothing_of_it(
    page: Page, web_site: WebSite, on_site: OnSite
) -> None:
    running = on_site()
    digest = base64.b64encode(hashlib.sha384(httpx.get(f"{running.url}/widget.js").content).digest()).decode()
    policy = f"default-src 'none'; script-src {running.url}; frame-src {running.url}"
    strict = (
        f'<!doctype html><html lang="fr"><meta http-equiv="Content-Security-Policy" content="{policy}"><title>S</title>'
        "<iframe srcdoc='x'></iframe><script TAG></script>"
    )
    page.goto(web_site.write(running, f'integrity="sha384-{digest}" crossorigin', page=strict))
    page.get_by_role("button", name="Interroger la documentation").click()
    chat = page.frame_locator("iframe[src]")
    chat.locator("#question:focus").wait_for()
    inner = inside(page, running)
    order = []
    for _ in range(4):
        page.keyboard.press("Shift+Tab")
        order.append(inner.evaluate("document.activeElement.id"))
    assert order == ["leave", "turns", "close", "new"], "as they stand, and nothing that is hidden"
    assert page.evaluate("document.querySelector('iframe[src]').contentDocument") is None
    page.evaluate("""() => {
      const frame = document.querySelector('iframe[src]').contentWindow;
      frame.postMessage("x", "*"); frame.postMessage({ anaphora: "ask", text: { toString: null } }, "*");
      frame.postMessage({ anaphora: "page", read: { url: {}, title: "<img src=x onerror=owned=1>" } }, "*");
    }""")
    chat.locator("#page", has_text="<img src=x onerror=owned=1>").wait_for()
    assert inner.evaluate("window.owned") is None
    assert chat.locator("article").count() == 0, "nothing was asked"
    assert page.context.cookies() == []


def test_a_light_colour_and_a_logo_are_taken_and_an_answer_is_stopped_and_searched_for(
    page: Page, web_site: WebSite, on_site: OnSite, llm: FakeOpenAIServer
) -> None:
    ended = threading.Event()

    def slow(_: dict[str, Any]) -> Iterator[str]:
        yield "It lasts ten weeks [1]. "
        ended.wait(120)

    llm.pieces = (RICH,)
    running = on_site(llm.url, llm={"style": "full"})
    logo = "https://site.example/logo.png"
    more = f'data-color="#ffd400" data-logo="{logo}" data-theme="light" data-mode="panel"'
    page.route(logo, lambda route: route.fulfill(body="", content_type="image/png"))
    page.goto(web_site.write(running, more))
    button = page.get_by_role("button", name="Ask the documentation")
    assert button.evaluate("(one) => getComputedStyle(one).color") == "rgb(0, 0, 0)"
    button.click()
    chat = page.frame_locator("iframe")
    assert chat.locator("#logo").get_attribute("src") == logo
    ask(chat, LEAVE, state="answered")
    assert chat.locator(".answer math").count() == 1
    assert chat.locator(".answer td").all_inner_texts() == ["1", "all"]
    assert violations(inside(page, running)) == [], "dark words on a light colour"

    llm.pieces = slow
    chat.locator("#question").fill(LEAVE)
    chat.locator("#question").press("Enter")
    chat.locator("article:nth-child(2) .answer", has_text="ten weeks").wait_for()
    chat.get_by_role("button", name="Stop").click()
    stopped = chat.locator("article:nth-child(2)[data-state=stopped]")
    stopped.wait_for()
    ended.set()
    assert "ten weeks" in stopped.locator(".answer").inner_text()
    llm.pieces = ("<cannot_answer>",)
    stopped.get_by_role("button", name="Ask again").click()
    refused = chat.locator("article:nth-child(3)[data-state=refused]")
    refused.get_by_role("button", name="Search for this instead").click()
    chat.locator("#found li").first.wait_for()
    assert chat.locator("#question").input_value() == LEAVE
