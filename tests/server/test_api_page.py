"""The page's own routes behind the API's guards: who may read them, and how their errors look."""

from __future__ import annotations

import re
from typing import Any

import pytest


@pytest.fixture(scope="module")
def page(shared: Any) -> Any:
    """A server with the page at `/`."""
    return shared.mount_page()


PROXIED: dict[str, Any] = {
    "server": {"trusted_hosts": ["docs.example"], "proxies": ["127.0.0.1"]},
    "plugins": {"sso": {"user_header": "Remote-User"}},
}


FOREIGN = [
    {"Origin": "https://evil.example"},
    {"Origin": "http://localhost:3000"},
    {"Origin": "null"},
    {"Origin": "http://[::1"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"},
]


@pytest.mark.parametrize("headers", FOREIGN, ids=lambda headers: " ".join(headers.values()))
def test_a_foreign_page_reads_nothing(page: Any, headers: dict[str, str]) -> None:
    with page.client() as client:
        for path in ("/", "/config", "/gradio_api/info", "/gradio_api/app_id", "/v1/conversations", "/login"):
            answer = client.get(path, headers=headers)
            assert answer.status_code == 403, path
            assert answer.json()["error"]["code"] == "forbidden_origin"
            assert "access-control-allow-origin" not in answer.headers
        preflight = {**headers, "Access-Control-Request-Method": "POST"}
        assert client.options("/gradio_api/queue/join", headers=preflight).status_code == 403


def test_the_page_itself_and_links_to_it_are_answered(page: Any) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    own = {"Origin": page.url, "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}
    with page.client() as client:
        opened = client.get("/", headers=link)
        assert opened.status_code == 200
        assert "<title>Anaphora</title>" in opened.text
        assert not re.search(r"og:|twitter:|Click to try out", opened.text), (
            "a preview of a link says nothing of Gradio"
        )
        assert client.get("/config", headers=own).status_code == 200
        assert client.post("/v1/conversations", json={}, headers=link).status_code == 403


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/gradio_api/nothing", 404), ("GET", "/gradio_api/file=/etc/passwd", 404),
        ("DELETE", "/gradio_api/queue/join", 405), ("POST", "/gradio_api/queue/join", 422),
        ("POST", "/gradio_api/run/nothing", 404), ("GET", "/nothing/at/all", 404),
    ],
)  # fmt: skip
def test_errors_of_the_page_have_the_shape_of_the_api(page: Any, method: str, path: str, status: int) -> None:
    with page.client() as client:
        answer = client.request(method, path)
    assert answer.status_code == status
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert answer.json()["error"]["message"]
    if status == 405:
        assert answer.headers["allow"]


BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8", "Accept-Language": "de"}


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
    [
        ("GET", "/nothing/<b>", 404, "Hier ist nichts"),
        ("GET", "/gradio_api/file=/etc/passwd", 404, "Hier ist nichts"),
        ("GET", "/traces/nothing", 404, "There is no t"),
        ("POST", "/traces/nothing", 404, "There is no t"),
        ("GET", "/shared/expired", 404, "Hier ist nichts geteilt"),
        ("GET", "/workbench/reports/eval/nothing", 404, "There is nothing here"),
        ("GET", "/workbench/nothing", 404, "There is nothing here"),
        ("DELETE", "/gradio_api/queue/join", 405, "Das hat nicht geklappt"),
    ],
)
def test_an_error_in_a_browser_is_a_page(page: Any, method: str, path: str, status: int, words: str) -> None:
    with page.client() as client:
        answer = client.request(method, path, headers=BROWSER)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert words in answer.text
    assert path not in answer.text
    assert "<b>" not in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert 'href="/"' in answer.text or "/shared/" in path


def test_who_may_not_open_a_page_is_told_on_a_page_and_a_program_in_json(serve: Any, settings_for: Any) -> None:
    running = serve(settings_for("none", **PROXIED)).mount_page()
    with running.client(headers={"X-Forwarded-Host": "docs.example", "Remote-User": "ada"}) as client:
        shown = client.get("/workbench/review", headers=BROWSER)
        told = client.get("/workbench/review")
        api = client.get("/v1/reviews", headers=BROWSER)
    assert shown.status_code == told.status_code == api.status_code == 403
    assert "This needs the role agent; yours is reader." in shown.text
    assert "/login?next=/workbench/review" in shown.text
    assert told.json()["error"]["message"] in shown.text
    assert api.json()["error"] == told.json()["error"] | {"code": api.json()["error"]["code"]}


def test_a_failure_of_the_page_has_the_shape_of_the_api_and_keeps_the_connection(
    page: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import gradio.routes

    def fail(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(gradio.routes.App, "get_blocks", fail)
    with page.client() as client:
        for _ in range(2):
            answer = client.get("/config")
            assert answer.status_code == 500
            assert answer.json()["error"]["type"] == "server_error"


def test_behind_a_proxy_with_tls_the_page_knows_its_public_address(serve: Any, settings_for: Any) -> None:
    running = serve(settings_for("none", **PROXIED)).mount_page()
    said = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "docs.example", "X-Forwarded-For": "203.0.113.9"}
    own = {"Origin": "https://docs.example", "Sec-Fetch-Site": "same-origin"}
    with running.client(headers={**said, "Remote-User": "ada"}) as client:
        assert client.get("/config").json()["root"] == "https://docs.example"
        assert client.post("/v1/conversations", json={}, headers=own).status_code == 201
        assert client.get("/config", headers={"X-Forwarded-Host": "evil.example"}).status_code == 403
        assert client.get("/config", headers={"Remote-User": ""}).status_code == 401
