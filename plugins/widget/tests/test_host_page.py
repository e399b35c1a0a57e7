"""The widget on pages that are strict, hostile or differently coloured, in a real browser."""

from __future__ import annotations

import base64
import hashlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from plugins.widget.routes import add_widget
from plugins.widget.tests.test_widget import key, web_site
from tests.openai_server import FakeOpenAIServer
from tests.serving import MakeSettings, Running, Serve
from tests.ui.site import violations

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["web_site"]

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


def served(running: Running, port: int, page: str, folder: Path) -> str:
    """Write a page of the site that has the script's tag where it says TAG."""
    tag = f'src="{running.url}/widget.js" data-key="{key(running, "visitor")}" data-collection="docs"'
    (folder / "index.html").write_text(page.replace("TAG", tag), "utf-8")
    return f"http://127.0.0.1:{port}/"


def test_a_page_with_a_strict_policy_shows_it_and_reads_nothing_of_it(
    browser: Browser, web_site: tuple[int, Path], serve: Serve, settings_for: MakeSettings
) -> None:
    port, folder = web_site
    running = serve(settings_for("none", plugins={"widget": {"origins": [f"http://127.0.0.1:{port}"]}}))
    add_widget(running.app, running.service)
    digest = base64.b64encode(hashlib.sha384(httpx.get(f"{running.url}/widget.js").content).digest()).decode()
    policy = f"default-src 'none'; script-src {running.url}; frame-src {running.url}"
    head = (
        f'<!doctype html><html lang="fr"><meta http-equiv="Content-Security-Policy" content="{policy}"><title>S</title>'
    )
    hostile = "<iframe srcdoc='x'></iframe>"
    address = served(
        running, port, f'{head}{hostile}<script TAG integrity="sha384-{digest}" crossorigin async></script>', folder
    )
    context = browser.new_context(service_workers="block")
    page = context.new_page()
    page.goto(address)
    page.get_by_role("button", name="Interroger la documentation").click()
    chat = page.frame_locator("iframe[src]")
    chat.locator("#question:focus").wait_for()
    inner = next(frame for frame in page.frames if frame.url.startswith(running.url))
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
    assert context.cookies() == []
    context.close()


def test_a_light_colour_and_a_logo_are_taken_and_an_answer_is_stopped_and_searched_for(
    browser: Browser, web_site: tuple[int, Path], serve: Serve, settings_for: MakeSettings, llm: FakeOpenAIServer
) -> None:
    port, folder = web_site
    ended = threading.Event()

    def slow(_: dict[str, Any]) -> Iterator[str]:
        yield "It lasts ten weeks [1]. "
        ended.wait(120)

    llm.pieces = (RICH,)
    plugins: dict[str, object] = {"widget": {"origins": [f"http://127.0.0.1:{port}"]}}
    running = serve(settings_for(llm.url, plugins=plugins, llm={"style": "full"}))
    add_widget(running.app, running.service)
    logo = "https://site.example/logo.png"
    more = f'data-color="#ffd400" data-logo="{logo}" data-theme="light" data-mode="panel"'
    page = browser.new_context(service_workers="block").new_page()
    page.route(logo, lambda route: route.fulfill(body="", content_type="image/png"))
    page.goto(served(running, port, f"<!doctype html><title>S</title><script TAG {more}></script>", folder))
    button = page.get_by_role("button", name="Ask the documentation")
    assert button.evaluate("(one) => getComputedStyle(one).color") == "rgb(0, 0, 0)"
    button.click()
    chat = page.frame_locator("iframe")
    assert chat.locator("#logo").get_attribute("src") == logo
    chat.locator("#question").fill(LEAVE)
    chat.locator("#question").press("Enter")
    chat.locator("article[data-state=answered]").wait_for()
    assert chat.locator(".answer math").count() == 1
    assert chat.locator(".answer td").all_inner_texts() == ["1", "all"]
    inner = next(frame for frame in page.frames if frame.url.startswith(running.url))
    assert violations(inner) == [], "dark words on a light colour"

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
    page.context.close()
