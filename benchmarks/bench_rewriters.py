"""What a rewriter is worth: the turns of real and written conversations, searched as the server searches them.

    python benchmarks/bench_rewriters.py --data DATA [--home HOME] [--sets doc2dial cloud govt synthetic]
        [--rewriters none auto human RUN ...] [--rerank never auto] [--every N] [--seconds S] [--tune FILE]

`--data` is a folder with `doc2dial/`, `mtrag/` and `synthetic/`. A rewriter is `none`, `auto` (the promoted or
packaged one), `human` (what people wrote, where they did), or the id or folder of a run. Prints a Markdown table of
MAP, R@5, R@10, R@20, nDCG@5 and of the milliseconds that rewriting and the whole search took, p50 and p95. `--tune`
is a settings file whose `[retrieval]` is used in place of the defaults.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from pathlib import Path

import numpy as np
from bench_legs import Question, RememberingEncoder, WrittenRewriter, conversation, questions, rows

from index.collection import Collection
from index.encoders import load_encoder
from index.indexer import index_paths
from index.metrics import Qrels, evaluate, read_qrels
from index.rerank import load_reranker
from rewriter.protocol import Rewriter
from server.catalogue import resolve
from server.rewriters import open_rewriter
from server.settings import RetrievalSettings, Settings
from server.turn.search import TurnSearch

MEASURES = ("AP", "R@5", "R@10", "R@20", "nDCG@5")
CORPORA = {
    "doc2dial": ("doc2dial/sections.jsonl", "doc2dial/qrels.section.tsv"),
    "cloud": ("mtrag/cloud/corpus.jsonl", "mtrag/cloud/qrels.tsv"),
    "govt": ("mtrag/govt/corpus.jsonl", "mtrag/govt/qrels.tsv"),
}


def synthetic(data: Path, home: Path) -> tuple[Path, list[Question], Qrels]:
    """The written dialogs: a corpus of all propositions, the questions of the development part, their qrels."""
    corpus = home / "bench" / "propositions.jsonl"
    corpus.parent.mkdir(parents=True, exist_ok=True)
    with corpus.open("w", encoding="utf-8") as file:
        for row in rows(data / "synthetic" / "propositions.jsonl"):
            name = row.get("id", row.get("_id"))
            file.write(
                json.dumps({"_id": name, "text": row["text"], "metadata": {"doc_id": row["document_id"]}}) + "\n"
            )
    asked, qrels = list[Question](), dict[str, dict[str, int]]()
    for dialog in rows(data / "synthetic" / "dialogs.dev.jsonl"):
        turns: list[dict[str, str]] = dialog["turns"]  # type: ignore[assignment]
        for n, turn in enumerate(turns):
            if turn["role"] == "user" and turn.get("relevant"):
                name = f"{dialog['dialog_id']}_{n}"
                asked.append(Question(name, turn["text"], conversation(turns[:n]), turn["rewrite"]))
                qrels[name] = dict.fromkeys(turn["relevant"], 1)
    return corpus, asked, qrels


def opened_rewriter(name: str, settings: Settings, asked: list[Question]) -> Rewriter:
    """The rewriter of that name; `human` answers with what people wrote."""
    if name == "human":
        return WrittenRewriter(asked)
    wanted = {"kind": name} if name in ("none", "auto") else {"kind": "auto", "model": name}
    return open_rewriter(settings.model_copy(update={"rewriter": settings.rewriter.model_copy(update=wanted)}))


def measure(search: TurnSearch, asked: list[Question], qrels: Qrels) -> tuple[dict[str, float], list[float]]:
    """Each measure; and milliseconds, p50 and p95, of rewriting follow-ups and of the whole search."""
    run, rewriting, whole = dict[str, list[str]](), list[float](), list[float]()
    for question in asked:
        found = search.find(question.text, collection="", conversation=question.conversation, k=100)
        run[question.id] = [hit.passage.id for hit in found.hits]
        whole.append(sum(found.seconds.values()))
        if question.conversation:
            rewriting.append(found.seconds["rewrite"])
    times = [1000 * float(np.percentile(part, at)) for part in (rewriting, whole) for at in (50, 95)]
    judged = {question.id: qrels[question.id] for question in asked if question.id in qrels}
    return evaluate(run, judged, MEASURES), times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--home", type=Path, default=Settings().home)
    parser.add_argument("--sets", nargs="+", default=[*CORPORA, "synthetic"])
    parser.add_argument("--rewriters", nargs="+", default=["none", "auto", "human"])
    parser.add_argument("--rerank", nargs="+", default=["never", "auto"])
    parser.add_argument("--every", type=int, default=1, help="take every Nth question of doc2dial and synthetic only")
    parser.add_argument("--seconds", type=float, default=60.0, help="time the cross-encoder may take a turn")
    parser.add_argument("--tune", type=Path, help="a settings file whose [retrieval] is used")
    options = parser.parse_args()

    retrieval = RetrievalSettings()
    if options.tune:
        given = tomllib.loads(options.tune.read_text("utf-8"))["retrieval"]
        retrieval = RetrievalSettings.model_validate(given)
    settings = Settings(home=options.home, retrieval=retrieval)
    encoder = RememberingEncoder(load_encoder(resolve(settings.index.encoder, settings.home)))
    reranker = load_reranker(resolve(settings.retrieval.reranker, settings.home))
    root = settings.home / "collections"
    print("| set | rewriter | rerank | MAP | R@5 | R@10 | R@20 | nDCG@5 | rewrite ms p50 / p95 | all ms p50 / p95 |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name in options.sets:
        if name == "synthetic":
            corpus, asked, qrels = synthetic(options.data, options.home)
        else:
            corpus = options.data / CORPORA[name][0]
            asked, qrels = questions(options.data, name), read_qrels(options.data / CORPORA[name][1])
        if name in ("doc2dial", "synthetic"):
            asked = asked[:: options.every]
        index_paths(root, f"bench-{name}", [corpus], encoder, passage_tokens=settings.index.passage_tokens)
        opened = Collection.open(root, f"bench-{name}", encoder)
        for rewriter in options.rewriters:
            if rewriter == "human" and not all(question.rewrite for question in asked):
                continue
            used = opened_rewriter(rewriter, settings, asked)
            for rerank in options.rerank:
                wanted = retrieval.model_copy(update={"rerank": rerank, "rerank_seconds": options.seconds})
                search = TurnSearch(
                    collection=lambda _, opened=opened: opened,  # type: ignore[misc]
                    rewriter=used,
                    settings=settings.model_copy(update={"retrieval": wanted}),
                    reranker=reranker,
                )
                values, times = measure(search, asked, qrels)
                shown = " | ".join(f"{values[at]:.3f}" for at in MEASURES)
                took = f"{times[0]:.0f} / {times[1]:.0f} | {times[2]:.0f} / {times[3]:.0f}"
                print(f"| {name} | {used.name} | {rerank} | {shown} | {took} |", flush=True)
        opened.close()


if __name__ == "__main__":
    main()
