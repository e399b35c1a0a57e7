"""Who gets in: hosts, origins, keys, sessions; what browsers are told; how errors look."""

from __future__ import annotations

import http.client
from typing import Any

import httpx
import pytest

from server.settings import is_loopback
from server.store import credentials


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:7860", "localhost.evil.example", "", "10.0.0.1", "[::2]"]
)
def test_another_host_name_is_refused_on_loopback(running: Any, host: str) -> None:
    with running.client() as client:
        answer = client.get("/v1/models", headers={"Host": host})
    assert answer.status_code == 403
    assert answer.json()["error"]["type"] == "permission_error"


@pytest.mark.parametrize(
    "headers", [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}]
)
def test_a_foreign_page_changes_nothing(running: Any, headers: dict[str, str]) -> None:
    with running.client() as client:
        assert client.post("/v1/conversations", json={}, headers=headers).status_code == 403
        assert client.get("/v1/conversations").json()["data"] == []
        own = {"Origin": running.url, "Sec-Fetch-Site": "same-origin"}
        assert client.post("/v1/conversations", json={}, headers=own).status_code == 201


def test_a_form_of_a_foreign_page_is_no_json(running: Any) -> None:
    with running.client() as client:
        answer = client.post("/v1/conversations", content=b"{}", headers={"Content-Type": "text/plain"})
    assert answer.status_code == 400


def test_browsers_are_told_what_not_to_do(running: Any) -> None:
    with running.client() as client:
        for path in ("/v1/models", "/nothing", "/login"):
            headers = client.get(path).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert "frame-ancestors 'none'" in headers["content-security-policy"]
        page = client.get("/nothing").headers["content-security-policy"]
        assert "img-src 'self' data: blob:" in page
        assert "form-action 'none'" in page
        assert client.get("/v1/models").headers["content-security-policy"].startswith("default-src 'none'")


def test_a_key_is_needed_as_soon_as_there_is_one(running: Any) -> None:
    database = running.service.core.database
    with running.client() as client:
        assert client.get("/v1/models").status_code == 200
        made, secret = database.write_blocking(lambda connection: credentials.create_key(connection, "laptop"))
        guard_forgets(running)
        refused = client.get("/v1/models")
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == "Bearer"
        assert refused.json()["error"]["type"] == "authentication_error"
        for authorization in (f"Bearer {secret}x", "Bearer", f"Basic {secret}", "Bearer é"):
            header = {"Authorization": authorization.encode("latin-1")}
            assert client.get("/v1/models", headers=header).status_code == 401
        header = {"Authorization": f"Bearer {secret}"}
        assert client.get("/v1/models", headers=header).status_code == 200
        assert client.get("/health").status_code == 200
        assert client.get("/metrics").status_code == 401
        database.write_blocking(lambda connection: credentials.revoke_key(connection, made.id))
        other, _ = database.write_blocking(lambda connection: credentials.create_key(connection, "other"))
        assert other.id != made.id
        assert client.get("/v1/models", headers=header).status_code == 401


def guard_forgets(running: Any) -> None:
    """Two seconds pass, after which the server looks again whether there are keys."""
    from server.api.security import AuthMiddleware

    layer = running.app.middleware_stack
    while not isinstance(layer, AuthMiddleware):
        layer = getattr(layer, "_app", None) or layer.app
    layer._looked = float("-inf")


def test_a_server_for_others_wants_a_key_from_the_start(serve: Any, settings_for: Any) -> None:
    running = serve(settings_for("none", server={"host": "0.0.0.0"}))
    url = running.url.replace(httpx.URL(running.url).host, "127.0.0.1")
    with httpx.Client(base_url=url, verify=False) as client:
        assert client.get("/v1/models").status_code == 401
        _, secret = running.service.core.database.write_blocking(
            lambda connection: credentials.create_key(connection, "x")
        )
        header = {"Authorization": f"Bearer {secret}", "Host": "chat.example"}
        assert client.get("/v1/models", headers=header).status_code == 200
        description = client.get("/openapi.json", headers=header).json()
        assert description["paths"]["/v1/models"]["get"]["security"] == [{"key": []}]


def test_the_page_is_opened_by_logging_in(running: Any) -> None:
    made, secret = running.service.core.database.write_blocking(
        lambda connection: credentials.create_key(connection, "x")
    )
    with running.client() as client:
        client.get("/health")
        guard_forgets(running)
        sent = client.get("/", headers={"Accept": "text/html"})
        assert sent.status_code == 303
        assert sent.headers["location"] == "/login?next=/"
        assert "form" in client.get(sent.headers["location"]).text
        assert client.post("/login", data={"key": "wrong"}).status_code == 401
        opened = client.post("/login", data={"key": secret, "next": "//evil.example"})
        assert opened.status_code == 303
        assert opened.headers["location"] == "/"
        cookie = opened.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert secret not in cookie
        assert client.get("/v1/models").status_code == 200
        session = client.cookies["anaphora_session"]
        assert made.id not in session
        stored = running.service.core.database.read_blocking(
            lambda c: c.exec_driver_sql("SELECT hash FROM sessions").fetchone()[0]
        )
        for forged in (f"{session}x", session[:-1], stored, made.id, "..", f"{session}é"):
            client.cookies.clear()
            header = {"Cookie": f"anaphora_session={forged}".encode("latin-1")}
            assert client.get("/v1/models", headers=header).status_code == 401
        header = {"Cookie": f"anaphora_session={session}"}
        assert client.get("/v1/models", headers=header).status_code == 200
        running.service.core.database.write_blocking(lambda connection: credentials.revoke_key(connection, made.id))
        running.service.core.database.write_blocking(lambda connection: credentials.create_key(connection, "y"))
        assert client.get("/v1/models", headers=header).status_code == 401


