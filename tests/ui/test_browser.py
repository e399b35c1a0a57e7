"""What a person sees and does, in a real browser against a real server."""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from server.chat import NotFound
from server.chat.base import QueueFull
from tests.eventually import eventually
from tests.rows import ratings
from tests.ui.site import CURATED, violations

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Request, Route

    from tests.ui.conftest import Visitor
    from tests.ui.site import Site

pytestmark = pytest.mark.browser

WATCH = """() => {
  const dangerous = 'script, iframe, form, img, object, embed, meta, style, link, base, svg:not(.icon, .brand svg)';
  window.seen = new Set();
  const look = () => document.querySelectorAll('.chat, .panel, .reader, .rail').forEach((part) =>
    part.querySelectorAll(dangerous).forEach((found) => window.seen.add(found.outerHTML)));
  new MutationObserver(look).observe(document.body, {subtree: true, childList: true, attributes: true});
}"""

LISTS = """() => {
  const call = anaphora.call.bind(anaphora);
  window.lists = 0;
  anaphora.call = async (server, name, data) => {
    const one = name === "list_conversations" ? 1 : 0;
    window.lists += one;
    const answer = await call(server, name, data);
    window.lists -= one;
    return answer;
  };
}"""
"""How many lists of conversations are asked for and not here; with the last, its answer has been dealt with."""

UNNAMED = """[...document.querySelectorAll('button, a[href], input, select, textarea')].filter((control) => !(
  control.getAttribute('aria-label') || control.textContent.trim() || control.title || control.labels?.length
)).map((control) => control.outerHTML)"""


def test_a_question_and_its_follow_up_are_answered_with_sources(visitor: Visitor, site: Site) -> None:
    page = visitor.page
    assert page.locator(".examples .text").all_inner_texts() == [*CURATED, "What does the lid seal keep in?"]
    page.wait_for_selector(".panel", state="hidden")  # it would be empty
    visitor.ask("How often should I descale the kettle?")
    assert "every three months" in visitor.last(".answer")
    assert "every three months" in page.locator(".source:not(.uncited) mark").first.inner_text()
    assert page.locator(".turn:last-child .doubt").inner_text().startswith("It also sings")

    visitor.ask("And how do I turn that alarm off?")
    page.click(".turn:last-child .chip")
    page.wait_for_selector(".source.selected mark.selected")
    assert "hold the lid button" in page.locator(".source.selected mark.selected").inner_text()
    assert "Turn off the alarm" in page.locator(".source.selected .path").inner_text()
    asked = page.locator(".turn").last.get_attribute("data-turn") or ""
    opened = lambda: site.ask(site.service.turns.get(asked)).opened  # noqa: E731
    assert len(eventually(opened)) == 1

    page.click(".turn:last-child .searched > summary")
    page.click(".turn:last-child .variants > summary")
    assert "And how do I turn that alarm off?" in visitor.last(".variants table")

    page.click(".source:not(.selected) .open")
    page.wait_for_selector(".reader[open] mark")
    assert eventually(lambda: len(opened()) == 2), "a source that is opened in its document counts, too"
    page.keyboard.press("Escape")
    page.click(".source.selected .open")
    page.wait_for_selector(".reader[open] mark")
    assert "hold the lid button" in page.locator(".reader mark").first.inner_text()
    assert "Replace the filter" in page.locator(".reader").inner_text()
    # An image of the collection is shown, by us; those of others never are.
    page.wait_for_function("document.querySelector('.reader img')?.naturalWidth === 40")
    page.keyboard.press("Escape")
    page.wait_for_selector(".reader", state="hidden")


@pytest.mark.extended
def test_feedback_is_kept_with_its_reason_and_comment(visitor: Visitor, site: Site) -> None:
    page = visitor.page
    visitor.ask("How often must it be descaled?")
    turn = page.locator(".turn").get_attribute("data-turn")
    assert page.locator(".feedback").is_hidden()
    held: list[Route] = []
    order: list[tuple[str, Request]] = []

    def slowly(route: Route) -> None:
        if '"rate"' in (route.request.post_data or "") and not held:
            held.append(route)
        else:
            route.continue_()

    page.route(re.compile("component_server"), slowly)
    page.on("request", lambda request: order.append(("asked", request)))
    page.on("response", lambda response: order.append(("answered", response.request)))
    page.click('.turn [data-rating="down"][data-action="rate"]')
    page.wait_for_selector(".turn .actions ~ .feedback:visible")
    page.click('.reasons >> text="Incomplete"')
    page.fill(".feedback textarea", "Hard water is missing <b>.")
    page.click('[data-action="feedback"]')
    held[0].continue_()
    page.wait_for_selector(".feedback", state="hidden")
    said = [(what, request.post_data) for what, request in order if '"rate"' in (request.post_data or "")]
    assert [what for what, _ in said] == ["asked", "answered"] * 3, "what was said last waits for what was said first"
    assert "Hard water" in str(said[-1])
    kept = [record for record in ratings(site.service) if record.turn_id == turn]
    assert [(one.rating, one.reason, one.comment) for one in kept] == [
        ("down", "Incomplete", "Hard water is missing <b>.")
    ]
    page.reload()
    page.wait_for_selector('.turn [data-rating="down"][aria-pressed="true"]')
    page.click('.turn [data-rating="down"][data-action="rate"]')
    page.wait_for_selector('.turn [data-rating="down"][data-action="rate"][aria-pressed="false"]')
    page.wait_for_function("document.querySelector('[data-part=said]').textContent === 'Taken back.'")
    assert turn not in {record.turn_id for record in ratings(site.service)}


