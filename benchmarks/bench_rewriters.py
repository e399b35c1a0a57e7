"""What a rewriter is worth: the turns of real and written conversations, searched as the server searches them.

    python benchmarks/bench_rewriters.py --data DATA [--home HOME] [--sets doc2dial cloud govt synthetic]
        [--rewriters none auto prompted human RUN ...] [--rerank never auto] [--every N] [--at-most N] [--seconds S]
        [--tune FILE]

`--data` is a folder with `doc2dial/`, `mtrag/` and `synthetic/`. A rewriter is `none`, `auto` (the promoted or
packaged one), `prompted` (the settings' language model), `human` (what people wrote, where they did), or the id or
folder of a run. Prints a Markdown table of MAP, R@5, R@10, R@20, nDCG@5 and of the milliseconds that rewriting took,
p50 and p95 over follow-ups. `--tune` is a settings file whose `[retrieval]` is used in place of the defaults. What the
language model wrote is kept in `bench/` of the home folder, with its time: after an interruption it goes on there.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tomllib
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import numpy as np
from bench_legs import Question, RememberingEncoder, WrittenRewriter, conversation, questions, rows

from evaluation.metrics.ranking import Qrels, evaluate, read_qrels
from index.collection import Collection
from index.encoders import load_encoder
from index.indexer import index_paths
from index.rerank import load_reranker
from rewriter.conversation import Conversation
from rewriter.protocol import Rewrite, Rewriter
from server.engines import open_engine
from server.registry import resolve
from server.rewriters import open_rewriter
from server.settings import RetrievalSettings, Settings
from server.turn.search import TurnSearch

MEASURES = ("AP", "R@5", "R@10", "R@20", "nDCG@5")
KEPT = ("text", "decision", "confidence", "seconds", "reason", "needs_history")
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


class RememberingRewriter:
    """Asks another rewriter everything once; where `path` is given, once for good."""

    def __init__(self, rewriter: Rewriter, path: Path | None = None) -> None:
        self.name = rewriter.name
        self._rewriter = rewriter
        self._path = path
        self._known: dict[str, Rewrite] = {}
        if path is not None and path.exists():
            for row in rows(path):
                kept = dict(row["rewrite"])  # type: ignore[call-overload]
                self._known[str(row["key"])] = Rewrite(**{name: kept[name] for name in KEPT})

    def rewrite(self, conversation: Conversation, question: str) -> Rewrite:
        key = hashlib.sha256(repr((conversation, question)).encode()).hexdigest()
        if key not in self._known:
            made = self._rewriter.rewrite(conversation, question)
            self._known[key] = made
            if self._path is not None:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"key": key, "question": question, "rewrite": asdict(made)}) + "\n")
        return self._known[key]


def opened_rewriter(name: str, settings: Settings, asked: list[Question], stack: ExitStack) -> Rewriter:
    """The rewriter of that name; `human` answers with what people wrote. `stack` ends what it started."""
    if name == "human":
        return WrittenRewriter(asked)
    kind = name if name in ("none", "auto", "prompted") else "auto"
    wanted = {"kind": kind, "model": "" if kind == name else name, "timeout_seconds": 60.0}
    settings = settings.model_copy(update={"rewriter": settings.rewriter.model_copy(update=wanted)})
    if name != "prompted":
        return RememberingRewriter(open_rewriter(settings))
    engine = stack.enter_context(open_engine(settings))
    path = settings.home / "bench" / f"prompted-{engine.name.replace(':', '-')}.jsonl"
    return RememberingRewriter(open_rewriter(settings, engine.chat_model()), path)


def measure(search: TurnSearch, asked: list[Question], qrels: Qrels) -> tuple[dict[str, float], list[float]]:
    """Each measure; and milliseconds of rewriting follow-ups, p50 and p95."""
    run, rewriting = dict[str, list[str]](), list[float]()
    for question in asked:
        found = search.find(question.text, collection="", conversation=question.conversation, k=100)
        run[question.id] = [hit.passage.id for hit in found.hits]
        if question.conversation:
            rewriting.append(found.plan.rewrite.seconds)
    times = [1000 * float(np.percentile(rewriting, at)) for at in (50, 95)]
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
    parser.add_argument("--at-most", type=int, help="so many questions of every set, evenly spread")
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
    print("| set | rewriter | rerank | MAP | R@5 | R@10 | R@20 | nDCG@5 | rewriting, ms p50 / p95 |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in options.sets:
        if name == "synthetic":
            corpus, asked, qrels = synthetic(options.data, options.home)
        else:
            corpus = options.data / CORPORA[name][0]
            asked, qrels = questions(options.data, name), read_qrels(options.data / CORPORA[name][1])
        if name in ("doc2dial", "synthetic"):
            asked = asked[:: options.every]
        if options.at_most:
            asked = asked[:: -(-len(asked) // options.at_most)]
        index_paths(root, f"bench-{name}", [corpus], encoder, passage_tokens=settings.index.passage_tokens)
        opened = Collection.open(root, f"bench-{name}", encoder)
        for rewriter in options.rewriters:
            if rewriter == "human" and not all(question.rewrite for question in asked):
                continue
            with ExitStack() as stack:
                used = opened_rewriter(rewriter, settings, asked, stack)
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
                    took = f"{times[0]:.0f} / {times[1]:.0f}"
                    print(f"| {name} ({len(asked)}) | {used.name} | {rerank} | {shown} | {took} |", flush=True)
        opened.close()


if __name__ == "__main__":
    main()
