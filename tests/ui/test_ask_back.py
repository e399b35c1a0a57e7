"""A question back in a real browser: its buttons, by mouse and by keyboard, and what becomes of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.ui.conftest import Visitor

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.ui.site import Site

pytestmark = pytest.mark.browser

BACKUPS = """# Backups

## Database

A dump of the database is written every night. When the backup fails, the role may not read every table.

## Files

Files are copied by rsync. When the backup fails, the disk <b>is full</b>.

## Mail

Mail is kept for a year. When the backup fails, the mailbox is locked.
"""


@pytest.fixture(scope="module")
def site(model_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server without a model that asks back whenever it may."""
    from tests.ui.site import running_site

    home, documents = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("documents")
    (home / "models").symlink_to(model_home / "models")
    (documents / "backups.md").write_text(BACKUPS, "utf-8")
    with running_site(home, documents, "none", profile={"ask_back": 0.0001, "answerable": 0}) as running:
        yield running


@pytest.fixture
def visitor(browser: Browser, site: Site) -> Iterator[Visitor]:
    context = browser.new_context(viewport={"width": 1200, "height": 900}, service_workers="block")
    person = Visitor(context, site.address)
    yield person
    context.close()
    assert person.foreign == []
    assert person.complaints == []


@pytest.mark.extended
def test_a_question_back_is_answered_by_a_button_and_becomes_a_list(visitor: Visitor) -> None:
    page = visitor.page
    visitor.ask("backup fails", "asked")
    asked = page.locator(".turn:first-child")
    buttons = asked.locator(".choices button")
    assert sorted(buttons.all_inner_texts()) == ["Database", "Files", "Mail"]
    assert "About “Backups”" in asked.locator(".answer").inner_text()
    assert not asked.locator(".answer ol").is_visible()
    assert "read as the answer" in asked.locator(".choices").inner_text()
    assert page.get_by_role("group", name="What may be meant").get_by_role("button", name="Files").is_visible()

    # By keyboard alone, from what is typed backwards.
    files = buttons.filter(has_text="Files")
    page.focus("#question")
    for _ in range(30):
        page.keyboard.press("Shift+Tab")
        if files.evaluate("(button) => button === document.activeElement"):
            break
    page.keyboard.press("Enter")
    page.wait_for_selector(".turn:nth-child(2):not([data-state=running])")
    replied = page.locator(".turn:nth-child(2)")
    assert replied.get_attribute("data-state") in ("quoted", "refused")
    assert "backup fails (Backups › Files)" in replied.locator(".searched > summary").inner_text()
    assert "Files" in page.locator(".source .path").first.inner_text()
    assert page.evaluate("document.activeElement.id") == "question"

    # What was answered cannot be chosen again; the list says what could be.
    assert not asked.locator(".choices").is_visible()
    assert sorted(asked.locator(".answer li").all_inner_texts()) == ["Database", "Files", "Mail"]

    # As it was kept.
    page.reload()
    page.wait_for_selector(".turn:nth-child(2)")
    assert not asked.locator(".choices").is_visible()
    assert asked.locator(".answer ol").is_visible()


@pytest.mark.extended
def test_a_question_back_is_answered_by_typing_a_place_or_passed_over(visitor: Visitor) -> None:
    page = visitor.page
    visitor.ask("backup fails", "asked")
    page.reload()
    page.wait_for_selector(".turn .choices button")
    places = page.locator(".choices button").all_inner_texts()
    page.fill("#question", "the second")
    page.press("#question", "Enter")
    page.wait_for_selector(".turn:nth-child(2):not([data-state=running])")
    page.click(".turn:nth-child(2) .searched > summary")
    assert f"backup fails (Backups › {places[1]})" in visitor.last(".searched > summary")
    assert "This answers the question back" in visitor.last(".searched")

    # Nothing is asked twice in a row, but what is new may be.
    visitor.ask("does the mailbox matter?", "asked")
    assert page.locator(".turn:nth-child(3) .choices button").count() >= 2
    visitor.ask("how long is mail kept?", "quoted")
    assert "kept for a year" in visitor.last(".answer")
