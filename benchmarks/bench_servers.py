"""Several servers on one database and one home behind a balancer, killed with -9 at random while people ask.

    python benchmarks/bench_servers.py [--url postgresql://…] [--servers 3] [--people 8] [--seconds 60] [--kill-every 3]

Without `--url` the servers share a SQLite file. Says how many turns were acknowledged, how many of these are lost, and
what became of the streams that broke: what the servers say of each, how soon, and whether it is answered when it is
asked again by its id. The language model is a stand-in that writes a token each 20 ms, the encoder needs no model.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from index.indexer import index_paths
from server.settings import Settings
from testing.encoder import WordEncoder
from testing.openai_server import FakeOpenAIServer
from tests.several import fleet


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="")
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--people", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--kill-every", type=float, default=3.0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, FakeOpenAIServer(pace=0.02) as llm:
        llm.pieces = tuple(f"word{n} " for n in range(30))
        settings = Settings(
            home=Path(folder) / "home",
            index={"encoder": "words"},
            retrieval={"rerank": "never"},
            rewriter={"kind": "none"},
            llm={"model": llm.url},
            server={"port": 0, "concurrent_turns": 16},
            **({"database": {"url": args.url}} if args.url else {}),
        )
        docs = Path(__file__).resolve().parent.parent / "docs"
        index_paths(settings.home / "collections", "docs", [docs], WordEncoder())
        with fleet(settings, args.servers) as servers:
            servers.run(args.seconds, args.people, args.kill_every)
            failed = servers.ask_again()
            seconds = servers.seconds or [0.0]
            print("| servers | kills | turns acknowledged | lost | streams cut off | answered when asked again "
                  "| connections refused | p50 s | p95 s | longest wait for the mark s |")  # fmt: skip
            print(f"|{'---|' * 10}")
            cells = [args.servers, servers.kills, len(servers.answers), len(servers.lost()), len(servers.broken)]
            cells += [len(servers.broken) - len(failed), servers.refused]
            times = [*np.percentile(seconds, (50, 95)), max(servers.waited, default=0.0)]
            print(f"| {' | '.join(map(str, cells))} | {' | '.join(f'{one:.1f}' for one in times)} |")
            for what in (*failed, *servers.silent):
                print(what)


if __name__ == "__main__":
    main()
