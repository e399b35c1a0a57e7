"""Limits that several servers count together in a Redis, and what they do without it."""

from __future__ import annotations

import asyncio
import logging
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from plugins.scale import redis_counter
from server.chat.limits import PrincipalLimits
from server.settings import LimitsSettings
from tests.eventually import eventually
from tests.index.stored_collection import free_port, listens
from tests.server.test_chat_limits import ANN, BOB, refused

Redis = Callable[[], subprocess.Popen[bytes]]


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def redis(port: int, tmp_path: Path) -> Iterator[Redis]:
    """Starts a real Redis on `port`, any number of times one after the other."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("redis-server is not installed; the system's package of that name brings it")
    running: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        words = ("--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path))
        process = subprocess.Popen([program, *words], stdout=subprocess.DEVNULL)
        running.append(process)
        eventually(lambda: listens(port))
        return process

    yield start
    for process in running:
        process.kill()
        process.wait()


def test_servers_that_share_a_redis_count_together(redis: Redis, port: int) -> None:
    redis()

    async def scenario() -> None:
        settings = LimitsSettings(requests_per_minute=3, tokens_per_minute=100, store=f"redis://127.0.0.1:{port}")
        first, other = PrincipalLimits(settings), PrincipalLimits(settings)
        await first.request(ANN)
        await other.request(ANN)
        await first.request(ANN)
        assert 55 <= (await refused(other.request(ANN))).retry_after <= 60
        await first.spend(ANN, 250)
        assert "tokens a minute" in (await refused(other.require_tokens(ANN))).message
        assert [status.remaining for status in await other.standings(ANN)] == [0, 0]
        await other.request(BOB)
        assert (first.problem, other.problem) == ("", "")
        await first.close()
        await other.close()

    asyncio.run(scenario())


def test_without_its_redis_every_server_counts_alone(
    redis: Redis, port: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING)

    async def scenario() -> None:
        limits = PrincipalLimits(LimitsSettings(requests_per_minute=2, store=f"redis://127.0.0.1:{port}"))
        # There is none yet.
        assert "does not answer" in await limits.look()
        await limits.request(ANN)
        await limits.request(ANN)
        await refused(limits.request(ANN))
        assert [record.name for record in caplog.records] == ["plugins.scale.redis_counter"]
        process = redis()
        assert limits.problem
        monkeypatch.setattr(redis_counter, "AGAIN_SECONDS", 0.0)
        limits._counter._ask_again = 0.0  # type: ignore[union-attr]
        await limits.request(ANN)
        assert limits.problem == ""
        # It dies under way, and is not waited for.
        process.kill()
        process.wait()
        began = time.monotonic()
        await limits.request(BOB)
        assert time.monotonic() - began < 60
        assert "does not answer" in limits.problem
        # It hangs.
        process = redis()
        assert await limits.look() == ""
        process.send_signal(19)
        assert "does not answer" in await limits.look()
        process.send_signal(18)
        assert await limits.look() == ""
        await limits.close()

    asyncio.run(scenario())
