"""The chat of a web site, in a real browser on another origin."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from plugins.widget import WidgetSettings
from plugins.widget.routes import add_widget
from server.store import turns
from testing.plugin import PluginContract
from tests.eventually import eventually
from tests.openai_server import FakeOpenAIServer
from tests.rows import ALL, ratings
from tests.serving import MakeSettings, Running, Serve
from tests.ui.site import violations
from tests.web_site import FakeSite
from tests.web_site import Page as HtmlPage

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Frame, FrameLocator, Locator, Page

EVIL = 'Ten weeks <img src=x onerror="window.owned=1"><script>window.owned=1</script>. [1]'


PAGE = "<!doctype html><title>Shop</title><h1>Shop</h1><script TAG></script>"


class WebSite(FakeSite):
    """Somebody's web site."""

    def write(self, running: Running, attributes: str = "", name: str = "", page: str = PAGE, **more: str) -> str:
        """Write a page that has the script's tag, with more `attributes`, where it says TAG; return its address."""
        tag = {"key": more.get("key") or running.key("visitor"), "collection": more.get("collection", "docs")}
        words = " ".join(f'data-{name}="{value}"' for name, value in tag.items())
        text = page.replace("TAG", f'src="{running.url}/widget.js" {words} {attributes} async')
        self.pages[f"/{name}"] = HtmlPage(text.encode())
        return f"{self.url}/{name}"


@pytest.fixture
def web_site() -> Iterator[WebSite]:
    with WebSite() as site:
        yield site


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(service_workers="block")
    yield context.new_page()
    context.close()


OnSite = Callable[..., Running]


@pytest.fixture
def on_site(web_site: WebSite, serve: Serve, settings_for: MakeSettings) -> OnSite:
    """Starts servers whose widget the web site shows: `on_site(model, widget={...}, server={...}, ...)`."""

    def start(model: str = "none", widget: dict[str, object] | None = None, **groups: dict[str, object]) -> Running:
        plugins = {"widget": {"origins": [web_site.url], **(widget or {})}, **groups.pop("plugins", {})}
        running = serve(settings_for(model, plugins=plugins, **groups))
        add_widget(running.app, running.service)
        return running

    return start


def open_chat(page: Page, address: str, label: str = "Ask the documentation") -> FrameLocator:
    """Open a page of the site, and the chat on it; return its frame."""
    page.goto(address)
    page.click(f"button:text('{label}')")
    return page.frame_locator("iframe")


def ask(chat: FrameLocator | Page, question: str, n: int = 1, state: str = "") -> Locator:
    """Ask in a chat; return its turn `n` once it has that state, or any."""
    chat.locator("#question").fill(question)
    chat.locator("#question").press("Enter")
    turn = chat.locator(f"article:nth-child({n})[data-state{state and '='}{state}]")
    turn.wait_for()
    return turn


def inside(page: Page, running: Running) -> Frame:
    """The frame of the server in a page of the site."""
    return next(frame for frame in page.frames if frame.url.startswith(running.url))


@pytest.mark.browser
def test_a_web_site_shows_the_chat_and_no_other_site_does(
    page: Page, web_site: WebSite, on_site: OnSite, llm: FakeOpenAIServer
) -> None:
    llm.pieces = (EVIL,)
    here = f"http://localhost:{web_site.port}"
    running = on_site(llm.url, widget={"origins": [here]}, llm={"style": "full"})
    for role in ("visitor", "operator"):
        web_site.write(running, 'data-label="Ask us"', role, key=running.key(role))
    frame = open_chat(page, f"{here}/visitor", "Ask us")
    for n, question in enumerate(("How long is parental leave?", "And by fax?"), start=1):
        ask(frame, question, n, "answered")
    answer = frame.locator("article .answer").first.inner_text()
    assert "<img src=x" in answer, "what a model says is text"
    frame.locator("article summary").first.click()
    assert "Parental leave lasts ten weeks." in frame.locator("blockquote").first.inner_text()
    assert len(llm.answers) == 2
    assert "How long is parental leave?" in str(llm.answers[1]["messages"]), "the second question has its history"
    assert inside(page, running).evaluate("window.owned") is None
    assert page.evaluate("window.owned") is None

    # A key that may do more is refused.
    refused = ask(open_chat(page, f"{here}/operator", "Ask us"), "How long is parental leave?", state="failed")
    assert "role visitor alone" in refused.locator(".answer").inner_text()

    # The same page at another origin shows no frame of ours.
    page.goto(f"{web_site.url}/visitor")
    with page.expect_console_message(lambda message: "frame" in message.text):
        page.click("button:text('Ask us')")
    assert not any(frame.url.startswith(running.url) and frame.locator("#question").count() for frame in page.frames)


