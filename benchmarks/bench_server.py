"""What the server adds to the time to the first token, and whether it carries many streams at once.

A fake OpenAI server streams at a fixed pace in a process of its own. The same client asks it directly and
through `anaphora serve` over a small collection, in turn, so that both see the same machine; the difference
is the server's. Usage: `python benchmarks/bench_server.py [--home HOME] [--rounds N] [--streams N]`, where
HOME holds the fetched encoder (and the cross-encoder for `--rerank`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

FIRST_TOKEN_SECONDS = 0.05
TOKEN_SECONDS = 0.01
TOKENS = 40
QUESTIONS = 20
ANSWER = [f"word{n} " for n in range(TOKENS - 1)] + ["end. [1]"]


@dataclass
class Stream:
    """One answer as the client saw it: seconds to the first text and to the end, and the server's own account."""

    first: float
    total: float
    stages: dict[str, float]
    error: str = ""


async def fake_llm(port: int, said: Sequence[str] = ANSWER, *, pace: float = 1.0) -> None:
    """Stream `said` to whoever asks, at the fixed pace or, with `pace` 0, at once."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next(
                    (
                        int(line.split(b":")[1])
                        for line in head.split(b"\r\n")
                        if line.lower().startswith(b"content-len")
                    ),
                    0,
                )
                await reader.readexactly(length)
                await (_stream(writer, said, pace) if head.startswith(b"POST") else _models(writer))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", port, backlog=1024)
    async with server:
        await server.serve_forever()


async def _models(writer: asyncio.StreamWriter) -> None:
    body = json.dumps({"object": "list", "data": [{"id": "fake", "object": "model"}]}).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()


async def _stream(writer: asyncio.StreamWriter, said: Sequence[str], pace: float) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    began = time.perf_counter()
    for n, token in enumerate(said):
        # Against the clock, so that a late token does not make all later ones late.
        due = began + pace * (FIRST_TOKEN_SECONDS + n * TOKEN_SECONDS)
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        _event(writer, {"choices": [{"index": 0, "delta": {"content": token}, "finish_reason": None}]})
        await writer.drain()
    _event(writer, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    data = b"data: [DONE]\n\n"
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n0\r\n\r\n")
    await writer.drain()


def _event(writer: asyncio.StreamWriter, event: dict[str, object]) -> None:
    chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "fake", **event}
    data = b"data: " + json.dumps(chunk).encode() + b"\n\n"
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


async def ask(client: httpx.AsyncClient, url: str, model: str, question: str) -> Stream:
    """One streamed answer; what goes wrong is in `error`."""
    request = {"model": model, "stream": True, "messages": [{"role": "user", "content": question}]}
    began, first, stages, text = time.perf_counter(), 0.0, dict[str, float](), ""
    try:
        async with client.stream("POST", f"{url}/chat/completions", json=request) as response:
            if response.status_code != 200:
                return Stream(0, 0, {}, f"status {response.status_code}")
            async for line in response.aiter_lines():
                if not line.startswith("data: {"):
                    continue
                chunk = json.loads(line.removeprefix("data: "))
                if "error" in chunk:
                    return Stream(0, 0, {}, chunk["error"]["message"])
                for choice in chunk["choices"]:
                    text += choice["delta"].get("content") or ""
                    first = first or (time.perf_counter() - began if text else 0.0)
                stages = chunk.get("anaphora", {}).get("seconds", stages)
    except httpx.HTTPError as error:
        return Stream(0, 0, {}, f"{type(error).__name__}: {error}")
    # Behind it the server may quote what comes nearest in the documents, which say nothing of the model's words.
    whole = ANSWER[-1] in text
    return Stream(first, time.perf_counter() - began, stages, "" if whole else f"cut short: {text[-40:]!r}")


@contextmanager
def process(*arguments: str, environment: dict[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """A process that is ended with the context."""
    started = subprocess.Popen(arguments, env={**os.environ, **(environment or {})}, stdout=subprocess.PIPE, text=True)
    try:
        yield started
    finally:
        started.send_signal(signal.SIGINT)
        try:
            started.wait(20)
        except subprocess.TimeoutExpired:
            started.kill()
        if started.stdout is not None:
            started.stdout.close()


def free_port() -> int:
    """A port nobody listens on just now."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def percentile(values: list[float], share: float) -> float:
    """The value below which `share` of the values lie."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


async def overhead(bare: str, served: str, rounds: int) -> None:
    """Print the time to the first token of both, asked in turn, and where the difference goes."""
    questions = [f"How do I configure setting number {n} of the server?" for n in range(QUESTIONS)]
    times: dict[str, list[float]] = {"bare": [], "served": []}
    stages: list[dict[str, float]] = []
    async with httpx.AsyncClient(timeout=60) as client:
        for n in range(-5, rounds):
            question = questions[n % QUESTIONS]
            one = await ask(client, bare, "fake", question)
            other = await ask(client, served, "bench", question)
            if one.error or other.error:
                raise SystemExit(f"a stream failed: {one.error or other.error}")
            if n >= 0:
                times["bare"].append(one.first)
                times["served"].append(other.first)
                stages.append(other.stages)
    difference = [other - one for one, other in zip(times["bare"], times["served"], strict=True)]
    print(f"\nTime to the first token, {rounds} rounds, ms")
    print("| | p50 | p90 |\n|---|---|---|")
    for name, values in (*times.items(), ("added", difference)):
        print(f"| {name} | {1000 * percentile(values, 0.5):.1f} | {1000 * percentile(values, 0.9):.1f} |")
    print(f"| served / bare | {statistics.median(times['served']) / statistics.median(times['bare']):.2f} | |")
    print("\nWhere it goes, p50, ms\n| stage | ms |\n|---|---|")
    known = 0.0
    for stage in ("rewrite", "search", "rerank"):
        values = [found[stage] for found in stages if stage in found]
        if values:
            known += statistics.median(values)
            print(f"| {stage} | {1000 * statistics.median(values):.1f} |")
    inside = statistics.median([found["first_token"] for found in stages])
    model = statistics.median(times["bare"])
    print(f"| prompt, and the model's client beyond the bare model | {1000 * (inside - known - model):.1f} |")
    print(f"| HTTP, queue, store | {1000 * (statistics.median(times['served']) - inside):.1f} |")


async def crowd(bare: str, served: str, streams: int) -> None:
    """Print how `streams` answers asked for at once arrive, of both."""
    print(f"\n{streams} streams at once\n| | errors | first token p50 s | p95 s | all ended s |\n|---|---|---|---|---|")
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    for name, url, model in (("bare", bare, "fake"), ("served", served, "bench")):
        async with httpx.AsyncClient(timeout=120, limits=limits) as client:
            began = time.perf_counter()
            ends = await asyncio.gather(
                *(ask(client, url, model, f"How do I configure setting {n}?") for n in range(streams))
            )
            total = time.perf_counter() - began
        errors = [end.error for end in ends if end.error]
        firsts = [end.first for end in ends if not end.error] or [0.0]
        print(
            f"| {name} | {len(errors)} | {percentile(firsts, 0.5):.2f} | {percentile(firsts, 0.95):.2f} | {total:.2f} |"
        )
        for error in dict.fromkeys(errors):
            print(f"  {error}")


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, help="home folder with the fetched models")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--rerank", action="store_true", help="with the cross-encoder")
    parser.add_argument("--fake", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fake:
        with suppress(KeyboardInterrupt):
            asyncio.run(fake_llm(options.fake))
        return
    if options.home is None:
        from server.settings import default_home

        options.home = default_home()
    models, port = options.home.absolute() / "models", free_port()
    docs = Path(__file__).resolve().parent.parent / "docs"
    bare = f"http://127.0.0.1:{port}/v1"
    with tempfile.TemporaryDirectory() as home, process(sys.executable, "-P", __file__, "--fake", str(port)):
        environment = {
            "ANAPHORA_HOME": home,
            "ANAPHORA_INDEX__ENCODER": str(models / "bge-small-en-v1.5"),
            "ANAPHORA_RETRIEVAL__RERANKER": str(models / "ms-marco-minilm-l12"),
            "ANAPHORA_RETRIEVAL__RERANK": "auto" if options.rerank else "never",
            "ANAPHORA_SERVER__CONCURRENT_TURNS": str(options.streams),
        }
        command = ("-P", "-c", "from cli import main; main()", "serve", "--collection", "bench", "--port", "0")
        with process(
            sys.executable, *command, "--docs", str(docs), "--model", bare, environment=environment
        ) as serving:
            assert serving.stdout is not None
            line = serving.stdout.readline()
            served = line.split(" at ")[1].split()[0] + "/v1"
            print(f"load average at the beginning {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
            asyncio.run(overhead(bare, served, options.rounds))
            asyncio.run(crowd(bare, served, options.streams))


if __name__ == "__main__":
    main()
