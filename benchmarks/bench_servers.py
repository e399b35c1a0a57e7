"""Several servers on one database and one home behind a balancer, killed with -9 at random while people ask.

    python benchmarks/bench_servers.py [--sqlite] [--servers 3] [--people 8] [--seconds 60] [--kill-every 3]

The database is a PostgreSQL server that is started for it, or with `--sqlite` a file. Says how many turns were
acknowledged, how many of these are lost, and what became of the streams that broke: what the servers say of each, how
soon, and whether it is answered when it is asked again by its id. The language model is a stand-in that writes a token
each 20 ms, the encoder needs no model.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from index.indexer import index_paths
from server.settings import Settings
from tests.databases import PostgresPrograms, programs
from tests.encoder import WordEncoder
from tests.openai_server import FakeOpenAIServer
from tests.several import fleet


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sqlite", action="store_true")
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--people", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--kill-every", type=float, default=3.0)
    args = parser.parse_args()
    postgres = None if args.sqlite else PostgresPrograms(programs() or sys.exit("PostgreSQL is not installed"))
    with tempfile.TemporaryDirectory() as folder, FakeOpenAIServer(pace=0.02) as llm:
        llm.pieces = tuple(f"word{n} " for n in range(30))
        settings = Settings(
            home=Path(folder) / "home",
            index={"encoder": "words"},
            retrieval={"rerank": "never"},
            rewriter={"kind": "none"},
            llm={"model": llm.url},
            server={"port": 0, "concurrent_turns": 16},
            database={"url": postgres.url("postgres") if postgres else ""},
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
    if postgres:
        postgres.stop()
        shutil.rmtree(postgres.folder)


if __name__ == "__main__":
    main()