@pytest.mark.extended
@pytest.mark.browser
def test_a_question_back_has_buttons_until_it_is_answered(page: Page, web_site: WebSite, on_site: OnSite) -> None:
    running = on_site(retrieval={"rerank": "never", "profile": {"ask_back": 0.0001, "answerable": 0}})
    frame = open_chat(page, web_site.write(running))
    turn = ask(frame, "Are tickets refunded?", state="asked")
    group = turn.get_by_role("group", name="What may be meant")
    choice = group.get_by_role("button", name="Travel expenses › Refunds")
    choice.wait_for()
    texts = group.get_by_role("button").all_inner_texts()
    assert "1. " not in turn.locator(".answer").inner_text()
    choice.focus()
    choice.press("Enter")
    frame.locator("article:nth-child(2)[data-state=quoted]").wait_for()
    assert frame.locator("article:nth-child(2) .asked").inner_text() == "Travel expenses › Refunds"
    assert "Train tickets are refunded" in frame.locator("article:nth-child(2) .answer").inner_text()
    assert turn.locator(".choices button").count() == 0
    assert all(text in turn.locator(".answer").inner_text() for text in texts)
    assert frame.locator("#question:focus").count() == 1


@pytest.mark.extended
@pytest.mark.browser
def test_the_site_and_its_visitor_drive_it(page: Page, web_site: WebSite, on_site: OnSite) -> None:
    # Of the same site as the server, though of another origin: elsewhere a browser may refuse frames their storage.
    running = on_site(server={"questions": {"docs": ["How long is parental leave?"]}})
    listening = (
        '<!doctype html><html lang="de"><title>Shop</title><h1>Parental leave</h1><h2>Applying&para;</h2>'
        '<script>window.heard = []; for (const name of ["open", "close", "answer"]) '
        'addEventListener("anaphora:" + name, (event) => heard.push([name, event.detail?.status]));</script>'
        "<script TAG></script>"
    )
    attributes = (
        'data-label="Ask us" data-name="Helper" data-color="#7a1f5c" data-theme="dark" data-position="left" '
        'data-disclaimer="Made by a machine."'
    )
    web_site.write(running, attributes, page=listening)
    inlined = web_site.write(running, 'data-target="#here"', "inline", '<div id="here"></div><script TAG></script>')
    page.goto(f"{web_site.url}/")
    page.wait_for_selector("button:text('Ask us')")
    page.keyboard.press("Control+i")
    frame = page.frame_locator("iframe")
    # The site's language, name and words; the operator's questions.
    assert frame.locator("#send").inner_text() == "Fragen"
    assert frame.locator("h1").inner_text() == "Helper"
    assert frame.locator("#note").inner_text() == "Made by a machine."
    # The page that is read is part of the question, until it is left out.
    assert frame.locator("#page").inner_text() == "Parental leave › Applying"
    frame.locator("#question").fill("Which form is needed?")
    with page.expect_request(lambda request: request.url.endswith("/turns")) as request:
        frame.locator("#question").press("Enter")
    assert request.value.post_data_json["page"] == {
        "url": f"{web_site.url}/", "title": "Parental leave", "heading": "Applying",
    }  # fmt: skip
    assert "PL-7" in frame.locator("article[data-state] .answer").inner_text()
    frame.locator("#leave").click()
    assert frame.locator("#about").is_hidden()
    frame.locator("#new").click()
    frame.get_by_role("button", name="How long is parental leave?").click()
    answered = frame.locator("article[data-state=quoted]")
    answered.wait_for()
    assert frame.locator("#suggested button").count() == 0
    answered.locator(".chip").first.click()
    card = answered.locator("details:focus-within")
    assert "Parental leave" in card.inner_text()
    # What the visitor thinks of it is kept like any feedback.
    bad = answered.locator("[data-rating=down]")
    bad.click()
    answered.locator(".rating input").fill("It is twelve weeks.")
    answered.locator(".rating form button").click()
    answered.locator(".rating form").wait_for(state="detached")
    assert bad.get_attribute("aria-pressed") == "true"
    (feedback,) = ratings(running.service)
    assert (feedback.rating, feedback.comment) == ("down", "It is twelve weeks.")
    rated = feedback.turn_id
    assert eventually(lambda: running.call(running.service.turns.get(rated)).opened)

    page.evaluate("anaphora.ask('And how do I apply?')")
    frame.locator("article:nth-child(2)[data-state=quoted]").wait_for()
    assert "PL-7" in frame.locator("article:nth-child(2) .answer").inner_text()
    page.wait_for_function("heard.length === 4")
    assert page.evaluate("heard") == [["open", None], *[["answer", "quoted"]] * 3]
    frame.locator("#question").press("Escape")
    page.wait_for_selector("iframe", state="hidden")
    assert page.evaluate("document.activeElement.textContent") == "Ask us"

    # The conversation outlives the page, and can be begun anew.
    page.reload()
    page.click("button:text('Ask us')")
    frame.locator("article:nth-child(2)[data-state=quoted] .chip").first.wait_for()
    page.set_viewport_size({"width": 390, "height": 740})
    page.wait_for_function(
        """() => {
            const box = document.querySelector("iframe").getBoundingClientRect();
            return [box.x, box.y, box.width, box.height].join() === "0,0,390,740";
        }"""
    )
    frame.locator("#new").click()
    frame.get_by_role("button", name="How long is parental leave?").wait_for()
    assert frame.locator("article").count() == 0

    page.set_viewport_size({"width": 1000, "height": 700})
    page.goto(inlined)
    inline = page.frame_locator("#here iframe")
    ask(inline, "How long is parental leave?", state="quoted")
    assert inline.locator("#close").is_hidden()

    page.goto(f"{running.url}/widget?lang=ar#key={running.key('visitor')}&collection=docs")
    ask(page, "How long is parental leave?", state="quoted").locator(".sources summary").click()
    assert page.locator("html").get_attribute("dir") == "rtl"
    assert violations(page) == []


