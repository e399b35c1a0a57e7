"""Several servers behind a balancer, killed at random while people ask: what they acknowledged must be there.

`Fleet` holds the servers, which share a home and a database, and the ledger of what they acknowledged;
`tests/server/test_several_servers.py` lets one run for seconds, `benchmarks/bench_servers.py` for as long as you like.
"""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING

import httpx

from tests.killing import Forgetful, child, client_of

if TYPE_CHECKING:
    from server.settings import Settings

TAKE_OVER_SECONDS = 0.5
"""So that a test need not wait; a server looks every five seconds."""


def serve(settings: str, ready: Connection) -> None:
    """One server of several, which sends its address once it listens."""
    from index import encoders
    from server.api.app import Server, address, create_app, listen
    from server.chat import open_service
    from server.chat import service as service_module
    from server.settings import Settings

    encoders.load_encoder = lambda *_: Forgetful()
    service_module.TAKE_OVER_SECONDS = TAKE_OVER_SECONDS

    async def main() -> None:
        made = Settings.model_validate_json(settings)
        async with open_service(made) as service:
            sock = listen(made.server)
            ready.send(address(sock))
            await Server(create_app(service, made), made.server).serve(sockets=[sock])

    asyncio.run(main())


class Balancer:
    """A TCP balancer on loopback: each connection goes to the next address that takes it, and ends with it."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = list(addresses)
        self._next = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="balancer", daemon=True)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._carry, "127.0.0.1", 0), self._loop
        ).result(10)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def replace(self, old: str, new: str) -> None:
        """Send what went to one address to another."""
        self._addresses = [new if one == old else one for one in self._addresses]

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in self._addresses:
            self._next += 1
            host, _, port = self._addresses[self._next % len(self._addresses)].removeprefix("http://").partition(":")
            with suppress(OSError):
                there = await asyncio.open_connection(host, int(port))
                await asyncio.gather(_pump(reader, there[1]), _pump(there[0], writer))
                return
        writer.close()

    def close(self) -> None:
        async def end() -> None:
            self._server.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """What one says to the other, until either ends."""
    with closing(target), suppress(OSError):
        while data := await source.read(65_536):
            target.write(data)
            await target.drain()


class Fleet:
    """So many servers with the same settings. `answers` are those acknowledged by turn, `broken` the turns cut off."""

    def __init__(self, settings: Settings, count: int, stack: ExitStack, seed: int = 1) -> None:
        url = settings.database.url.get_secret_value()
        # Secrets are dumped as asterisks.
        self._settings = json.dumps({**settings.model_dump(mode="json"), "database": {"url": url}})
        self._stack = stack
        self._choose = random.Random(seed)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self.servers = [self._start() for _ in range(count)]
        self.balancer = Balancer([url for _, url in self.servers])
        stack.callback(self.balancer.close)
        self.kills = self.refused = 0
        self.answers: dict[str, str] = {}
        self.broken: dict[str, str] = {}
        """The conversation of each."""
        self.silent: list[str] = []
        """Streams that ended without an end and without an error."""
        self.seconds: list[float] = []
        self.waited: list[float] = []

    def _start(self) -> tuple[BaseProcess, str]:
        process, said = self._stack.enter_context(child(serve, self._settings))
        if not said.poll(60):
            raise AssertionError("a server does not start")
        return process, str(said.recv())

    def run(self, seconds: float, people: int, kill_every: float) -> None:
        """Let people ask for so long, while servers are killed and started again."""
        self._stop.clear()
        threads = [threading.Thread(target=self._ask_on) for _ in range(people)]
        for thread in threads:
            thread.start()
        until = time.monotonic() + seconds
        while time.monotonic() + kill_every < until:
            time.sleep(kill_every * self._choose.uniform(0.5, 1.5))
            place = self._choose.randrange(len(self.servers))
            process, url = self.servers[place]
            process.kill()
            self.kills += 1
            self.servers[place] = self._start()
            self.balancer.replace(url, self.servers[place][1])
        time.sleep(max(0.0, until - time.monotonic()))
        self._stop.set()
        for thread in threads:
            thread.join()

    def _ask_on(self) -> None:
        with client_of(self.balancer.url) as client:
            while not self._stop.is_set():
                try:
                    self._ask(client)
                except httpx.TransportError:
                    # Nothing had been acknowledged; whoever asks tries again.
                    self.refused += 1

    def _ask(self, client: httpx.Client) -> None:
        made = client.post("/v1/conversations", json={"collection": "docs"})
        made.raise_for_status()
        conversation = made.json()["id"]
        for question in ("How long is parental leave?", "and how is it applied for?"):
            began = time.monotonic()
            path = f"/v1/conversations/{conversation}/turns"
            with client.stream("POST", path, json={"question": question}) as response:
                response.raise_for_status()
                turn, text = response.headers["x-turn-id"], ""
                try:
                    for piece in response.iter_text():
                        text += piece
                except httpx.TransportError:
                    with self._lock:
                        self.broken[turn] = conversation
                    return
            ending = text.rstrip().rsplit("data: ", 1)[-1]
            with self._lock:
                if '"type":"done"' in ending:
                    self.answers[turn] = json.loads(ending)["answer"]
                    self.seconds.append(time.monotonic() - began)
                else:
                    self.silent.append(f"{turn}: {ending[:200]}")

    def lost(self) -> list[str]:
        """What was acknowledged and is not there, seen through the balancer."""
        with client_of(self.balancer.url) as client:
            kept = {turn: client.get(f"/v1/turns/{turn}").json().get("answer") for turn in self.answers}
        return [turn for turn, answer in self.answers.items() if kept[turn] != answer]

    def ask_again(self) -> list[str]:
        """Ask each turn that broke again by its id; gives those that do not say what became of them, or fail again."""
        failed = []
        with client_of(self.balancer.url) as client:
            for turn, conversation in self.broken.items():
                began = time.monotonic()
                while (found := client.get(f"/v1/turns/{turn}").json())["status"] == "pending":
                    if time.monotonic() - began > 30:
                        break
                    time.sleep(0.05)
                self.waited.append(time.monotonic() - began)
                again = client.post(
                    f"/v1/conversations/{conversation}/turns",
                    json={"question": found["question"], "regenerate_of": turn},
                )
                if found["status"] not in ("interrupted", "answered") or '"type":"done"' not in again.text:
                    failed.append(f"{turn}: {found['status']}, {again.status_code}, {again.text[-200:]}")
        return failed


@contextmanager
def fleet(settings: Settings, count: int, seed: int = 1) -> Iterator[Fleet]:
    """Servers that are killed at the end of the block."""
    with ExitStack() as stack:
        yield Fleet(settings, count, stack, seed)