@pytest.mark.extended
def test_other_search_words_run_the_turn_again(visitor: Visitor, site: Site) -> None:
    page = visitor.page
    visitor.ask("Which form is it?")
    first = page.locator(".turn").get_attribute("data-turn")
    page.click(".searched > summary")
    page.fill('[data-enter="search"]', "warranty repair receipt")
    page.click('[data-action="search"]')
    page.wait_for_selector(f'.turn[data-state="answered"]:not([data-turn="{first}"])')
    assert page.locator(".turn").count() == 1
    assert "warranty repair receipt" in visitor.last(".searched")
    assert "W-17" in visitor.last(".answer")

    visitor.ask("How often should I descale the kettle?")
    leaning = page.locator(".turn:last-child").get_attribute("data-turn")
    page.click(".turn:last-child .searched > summary")
    page.click('.turn:last-child [data-action="search-alone"]')
    page.wait_for_selector(f'.turn:last-child[data-state="answered"]:not([data-turn="{leaning}"])')
    assert "as a new question" in visitor.last(".searched > summary")
    assert page.locator('.turn:last-child [data-action="search-alone"]').count() == 0


@pytest.mark.extended
def test_a_conversation_is_reopened_renamed_found_and_deleted(visitor: Visitor, site: Site) -> None:
    page = visitor.page
    model = page.locator("[data-part=model]")
    model.select_option("Second")
    visitor.ask("How often should a kettle of steel be descaled?")
    page.wait_for_function("location.search.startsWith('?c=')")
    page.reload()
    page.wait_for_selector(".turn .chip")
    page.wait_for_function("document.querySelector('[data-part=model]').value === 'Second'")
    model.select_option("")
    kept = page.url.partition("?c=")[2]
    page.wait_for_function("document.querySelector('[data-part=model]').dataset.chosen === ''")
    assert site.ask(site.service.conversations.get(kept)).model == ""

    assert page.locator("[data-part=share], [data-part=export]").all_inner_texts() == ["Share", "Export"]
    page.click('[data-action="share"]')
    shared = page.locator('.toast:has-text("/shared/")')
    link = re.search(r"http://\S+/shared/\S+?(?=Undo|\s|$)", shared.inner_text())
    assert link is not None
    reading = page.context.new_page()
    reading.goto(link[0])
    assert "every three months" in reading.inner_text(".shared")
    looks = (
        "one => Object.values(['fontSize', 'color', 'fontWeight'].map((name) => getComputedStyle(one)[name])).join()"
    )
    parts = [reading.locator(f".shared {part}").first for part in (".asked", ".answer", ".cited blockquote")]
    assert len({part.evaluate(looks) for part in parts}) == 3, "question, answer and quote look different"
    reading.close()
    with page.expect_response(re.compile("component_server")) as revoked:
        shared.locator('button:text("Undo")').click()
    revoked.value.finished()
    assert page.request.get(link[0]).status == 404
    assert "every three months" in visitor.last(".answer")
    assert page.locator(".source").count() >= 1

    page.hover(".conversation.current")
    page.click('.conversation.current [data-action="rename"]')
    page.fill(".rename", "Steel <i>kettles</i>")
    page.evaluate(LISTS)
    page.evaluate("anaphora.emit('elsewhere', {})")  # another tab has changed something
    page.wait_for_function("window.lists === 0")
    page.keyboard.press("Enter")
    page.wait_for_selector('.conversation.current .title:text("Steel <i>kettles</i>")')
    assert page.locator("[data-part=title]").inner_text() == "Steel <i>kettles</i>"

    page.click('[data-action="new"]')
    page.wait_for_selector(".welcome h1")
    held: list[Route] = []

    def slowly(route: Route) -> None:
        if "list_conversations" in (route.request.post_data or "") and not held:
            held.append(route)
        else:
            route.continue_()

    page.route(re.compile("component_server"), slowly)
    page.evaluate("anaphora.emit('elsewhere', {})")
    page.fill("#find", "Steel")
    page.wait_for_selector('.group h3:text("Found")')
    assert page.evaluate("window.lists") == 1
    held[0].continue_()
    page.wait_for_function("window.lists === 0")
    assert page.locator(".group h3").all_inner_texts() == ["Found"], "what was asked before comes too late"
    page.click('.conversation a:has-text("Steel")')
    page.wait_for_selector(".turn .chip")
    assert page.locator(".welcome").count() == 0
    page.hover(".conversation.current")
    here = page.url
    page.click('.conversation.current [data-action="delete"]')
    page.wait_for_selector(".welcome h1")
    assert page.url.endswith("/")
    assert not page.locator('.conversation a:has-text("Steel")').is_visible()
    page.click('.toast button:text("Undo")')
    page.wait_for_selector(".turn .chip")
    assert page.url == here
    page.hover(".conversation.current")
    page.click('.conversation.current [data-action="delete"]')
    page.wait_for_selector(".welcome h1")
    # Who leaves the page has not undone it.
    page.goto("about:blank")

    def gone() -> bool:
        with contextlib.suppress(NotFound):
            return not site.ask(site.service.conversations.get(here.partition("?c=")[2]))
        return True

    eventually(gone)
    page.go_back()
    page.wait_for_selector(".welcome h1")


