"""Bad days: servers killed a hundred times.

    python benchmarks/bad_days.py [--rounds N] [--seconds S]

A round kills, at a random moment: a server that is chatting, taking feedback, uploads and deletions, and indexing (its
next start is killed too at times); or the making and revoking of keys; or a backup and its restoring. All of it is in
`tests/killing.py`. The next round looks for all that a server had acknowledged, and the last one for everything once
more. Prints a table; ends with 1 if anything was lost.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.killing import Home
from tests.openai_server import FakeOpenAIServer

KINDS = ("serving",) * 6 + ("making_keys", "restoring")


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


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=6.0, help="a server is kept busy for so long at most")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, FakeOpenAIServer() as llm:
        home = kill(options.rounds, options.seconds, Path(folder), llm)
    if home.lost:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