VERSIONS = {"9.2": "seven days", "10.0": "thirty days"}


def versions(running: Running, folder: Path) -> None:
    """Index a page for each version, with metadata that no page should be able to misuse, as `manual`."""
    folder.mkdir()
    for version, period in VERSIONS.items():
        (folder / f"{version}.md").write_text(
            f'---\nversion: "{version}"\nlanguage: en\nowner: "<img src=x onerror=owned=1>"\nurl: https://docs.example/{version}/'
            f"\n---\n# Backups\n\n## Retention\n\nA backup is kept for {period}. <img src=x onerror=owned=1>\n",
            "utf-8",
        )
    running.index("manual", folder)


def test_turns_and_ratings_belong_to_the_visitor(on_site: OnSite) -> None:
    running = on_site()
    mine, other = {"visitor": "0" * 32}, {"visitor": "1" * 32}
    with running.client_as("visitor") as client:
        turn = client.post("/v1/widget/turns", json={"question": "How long is parental leave?", **mine}).headers[
            "X-Turn-Id"
        ]
        for who, status in ((other, 404), (mine, 204), (mine, 204)):
            rating = client.post("/v1/widget/feedback", json={"turn_id": turn, "rating": "up", **who})
            assert rating.status_code == status, rating.text
        assert client.post("/v1/widget/feedback", json={"turn_id": turn, "rating": "up"}).status_code == 400
        for who, source, status in ((other, 1, 404), (mine, 99, 404), (mine, 1, 204)):
            opened = client.post("/v1/widget/feedback", json={"turn_id": turn, "opened": source, **who})
            assert opened.status_code == status, opened.text
        assert client.get(f"/v1/turns/{turn}").status_code == 403, "whoever reads the site has its key"
    owner = running.call(running.service.core.database.read(lambda c: turns.owner(c, turn, ALL)))
    pseudonym = owner.partition("/")[2]
    assert owner.startswith("key:")
    assert pseudonym
    assert pseudonym not in mine["visitor"]
    assert [day.turns for day in running.call(running.service.reviews.statistics()).days] == [1]