@pytest.mark.extended
def test_an_uploaded_file_can_be_asked_about(visitor: Visitor, tmp_path: Path) -> None:
    page = visitor.page
    file = tmp_path / "saucer <b>.md"
    file.write_text("# Saucer\n\nThe saucer is made of oak and must not be washed.\n", encoding="utf-8")
    page.set_input_files("#files", str(file))
    page.wait_for_selector('.job[data-state="done"]')
    assert "ready, 1 passage" in page.locator(".job").inner_text()
    visitor.ask("What is the saucer made of?")
    page.click(".turn:last-child .chip")
    assert "made of oak" in page.locator(".source.selected mark").first.inner_text()


@pytest.mark.extended
def test_any_number_of_files_is_sent_and_dropped_anywhere(visitor: Visitor) -> None:
    page, sent = visitor.page, list[str]()

    def taken(route: Route) -> None:
        sent.append(route.request.url)
        route.fulfill(status=202, json={"id": f"none-{len(sent)}"})

    page.route("**/documents", taken)
    page.set_input_files("#files", [{"name": f"{n}.md", "mimeType": "text/plain", "buffer": b"x"} for n in range(51)])
    page.wait_for_selector(".toast:has-text('There is no job')")
    assert len(sent) == 51
    kept = page.evaluate(
        """() => {
            const carried = new DataTransfer();
            carried.items.add(new File(["x"], "x.md"));
            const event = new DragEvent("drop", { dataTransfer: carried, bubbles: true, cancelable: true });
            return !document.querySelector(".chat").dispatchEvent(event);
        }"""
    )
    assert kept, "the browser would have left the page for the file"
    page.wait_for_selector(".sending", state="detached")
    assert len(sent) == 52


@pytest.mark.extended
def test_sending_a_file_shows_how_much_has_been_sent(visitor: Visitor, tmp_path: Path) -> None:
    page = visitor.page
    file = tmp_path / "long.txt"
    file.write_text("Nothing to see in this file.\n" * 20_000, encoding="utf-8")
    slow = page.context.new_cdp_session(page)
    slow.send("Network.enable")
    limits = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 300_000}
    slow.send("Network.emulateNetworkConditions", limits)
    page.set_input_files("#files", str(file))
    # Told at once: the row goes when everything has been sent.
    told = page.wait_for_function(
        """() => {
            const row = document.querySelector(".sending"), sent = row?.querySelector("progress").value;
            return sent > 0 && sent < 1 && [".name", ".meta"].map((one) => row.querySelector(one).textContent);
        }"""
    )
    name, share = told.json_value()
    assert name == "long.txt"
    assert "%" in share
    page.wait_for_selector(".job[data-state]")
    assert page.locator(".sending").count() == 0
    page.wait_for_selector('.job[data-state="done"]')


