"""What one principal may use in a minute: counted, refused with when to try again, given back with time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable

import pytest
from pydantic import ValidationError

from server.access import LOCAL, Principal
from server.chat.base import LimitReached
from server.chat.limits import PrincipalLimits, RateLimitStatus
from server.settings import LimitsSettings

ANN = Principal("key:ann", "ann", "reader", frozenset({"support"}))
BOB = Principal("key:bob", "bob", "reader", frozenset({"support"}))
AGENT = Principal("key:agent", "agent", "agent", frozenset({"support"}))


class Clock:
    """The time of day, moved by hand."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "time", clock)
    # A stopped clock falls behind: on a busy machine by more than a second, as one that is set back.
    monkeypatch.setattr("server.chat.limits._CLOCK_SECONDS", 600.0)
    return clock


async def refused(work: Awaitable[None]) -> LimitReached:
    with pytest.raises(LimitReached) as caught:
        await work
    return caught.value


def test_requests_are_counted_for_each_principal_and_given_back(clock: Clock) -> None:
    async def scenario() -> None:
        limits = PrincipalLimits(LimitsSettings(requests_per_minute=2))
        await limits.request(ANN)
        clock.now += 20
        await limits.request(ANN)
        assert await limits.standings(ANN) == [RateLimitStatus("requests", 2, 0, 40)]
        refusal = await refused(limits.request(ANN))
        assert refusal.retry_after == 40
        assert "2 requests a minute" in refusal.message
        assert "limits.requests_per_minute" in refusal.message
        assert "Try again in 40 s." in refusal.message
        await limits.request(BOB)
        # The next minute begins with the next request.
        clock.now += 45
        await limits.request(ANN)
        clock.now += 20
        await limits.request(ANN)
        assert (await refused(limits.request(ANN))).retry_after == 40

    asyncio.run(scenario())


def test_what_a_turn_has_spent_counts_against_the_next(clock: Clock) -> None:
    async def scenario() -> None:
        limits = PrincipalLimits(LimitsSettings(tokens_per_minute=1000))
        await limits.require_tokens(ANN)
        await limits.spend(ANN, 999)
        await limits.require_tokens(ANN)
        await limits.spend(ANN, 4000)
        assert await limits.standings(ANN) == [RateLimitStatus("tokens", 1000, 0, 60)]
        clock.now += 45
        refusal = await refused(limits.require_tokens(ANN))
        assert refusal.retry_after == 15
        assert "1,000 tokens a minute" in refusal.message
        assert "limits.tokens_per_minute" in refusal.message
        await limits.require_tokens(BOB)
        clock.now += 15.5
        await limits.require_tokens(ANN)

    asyncio.run(scenario())


def test_a_clock_set_back_locks_nobody_out(clock: Clock) -> None:
    async def scenario() -> None:
        limits = PrincipalLimits(LimitsSettings(requests_per_minute=1))
        await limits.request(ANN)
        await refused(limits.request(ANN))
        clock.now -= 3600
        await limits.request(ANN)
        assert (await refused(limits.request(ANN))).retry_after == 60

    asyncio.run(scenario())


def test_a_table_sets_numbers_by_role_and_a_number_is_not_meant_for_this_machine() -> None:
    settings = LimitsSettings(requests_per_minute={"reader": 3, "local": 9}, jobs=5)
    assert settings.of("reader")["requests_per_minute"] == 3
    assert settings.of("agent")["requests_per_minute"] == 0
    limits = PrincipalLimits(settings)
    assert [limits.quota(who, "jobs") for who in (ANN, AGENT, LOCAL)] == [5, 5, 0]
    assert [limits.quota(who, "requests_per_minute") for who in (ANN, AGENT, LOCAL)] == [3, 0, 9]


def test_settings_that_cannot_be_meant_are_refused() -> None:
    for wrong in ({"jobs": -1}, {"jobs": {"guest": 1}}, {"jobs": {"reader": -1}}, {"store": "memcached://x"}):
        with pytest.raises(ValidationError):
            LimitsSettings.model_validate(wrong)


def test_without_limits_nothing_is_refused() -> None:
    async def scenario() -> None:
        limits = PrincipalLimits(LimitsSettings(jobs=1, store="redis://127.0.0.1:1"))
        for _ in range(1000):
            await limits.request(ANN)
            await limits.spend(ANN, 10_000)
            await limits.require_tokens(ANN)
        assert await limits.standings(ANN) == []
        assert await limits.look() == ""

    asyncio.run(scenario())


def test_visitors_of_a_web_site_spend_what_its_key_may_spend(clock: Clock) -> None:
    first, second = ANN.for_visitor("a"), ANN.for_visitor("b")
    assert first.id != second.id
    assert first.account == second.account == ANN.account == ANN.id

    async def scenario() -> None:
        limits = PrincipalLimits(LimitsSettings(tokens_per_minute=10))
        await limits.require_tokens(second)
        await limits.spend(first, 10)
        await refused(limits.require_tokens(second))
        await limits.require_tokens(BOB)

    asyncio.run(scenario())
