"""Visitors of a web site: what is kept of them, how often they may ask, and their way to a person."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from sqlalchemy import update

from plugins.widget.tests.test_widget import OnSite, WebSite, inside, on_site, open_chat, page, web_site
from plugins.widget.tests.test_widget import ask as ask_in
from plugins.widget.visitors import forget_old
from server.chat.limits import QueueSlot
from server.store import turns
from server.store.schema import TURNS
from tests.openai_server import FakeOpenAIServer
from tests.rows import ALL
from tests.serving import Running, stop_clock
from tests.ui.site import violations

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["on_site", "page", "web_site"]

pytest.importorskip("plugins.handoff")
DESK = {"handoff": {"kind": "webhook", "address": "http://127.0.0.1:9/", "secret": "s"}}
MINE, OTHER = {"visitor": "0" * 32}, {"visitor": "1" * 32}
LEAVE, UNKNOWN = "How long is parental leave?", "How many moons does Saturn have?"


def ask(client: httpx.Client, question: str, who: dict[str, str] = MINE) -> httpx.Response:
    return client.post("/v1/widget/turns", json={"question": question, **who})


def shown(answer: httpx.Response) -> dict[str, Any]:
    return next(json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith('data: {"type": "shown"'))


def rows(running: Running, table: str) -> list[Any]:
    read = running.service.core.database.read_blocking
    return list(read(lambda c: c.exec_driver_sql(f"SELECT * FROM {table}").mappings().all()))


def test_a_refused_visitor_hands_the_whole_conversation_over_and_nobody_elses(
    on_site: OnSite, llm: FakeOpenAIServer
) -> None:
    running = on_site(llm.url, widget={"forms_per_hour": 3}, plugins=DESK, llm={"style": "full"})
    with running.client_as("visitor") as client:
        llm.pieces = ("Parental leave lasts ten weeks [1].",)
        answered = ask(client, LEAVE).headers["X-Turn-Id"]
        ask(client, LEAVE, OTHER)
        llm.pieces = ("<cannot_answer>",)
        refused = ask(client, UNKNOWN).headers["X-Turn-Id"]
        llm.pieces = ("Parental leave lasts ten weeks [1].",)
        ask(client, "And later?")

        def offered(turn: str, who: dict[str, str] = MINE) -> str:
            return str(client.post("/v1/widget/parts", json={"turn_id": turn, **who}).json()["html"])

        def send(name: str = "hand_over", who: dict[str, str] = MINE, **fields: object) -> httpx.Response:
            body = {"turn_id": refused, "call": name, "fields": fields, **who}
            return client.post("/v1/widget/parts", json=body)

        assert "Ask a person" in offered(refused)
        assert offered(answered) == offered(refused, OTHER) == ""
        assert send("below_turn").status_code == send("why_source").status_code == 404
        assert "consent" in send(consent=False).text
        assert send(consent=True, who=OTHER).status_code == 400
        assert "passed on" in send(consent=True, message="It is for school.").json()["html"]
        assert offered(refused) == ""
        (handoff,) = rows(running, "handoffs")
        content = json.loads(handoff["content"])
        assert [exchange["question"] for exchange in content["conversation"]] == [LEAVE, UNKNOWN]
        assert content["reason"] == "refused"
        # Enough for an hour: of the visitor, and of the address whoever it says that it is.
        assert send(consent=True).status_code == send(consent=True, who=OTHER).status_code == 429

        # What a visitor takes back is gone, with what waits for a person.
        assert client.delete(f"/v1/widget/visitors/{MINE['visitor']}").status_code == 204
        assert rows(running, "handoffs") == []
        assert [turn["question"] for turn in rows(running, "turns")] == [LEAVE]


def test_the_sites_key_opens_the_widget_alone(on_site: OnSite) -> None:
    running = on_site(widget={"address_per_minute": 2}, plugins=DESK)
    secret, readers = running.key("visitor"), {"Authorization": f"Bearer {running.key('reader')}"}
    with running.client(headers={"Authorization": f"Bearer {secret}"}) as client:
        for path in ("/v1/search", "/v1/widget/../search"):
            refused = client.post(path, json={"query": LEAVE})
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden"), path
        assert client.post("/login", data={"key": secret}).status_code == 403
        # So whoever copies it asks no more than the address may, whatever visitor it says that it is.
        statuses = [ask(client, LEAVE, {"visitor": f"{n:032}"}).status_code for n in range(3)]
        assert statuses == [200, 200, 429]
        assert client.post("/v1/widget/turns", json={"question": LEAVE}, headers=readers).status_code == 403


def test_turns_of_visitors_are_kept_as_the_settings_say(on_site: OnSite) -> None:
    for keep, questions in (("on", [LEAVE]), ("no texts", [""]), ("off", [])):
        running = on_site(widget={"keep": keep}, plugins=DESK)
        with running.client_as("visitor") as client:
            offers = "Talk to a person" in client.get("/widget").text
            assert offers is (keep != "off"), "there is a turn to go on from"
            answer = ask(client, LEAVE)
            assert "ten weeks" in shown(answer)["html"]
            assert shown(answer)["kept"] is (keep != "off")
            rated = client.post(
                "/v1/widget/feedback", json={"turn_id": answer.headers["X-Turn-Id"], "rating": "up", **MINE}
            )
            assert rated.status_code == (404 if keep == "off" else 204)
            stored = rows(running, "turns")
            assert [turn["question"] for turn in stored] == questions
            texts = str(stored) + str(rows(running, "traces")) + str(rows(running, "audit"))
            assert ("ten weeks" in texts) is (keep == "on")
            assert ("parental" in texts) is (keep == "on")
            client.delete(f"/v1/widget/visitors/{MINE['visitor']}")
        running.stop()


def test_old_turns_of_visitors_go_also_if_they_were_rated(on_site: OnSite) -> None:
    running = on_site()
    with running.client_as("visitor") as client:
        old, new = (ask(client, LEAVE).headers["X-Turn-Id"] for _ in range(2))
        client.post("/v1/widget/feedback", json={"turn_id": old, "rating": "up", **MINE})
    database = running.service.core.database
    database.write_blocking(lambda c: c.execute(update(TURNS).where(TURNS.c.id == old).values(created=1.0)))
    assert database.write_blocking(lambda c: forget_old(c, time.time() - 60, 200)) == 1
    assert running.call(database.read(turns.owner, old, ALL)) is None
    assert running.call(database.read(turns.owner, new, ALL)) is not None


def test_a_visitor_and_an_address_ask_only_so_often(on_site: OnSite, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_clock(monkeypatch)
    running = on_site(widget={"visitor_per_minute": 1, "address_per_minute": 2})
    with running.client_as("visitor") as client:
        assert ask(client, LEAVE).is_success
        again = ask(client, LEAVE)
        assert again.status_code == 429
        assert 0 < int(again.headers["Retry-After"]) <= 60
        assert client.post("/v1/widget/search", json={"question": LEAVE, **MINE}).status_code == 429
        assert client.post("/v1/widget/search", json={"question": LEAVE, **OTHER}).is_success
        assert ask(client, LEAVE, {"visitor": "2" * 32}).status_code == 429, "the address, after a search and a turn"
        assert ask(client, LEAVE, {}).status_code == 429, "also who names no visitor"


@pytest.mark.browser
def test_a_visitor_sends_the_form_and_takes_everything_back(page: Page, web_site: WebSite, on_site: OnSite) -> None:
    running = on_site(plugins=DESK)
    frame = open_chat(page, web_site.write(running))
    ask_in(frame, LEAVE)
    # At any time, without a search; the form is open at once.
    frame.get_by_role("button", name="Talk to a person").click()
    frame.locator("article:nth-child(2)[data-state=answered]").wait_for()
    assert frame.locator("article:nth-child(2) .sources").count() == 0
    frame.get_by_label("What is still open?").wait_for()
    inner = inside(page, running)
    assert violations(inner) == []
    frame.get_by_label("What is still open?").fill("The form <img src=x onerror=window.owned=1>")
    frame.get_by_label("This conversation may be sent").check()
    frame.locator("[data-call=hand_over]").click()
    assert frame.get_by_label("Your e-mail address").is_visible(), "an address is needed for the answer"
    frame.get_by_label("Your e-mail address").fill("nobody@nowhere")
    frame.locator("[data-call=hand_over]").click()
    assert "no e-mail address" in frame.locator(".offer .failed").inner_text()
    frame.get_by_label("Your e-mail address").fill("ada@example.org")
    frame.locator("[data-call=hand_over]").click()
    frame.get_by_text("Your conversation was passed on to a person.").wait_for()
    (handoff,) = rows(running, "handoffs")
    assert json.loads(handoff["content"])["conversation"][0]["question"] == LEAVE
    before = inner.evaluate("visitor")
    frame.get_by_role("button", name="Delete what I asked").click()
    frame.locator("article").first.wait_for(state="detached")
    assert rows(running, "turns") == rows(running, "handoffs") == []
    assert inner.evaluate("visitor") != before
    assert inner.evaluate("window.owned") is None


@pytest.mark.extended
@pytest.mark.browser
def test_a_visitor_waits_while_the_queue_is_full(
    page: Page, web_site: WebSite, on_site: OnSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = on_site(server={"concurrent_turns": 1})
    monkeypatch.setattr("server.chat.limits.QUEUE_LENGTH", 0)
    admission = running.service.core.admission

    async def enter() -> QueueSlot:
        return admission.enter()

    async def leave(slot: QueueSlot) -> None:
        slot.release()

    slot = running.call(enter())
    dark = '<!doctype html><html class="dark"><title>Shop</title><script TAG></script>'
    frame = open_chat(page, web_site.write(running, page=dark))
    frame.locator("#question").fill(LEAVE)
    frame.locator("#question").press("Enter")
    frame.get_by_text("Many are asking just now").wait_for()
    running.call(leave(slot))
    frame.locator("article[data-state=quoted]").wait_for()
    assert "ten weeks" in frame.locator("article .answer").inner_text()
    assert inside(page, running).evaluate("document.documentElement.style.colorScheme") == "dark", (
        "as VitePress marks its dark pages"
    )