@pytest.mark.extended
@pytest.mark.browser
def test_typing_finds_sections_and_a_visitor_picks_the_version(
    page: Page, web_site: WebSite, on_site: OnSite, tmp_path: Path
) -> None:
    running = on_site(server={"filters": {"manual": ["version", "language", "nothing"]}})
    versions(running, tmp_path / "manual")
    attributes = {
        "": "",
        "old": """data-where='{"version": "9.2"}'""",
        "off": 'data-search="off"',
        "bad": "data-where=version=9",
    }
    for name, more in attributes.items():
        web_site.write(running, more, name, collection="manual")
    frame = open_chat(page, f"{web_site.url}/")
    # What has two values can be picked, the later version last.
    picker = frame.get_by_label("Version")
    picker.wait_for()
    assert picker.locator("option").all_inner_texts() == ["All", "9.2", "10.0"]
    assert frame.locator("#filters select").count() == 1

    frame.locator("#question").press_sequentially("How long are backups kept?")
    links = frame.locator("#found a")
    frame.locator("#found li:nth-child(2)").wait_for()
    assert {link.split("#")[0] for link in links.evaluate_all("all => all.map((a) => a.href)")} == {
        f"https://docs.example/{version}/" for version in VERSIONS
    }
    assert frame.locator("#count").inner_text() == "Found: 2"
    assert set(frame.locator("#found .note").all_inner_texts()) == {f"docs.example/{version}/" for version in VERSIONS}
    picker.select_option("10.0")
    frame.locator(
        "#found li:only-child a[href^='https://docs.example/10.0/#:~:text=A%20backup%20is%20kept']"
    ).wait_for()
    assert violations(inside(page, running)) == []
    frame.locator("#question").press("ArrowUp")
    assert frame.locator("#found a:focus").inner_text() == "Backups › Retention"
    frame.locator("#found a").press("ArrowDown")
    frame.locator("#question:focus").press("Enter")
    frame.locator("article[data-state=quoted]").wait_for()
    assert "thirty days" in frame.locator("article .answer").inner_text()
    assert "seven days" not in frame.locator("article").inner_text()
    assert frame.locator("#results").is_hidden()
    # Escape takes away what was found, and only then the chat.
    frame.locator("#question").press_sequentially("backups")
    frame.locator("#found a").wait_for()
    frame.locator("#question").press("Escape")
    assert frame.locator("#results").is_hidden()
    assert frame.locator("#question").is_visible()
    assert inside(page, running).evaluate("window.owned") is None

    # The choice outlives the page; what the site fixes is no choice.
    page.reload()
    page.click("button:text('Ask the documentation')")
    assert frame.get_by_label("Version").input_value() == "10.0"
    page.goto(f"{web_site.url}/old")
    page.evaluate("anaphora.ask('How long is a backup kept now?')")
    last = frame.locator("article").last
    frame.locator("article:nth-child(2)[data-state=quoted]").wait_for()
    assert "seven days" in last.locator(".answer").inner_text()
    assert frame.get_by_label("Version").count() == 0

    open_chat(page, f"{web_site.url}/off")
    urls: list[str] = []
    page.on("request", lambda request: urls.append(request.url))
    frame.locator("#question").press_sequentially("How long are backups kept?")
    frame.locator("#question").press("Enter")
    frame.locator("article:nth-child(3)[data-state=quoted]").wait_for()
    assert not any(url.endswith("/search") for url in urls)
    with page.expect_event("pageerror") as error:
        page.goto(f"{web_site.url}/bad")
    assert "data-where is no object of JSON: version=9" in error.value.message


def test_what_is_found_and_picked_keeps_to_the_operators_words(on_site: OnSite, tmp_path: Path) -> None:
    running = on_site(server={"filters": {"manual": ["version"]}})
    versions(running, tmp_path / "manual")
    with running.client_as("visitor") as client:
        for collection, filters in (("manual", {"version": ["9.2", "10.0"]}), ("docs", {})):
            assert client.get(f"/v1/widget/welcome?collection={collection}").json()["filters"] == filters
        body = {"question": "How long are backups kept?", "collection": "manual", "where": {"version": ["9.2"]}}
        rows = client.post("/v1/widget/search", json=body).json()
        assert [row["label"] for row in rows] == ["Backups › Retention"]
        assert "<img" not in rows[0]["html"]
        wrong = client.post("/v1/widget/search", json={**body, "where": {f"k{n}": 1 for n in range(99)}})
        assert wrong.status_code == 400
    with running.client_as("agent") as client:
        assert client.post("/v1/widget/search", json=body).status_code == 403
        assert client.get("/v1/widget/welcome").status_code == 403


