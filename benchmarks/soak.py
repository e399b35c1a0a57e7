"""Does the server leak? Many turns through the real HTTP application, and what it holds meanwhile.

`anaphora serve` answers over a small collection with a fake OpenAI server; readers begin conversations, ask, follow
up, rate, read, search, leave in the middle of an answer, and delete. Every `--every` turns a sample is printed and
appended to `--out`: resident memory, open files, threads, the database. The table at the end compares samples after
the warm-up (a tenth of the turns, 2,000 at least) with the first of them. Interrupted, it ends with what there is.

    python benchmarks/soak.py [--home HOME] [--turns N] [--every N] [--readers N] [--out FILE]

HOME holds the fetched encoder.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import httpx
import psutil
from bench_server import fake_llm, free_port, process

ANSWER = ("Set it in the ", "settings file, ", "then start again. [1]")

_BY_WORDS = """
from index import encoders
from tests.encoder import WordEncoder

class Forgetful(WordEncoder):
    def encode(self, texts):
        self.encoded.clear()
        return super().encode(texts)

encoders.load_encoder = lambda *_: Forgetful()
"""

FOLLOW_UPS = 5
"""One conversation in so many goes on with a second and a third question."""
LEAVERS = 49
"""One turn in so many is left before its end."""
KEPT = 4
"""One conversation in so many is kept; the others are deleted."""


@dataclass
class Sample:
    """What the server held after so many turns. Sizes in MiB, times in seconds."""

    turns: int
    seconds: float
    errors: int
    left: int
    memory: float
    files: int
    threads: int
    database: float
    kept_turns: int
    p50: float


@dataclass
class Readers:
    """Everybody who asks, and what became of it."""

    url: str
    turns: int
    done: int = 0
    begun: int = 0
    left: int = 0
    kept_turns: int = 0
    errors: list[str] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)

    async def read(self) -> None:
        """One reader after another, until there were enough turns."""
        async with httpx.AsyncClient(base_url=self.url, timeout=120) as client:
            while self.begun < self.turns:
                self.begun += 1
                try:
                    await self._visit(client, self.begun)
                except (httpx.HTTPError, ValueError, KeyError) as error:
                    self.errors.append(f"{type(error).__name__}: {error}")
                    await asyncio.sleep(0.2)

    async def _visit(self, client: httpx.AsyncClient, n: int) -> None:
        if n % 10 == 0:
            body = {"model": "soak", "messages": [{"role": "user", "content": f"What does setting {n} do?"}]}
            await self._asked(client.post("/v1/chat/completions", json=body))
            # It belongs to no conversation, and is kept for its trace.
            self.kept_turns += 1
            return
        made = (await client.post("/v1/conversations", json={"collection": "soak"})).json()["id"]
        turn = await self._turn(client, made, f"How do I configure setting number {n % 997} of the server?", n)
        if n % FOLLOW_UPS == 0:
            self.begun += 2
            await self._turn(client, made, "And how is it switched off?", 0)
            await self._turn(client, made, f"Does it need a restart on machine {n % 89}?", 0)
        if turn and n % 3 == 0:
            await client.post("/v1/feedback", json={"turn_id": turn, "rating": "up", "comment": "helped"})
        if n % 7 == 0:
            await client.get(f"/v1/conversations/{made}")
            await client.get("/v1/conversations", params={"query": f"number {n % 997}"})
            await client.get("/ready")
            await client.get("/metrics")
        if n % 11 == 0:
            await client.post("/v1/search", json={"query": "Which port is used?", "collection": "soak"})
        if n % KEPT:
            (await client.delete(f"/v1/conversations/{made}")).raise_for_status()
        else:
            self.kept_turns += 3 if n % FOLLOW_UPS == 0 else 1

    async def _turn(self, client: httpx.AsyncClient, conversation: str, question: str, n: int) -> str:
        began = time.perf_counter()
        path = f"/v1/conversations/{conversation}/turns"
        async with client.stream("POST", path, json={"question": question}) as answer:
            if n and n % LEAVERS == 0:
                async for _ in answer.aiter_bytes():
                    break
                self.done += 1
                self.left += 1
                return ""
            text = (await answer.aread()).decode()
        if '"type":"done"' not in text:
            self.errors.append(f"status {answer.status_code}: {text[-300:]}")
        self.done += 1
        self.latencies.append(time.perf_counter() - began)
        return answer.headers.get("x-turn-id", "")

    async def _asked(self, asking: object) -> None:
        began = time.perf_counter()
        answer = await asking  # type: ignore[misc]
        if answer.status_code != 200:
            self.errors.append(f"status {answer.status_code}: {answer.text[:300]}")
        self.done += 1
        self.latencies.append(time.perf_counter() - began)


def sample(readers: Readers, server: psutil.Process, home: Path, began: float) -> Sample:
    """What the server holds now; its parser processes are not counted, which end by themselves."""
    recent, readers.latencies = readers.latencies or [0.0], []
    files = [home / f"anaphora.db{end}" for end in ("", "-wal")]
    return Sample(
        turns=readers.done,
        seconds=round(time.monotonic() - began, 1),
        errors=len(readers.errors),
        left=readers.left,
        memory=round(server.memory_info().rss / 2**20, 1),
        files=server.num_fds(),
        threads=server.num_threads(),
        database=round(sum(file.stat().st_size for file in files if file.exists()) / 2**20, 1),
        kept_turns=readers.kept_turns,
        p50=round(statistics.median(recent), 3),
    )


async def soak(options: argparse.Namespace, url: str, server: psutil.Process, home: Path) -> list[Sample]:
    """Ask until the end, taking samples."""
    readers, began, samples = Readers(url, options.turns), time.monotonic(), list[Sample]()
    reading = [asyncio.create_task(readers.read()) for _ in range(options.readers)]

    def take() -> None:
        samples.append(sample(readers, server, home, began))
        line = json.dumps(asdict(samples[-1]))
        print(line, flush=True)
        if options.out:
            with options.out.open("a", encoding="utf-8") as file:
                file.write(line + "\n")

    take()
    with suppress(asyncio.CancelledError):
        while not all(task.done() for task in reading):
            await asyncio.sleep(0.25)
            if readers.done - samples[-1].turns >= options.every:
                take()
        # What hangs on the last requests is let go of within the keep-alive.
        await asyncio.sleep(10)
        take()
    for error in dict.fromkeys(readers.errors[:5]):
        print(f"error: {error}", file=sys.stderr)
    return samples


def table(samples: list[Sample], turns: int) -> None:
    """About a dozen samples, and how far memory and files strayed after the warm-up."""
    warm = [one for one in samples if one.turns >= max(turns // 10, 2000)] or samples[-1:]
    print("\n| turns | hours | errors | memory MiB | open files | threads | database MiB | p50 s |")
    print("|" + "---|" * 8)
    for one in samples[:: max(1, len(samples) // 12)] + samples[-1:]:
        print(
            f"| {one.turns:,} | {one.seconds / 3600:.2f} | {one.errors} | {one.memory:.0f} | {one.files} | "
            f"{one.threads} | {one.database:.0f} | {one.p50:.3f} |"
        )
    first, last = warm[0], warm[-1]
    tenth = max(1, len(warm) // 10)
    begin = statistics.mean(one.memory for one in warm[:tenth])
    end = statistics.mean(one.memory for one in warm[-tenth:])
    print(f"\nmemory, last tenth of the samples against the first after the warm-up: {100 * (end / begin - 1):+.1f} %")
    print(f"most memory after the warm-up against that: {100 * (max(one.memory for one in warm) / begin - 1):+.1f} %")
    print(f"open files after the warm-up: {min(one.files for one in warm)} to {max(one.files for one in warm)}")
    if last.turns > first.turns:
        per = 2**20 * (last.database - first.database)
        print(f"database: {per / (last.turns - first.turns) / 1024:.2f} kB a turn asked", end="")
        print(f", {per / max(1, last.kept_turns - first.kept_turns) / 1024:.2f} kB a turn kept")


def main() -> None:
    """Run the soak."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, help="home folder with the fetched models")
    parser.add_argument("--turns", type=int, default=100_000)
    parser.add_argument("--every", type=int, default=1000, help="turns between two samples")
    parser.add_argument("--readers", type=int, default=4, help="how many ask at once")
    parser.add_argument("--out", type=Path, help="file that each sample is appended to")
    parser.add_argument("--encoder", action="store_true", help="embed with the real encoder, not by words")
    parser.add_argument("--fake", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fake:
        with suppress(KeyboardInterrupt):
            asyncio.run(fake_llm(options.fake, ANSWER, pace=0.0))
        return
    if options.home is None:
        from server.settings import default_home

        options.home = default_home()
    models, port = options.home.absolute() / "models", free_port()
    docs = Path(__file__).resolve().parent.parent / "docs"
    fake = process(sys.executable, __file__, "--fake", str(port))
    with tempfile.TemporaryDirectory() as home, fake:
        environment = {
            "ANAPHORA_HOME": home,
            "ANAPHORA_INDEX__ENCODER": str(models / "bge-small-en-v1.5"),
            "ANAPHORA_RETRIEVAL__RERANK": "never",
            "ANAPHORA_SERVER__CONCURRENT_TURNS": str(options.readers),
            "OMP_NUM_THREADS": "1",
        }
        program = "from cli import main; main()"
        if not options.encoder:
            program = f"{_BY_WORDS}\n{program}"
        command = ("-P", "-c", program, "serve", "--collection", "soak", "--port", "0")
        llm = f"http://127.0.0.1:{port}/v1"
        with process(sys.executable, *command, "--docs", str(docs), "--model", llm, environment=environment) as serving:
            assert serving.stdout is not None
            url = serving.stdout.readline().split(" at ")[1].split()[0]
            print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; answers of {len(ANSWER)} pieces", flush=True)
            samples = asyncio.run(soak(options, url, psutil.Process(serving.pid), Path(home)))
    table(samples, options.turns)


if __name__ == "__main__":
    main()
