"""What a proxy says, and by which names the server is reached: believed from its addresses, from nowhere else."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from server.api.app import KeyNeeded, demand_key
from server.settings import ServerSettings, Settings
from server.store import Database, credentials
from tests.door import OpenDoor

PUBLIC = {"server": {"trusted_hosts": ["docs.example", "*.intra.example"]}}
PROXY = {"proxies": ["127.0.0.0/8"]}
BEHIND_PROXY = {"server": {**PUBLIC["server"], **PROXY}}
FORWARDED = {
    "X-Forwarded-For": "203.0.113.9",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Host": "docs.example",
    "X-Forwarded-Port": "443",
    "Forwarded": "for=203.0.113.9",
    "X-Real-IP": "203.0.113.9",
    "X-Gradio-Server": "https://evil.example",
}


def test_a_proxy_says_where_a_request_comes_from_and_goes_to(open_door: OpenDoor) -> None:
    door = open_door(**BEHIND_PROXY)
    with door.client(headers={"Authorization": f"Bearer {door.key()}", **FORWARDED}) as client:
        seen = client.get("/a").json()
        assert seen["origin"] == "203.0.113.9"
        assert seen["url"] == "https://docs.example/a"
        assert not [name for name in seen["headers"] if name.startswith("x-") or name == "forwarded"]
        many = client.get("/", headers={"X-Forwarded-For": "6.6.6.6, 203.0.113.9, 127.0.0.7"}).json()
        assert many["origin"] == "203.0.113.9"
        for nonsense in ("unknown", "<script>", "", "x" * 5000):
            assert client.get("/", headers={"X-Forwarded-For": nonsense}).json()["origin"] == "127.0.0.1"


@pytest.mark.parametrize("proxies", [[], ["192.0.2.1", "2001:db8::/32"]])
def test_headers_from_other_addresses_are_taken_out(open_door: OpenDoor, proxies: list[str]) -> None:
    door = open_door(server={"proxies": proxies})
    with door.client(headers={"Authorization": f"Bearer {door.key()}", **FORWARDED}) as client:
        seen = client.get("/").json()
    assert seen["origin"] == "127.0.0.1"
    assert seen["url"].startswith(door.url)
    assert not {name.lower() for name in FORWARDED} & set(seen["headers"])


def test_trusted_hosts_are_answered_with_a_key(open_door: OpenDoor) -> None:
    door = open_door(**PUBLIC)
    key = {"Authorization": f"Bearer {door.key()}"}
    for host in ("docs.example", "DOCS.example:8443", "a.b.intra.example", "localhost:1", "127.0.0.1"):
        assert door.get("/", headers={"Host": host}).status_code == 401
        assert door.get("/", headers={"Host": host, **key}).status_code == 200


@pytest.mark.parametrize("bind", ["127.0.0.1", "0.0.0.0"])
def test_other_hosts_are_not(open_door: OpenDoor, bind: str) -> None:
    door = open_door(server={**PUBLIC["server"], "host": bind})
    key = {"Authorization": f"Bearer {door.key()}"}
    for host in ("evil.example", "intra.example", "xintra.example", "docs.example.evil.example", "10.0.0.1", ""):
        refused = door.get("/", headers={"Host": host, **key})
        assert refused.status_code == 403
        assert "server.trusted_hosts" in refused.json()["error"]["message"]


def test_origins_are_compared_with_the_public_name_and_scheme(open_door: OpenDoor) -> None:
    door = open_door(**BEHIND_PROXY)
    foreign = ("http://docs.example", "https://docs.example:8443", "https://a.intra.example", "https://x", "null")
    with door.client(headers={"Authorization": f"Bearer {door.key()}", **FORWARDED}) as client:
        for host in ("docs.example", "docs.example:443"):
            assert client.post("/", headers={"Origin": "https://docs.example", "X-Forwarded-Host": host}).is_success
            for origin in foreign:
                refused = client.post("/", headers={"Origin": origin, "X-Forwarded-Host": host})
                assert refused.status_code == 403


def test_cookies_are_for_tls_only_where_people_come_by_it(open_door: OpenDoor) -> None:
    door = open_door(**BEHIND_PROXY)
    with door.client(headers=FORWARDED) as client:
        assert "Secure" in client.post("/login", data={"key": door.key()}).headers["set-cookie"]
    with door.client(headers={"X-Forwarded-For": "203.0.113.9"}) as client:
        assert "Secure" not in client.post("/login", data={"key": door.key()}).headers["set-cookie"]


@pytest.mark.parametrize(
    "groups", [{"server": {"host": "0.0.0.0"}}, PUBLIC, {"server": PROXY}], ids=["for others", "trusted", "proxy"]
)
def test_a_server_for_others_does_not_start_where_nobody_could_come_in(tmp_path: Any, groups: dict[str, Any]) -> None:
    settings = Settings(home=tmp_path, **groups)
    with pytest.raises(KeyNeeded, match="anaphora keys create NAME"):
        demand_key(settings)
    database = Database(tmp_path / "anaphora.db")
    database.write_blocking(lambda connection: credentials.create_key(connection, "x"))
    database.close()
    demand_key(settings)
    demand_key(Settings(home=tmp_path / "new"))


@pytest.mark.parametrize("proxy", ["proxy.example", "10.0.0.1/8"])
def test_proxies_that_cannot_be_meant_are_refused(proxy: str) -> None:
    with pytest.raises(ValidationError):
        ServerSettings(proxies=(proxy,))


@pytest.mark.parametrize("host", ["*", "https://docs.example", "docs.example:443", "*example", "a/b", ""])
def test_hosts_that_cannot_be_meant_are_refused(host: str) -> None:
    with pytest.raises(ValidationError):
        ServerSettings(trusted_hosts=(host,))
