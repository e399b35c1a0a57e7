"""How pure are topics? Group the dev dialogs' questions, each with its gold page, as the plugin `insights` does.

    python benchmarks/bench_insights.py DATA/product_dialogs/dialogs.dev.jsonl MODELS/bge-small-en-v1.5

Prints for several thresholds: groups of two or more, the share of questions in them, their purity (the share of
questions whose page is the most frequent one of their group), and the share of pairs of one page that are in one group.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from itertools import combinations
from pathlib import Path

from index.encoders import load_encoder
from plugins.insights.topics import groups_alike


def main(path: Path, model: Path) -> None:
    """Print the table."""
    questions, pages = [], []
    for line in path.read_text("utf-8").splitlines():
        for turn in json.loads(line)["turns"]:
            if turn.get("evidence") and turn.get("rewrite"):
                questions.append(turn["rewrite"])
                pages.append(turn["evidence"][0]["document"])
    vectors = load_encoder(str(model)).encode(questions)
    same = sum(count * (count - 1) // 2 for count in Counter(pages).values())
    print(f"{len(questions)} questions about {len(set(pages))} pages")
    for threshold in (0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.8):
        groups = [group for group in groups_alike(vectors, threshold) if len(group) > 1]
        held = sum(map(len, groups))
        pure = sum(Counter(pages[at] for at in group).most_common(1)[0][1] for group in groups)
        joined = sum(pages[a] == pages[b] for group in groups for a, b in combinations(group, 2))
        print(
            f"{threshold:.2f}: {len(groups)} groups hold {held / len(questions):.2f} of the questions, purity "
            f"{pure / max(1, held):.2f}, pairs joined {joined / same:.2f}"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
