"""Many visitors of the widget at once, beside people in the chat, on one server without a language model.

    python benchmarks/many_visitors.py FOLDER HOME [--visitors 300] [--chats 5] [--seconds 60]

FOLDER is indexed in HOME, which holds the models, as `visited`; `anaphora serve` runs as a process of its own. Every
visitor opens the chat at once and asks one question at a random time of these seconds, `--searching` of them after a
search while typing. Beside them people chat, one question after the other. Prints the median and the 95th percentile
of what each waited for, errors, and the server's memory. It speaks to this machine alone and ends by itself.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

import httpx
from bench_server import free_port, process

QUESTIONS = (
    "How do I declare a path parameter?", "how do I run it in production", "What is a dependency with yield?",
    "How do I hash passwords?", "where do I put startup code", "How do I return a 404?", "can I upload files",
    "How do I test my app?", "what is a response model", "How do I use CORS?",
)  # fmt: skip
SITE = "https://www.example.org"


class Watch:
    """Seconds by what was waited for, and errors."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.errors: Counter[str] = Counter()
        self.waited = 0

    async def call(self, what: str, client: httpx.AsyncClient, method: str, path: str, body: object = None) -> str:
        """Make a request and note how long it took; return its text, empty after an error."""
        began = time.monotonic()
        try:
            for tries in range(8):
                response = await client.request(method, path, json=body)
                # As the widget does while the queue is full; a search that is refused shows nothing.
                if tries == 7 or response.status_code != httpx.codes.TOO_MANY_REQUESTS or what == "search while typing":
                    break
                self.waited += 1
                await asyncio.sleep(min(30, int(response.headers["Retry-After"])) * (1 + random.random()))
        except httpx.HTTPError as error:
            self.errors[f"{what}: {type(error).__name__}"] += 1
            return ""
        if not response.is_success or "event: error" in response.text:
            self.errors[f"{what}: {response.status_code}"] += 1
            return ""
        self.seconds[what].append(time.monotonic() - began)
        return response.text


async def visit(watch: Watch, client: httpx.AsyncClient, number: int, wait: float, searches: bool) -> None:
    """Open the chat, read for a while, and ask."""
    for path in ("/widget.js", "/widget", "/v1/widget/welcome"):
        await watch.call("open the chat", client, "GET", path)
    await asyncio.sleep(wait)
    body = {"question": QUESTIONS[number % len(QUESTIONS)], "visitor": f"{number:032}"}
    if searches:
        await watch.call("search while typing", client, "POST", "/v1/widget/search", body)
    await watch.call("a visitor's answer", client, "POST", "/v1/widget/turns", body)


async def chat(watch: Watch, client: httpx.AsyncClient, number: int, until: float) -> None:
    """Ask one question after the other in a conversation."""
    made = await client.post("/v1/conversations", json={})
    place = f"/v1/conversations/{made.raise_for_status().json()['id']}/turns"
    while time.monotonic() < until:
        await watch.call(
            "an answer in the chat", client, "POST", place, {"question": QUESTIONS[number % len(QUESTIONS)]}
        )
        number += 1
        await asyncio.sleep(5)


def memory(pid: int) -> int:
    """Return the resident memory of a process in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmRSS:"))) // 1024


async def crowd(url: str, key: str, pid: int, args: argparse.Namespace) -> None:
    """Let them come, and print how it went."""
    chances, watch = random.Random(7), Watch()
    headers, limits = {"Authorization": f"Bearer {key}"}, httpx.Limits(max_connections=None, keepalive_expiry=2)
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=170, limits=limits) as client:
        await client.post("/v1/widget/turns", json={"question": QUESTIONS[0]})
        before, began = memory(pid), time.monotonic()
        await asyncio.gather(
            *(
                visit(watch, client, n, chances.uniform(0, args.seconds), chances.random() < args.searching)
                for n in range(args.visitors)
            ),
            *(chat(watch, client, n, began + args.seconds) for n in range(args.chats)),
        )
    print(f"{args.visitors} visitors in {time.monotonic() - began:.0f} s, memory {before} → {memory(pid)} MB")
    for what, seconds in watch.seconds.items():
        last = statistics.quantiles(seconds, n=20)[-1] if len(seconds) > 1 else seconds[0]
        print(f"{what:22} {len(seconds):5}  p50 {statistics.median(seconds):6.2f} s  p95 {last:6.2f} s")
    print(f"errors: {dict(watch.errors) or 'none'}; asked again because the queue was full: {watch.waited}")


def main(args: argparse.Namespace) -> None:
    """Run it."""
    port = free_port()
    environment = {
        "ANAPHORA_HOME": str(args.home), "ANAPHORA_COLLECTION": "visited", "ANAPHORA_LLM__MODEL": "none",
        "ANAPHORA_PLUGINS__WIDGET__ORIGINS": f'["{SITE}"]', "ANAPHORA_PLUGINS__WIDGET__ADDRESS_PER_MINUTE": "0",
        "ANAPHORA_SERVER__PORT": str(port),
    }  # fmt: skip
    run = [sys.executable, "-c", "import sys; sys.argv[0] = 'anaphora'; from cli import main; main()"]
    told = {**os.environ, **environment}
    subprocess.run([*run, "index", str(args.folder), "--collection", "visited"], env=told, check=True)
    made = subprocess.run(
        [*run, "keys", "create", "site", "--role", "visitor"], env=told, capture_output=True, check=True
    )
    key = made.stdout.decode().split()[-1]
    with process(*run, "serve", environment=environment) as server:
        url = f"http://127.0.0.1:{port}"
        while is_starting(f"{url}/ready"):
            time.sleep(0.5)
        asyncio.run(crowd(url, key, server.pid, args))


def is_starting(url: str) -> bool:
    """Whether the server is not ready yet."""
    try:
        return not httpx.get(url, timeout=5).is_success
    except httpx.HTTPError:
        return True


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("home", type=Path)
    parser.add_argument("--visitors", type=int, default=300)
    parser.add_argument("--chats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--searching", type=float, default=0.3, help="share of visitors that search while they type")
    main(parser.parse_args())
