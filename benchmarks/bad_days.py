"""Bad days: servers killed a hundred times, and hundreds of clients that never finish what they send.

    python benchmarks/bad_days.py [--rounds N] [--seconds S] [--half-sent N]

A round kills, at a random moment: a server that is chatting, taking feedback, uploads and deletions, and indexing (its
next start is killed too at times); or the migration of an old database; or the making and revoking of keys; or a
backup and its restoring. All of it is in `tests/killing.py`. What a server had acknowledged is looked up in the next,
and at the end all of it once more. Then half-sent requests are held against a server with the default limits until
the last is closed. Prints two tables; ends with 1 if anything was lost.
"""

from __future__ import annotations

import argparse
import random
import select
import socket
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from testing.openai_server import FakeOpenAIServer
from tests.killing import Home, child, serve

KINDS = ("serving",) * 6 + ("migrating",) * 2 + ("making_keys", "restoring")
HEAD = b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
HALF_SENT = (HEAD, HEAD + b"Content-Length: 999\r\n\r\n{", HEAD + b"Transfer-Encoding: chunked\r\n\r\n20\r\n{")
DRIP_SECONDS = 10.0


def kill(rounds: int, seconds: float, folder: Path, llm: FakeOpenAIServer) -> Home:
    """All rounds, in random order, and the table."""
    home, choose, began = Home(folder), random.Random(2), time.monotonic()
    llm.pace = 0.01
    for n in range(rounds):
        kind = choose.choice(KINDS) if n > 5 else "serving"
        if kind == "serving":
            home.serving(llm, seconds)
        else:
            getattr(home, kind)()
        print(f"{n + 1}/{rounds} {kind}, {time.monotonic() - began:.0f} s, lost: {len(home.lost)}", flush=True)
    home.finish(llm)
    print(f"\n{rounds} times kill -9 in {(time.monotonic() - began) / 60:.0f} minutes:", end=" ")
    print(", ".join(f"{count} {kind}" for kind, count in home.rounds.items()))
    print("\n| acknowledged | |\n|---|---|")
    for kind, count in sorted(home.acknowledged.items()):
        print(f"| {kind} | {count:,} |")
    print(f"| lost | {len(home.lost)} |")
    for loss in home.lost[:20]:
        print(f"  {loss}")
    return home


def half_sent(count: int, home: Home, llm: FakeOpenAIServer) -> None:
    """Hold half-sent requests, a byte every ten seconds each, until the server has closed them all."""
    with child(serve, home.settings(llm).model_dump_json(), str(home.source)) as (_, said):
        assert said.poll(60)
        url = httpx.URL(str(said.recv()))
        held, closed = list[socket.socket](), list[float]()
        began, answered = time.monotonic(), list[float]()
        for n in range(count):
            held.append(socket.create_connection((url.host, url.port or 0)))
            held[-1].sendall(HALF_SENT[n % len(HALF_SENT)])
        dripped = time.monotonic()
        statuses: dict[str, int] = {}
        while held:
            ready, _, _ = select.select(held, [], [], 0.2)
            for connection in ready:
                try:
                    status = connection.recv(1 << 16)[9:12].decode() or "closed"
                except ConnectionResetError:
                    status = "closed"
                statuses[status] = statuses.get(status, 0) + 1
                held.remove(connection)
                connection.close()
                closed.append(time.monotonic() - began)
            if time.monotonic() - dripped > DRIP_SECONDS:
                dripped = time.monotonic()
                for connection in held:
                    with suppress(OSError):
                        connection.send(b"x")
            asked = time.monotonic()
            status = httpx.get(url.join("/health"), verify=False).status_code
            answered.append(time.monotonic() - asked)
            statuses[f"/health {status}"] = statuses.get(f"/health {status}", 0) + 1
    print(
        f"\n{count} half-sent requests, a byte each {DRIP_SECONDS:.0f} s: the first closed after {min(closed):.1f} s, "
    )
    print(f"the last after {max(closed):.1f} s; {statuses}; /health meanwhile at most {max(answered):.2f} s")


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=6.0, help="a server is kept busy for so long at most")
    parser.add_argument("--half-sent", type=int, default=500)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, FakeOpenAIServer() as llm:
        home = kill(options.rounds, options.seconds, Path(folder), llm)
        if options.half_sent:
            half_sent(options.half_sent, home, llm)
    if home.lost:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
