"""People whom a proxy has signed in: believed from its addresses, and from nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from server.api.app import demand_key
from server.settings import Settings
from testing.plugin import PluginContract
from tests.door import Door, OpenDoor

SSO = {"user_header": "Remote-User", "groups_header": "X-Forwarded-Groups"}
ADA = {"Remote-User": "ada", "X-Forwarded-Groups": "docs, lead"}


def behind_proxy(open_door: OpenDoor, **rules: object) -> Door:
    return open_door(server={"proxies": ["127.0.0.0/8"]}, plugins={"sso": {**SSO, **rules}})


@pytest.mark.parametrize(
    ("rules", "headers", "who"),
    [
        ({}, ADA, ("proxy:ada", "ada", "reader", ["docs", "lead"])),
        ({"roles": {"lead": "operator"}}, ADA, ("proxy:ada", "ada", "operator", ["docs", "lead"])),
        ({}, {**ADA, "X-Forwarded-Groups": "docs|lead"}, ("proxy:ada", "ada", "reader", ["docs", "lead"])),
        ({"every_group": ["lead"]}, ADA, ("proxy:ada", "ada", "reader", ["*"])),
        ({"groups_header": ""}, ADA, ("proxy:ada", "ada", "reader", ["default"])),
        ({}, {**ADA, "Remote-User": "josé".encode()}, ("proxy:josé", "josé", "reader", ["docs", "lead"])),
    ],
)
def test_a_proxy_signs_people_in(
    open_door: OpenDoor, rules: dict[str, object], headers: dict[str, Any], who: tuple[object, ...]
) -> None:
    seen = behind_proxy(open_door, **rules).get("/", headers=headers).json()
    assert (seen["id"], seen["name"], seen["role"], seen["groups"]) == who
    assert "remote-user" not in seen["headers"]


def test_whom_the_proxy_names_in_doubt_does_not_come_in(open_door: OpenDoor) -> None:
    door = behind_proxy(open_door)
    with door.client() as client:
        assert client.get("/").status_code == 401
        assert client.get("/", headers={**ADA, "Remote-User": ""}).status_code == 401
        assert client.get("/", headers={**ADA, "X-Forwarded-Groups": "no group, *"}).status_code == 403
        assert client.get("/", headers={**ADA, "Remote-User": "a" * 1000}).status_code == 403
        for more in (("Remote-User", "admin"), ("x-forwarded-groups", "lead")):
            twice = client.get("/", headers=[*ADA.items(), more])
            assert twice.status_code == 403
            assert "twice" in twice.json()["error"]["message"]
        # The person, not the token that some proxies pass on beside it.
        assert client.get("/", headers={**ADA, "Authorization": "Bearer eyJ"}).json()["id"] == "proxy:ada"


@pytest.mark.parametrize("proxies", [[], ["192.0.2.1"]])
def test_nobody_else_says_who_somebody_is(open_door: OpenDoor, proxies: list[str]) -> None:
    door = open_door(server={"proxies": proxies}, plugins={"sso": SSO})
    assert door.get("/", headers=ADA).status_code == 401
    with door.client(headers={"Authorization": f"Bearer {door.key()}", **ADA}) as client:
        seen = client.get("/").json()
    assert seen["id"].startswith("key:")
    assert not {name.lower() for name in ADA} & set(seen["headers"])


@pytest.mark.parametrize("way", [SSO, {"issuer": "https://login.example", "client_id": "x"}])
def test_a_server_for_others_starts_where_people_can_sign_in(tmp_path: Path, way: dict[str, str]) -> None:
    demand_key(Settings(home=tmp_path, server={"host": "0.0.0.0"}, plugins={"sso": way}))


class TestPlugin(PluginContract):
    name = "sso"
