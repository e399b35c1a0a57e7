"""The workbench in a real browser, with a real server and command: nothing is markup, hostile names everywhere."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.eventually import eventually
from tests.ui.site import violations
from text.progress import progress_reporter, track_progress

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.ui.conftest import Visitor
    from tests.ui.site import Site

pytestmark = pytest.mark.browser

SETTINGS = "[plugins.insights]\nenabled = true\n"

HOSTILE = "<img src=x onerror=\"window.owned='bench'\">"
HOSTILE_QUESTION = "Where is the ladle <img src=x onerror=window.owned=1>?"


def test_turns_are_reviewed_by_keys(visitor: Visitor, site: Site) -> None:
    page = visitor.page
    visitor.ask("How often should I descale the kettle?")
    visitor.ask(HOSTILE_QUESTION, "refused")
    page.click("[data-part=workbench] a")
    page.wait_for_selector(".one:not([hidden])")
    assert page.url.startswith(f"{site.address}/workbench/review")
    # The refused turn comes first, and is at hand.
    assert page.locator(".turns button").all_inner_texts()[0].startswith(HOSTILE_QUESTION)
    assert page.locator("[data-part=asked]").inner_text() == HOSTILE_QUESTION
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
    assert page.locator(".passages .passage").evaluate_all(
        "all => all.every((one) => one.scrollHeight <= one.clientHeight || getComputedStyle(one).overflowY === 'auto')"
    ), "all of a passage can be read"
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


@pytest.fixture(scope="module")
def bench(browser: Browser, site: Site) -> Iterator[Page]:
    """One window for all tabs; afterwards nothing of a document, a question or a run has been run in it."""
    from tests.ui.conftest import record_complaints

    context = browser.new_context(
        base_url=site.address, viewport={"width": 1280, "height": 900}, service_workers="block"
    )
    page = context.new_page()
    complaints = record_complaints(page)
    page.on("dialog", lambda dialog: dialog.accept())
    yield page
    owned = page.evaluate("window.owned")
    context.close()
    assert (owned, complaints) == (None, [])


def is_accessible(page: Page) -> None:
    """axe finds nothing serious, and nothing is wider than a phone."""
    assert violations(page) == []
    page.set_viewport_size({"width": 390, "height": 800})
    page.wait_for_function("document.documentElement.scrollWidth <= 390")
    page.set_viewport_size({"width": 1280, "height": 900})


@pytest.mark.extended
def test_documents_are_listed_added_shown_deleted_with_undo_and_indexed_again(bench: Page, tmp_path: Path) -> None:
    page = bench
    page.goto("/workbench/documents")
    row = page.locator("[data-part=list] tr", has_text="teapot.md")
    row.wait_for()
    page.fill("[data-part=find]", "pump")
    assert page.locator("[data-part=list] tbody tr").count() == 1
    page.fill("[data-part=find]", "")

    name = tmp_path / "note <b>bold<b>.md"
    name.write_text(f"# {HOSTILE}\n\nThe gasket {HOSTILE} is green.\n")
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(b"%PDF-1.4 nothing")
    with page.expect_file_chooser() as chooser:
        page.click("[data-part=add]")
    chooser.value.set_files([name, broken])
    added = page.locator("[data-part=list] tr", has_text="uploads/note")
    added.wait_for()
    page.wait_for_selector("[data-part=jobs] td:has-text('broken.pdf')")
    added.get_by_role("button", name="Show").press("Enter")
    page.wait_for_selector("dialog[open] pre:has-text('The gasket')")
    is_accessible(page)
    page.get_by_role("button", name="Text", exact=True).click()
    page.wait_for_selector("dialog[open] pre:has-text('green')")
    page.keyboard.press("Escape")

    added.get_by_role("button", name="Delete").click()
    assert added.count() == 0
    page.get_by_role("button", name="Undo").click()
    added.get_by_role("button", name="Delete").click()
    page.goto("/workbench/health")  # who leaves has not undone it
    page.goto("/workbench/documents")

    def deleted() -> bool:
        page.reload()
        row.wait_for()
        return page.locator("[data-part=list] tr", has_text="uploads/note").count() == 0

    eventually(deleted)
    page.click("[data-part=reindex]")
    page.wait_for_selector("[data-part=jobs] p:has-text('reindex: done')")

    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "one.md").write_text(f"# {HOSTILE}\n\nThe valve is blue.\n")
    page.click("[data-part=follow] summary")
    page.fill("[data-part=source] [name=name]", "notes")
    page.select_option("[data-part=source] [name=kind]", "folder")
    page.fill("[data-part=source] [name=location]", str(notes))
    page.select_option("[data-part=source] [name=every]", "6h")
    page.get_by_role("button", name="Follow", exact=True).click()
    followed = page.locator("[data-part=sources] tbody tr", has_text="every 6h, next").first
    followed.wait_for()
    followed.get_by_text("What changed").click()
    page.wait_for_selector("[data-part=sources] td:has-text('one.md')")
    page.get_by_role("button", name="Documents of notes").click()
    page.wait_for_selector("dialog[open] td:has-text('one.md')")
    is_accessible(page)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Dry run notes").click()
    page.wait_for_selector("[data-part=jobs] p:has-text('sync: done')")
    page.get_by_role("button", name="Remove notes").click()
    followed.wait_for(state="detached")

    page.click("[data-part=new] summary")
    page.fill("[data-part=create] [name=name]", "fresh")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Choose its files").click()
    chooser.value.set_files(name)
    page.wait_for_selector("[data-part=list] tr:has-text('uploads/note')")
    assert page.input_value("[data-part=collection]") == "fresh"
    page.click("[data-part=remove]")
    page.wait_for_selector("[data-part=collection] option[value=fresh]", state="detached")


@pytest.mark.extended
def test_a_list_drawn_anew_keeps_the_focus_a_press_and_what_is_open(bench: Page) -> None:
    """What a job, a clock or an answer draws anew takes nothing away from who is at it; the filter stands for these."""
    page = bench

    def redraw(find: str) -> None:
        page.evaluate(
            "(text) => { const box = document.querySelector('[data-part=find]');"
            "box.value = text; box.dispatchEvent(new Event('input')); }",
            find,
        )

    page.goto("/workbench/documents")
    shown = page.get_by_role("button", name="Show Kettle care")
    shown.focus()
    for find in ("", "kettle", "", "e"):  # rows before it come and go
        redraw(find)
        assert shown.evaluate("(one) => document.activeElement === one")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open] pre:has-text('Descale the kettle')")
    page.keyboard.press("Escape")
    shown.hover()
    page.mouse.down()
    redraw("e")
    page.mouse.up()
    page.wait_for_selector("dialog[open] pre:has-text('Descale the kettle')")
    page.keyboard.press("Escape")
    redraw("teapot")  # the focus never goes to another document
    assert page.evaluate("document.activeElement === document.body")


def written_runs(home: Path) -> None:
    """Two evaluations, an adaptation with a hostile reason, and a run that can serve."""
    from evaluation.run_folder import Metric, RunWriter
    from rewriter.load import packaged_folder
    from server.settings import Settings

    for name, value in (("old", 0.25), ("new", 0.75)):
        folder = home / "eval" / "runs" / name
        folder.mkdir(parents=True)
        writer = RunWriter(folder, "retrieval")
        writer.metrics.append(Metric("town", "passage", "typed:rrf", "all", "AP", value, value, value, 3))
        writer.write_scores("town", "typed:rrf", "passage", {q: {"AP": value} for q in ("one", "two", "three")})
        rows = [{"id": q, "text": HOSTILE, "history": []} for q in ("one", "two", "three")]
        writer.write_rows(rows, "town", "questions.jsonl")
        writer.notes.append(HOSTILE)
        writer.finish(Settings(home=home))
    packaged = packaged_folder()
    assert packaged is not None
    shutil.copytree(packaged, home / "rewriters" / "good")
    change = {"group": HOSTILE, "level": "passage", "measure": "AP", "questions": 9, "before": 0.5, "after": 0.625}
    (home / "adapt" / "good").mkdir(parents=True)
    (home / "adapt" / "good" / "state.json").write_text(json.dumps({"done": {"evaluate": {"changes": [change]}}}))


@pytest.mark.extended
def test_a_run_is_watched_compared_promoted_and_rolled_back(bench: Page, site: Site) -> None:
    page, home = bench, site.service.settings.home
    written_runs(home)
    page.goto("/workbench/runs")
    page.click("[data-part=start] summary")
    page.wait_for_selector("[data-part=commands] pre:has-text('anaphora synth')")
    with track_progress(home / "synth" / "tried"):
        progress_reporter()(f"pairs {HOSTILE}", 20, 40)
        page.click("[data-run='synth/tried']")
        page.wait_for_selector("[data-part=detail] progress[value='20']")
        progress_reporter()("pairs", 30, 40)
        page.wait_for_selector("[data-part=detail] progress[value='30']")
    page.wait_for_selector("[data-part=detail] .state:has-text('unfinished')")

    page.click("[data-run='rewriters/good']")
    page.locator("[data-part=detail]", has_text=HOSTILE).wait_for()
    assert HOSTILE in page.inner_text("[data-part=detail]")
    is_accessible(page)
    page.get_by_role("button", name="Promote").press("Enter")
    page.wait_for_selector("[data-part=detail] .state:has-text('serves')")
    assert (home / "rewriters" / "promoted.json").is_file()
    page.get_by_role("button", name="Roll back the rewriter").click()
    page.wait_for_selector("[data-part=detail] button:has-text('Promote')")

    page.click("[data-run='eval/new']")
    page.select_option("[data-part=detail] select", "old")
    page.wait_for_selector("[data-part=detail] a[href$='?before=old']")
    page.click("[data-part=detail] a[href$='?before=old']")
    page.wait_for_selector("h2:has-text('new against old')")
    assert HOSTILE in page.inner_text("body")
    assert page.locator("img").count() == 0


@pytest.mark.extended
def test_health_shows_numbers_and_what_found_nothing(bench: Page, site: Site) -> None:
    from server.chat import TurnRequest

    page = bench
    asked = f"Which quasars hum at noon {HOSTILE}?"

    async def ask() -> None:
        async for _ in site.service.turns.ask(TurnRequest(question=asked, collection="docs")):
            pass

    site.ask(ask())
    page.goto("/workbench/health")
    page.wait_for_selector("figure svg")
    assert "A sentence is supported if the words" in page.inner_text("main > .note"), "what the figures mean"
    page.wait_for_selector("[data-part=insights-gaps] td:has-text('quasars')")
    assert asked in page.inner_text("[data-part=insights-gaps]")
    for word in ("refused", "doubted", "folded", "contradicted"):
        assert word in page.inner_text("[data-part=sum]")
    page.select_option("[data-part=days]", "7")
    page.wait_for_selector("figure:first-of-type tbody tr:nth-child(7):last-child", state="attached")
    is_accessible(page)