@pytest.mark.extended
def test_a_refused_retry_brings_back_what_it_would_have_replaced(visitor: Visitor, site: Site) -> None:
    page = visitor.page
    visitor.ask("How often should I descale the kettle?")
    visitor.ask("How often, with hard water?")
    before = [turn.get_attribute("data-turn") for turn in page.locator(".turn").all()]

    admission, places = site.service.core.admission, []
    with contextlib.suppress(QueueFull):
        while True:
            places.append(admission.enter())
    page.click('.turn:first-child [data-action="retry"]')
    page.wait_for_selector('.turn[data-state="failed"]')
    assert "Try again in" in visitor.last(".banner")
    assert [turn.get_attribute("data-turn") for turn in page.locator(".turn").all()] == [*before, ""]
    for place in places:
        place.release()

    page.click('.turn:first-child [data-action="retry"]')
    page.wait_for_selector('.turn:only-child[data-state="answered"]')
    conversation = page.url.partition("?c=")[2]
    assert len(site.ask(site.service.conversations.get(conversation)).messages) == 1

    # Nothing is lost: the first version comes back with what followed it, here and after the page is loaded again.
    assert page.inner_text(".versions .meta") == "2/2"
    page.click('[data-action="version"][aria-label="The version before"]')
    page.wait_for_selector(f'.turn:last-child[data-turn="{before[1]}"]')
    assert [turn.get_attribute("data-turn") for turn in page.locator(".turn").all()] == before
    assert page.inner_text(".turn:first-child .versions .meta") == "1/2"
    page.reload()
    page.wait_for_selector(f'.turn:last-child[data-turn="{before[1]}"]')
    page.click('[data-action="version"][aria-label="The version after"]')
    page.wait_for_selector('.turn:only-child[data-state="answered"]')
    assert page.inner_text(".versions .meta") == "2/2"


def test_a_poisoned_document_and_answer_do_nothing(visitor: Visitor) -> None:
    page = visitor.page
    # Every change of the page is looked at while the answer streams, not only the end.
    page.evaluate(WATCH)
    visitor.ask("Is the glaze safe?")
    assert "<script>window.owned='answer'</script>" in visitor.last(".answer")
    page.click(".turn:last-child .chip")
    page.wait_for_selector(".source.selected mark.selected")
    assert "onerror" in page.locator(".panel").inner_text()
    page.click(".source.selected .open")
    page.wait_for_selector(".reader[open] mark")
    for part in (".chat", ".panel", ".reader"):
        for link in page.locator(f"{part} a").all():
            assert not (link.get_attribute("href") or "").startswith("javascript")
    page.evaluate("new Promise(requestAnimationFrame)")  # what is in the page has been drawn, and its parts asked for
    assert page.evaluate("[...window.seen]") == []


def test_stopping_keeps_what_was_shown_and_retry_replaces_it(visitor: Visitor, site: Site) -> None:
    page = visitor.page
    page.fill("#question", "Tell me a story about the kettle")
    page.press("#question", "Enter")
    page.wait_for_selector('.turn:has-text("Once upon a time")')
    page.keyboard.press("Escape")
    page.wait_for_selector('.turn[data-state="interrupted"][data-turn]')
    assert "Stopped before the end." in visitor.last(".banner")
    conversation = page.url.partition("?c=")[2]
    kept = site.ask(site.service.conversations.get(conversation)).messages
    assert [turn.status for turn in kept] == ["interrupted"]
    assert kept[0].answer.startswith("Once upon a time")

    page.click('[data-action="edit"]')
    page.fill("textarea.edit", "How often should I descale it?")
    page.keyboard.press("Enter")
    page.wait_for_selector('.turn[data-state="answered"]')
    edited = page.locator(".turn").get_attribute("data-turn")
    page.click('[data-action="retry"]')
    page.wait_for_selector(f'.turn[data-state="answered"]:not([data-turn="{edited}"])')
    kept = site.ask(site.service.conversations.get(conversation)).messages
    assert [turn.question for turn in kept] == ["How often should I descale it?"]
    assert kept[0].id != edited


@pytest.mark.extended
def test_a_question_in_parts_shows_where_it_is_and_can_be_stopped(visitor: Visitor, site: Site) -> None:
    page = visitor.page
    page.fill("#question", "How often should I descale the kettle, and how do I find the story of the warranty?")
    page.press("#question", "Enter")
    page.wait_for_selector('.turn .waiting:has-text("(2 of 2)")')
    page.wait_for_selector('.turn:has-text("Once upon a time")')
    page.keyboard.press("Escape")
    page.wait_for_selector('.turn[data-state="interrupted"][data-turn]')
    (kept,) = site.ask(site.service.conversations.get(page.url.partition("?c=")[2])).messages
    assert "every three months" in kept.answer
    assert "Once upon a time" in kept.answer


