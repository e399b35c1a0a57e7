"""A conversation goes to a person: offered when it should be, with consent, and never lost."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from plugins.handoff import HandoffSettings
from plugins.handoff.delivering import Content, DeliveryFailed, Exchange, deliver_due, send, signature
from plugins.handoff.handoffs import HandoffOffer, HandoffService, mentions_person, wants_person
from plugins.handoff.tests.stand_ins import TOKEN, Desk, http_desk, mail_desk
from testing.plugin import PluginContract
from tests.openai_server import FakeOpenAIServer
from tests.serving import MakeSettings, Running, Serve
from tests.ui.conftest import Visitor, site, visitor
from tests.ui.site import Site, violations

__all__ = ["site", "visitor"]

HERE = ("127.0.0.1",)
SETTINGS = '[plugins.handoff]\nkind = "webhook"\naddress = "http://127.0.0.1:9/"\nsecret = "s"\n'
LEAVE, UNKNOWN = "How long does parental leave last?", "How many moons does Saturn have?"


@pytest.fixture
def desk() -> Iterator[tuple[Desk, str]]:
    with http_desk() as desk:
        yield desk


@pytest.fixture
def running(desk: tuple[Desk, str], serve: Serve, settings_for: MakeSettings, llm: FakeOpenAIServer) -> Running:
    llm.pieces = ("<cannot_answer>",)
    settings = {"kind": "webhook", "address": f"{desk[1]}/hook", "secret": TOKEN, "private_hosts": HERE}
    return serve(settings_for(llm.url, plugins={"handoff": settings}, llm={"style": "full"}))


def asked(client: httpx.Client, *questions: str) -> list[str]:
    """The turns of a new conversation."""
    conversation = client.post("/v1/conversations", json={}).json()["id"]
    place = f"/v1/conversations/{conversation}/turns"
    return [client.post(place, json={"question": question}).headers["x-turn-id"] for question in questions]


def offer_after(running: Running, turn: str) -> HandoffOffer:
    service = HandoffService(running.service.core, running.service.principal)
    offer: HandoffOffer = running.call(service.offer(turn))
    return offer


def offered(running: Running, turn: str) -> str:
    return offer_after(running, turn).reason


def test_a_person_is_offered_where_a_turn_is_refused_or_asks_for_one(running: Running, llm: FakeOpenAIServer) -> None:
    with running.client() as client:
        (refused,) = asked(client, UNKNOWN)
        assert offer_after(running, refused) == HandoffOffer("form", "refused", contact=True)
        llm.pieces = ("Parental leave lasts ten weeks [1].",)
        answered, asks = asked(client, "How long does parental leave last?", "Can I talk to a human about my leave?")
        assert (offered(running, answered), offered(running, asks)) == ("", "asked")


def test_a_person_is_offered_after_the_second_doubted_answer(running: Running, llm: FakeOpenAIServer) -> None:
    llm.pieces = ("Saturn has many moons and rings of ice.",)
    with running.client() as client:
        first, second = asked(client, UNKNOWN, "How many rings does Saturn have?")
        assert [offered(running, turn) for turn in (first, second)] == ["", "doubted"]


def test_who_asks_for_a_person_is_offered_one_without_a_search(running: Running, llm: FakeOpenAIServer) -> None:
    llm.pieces = ("Parental leave lasts ten weeks [1].",)
    with running.client(headers={"Accept-Language": "de"}) as client:
        first, wants, _ = asked(client, LEAVE, "I want to talk to a human", "And when may it begin?")
        turn = client.get(f"/v1/turns/{wants}").json()
        assert turn["answer"].startswith("Ein Mensch kann hier weiterhelfen")
        assert (turn["status"], turn["evidence"]["passages"]) == ("answered", [])
        assert (offered(running, first), offered(running, wants)) == ("", "asked")
    assert len(llm.answers) == 2, "no model was asked for it"
    assert "human" not in str(llm.answers[-1]["messages"]), "what goes on does not go on about a person"


WANTED = """
I want to talk to a human | can I speak to support? | let me speak to someone from support please | human agent!!
Can I talk to a human about my leave? | I need a human | is there someone I can talk to? | connect me to a person
Ich möchte mit einem Mitarbeiter sprechen | kann ich mit dem Support sprechen? | bitte verbinden Sie mich mit jemandem
quiero hablar con una persona | ¿Puedo hablar con soporte? | je veux parler à quelqu'un | puis-je parler au support ?
أريد التحدث إلى موظف | هل يمكنني التحدث إلى الدعم؟ | 转人工 | 我想找人工客服 | 可以转人工吗？
オペレーターにつないで | 人間と話したい | サポートに繋いでください
"""
NOT_WANTED = """
Who may apply for leave? | does it support people with two jobs | agents | humans | I want to talk to the API with curl
How do I contact support? | how can the pods talk to the operator? | What does the agent talk to? | 人工智能支持吗
can two agents talk to each other | I need support for Python 3.8 | ¿cómo hablar con la API? | オペレーターの設定は？
interesting, and how do i talk to someone now? | Wie spreche ich mit dem Support? | Which people may talk to the press?
"""


def listed(lines: str) -> list[str]:
    return [text.strip() for text in lines.strip().replace("\n", "|").split("|")]


def test_people_ask_for_a_person_in_their_language_and_by_the_button() -> None:
    from text.languages import everywhere

    for text in (*listed(WANTED), *everywhere("Talk to a person")):
        assert wants_person(text), text
        assert mentions_person(text), text
    for text in listed(NOT_WANTED):
        assert not wants_person(text), text


def test_it_is_delivered_signed_with_consent_and_once(running: Running, desk: tuple[Desk, str]) -> None:
    with running.client() as client:
        (turn,) = asked(client, UNKNOWN)
        place = f"/v1/turns/{turn}/handoff"
        assert client.post(place, json={"consent": False}).status_code == 400
        assert client.post(place, json={"consent": True, "contact": "a@b\nBcc: x@y.example"}).status_code == 400
        assert client.post(place, json={"consent": True, "contact": "a\u202e@b.example"}).status_code == 400
        body = {"consent": True, "contact": "ada@example.org", "message": "It is\x1b[2J for \u202eschool."}
        answer = client.post(place, json=body)
        assert answer.status_code == 202
        assert client.post(place, json=body).status_code == 409
        assert offered(running, turn) == ""
        running.call(deliver_due(running.service.core))
        ((_, headers, sent),) = desk[0].requests
        assert headers["anaphora-signature"] == signature(TOKEN, headers["anaphora-timestamp"], sent)
        content = json.loads(sent)
        assert (content["contact"], content["reason"]) == ("ada@example.org", "refused")
        assert content["message"] == "It is[2J for school."
        assert [exchange["question"] for exchange in content["conversation"]] == [UNKNOWN]
        (row,) = client.get("/v1/handoffs").json()["data"]
        assert (row["id"], row["reference"], row["tries"]) == (answer.json()["id"], answer.json()["id"], 1)
        assert row["delivered"] is not None


def test_nobody_floods_the_people_who_help_and_what_cannot_be_read_holds_nothing_up(
    running: Running, desk: tuple[Desk, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plugins.handoff.handoffs.PER_HOUR", 2)
    with running.client() as client:
        sent = [
            client.post(f"/v1/turns/{turn}/handoff", json={"consent": True})
            for turn in asked(client, *(f"{UNKNOWN} {n}" for n in range(3)))
        ]
        assert [answer.status_code for answer in sent] == [202, 202, 429]
        assert int(sent[2].headers["Retry-After"]) > 60
        running.service.core.database.write_blocking(
            lambda c: c.exec_driver_sql("UPDATE handoffs SET content = '{}' WHERE id = ?", (sent[0].json()["id"],))
        )
        desk[0].reply = b"[" * 100_000
        running.call(deliver_due(running.service.core))
        waits = {row["id"]: row["problem"] for row in client.get("/v1/handoffs").json()["data"]}
        assert "validation error" in waits[sent[0].json()["id"]]
        assert waits[sent[1].json()["id"]] == ""
        assert len(desk[0].requests) == 1


def test_nothing_is_lost_while_the_other_end_is_away(
    running: Running, desk: tuple[Desk, str], serve: Serve, settings_for: MakeSettings
) -> None:
    desk[0].away = True
    with running.client() as client:
        (turn,) = asked(client, UNKNOWN)
        client.post(f"/v1/turns/{turn}/handoff", json={"consent": True, "message": "Please help."})
        began = time.time()
        running.call(deliver_due(running.service.core, began))
        running.call(deliver_due(running.service.core, began))  # too early for another try
        (row,) = client.get("/v1/handoffs").json()["data"]
        assert (row["delivered"], row["tries"]) == (None, 1)
        assert "503" in row["problem"]
        client.delete(f"/v1/conversations/{client.get('/v1/conversations').json()['data'][0]['id']}")
    running.stop()
    desk[0].away = False
    again = serve(running.service.settings)
    again.call(deliver_due(again.service.core, time.time() + 60))
    assert json.loads(desk[0].requests[0][2])["message"] == "Please help."
    rows = again.service.core.database.read_blocking(lambda c: c.exec_driver_sql("SELECT content FROM handoffs").all())
    assert rows == [("",)]


def content(**fields: Any) -> Content:
    exchange = Exchange(
        question="@everyone ```` closes #1",
        answer="I found no sure answer.",
        status="refused",
        sources=[{"title": "Leave", "url": "https://docs.example/leave"}],
    )
    values = {"contact": "ada@example.org", "message": "Line one\nline two", "conversation": [exchange], **fields}
    return Content(id="h1", created=1.0, collection="docs", reason="refused", **values)


def settings(kind: str, address: str, secret: str = TOKEN, private: tuple[str, ...] = HERE) -> HandoffSettings:
    return HandoffSettings.model_validate(
        {"kind": kind, "address": address, "secret": secret, "private_hosts": private}
    )


def test_github_gets_an_issue_that_mentions_nobody_and_names_no_contact(desk: tuple[Desk, str]) -> None:
    address = f"{desk[1]}/repos/us/docs"
    assert send(settings("github", address), content()) == "https://code.example/us/docs/issues/7"
    issue = json.loads(desk[0].requests[0][2])
    assert issue["title"] == "Line one line two"
    assert issue["body"].startswith("`````text\n")
    assert "ada@example.org" not in issue["body"]
    with pytest.raises(DeliveryFailed, match=r"401.*Bad credentials"):
        send(settings("github", address, "wrong"), content())


def test_zendesk_gets_a_ticket_of_the_visitor(desk: tuple[Desk, str]) -> None:
    secret = f"agent@example.org/token:{TOKEN}"
    assert send(settings("zendesk", desk[1], secret), content()) == "35436"
    _, headers, body = desk[0].requests[0]
    ticket = json.loads(body)["ticket"]
    assert ticket["requester"] == {"name": "ada", "email": "ada@example.org"}
    assert (ticket["external_id"], headers["idempotency-key"]) == ("h1", "h1")
    assert "https://docs.example/leave" in ticket["comment"]["body"]


def test_a_mailbox_gets_a_mail_that_is_answered_to_the_visitor() -> None:
    with mail_desk() as (desk, address):
        assert send(settings("email", address, ""), content()) == "<h1@127.0.0.1>"
        (mail,) = desk.mails
        assert (mail["From"], mail["To"], mail["Reply-To"]) == (
            "bot@example.org", "support@example.org", "ada@example.org",
        )  # fmt: skip
        assert mail["Subject"] == "Line one line two"
        assert "Answer (refused): I found no sure answer." in mail.get_content()
        with pytest.raises(DeliveryFailed, match="no TLS"):
            send(settings("email", address, "password"), content())
        desk.away = True
        with pytest.raises(DeliveryFailed):
            send(settings("email", address, ""), content())


@pytest.mark.parametrize("kind", ["webhook", "github", "zendesk", "email"])
def test_private_addresses_are_not_asked(kind: str, desk: tuple[Desk, str]) -> None:
    address = desk[1].replace("http", "smtp") + "/a@b.example" if kind == "email" else desk[1]
    with pytest.raises(DeliveryFailed, match=r"plugins\.handoff\.private_hosts"):
        send(settings(kind, address, private=()), content())
    assert desk[0].requests == []


def test_settings_that_cannot_work_are_refused() -> None:
    for values in ({"kind": "webhook", "address": "https://a.example"}, {"kind": "email", "address": "https://a"}):
        with pytest.raises(ValueError, match="needs"):
            HandoffSettings.model_validate(values)


def test_a_link_is_only_shown(serve: Serve, settings_for: MakeSettings) -> None:
    plugins: dict[str, object] = {"handoff": {"kind": "link", "address": "https://forum.example"}}
    running = serve(settings_for("none", plugins=plugins))
    with running.client() as client:
        (turn,) = asked(client, "Can I speak to a person?")
        assert offer_after(running, turn) == HandoffOffer("link", "asked", "https://forum.example")
        assert client.post(f"/v1/turns/{turn}/handoff", json={"consent": True}).status_code == 403


@pytest.mark.browser
@pytest.mark.extended
def test_a_refused_turn_is_handed_over_with_consent(visitor: Visitor, site: Site) -> None:
    page = visitor.page
    visitor.ask("How often should I descale the kettle?")
    visitor.ask("Where is the ladle?", "refused")
    page.get_by_text("Ask a person").click()
    assert page.locator("[data-form]").count() == 1, "the answered turn offers nobody"
    assert violations(page) == []
    page.get_by_label("What is still open?").fill("The ladle <img src=x onerror=window.owned=1>")
    page.get_by_label("Your e-mail address").fill("ada@example.org")
    page.locator('[data-call="hand_over"]').click()
    assert page.get_by_label("What is still open?").is_visible(), "nothing is sent without consent"
    page.get_by_label("This conversation may be sent").check()
    page.locator('[data-call="hand_over"]').click()
    page.locator(".banner", has_text="Your conversation was passed on to a person.").wait_for()
    service = site.service
    (row,) = site.ask(HandoffService(service.core, service.principal).listing())
    assert (row.reason, row.delivered) == ("refused", None)
    page.reload()
    page.wait_for_selector(".turn:nth-child(2)[data-state=refused]")
    assert page.locator("[data-form]").count() == 0


class TestPlugin(PluginContract):
    name = "handoff"
