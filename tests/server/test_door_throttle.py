"""Wrong keys: who tries often waits, longer and longer; who has the right one does not."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from server.api import security as module
from server.api.security import LoginThrottle
from tests.door import OpenDoor


class Clock:
    """The time as the limiter sees it."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("time.time", made.time)
    return made


def test_the_wait_grows_and_ends(clock: Clock) -> None:
    throttle = LoginThrottle()
    waits = []
    for _ in range(220):
        while wait := throttle.wait("192.0.2.1"):
            waits.append(wait)
            clock.now += wait
        throttle.wrong("192.0.2.1")
    assert waits[0] == 60
    assert sorted({wait > 60 for wait in waits}) == [False, True]
    assert max(waits) > 3600
    assert throttle.wait("192.0.2.2") == 0


def test_who_was_right_before_is_not_kept_out_by_others_at_the_address() -> None:
    throttle = LoginThrottle()
    throttle.right("192.0.2.1", "good")
    for _ in range(20):
        throttle.wrong("192.0.2.1")
    assert throttle.wait("192.0.2.1", "good") == 0
    assert throttle.wait("192.0.2.1", "other") > 0
    assert throttle.wait("192.0.2.1") > 0


def test_addresses_of_one_network_of_version_6_are_one() -> None:
    throttle = LoginThrottle()
    for n in range(20):
        throttle.wrong(f"2001:db8:1:1::{n:x}")
    assert throttle.wait("2001:db8:1:1:ffff::1") > 0
    assert throttle.wait("2001:db8:1:2::1") == 0


def test_memory_is_bounded_whoever_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IN_ALL", "20/minute")
    monkeypatch.setattr(module, "KNOWN", 10)
    throttle = LoginThrottle()
    waits = [throttle.wrong(f"10.0.{n // 250}.{n % 250}") for n in range(500)]
    assert waits[:20] == [0] * 20
    assert min(waits[20:]) > 0
    for n in range(100):
        throttle.right(f"10.1.0.{n}", "good")
    assert len(throttle._known) == 10
    assert len(throttle._limiter.storage.expirations) <= 20 * 3 + 1  # type: ignore[union-attr]
    # Nobody else is kept out by that.
    assert throttle.wait("192.0.2.1") == 0


@pytest.mark.parametrize("way", ["bearer", "form"])
def test_wrong_keys_are_slowed_down_and_right_ones_elsewhere_are_not(open_door: OpenDoor, way: str) -> None:
    door = open_door(server={"proxies": ["127.0.0.1"]})
    good = door.key()

    def attempt(key: str, address: str) -> Any:
        with door.client(headers={"X-Forwarded-For": address}) as client:
            if way == "form":
                return client.post("/login", data={"key": key})
            return client.get("/", headers={"Authorization": f"Bearer {key}"})

    came_in = 303 if way == "form" else 200
    wrong = [attempt(f"ana_{n}", "198.51.100.7") for n in range(12)]
    assert [answer.status_code for answer in wrong] == [401] * 10 + [429] * 2
    assert 0 < int(wrong[-1].headers["retry-after"]) <= 60
    assert "Try again in" in wrong[-1].text
    # A guess that is right tells no more than another while its address has to wait.
    assert attempt(good, "198.51.100.7").status_code == 429
    assert attempt(good, "198.51.100.8").status_code == came_in
    wrong = [attempt(f"ana_{n}", "198.51.100.8") for n in range(12)]
    assert wrong[-1].status_code == 429
    assert attempt(good, "198.51.100.8").status_code == came_in


def test_tries_that_come_together_are_as_many_as_one_after_the_other(open_door: OpenDoor) -> None:
    door = open_door()
    door.key()
    with ThreadPoolExecutor(24) as threads:
        tries = threads.map(lambda n: door.get("/", headers={"Authorization": f"Bearer ana_{n}"}), range(48))
        statuses = [answer.status_code for answer in tries]
    assert statuses.count(401) <= 10
    assert statuses.count(429) >= 38


def test_sessions_go_on_where_others_try_keys(open_door: OpenDoor) -> None:
    door = open_door()
    with door.client() as client:
        client.post("/login", data={"key": door.key()})
        for n in range(12):
            door.get("/", headers={"Authorization": f"Bearer ana_{n}"})
        assert door.get("/", headers={"Authorization": "Bearer ana_x"}).status_code == 429
        assert client.get("/").status_code == 200