@pytest.mark.extended
def test_a_turn_goes_on_while_its_page_is_reloaded_and_is_found_again(visitor: Visitor, site: Site) -> None:
    page = visitor.page
    page.fill("#question", "Another story about the kettle")
    page.route("**/queue/join*", lambda _: None)
    with page.expect_request("**/queue/join*"):
        page.press("#question", "Enter")
    page.unroute("**/queue/join*")
    page.reload()
    # It had not begun, so it is here again.
    page.wait_for_function("document.querySelector('#question')?.value === 'Another story about the kettle'")
    page.press("#question", "Enter")
    page.wait_for_selector('.turn:has-text("Once upon a time")')
    conversation = page.url.partition("?c=")[2]
    page.reload()
    page.wait_for_selector('.turn[data-state="running"]:has-text("Once upon a time")')
    assert page.input_value("#question") == ""
    # Another conversation, and back.
    page.click('[data-action="new"]')
    page.wait_for_selector(".welcome h1")
    page.go_back()
    page.wait_for_selector('.turn[data-state="running"]:has-text("Once upon a time")')
    assert [turn.status for turn in site.ask(site.service.conversations.get(conversation)).messages] == ["pending"]
    # A phone that was locked asks for what it has missed once it is looked at again.
    with page.expect_request(re.compile("queue/join")):
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    page.wait_for_selector('.turn[data-state="running"]:has-text("Once upon a time")')
    page.click('[data-action="stop"]')
    page.wait_for_selector('.turn[data-state="interrupted"]:has-text("Once upon a time")')
    (kept,) = site.ask(site.service.conversations.get(conversation)).messages
    assert kept.status == "interrupted"
    assert kept.answer.startswith("Once upon a time")


@pytest.mark.extended
def test_a_phone_that_loses_the_network_twice_has_its_answer(browser: Browser, site: Site) -> None:
    from tests.ui.conftest import SENTENCES, Visitor

    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    person = Visitor(context, site.address)
    page = person.page
    page.fill("#question", "Tell me a tale of the kettle")
    page.tap('.composer [data-action="send"]')
    SENTENCES.release()
    page.wait_for_selector('.turn:has-text("kettle 0")')
    lost: list[str] = []

    def looks(route: Route) -> None:
        """The network goes once more while the page looks for what it has missed."""
        if "open_conversation" in (route.request.post_data or "") and not lost:
            lost.append(route.request.url)
            route.abort("internetdisconnected")
        else:
            route.continue_()

    page.route(re.compile("component_server"), looks)
    context.set_offline(True)
    page.wait_for_function("!navigator.onLine")
    with page.expect_request(re.compile("queue/join")):  # it asks for the pictures of the running turn
        context.set_offline(False)
    assert lost
    SENTENCES.release()
    page.wait_for_selector('.turn[data-state="running"]:has-text("kettle 1")')

    # The second time what is open breaks as well, upon which the frame's own program loads the page again.
    page.fill("#question", "And the lid?")
    with page.expect_navigation():
        context.set_offline(True)
        site.cut()
        SENTENCES.release()
        context.set_offline(False)
    page.wait_for_selector('.turn[data-state="running"]:has-text("kettle 2")')
    assert page.input_value("#question") == "And the lid?", "what was being written is kept"
    SENTENCES.release()
    page.wait_for_selector('.turn[data-state="running"]:has-text("kettle 3")')
    SENTENCES.release()
    page.wait_for_selector('.turn[data-state="answered"]:has-text("kettle 4")')
    assert page.locator(".turn").count() == 1
    assert not page.locator(".held").is_visible()
    person.ask("How often should I descale it?")
    assert "every three months" in person.last(".answer")
    context.close()


