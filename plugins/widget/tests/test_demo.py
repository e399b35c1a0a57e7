"""The chat of the documentation's site where no server answers: recorded turns in the widget's own page."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from plugins.widget.tests.test_widget import ask, page
from tests.installed import ROOT
from tests.ui.site import violations
from tests.web_site import FakeSite
from tests.web_site import Page as HtmlPage

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["page"]

SITE = ROOT / "docs" / "site"


@pytest.mark.browser
def test_the_site_answers_what_was_recorded(page: Page, tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("demo", SITE / "demo.py")
    assert spec
    assert spec.loader
    demo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(demo)
    demo.on_post_build({"extra": {"widget": {"address": "https://docs.example.org"}}, "site_dir": str(tmp_path)})
    assert list(tmp_path.iterdir()) == [], "a server answers there"
    demo.on_post_build({"extra": {"widget": {"address": ""}}, "site_dir": str(tmp_path)})
    turns = json.loads(demo.RECORD.read_text("utf-8"))
    with FakeSite() as site:
        kinds = {".html": "text/html; charset=utf-8", ".js": "text/javascript"}
        for file in (tmp_path / "demo").iterdir():
            site.pages[f"/demo/{file.name}"] = HtmlPage(file.read_bytes(), kinds[file.suffix])
            site.pages[f"/demo/{file.name}?lang=en"] = site.pages[f"/demo/{file.name}"]
        script = '<script src="demo/widget.js" data-key="recorded" data-search="off" async></script>'
        site.pages["/"] = HtmlPage(f"<!doctype html><html lang=en><title>Docs</title>{script}".encode())
        page.goto(f"{site.url}/")
        page.get_by_role("button", name="Ask the documentation").click()
        frame = page.frame_locator("iframe")
        frame.get_by_role("button", name=turns[0]["question"]).click()
        for n, turn in enumerate(turns, start=1):
            shown = frame.locator(f"article:nth-child({n})[data-state={turn['done']['status']}]")
            shown.locator("summary").first.click()
            quotes = [quote for one in turn["shown"]["sources"] for quote in one["quotes"]]
            assert shown.locator(".sources blockquote").count() == len(quotes)
            source = shown.get_by_role("link", name="Open at its source").first.get_attribute("href")
            assert (ROOT / source.removeprefix("../").partition(".html")[0]).with_suffix(".md").is_file(), source
            assert shown.locator(".rating").count() == 0, "nobody hears it"
            if n < len(turns):
                assert frame.locator("#question").input_value() == turns[n]["question"]
                frame.locator("#question").press("Enter")
        assert "recording" in ask(frame, "What does a licence cost?", 4, "quoted").inner_text()
        page.goto(f"{site.url}/demo/widget.html?lang=en")
        assert violations(page) == []