def test_revoking_the_last_key_opens_nothing_until_the_operator_says_so(serve: Any, settings_for: Any) -> None:
    made_settings = settings_for("none")
    running = serve(made_settings)
    database = running.service.core.database
    made, _ = database.write_blocking(lambda connection: credentials.create_key(connection, "laptop"))
    with running.client() as client:
        assert client.get("/v1/models").status_code == 401
        database.write_blocking(lambda connection: credentials.revoke_key(connection, made.id))
        guard_forgets(running)
        assert client.get("/v1/models").status_code == 401
    running.stop()
    again = serve(made_settings)
    with again.client() as client:
        assert client.get("/v1/models").status_code == 401
        other, _ = again.service.core.database.write_blocking(
            lambda connection: credentials.create_key(connection, "other")
        )
        assert not again.service.core.database.write_blocking(credentials.require_no_key)
        again.service.core.database.write_blocking(lambda connection: credentials.revoke_key(connection, other.id))
        assert again.service.core.database.write_blocking(credentials.require_no_key)
        guard_forgets(again)
        assert client.get("/v1/models").status_code == 200
        again.service.core.database.write_blocking(lambda connection: credentials.create_key(connection, "third"))
        guard_forgets(again)
        assert client.get("/v1/models").status_code == 401


@pytest.mark.parametrize(("method", "path"), [("GET", "/logout"), ("POST", "/logout"), ("GET", "/logout/")])
def test_a_session_ends_on_the_server_when_its_owner_logs_out(running: Any, method: str, path: str) -> None:
    _, secret = running.service.core.database.write_blocking(lambda connection: credentials.create_key(connection, "x"))
    with running.client() as client, running.client() as another:
        for browser in (client, another):
            assert browser.post("/login", data={"key": secret}).status_code == 303
        cookie = {"Cookie": f"anaphora_session={client.cookies['anaphora_session']}"}
        left = client.request(method, path)
        assert left.status_code == 303
        assert 'anaphora_session=""' in left.headers["set-cookie"]
        assert "anaphora_session" not in client.cookies
        assert client.get("/v1/models", headers=cookie).status_code == 401
        assert another.get("/v1/models").status_code == 200


def test_a_form_of_very_many_fields_is_not_read(running: Any) -> None:
    secret = running.call(running.service.core.database.write(lambda c: credentials.create_key(c, "someone")))[1]
    with running.client() as client:
        for fields, status in ((8, 303), (100, 401)):
            form = f"key={secret}" + "&x=1" * fields
            kind = {"Content-Type": "application/x-www-form-urlencoded"}
            assert client.post("/login", content=form, headers=kind).status_code == status


def test_the_sign_in_page_speaks_the_language_of_whoever_comes(running: Any) -> None:
    with running.client() as client:
        german = client.get("/login", headers={"Accept-Language": "de"}).text
        wrong = client.post("/login", data={"key": "wrong"}, headers={"Accept-Language": "ar"}).text
        assert "<code>anaphora keys create NAME</code> on the server" in client.get("/login").text
    assert '<html lang="de" dir="ltr">' in german
    assert "mit <code>anaphora keys create NAME</code> angelegt" in german
    assert '<html lang="ar" dir="rtl">' in wrong
    assert "هذا المفتاح غير معروف" in wrong


def test_a_login_form_is_not_filled_by_its_address(running: Any) -> None:
    with running.client() as client:
        page = client.get("/login", params={"next": '/"><script>alert(1)</script>'}).text
    assert "<script>" not in page


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/v1/nothing", 404), ("PUT", "/v1/models", 405), ("DELETE", "/v1/search", 405)],
)
def test_errors_of_routing_have_openais_shape(running: Any, method: str, path: str, status: int) -> None:
    with running.client() as client:
        answer = client.request(method, path)
    assert answer.status_code == status
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    if status == 405:
        assert answer.headers["allow"]


@pytest.mark.parametrize("body", [b"{", b"[]", b'"x"', b"\xff\xfe", b"nul", b"1" * 5000])
def test_what_is_no_json_is_a_400(running: Any, body: bytes) -> None:
    with running.client() as client:
        answer = client.post("/v1/search", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_a_large_body_is_refused_before_it_is_read(running: Any) -> None:
    address = httpx.URL(running.url)
    connection = http.client.HTTPConnection(address.host, address.port or 0, timeout=90)
    connection.putrequest("POST", "/v1/search")
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", str(1 << 40))
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


def test_a_large_body_of_untold_length_is_refused_while_it_is_read(running: Any) -> None:
    chunks = (b" " * 65536 for _ in range(200))
    with running.client() as client:
        answer = client.post("/v1/search", content=chunks, headers={"Content-Type": "application/json"})
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "too_large"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost"])
def test_loopback_is_known(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "example.org", "localhost.example.org", ""])
def test_nothing_else_passes_for_loopback(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize("host", ["localhost", "localhost:7860", "127.0.0.1:1", "[::1]:7860"])
def test_names_of_this_machine_are_answered(running: Any, host: str) -> None:
    with running.client() as client:
        assert client.get("/v1/models", headers={"Host": host}).status_code == 200