@pytest.mark.extended
def test_the_page_speaks_german_japanese_and_arabic_from_right_to_left(browser: Browser, site: Site) -> None:
    from tests.ui.conftest import Visitor

    context = browser.new_context(viewport={"width": 1440, "height": 900}, locale="de-AT")
    person = Visitor(context, site.address)
    page = person.page

    def language() -> list[str]:
        root: list[str] = page.evaluate("[document.documentElement.lang, document.documentElement.dir]")
        return root

    def at_left(selector: str) -> float:
        box = page.locator(selector).first.bounding_box()
        assert box
        return box["x"]

    assert language() == ["de", "ltr"]
    assert page.locator(".welcome h1").inner_text() == "Was möchten Sie wissen?"
    assert page.get_attribute("#question", "placeholder") == "Fragen Sie zu den Dokumenten"
    assert "Neues Gespräch" in page.locator('[data-action="new"]').inner_text()
    assert at_left(".rail") == 0
    person.ask("Who walks the unicorn of the seventh moon?", "refused")
    refusal = "Ich habe in den Dokumenten keine sichere Antwort darauf gefunden. Gesucht wurde nach „Who"
    assert person.last(".answer").startswith(refusal)
    person.ask("How often should I descale the kettle?")
    page.wait_for_function("document.querySelectorAll('.turn:last-child .actions [data-action=sources]').length")
    assert re.fullmatch(r"\d Quellen?", person.last('[data-action="sources"]'))
    assert page.locator("#language").input_value() == "de"
    bench = page.request.get(site.address + "/workbench").text()
    assert "Light or dark" in bench, "a page that is English is English throughout"

    with page.expect_navigation():
        page.select_option("#language", "ja")
    page.wait_for_selector(".turn .chip")
    assert language() == ["ja", "ltr"]
    assert page.get_attribute("#question", "placeholder") == "文書について質問する"
    assert re.fullmatch(r"出典 \d 件", person.last('[data-action="sources"]'))
    page.dispatch_event("#question", "keydown", {"key": "Enter", "isComposing": True})
    assert page.locator(".turn").count() == 2, "Enter chooses among an input method's words, and asks nothing"

    with page.expect_navigation():
        page.select_option("#language", "ar")
    page.wait_for_selector(".turn .chip")
    assert language() == ["ar", "rtl"]
    assert "محادثة جديدة" in page.locator('[data-action="new"]').inner_text()
    assert page.locator(".panel h2").inner_text() == "المصادر"
    assert at_left(".panel") == 0 < at_left(".chat") < at_left(".rail"), "the three parts are mirrored"
    assert "every three months" in person.last(".answer")
    assert violations(page) == []

    page.click(".turn:last-child .searched > summary")
    page.click(".turn:last-child .variants > summary")
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_function("document.documentElement.scrollWidth === 390")
    page.wait_for_selector(".rail", state="hidden")
    parts = "[...document.querySelectorAll('.chat .bar, .scroll, .dock')]"
    wide = f"{parts}.map((one) => one.scrollWidth - one.clientWidth)"
    assert page.evaluate(wide) == [0, 0, 0]
    page.click('[data-action="toggle-rail"]')
    page.wait_for_selector(".rail", state="visible")
    page.wait_for_function("document.querySelector('.rail').getBoundingClientRect().right === 390")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert person.complaints == []
    context.close()


@pytest.mark.extended
def test_a_phone_has_drawers_and_no_sideways_scrolling(browser: Browser, site: Site) -> None:
    from tests.ui.conftest import Visitor

    context = browser.new_context(viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True)
    person = Visitor(context, site.address)
    page = person.page
    person.ask("How often should I descale the kettle?")
    assert not page.locator(".panel").is_visible()
    page.tap(".turn .chip")
    page.wait_for_selector(".panel", state="visible")
    assert "every three months" in page.locator(".source.selected mark").first.inner_text()
    page.tap('.panel [data-action="close-drawers"]')
    page.wait_for_selector(".panel", state="hidden")
    page.tap('[data-action="toggle-rail"]')
    page.wait_for_selector(".rail", state="visible")
    page.tap('.rail [data-action="new"]')
    page.wait_for_selector(".welcome h1")
    page.wait_for_selector(".rail", state="hidden")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert person.complaints == []
    context.close()


@pytest.mark.extended
def test_the_page_can_be_used_by_keyboard(visitor: Visitor) -> None:
    page = visitor.page
    page.keyboard.type("How often")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("is it descaled?")
    assert page.input_value("#question") == "How often\nis it descaled?"
    page.keyboard.press("Enter")
    page.wait_for_selector('.turn[data-state="answered"]')
    assert page.evaluate(UNNAMED) == []
    page.focus(".turn .chip")
    page.keyboard.press("Enter")
    page.wait_for_selector(".source.selected")
    assert page.evaluate("document.activeElement.classList.contains('source')")


@pytest.mark.extended
def test_a_place_in_a_pdf_opens_its_page_with_the_place_framed(site: Site, visitor: Visitor) -> None:
    text = site.ask(site.service.collections.document("docs", "pump.pdf")).text
    start = text.index("The pump is oiled")
    (box,) = site.ask(site.service.collections.places("docs", "pump.pdf", start, start + 17))
    visitor.open(f"/?collection=docs&document=pump.pdf&at={start}-{start + 17}")
    visitor.page.wait_for_selector(".sheet .cited-box")
    assert visitor.page.inner_text(".sheet figcaption") == "Page 1"
    image, framed = visitor.page.evaluate(
        "['image', '.cited-box'].map((one) => document.querySelector(`.sheet ${one}`).getBoundingClientRect().toJSON())"
    )
    scale = image["width"] / 420
    expected = {"x": image["x"] + box.x0 * scale, "y": image["y"] + box.y0 * scale,
                "width": (box.x1 - box.x0) * scale, "height": (box.y1 - box.y0) * scale}  # fmt: skip
    assert {name: abs(framed[name] - value) <= 2 for name, value in expected.items()} == dict.fromkeys(expected, True)
    assert visitor.page.locator(".reader mark").count() == 1


