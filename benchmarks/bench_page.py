"""What is the page worth that a visitor reads? Ask the dev dialogs on the page that answers, on another, on none.

    python benchmarks/bench_page.py DATA HOME [--every 3] [--read]

DATA holds `product_dialogs` and `product_docs`, HOME the models; each product is indexed there as `product-NAME`. A
follow-up is asked twice: with its history, and without it, so that only the page says what it leans on. Prints the
share of questions with a passage that answers at the first place and among the first five. `--read` lets the
cross-encoder read as in a turn, which takes half a second a question.
"""

from __future__ import annotations

import argparse
import random
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from evaluation.questions import Question
from evaluation.sets import placed
from index.collection import Collection
from index.encoders import load_encoder
from index.indexer import index_paths
from papers.datasets import product_pages
from rewriter.protocol import Conversation
from server.rewriters import open_reranker, open_rewriter
from server.settings import Settings
from server.turn.search import NO_PAGE, ReadPage, TurnSearch
from server.turn.system_messages import history_for_model

PRODUCTS = ("uv", "helm", "fastapi", "mkdocs-material", "pi-hole")
FIRST = 5


def cases(question: Question) -> Iterator[tuple[str, Question]]:
    """A question with the name of its part; a follow-up with its history and without."""
    alone = replace(question, conversation=Conversation())
    if not question.conversation:
        yield "first questions", question
    elif question.needs_rewrite:
        yield "follow-ups", question
        yield "the same, no history", alone
    else:
        yield "standing alone", alone


def main(args: argparse.Namespace) -> None:
    """Print the table."""
    chances = random.Random(29)
    settings = Settings.model_validate({
        "home": args.home, "retrieval": {"rerank": "auto" if args.read else "never", "profile": {
            "rerank_seconds": 60, **{name: float(value) for name, value in (pair.split("=") for pair in args.set)}
        }},
    })  # fmt: skip
    encoder = load_encoder(str(args.home / "models" / "bge-small-en-v1.5"))
    rewriter = open_rewriter(settings)
    reranker = open_reranker(settings) if args.read else None
    found: dict[tuple[str, str], list[tuple[bool, bool]]] = defaultdict(list)
    for product in PRODUCTS:
        chosen = product_pages(args.data, "dev", product)
        index_paths(args.home / "collections", chosen.name, [args.data / "product_docs" / product], encoder)
        with closing(Collection.open(args.home / "collections", chosen.name, encoder)) as collection:
            judged = placed(chosen, collection)
            passages, pages = (level.qrels for level in judged.levels)
            titles = {document.id: document.title for document in collection.documents()}
            search = TurnSearch(
                collection=lambda _, opened=collection: opened, rewriter=rewriter, settings=settings, reranker=reranker
            )
            for question in judged.judged[:: args.every]:
                own = next(iter(pages[question.id]))
                another = chances.choice([name for name in titles if name not in pages[question.id]])
                for part, case in cases(question):
                    for which, page in (("no page", ""), ("its own", own), ("another", another)):
                        hits = search.find(
                            case.text,
                            collection=chosen.name,
                            conversation=history_for_model(case.conversation.messages[-12:]),
                            k=FIRST,
                            page=ReadPage(titles[page], ({"document_id": page},)) if page else NO_PAGE,
                        ).hits
                        right = [hit.passage.id in passages[question.id] for hit in hits]
                        found[part, which].append((any(right[:1]), any(right)))
    for (part, which), rows in sorted(found.items()):
        first, five = (sum(row[at] for row in rows) / len(rows) for at in (0, 1))
        print(f"{part:22} {which:8} {len(rows):4} questions  first {first:.3f}  five {five:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("home", type=Path)
    parser.add_argument("--every", type=int, default=3)
    parser.add_argument("--read", action="store_true")
    parser.add_argument("--set", nargs="*", default=[], help="numbers of the profile, as preference=0.3")
    main(parser.parse_args())
