"""Links by which a conversation is read without a key."""

from __future__ import annotations

import time
from typing import Any

import httpx

from server.store import credentials, schema
from tests.openai_server import FakeOpenAIServer
from tests.serving import MakeSettings, Running, Serve


def key(running: Running, name: str) -> tuple[str, dict[str, str]]:
    made, secret = running.call(
        running.service.core.database.write(
            lambda connection: credentials.create_key(connection, name, "reader", frozenset({"default"}))
        )
    )
    return made.id, {"Authorization": f"Bearer {secret}"}


def write(running: Running, work: Any) -> Any:
    return running.call(running.service.core.database.write(work))


def test_a_link_shows_what_its_giver_may_read_and_ends(
    serve: Serve, settings_for: MakeSettings, llm: FakeOpenAIServer
) -> None:
    from ui.routes import router

    llm.pieces = ("Ten weeks <script>alert(1)</script> ", "<img src=x onerror=alert(1)>. [1]")
    running = serve(settings_for(llm.url, server={"share_days": 7}))
    running.app.include_router(router)
    owner, own = key(running, "owner")
    _, other = key(running, "other")
    with running.client() as client:

        def opened(path: str) -> httpx.Response:
            return client.get(path)

        def shared(**body: int) -> Any:
            answer = client.post(f"{place}/shares", json=body, headers=own)
            assert answer.status_code == 201, answer.text
            return answer.json()

        place = f"/v1/conversations/{client.post('/v1/conversations', json={}, headers=own).json()['id']}"
        client.post(f"{place}/turns", json={"question": "How long is <b>parental</b> leave?"}, headers=own)
        assert client.post(f"{place}/shares", json={}, headers=other).status_code == 404
        assert client.post(f"{place}/shares", json={}).status_code == 401
        assert client.post(f"{place}/shares", json={"days": 8}, headers=own).status_code == 400

        made = shared(days=2)
        assert 1.9 < (made["expires"] - time.time()) / 86_400 < 2
        page = opened(made["path"])
        assert page.status_code == 200
        assert "Ten weeks" in page.text
        assert '<a class="chip" href="#source-1-1"' in page.text
        source = page.text.partition('id="source-1-1"')[2]
        assert '<blockquote class="prose-text"><p>Parental leave lasts' in source
        named = '<meta property="og:title" content="How long is &lt;b&gt;parental&lt;/b&gt; leave?">'
        assert named in page.text, "a preview of the link names the conversation"
        assert "<script" not in page.text
        assert "<img" not in page.text
        assert "<b>" not in page.text
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
        assert opened("/shared/guessed").status_code == 404
        assert client.post(made["path"]).status_code == 405
        assert [link["id"] for link in client.get(place, headers=own).json()["shares"]] == [made["id"]]

        # Taken back.
        assert client.delete(f"{place}/shares/{made['id']}", headers=other).status_code == 404
        assert client.delete(f"{place}/shares/{made['id']}", headers=own).status_code == 204
        assert opened(made["path"]).status_code == 404

        # The collection is other people's now, and again the giver's.
        made = shared()
        write(running, lambda connection: schema.grant(connection, "docs", "elsewhere"))
        assert opened(made["path"]).status_code == 404
        write(running, lambda connection: schema.grant(connection, "docs", "default"))
        assert opened(made["path"]).status_code == 200

        # It expires.
        write(running, lambda connection: connection.exec_driver_sql("UPDATE shares SET expires = 1").rowcount)
        assert opened(made["path"]).status_code == 404

        # The giver's key expires, and is revoked.
        made, kept = shared(), shared()
        for expires, status in (("1", 404), ("NULL", 200)):
            write(running, lambda c, at=expires: c.exec_driver_sql(f"UPDATE keys SET expires = {at}").rowcount)
            assert opened(made["path"]).status_code == status
        write(running, lambda connection: credentials.revoke_key(connection, owner))
        assert opened(made["path"]).status_code == opened(kept["path"]).status_code == 404


def test_no_link_is_given_unless_the_settings_allow_it(serve: Serve, settings_for: MakeSettings) -> None:
    off = serve(settings_for("none"))
    _, own = key(off, "owner")
    with off.client() as client:
        made = client.post("/v1/conversations", json={}, headers=own).json()["id"]
        refused = client.post(f"/v1/conversations/{made}/shares", json={}, headers=own)
        assert refused.status_code == 403
        assert "server.share_days" in refused.json()["error"]["message"]