@pytest.mark.extended
def test_links_and_markers_lead_to_documents_and_say_what_these_mean(visitor: Visitor) -> None:
    page = visitor.page
    visitor.open("/?collection=docs&document=moths.md&at=0-0")
    link = page.locator(".reader a.inside")
    assert link.inner_text() == "there"
    page.click('.reader [data-action="why-linked"]')
    page.wait_for_selector('.reader-note [data-part="why"]')
    assert "Moths love light: see there." in page.inner_text(".reader-note .note")
    link.click()
    page.wait_for_selector("#reader-title:text-is('Kettle care')")
    assert page.inner_text(".reader mark").startswith("The alarm beeps")
    page.click('[data-action="reader-back"]')
    page.wait_for_selector("#reader-title:text-is('Moths')")
    assert not page.locator('[data-action="reader-back"]').is_visible()

    visitor.open("/?collection=docs&document=lamps.pdf&at=0-0")
    page.click('.reader .marker:text-is("2")')
    assert "Bea Stone. 2001" in page.inner_text('[data-part="entry"]')
    page.wait_for_selector('.reader-note [data-part="why"] .open')
    assert "The pump is oiled once a year." in page.inner_text('[data-part="linked"]')
    assert "<b>Night</b>" in page.inner_text(".references")
    page.click(".reader-note a.inside")
    page.wait_for_selector("#reader-title:text-is('Care of the pump')")


@pytest.mark.extended
def test_a_question_waits_for_a_server_that_is_away(visitor: Visitor) -> None:
    page = visitor.page
    page.context.set_offline(True)
    page.fill("#question", "How often should I descale it?")
    page.press("#question", "Enter")
    page.wait_for_selector(".held:visible")
    assert page.inner_text(".held span") == "The server cannot be reached. Your question is kept here."
    assert page.input_value("#question") == "How often should I descale it?"
    assert page.locator(".turn").count() == 0
    page.context.set_offline(False)
    page.click('.held [data-action="send"]')
    page.wait_for_selector('.turn[data-state="answered"]')
    assert page.input_value("#question") == ""
    assert not page.locator(".held").is_visible()

    # It may also go away while it answers: the page looks after it every few seconds.
    page.clock.install()
    page.fill("#question", "Tell me a story about the kettle")
    page.press("#question", "Enter")
    page.wait_for_selector('.turn:has-text("Once upon a time")')
    page.context.set_offline(True)
    for _ in range(2):
        with page.expect_event("requestfailed"):
            page.clock.fast_forward(4000)
    page.wait_for_selector(".held:visible")
    assert page.input_value("#question") == "Tell me a story about the kettle"
    assert page.locator(".turn").count() == 1
    assert page.locator(".toast-wrap:visible").count() == 0, "the frame's own error would cover the sources"
    page.context.set_offline(False)
    assert all("ERR_INTERNET_DISCONNECTED" in complaint for complaint in visitor.complaints)
    visitor.complaints.clear()


@pytest.mark.extended
def test_back_walks_the_conversations_and_two_tabs_agree(visitor: Visitor, tmp_path: Path) -> None:
    page = visitor.page
    visitor.ask("How often should I descale the kettle?")
    first = page.url
    page.click('[data-action="new"]')
    page.wait_for_selector(".welcome h1")
    visitor.ask("Which form is it?")
    second = page.url
    page.go_back()
    page.wait_for_selector(".welcome h1")
    page.go_back()
    page.wait_for_selector('.turn:has-text("every three months")')
    assert page.url == first
    page.go_forward()
    page.go_forward()
    page.wait_for_selector('.turn:has-text("W-17")')
    assert page.url == second

    other = page.context.new_page()
    other.goto(second)
    other.wait_for_selector('.turn:has-text("W-17")')
    visitor.ask("And how do I turn that alarm off?")
    other.wait_for_selector('.turn:nth-child(2):has-text("Hold the lid button")')
    other.close()

    # Exported with its sources, as Markdown.
    with page.expect_download() as download:
        page.click('[data-part="export"]')
    text = Path(download.value.path()).read_text("utf-8")
    assert text.startswith("# Which form is it?")
    assert "- [1]" in text

    bad = [tmp_path / "one.exe", tmp_path / "two.exe"]
    for file in bad:
        file.write_bytes(b"MZ\x00")
    page.set_input_files("#files", [str(file) for file in bad])
    for file in bad:
        page.wait_for_selector(f'.toast:has-text("{file.name}")')
    assert page.locator(".toast").count() == 2
    assert all("400" in complaint or "415" in complaint for complaint in visitor.complaints)
    visitor.complaints.clear()