def test_suggestions_are_what_is_asked_most_and_keep_to_the_filter(on_site: OnSite, tmp_path: Path) -> None:
    running = on_site()
    first, second = "How long is a backup kept?", "Who may restore a backup?"
    pages = {"1": (first, "A backup is kept for seven days."), "2": (second, "An operator may restore a backup.")}
    for version, (heading, text) in pages.items():
        (tmp_path / f"{version}.md").write_text(f'---\nversion: "{version}"\n---\n# B\n\n## {heading}\n\n{text}\n')
    running.index("manual", *(tmp_path / f"{version}.md" for version in pages))
    with running.client_as("visitor") as client:
        for n, typed in enumerate(("May operators restore a backup?", second)):
            body = {"question": typed, "collection": "manual", "visitor": f"{n:032d}"}
            assert '"status":"quoted"' in client.post("/v1/widget/turns", json=body).text.replace(" ", "")

        def suggested(**where: str) -> list[str]:
            query = {"collection": "manual", "where": json.dumps(where), "visitor": "0" * 32}
            return list(client.get("/v1/widget/welcome", params=query).json()["questions"])

        assert suggested() == [second, first], "cited most, in the words of the documents"
        assert suggested(version="1") == [first]
        assert suggested(version="3") == []
        assert client.get("/v1/widget/welcome", params={"where": "version=1"}).status_code == 400
        assert client.get("/v1/widget/welcome", params={"visitor": "x"}).status_code == 400


def test_the_page_that_is_read_is_favoured_within_what_may_be_read(on_site: OnSite, tmp_path: Path) -> None:
    running = on_site()
    versions(running, tmp_path / "manual")
    body = {"question": "How long is it kept?", "collection": "manual"}
    with running.client_as("visitor") as client:

        def first(url: str, **more: object) -> str:
            sent = {**body, **more, "page": {"url": url, "title": "Backups"}}
            return str(client.post("/v1/widget/search", json=sent).json()[0]["url"].partition("#")[0])

        for version in VERSIONS:
            page = f"https://docs.example/{version}/"
            assert first(f"{page}index.html?from=search#top") == page
        other = {"version": "9.2"}
        assert first("https://docs.example/10.0/", where=other) == "https://docs.example/9.2/"
        turn = client.post(
            "/v1/widget/turns", json={**body, "page": {"url": "https://docs.example/10.0/", "title": "Backups"}}
        )
        assert "thirty days" in turn.text.partition("event: done")[0]
        hidden = {**body, "collection": "docs", "page": {"url": "https://docs.example/10.0/", "title": "Backups"}}
        assert "docs.example" not in client.post("/v1/widget/search", json=hidden).text


def test_it_weighs_little(on_site: OnSite) -> None:
    running = on_site(widget={"origins": ["https://www.example.org"]})
    with running.client() as client:
        origin = {"Origin": "https://www.example.org", "Sec-Fetch-Site": "cross-site"}
        sent = [client.get("/widget.js", headers=origin), client.get("/widget?lang=ja")]
    assert sum(len(gzip.compress(answer.content)) for answer in sent) < 30_000
    assert sent[0].headers["access-control-allow-origin"] == "*", "a site may give the script's hash"
    policy = sent[1].headers["content-security-policy"]
    assert "frame-ancestors https://www.example.org" in policy
    assert "unsafe" not in policy


def test_without_sites_there_is_no_widget_and_an_origin_is_checked(
    serve: Serve, settings_for: MakeSettings, llm: FakeOpenAIServer
) -> None:
    running = serve(settings_for(llm.url))
    add_widget(running.app, running.service)
    with running.client_as("visitor") as client:
        assert client.get("/widget").status_code == client.get("/widget.js").status_code == 404
        refused = client.post("/v1/widget/turns", json={"question": "How long?"})
        assert refused.status_code == 403
        assert "plugins.widget.origins" in refused.text
    for wrong in ("*", "https://a.example/path", "a.example", "https://a.example; script-src *"):
        with pytest.raises(ValueError, match="is no origin"):
            WidgetSettings(origins=(wrong,))


class TestPlugin(PluginContract):
    name = "widget"