@pytest.mark.extended
def test_nothing_keeps_anybody_out(visitor: Visitor, browser: Browser, site: Site) -> None:
    page = visitor.page

    assert violations(page) == []
    visitor.ask("How often should I descale the kettle?")
    visitor.ask("Which form is it?")
    page.click(".turn:first-child .searched > summary")
    assert violations(page) == []
    page.click(".turn .chip")
    page.click(".source.selected .open")
    page.wait_for_selector(".reader[open] mark")
    assert violations(page) == []
    page.keyboard.press("Escape")
    page.wait_for_selector(".reader", state="hidden")
    page.click("[data-action=new]")
    page.wait_for_selector(".welcome h1")
    visitor.ask("How often should I descale the kettle, once more?")
    page.reload()
    page.wait_for_selector(".turn .chip")
    page.wait_for_selector(".conversation >> nth=1")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "question"
    # However long the list of conversations, it is one stop.
    assert page.locator(".conversation").count() > 1
    assert page.locator('.conversation a[tabindex="0"]').count() == 1
    page.focus('.conversation a[tabindex="0"]')
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.matches('.conversation a[tabindex=\"-1\"]')")

    # A dashed chip keeps its number under the pointer.
    page.evaluate("document.querySelector('.chip').classList.add('attributed')")
    page.hover(".chip.attributed")
    page.wait_for_function(
        """() => {
            const chip = document.querySelector(".chip.attributed");
            const { color, backgroundColor } = getComputedStyle(chip);
            const still = !chip.getAnimations().length && chip.matches(":hover");
            return still && ![color, "rgba(0, 0, 0, 0)"].includes(backgroundColor);
        }"""
    )

    context = browser.new_context(viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True)
    touching = context.new_page()
    touching.goto(page.url)
    touching.tap(".doubt")
    told = "getComputedStyle(document.activeElement, '::after').content"
    assert "source" in touching.evaluate(told)
    context.close()


@pytest.mark.extended
def test_several_conversations_are_found_by_day_and_deleted_at_once(visitor: Visitor) -> None:
    page = visitor.page
    for n in range(3):
        if n:
            page.click("[data-action=new]")
            page.wait_for_selector(".welcome h1")
        visitor.ask("How often should I descale the kettle?")
    page.fill("#find", "1999-12-31")
    page.wait_for_selector(".rail .nothing")
    page.fill("#find", time.strftime("%Y-%m descale"))
    page.wait_for_selector(".conversation >> nth=2")
    assert page.locator(".conversation .pick").first.is_hidden()
    assert re.fullmatch(r".* 20\d\d.*:\d\d.*", page.inner_text(".conversation:first-child time")), "alike but for this"
    page.click("[data-action=choose]")
    before = page.locator(".conversation").count()
    page.check(".conversation >> nth=0 >> .pick")
    page.focus(".conversation >> nth=1 >> .pick")
    page.keyboard.press("Space")
    assert violations(page) == []
    page.once("dialog", lambda dialog: dialog.dismiss())
    page.click("[data-action=delete-chosen]")
    assert page.locator(".conversation").count() == before
    page.once("dialog", lambda dialog: dialog.accept())
    page.click("[data-action=delete-chosen]:text('(2)')")
    page.wait_for_selector("[data-action=choose][aria-pressed=false]")
    page.wait_for_selector(f".conversation >> nth={before - 2}", state="detached")
    assert page.locator(".conversation").count() == before - 2
    assert page.locator("[data-action=delete-chosen]").is_hidden()
    page.wait_for_selector(".welcome h1")


@pytest.mark.extended
def test_a_busy_server_is_not_taken_for_one_that_went_away(visitor: Visitor) -> None:
    page = visitor.page
    page.fill("#question", "Tell me a story about the kettle")
    page.press("#question", "Enter")
    page.wait_for_selector('.turn:has-text("Once upon a time")')
    # The server takes eight seconds to say that it is there, of a clock that goes when it is told to.
    page.clock.install()
    page.clock.pause_at(page.evaluate("Date.now()") + 1000)
    page.evaluate(
        """() => {
            window.asked = 0;
            AbortSignal.timeout = (wait) => {
                window.asked += 1;
                const over = new AbortController();
                setTimeout(() => over.abort(), wait);
                return over.signal;
            };
        }"""
    )
    said: list[Route] = []
    page.route("**/health", lambda route: said.append(route))

    def asked(times: int) -> bool:
        if page.evaluate("window.asked") < times:
            page.clock.run_for(500)
        return len(said) == times

    for times in (1, 2, 3):
        eventually(lambda times=times: asked(times))
        page.clock.run_for(8000)
        with page.expect_response(said[-1].request.url):
            said[-1].fulfill(json={})
    assert not page.locator(".held").is_visible()
    assert page.locator(".turn").count() == 1
    page.clock.resume()
    page.click('[data-action="stop"]')
    page.wait_for_selector('.turn[data-state="interrupted"]')
