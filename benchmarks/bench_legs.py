"""What the legs of a follow-up are worth: retrieval on real conversations, without any rewriter.

    python benchmarks/bench_legs.py --data DATA [--home HOME] [--sets doc2dial cloud govt] [--every N] [--rows TEXT]
        [--rerank]

`--data` is a folder with `doc2dial/` and `mtrag/` in BEIR form. Each set becomes a collection in
`--home` (kept, so the second run starts at once) and every question is searched by the code of a chat
turn, once a setting. Prints a Markdown table of MAP, R@5, R@20, nDCG@5 and milliseconds a turn, in which a
text that was encoded for an earlier row costs nothing again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evaluation.metrics import Qrels, evaluate, read_qrels
from index.collection import Collection
from index.encoders import Encoder, Vectors, load_encoder
from index.indexer import index_paths
from index.rerank import Reranker
from rewriter.protocol import Conversation, Message, PassThroughRewriter, Rewrite
from server.registry import resolve
from server.rewriters import open_reranker
from server.settings import LegsSettings, LegWeights, Settings
from server.turn.search import TurnSearch

MEASURES = ("AP", "R@5", "R@20", "nDCG@5")
NONE = LegWeights(lexical=0, dense=0)
ONE = LegWeights(lexical=1, dense=1)
FIXED = LegsSettings(clarity=0, subject=0)


def only(**legs: LegWeights) -> LegsSettings:
    """These legs and no others, with weights that follow nothing."""
    named = ("typed", "users", "exchange", "opening", "conversation")
    return LegsSettings(**{name: legs.get(name, NONE) for name in named}, clarity=0, subject=0)


LEGS = {
    "typed question alone": only(typed=ONE),
    "previous exchange alone": only(exchange=ONE),
    "typed + users + exchange, equal": only(typed=ONE, users=ONE, exchange=ONE),
    "all five, equal": only(typed=ONE, users=ONE, exchange=ONE, opening=ONE, conversation=ONE),
    "all five, weighted": FIXED,
    "all five, weighted by clarity too": LegsSettings(subject=0),
    "all five, by clarity and subject (default)": LegsSettings(),
    "default without `users`": LegsSettings(users=NONE),
    "default without `exchange`": LegsSettings(exchange=NONE),
    "default without `opening`": LegsSettings(opening=NONE),
    "default without `conversation`": LegsSettings(conversation=NONE),
}

REWRITE_ALONE = only().model_copy(update={"rewritten": ONE})


@dataclass(frozen=True, slots=True)
class Question:
    """A question in its conversation; `rewrite` is a person's stand-alone form, empty where there is none."""

    id: str
    text: str
    conversation: Conversation
    rewrite: str = ""


class WrittenRewriter:
    """Answers with the rewrites people wrote."""

    name = "human"

    def __init__(self, questions: list[Question]) -> None:
        self._rewrites = {(question.conversation, question.text): question.rewrite for question in questions}

    def rewrite(self, conversation: Conversation, question: str) -> Rewrite:
        text = self._rewrites[conversation, question]
        return Rewrite(text, "rewrite" if text != question else "keep", confidence=1.0)


class RememberingEncoder:
    """Encodes every text once: the settings compared search with the same ones."""

    def __init__(self, encoder: Encoder) -> None:
        self.name, self.dimension, self.max_tokens = encoder.name, encoder.dimension, encoder.max_tokens
        self.count_tokens, self.prompt = encoder.count_tokens, encoder.prompt
        self._encoder = encoder
        self._known: dict[str, Vectors] = {}

    def encode(self, texts: Sequence[str]) -> Vectors:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            self._known.update(zip(new, self._encoder.encode(new), strict=True))
        return np.stack([self._known[text] for text in texts])


def rows(path: Path) -> Iterator[dict[str, object]]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def conversation(turns: object) -> Conversation:
    return Conversation(tuple(Message(turn["role"], turn["text"]) for turn in turns))  # type: ignore[attr-defined]


def questions(data: Path, name: str) -> list[Question]:
    """The judged questions of a set."""
    if name == "doc2dial":
        return [
            Question(str(row["_id"]), str(row["text"]), conversation(row["metadata"]["history"]))  # type: ignore[index]
            for row in rows(data / "doc2dial" / "queries.jsonl")
        ]
    found = []
    for dialog in rows(data / "mtrag" / "dialogs.jsonl"):
        turns: list[dict[str, str]] = dialog["turns"]  # type: ignore[assignment]
        for i, turn in enumerate(turns):
            if dialog["collection"] == name and turn["role"] == "user" and turn.get("relevant"):
                before = conversation(turns[:i])
                found.append(Question(turn["turn_id"], turn["text"], before, turn.get("rewrite", "")))
    return found


def measure(search: TurnSearch, name: str, asked: list[Question], qrels: Qrels) -> tuple[dict[str, float], float]:
    """Each measure, and milliseconds a question."""
    started = time.perf_counter()
    run = {}
    for question in asked:
        found = search.find(question.text, collection=name, conversation=question.conversation, k=100)
        run[question.id] = [hit.passage.id for hit in found.hits]
    seconds = time.perf_counter() - started
    judged = {question.id: qrels[question.id] for question in asked if question.id in qrels}
    return evaluate(run, judged, MEASURES), 1000 * seconds / max(1, len(asked))


def report(set_name: str, label: str, values: dict[str, float], milliseconds: float) -> None:
    shown = " | ".join(f"{values[measure]:.3f}" for measure in MEASURES)
    print(f"| {set_name} | {label} | {shown} | {milliseconds:.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--home", type=Path, default=Settings().home)
    parser.add_argument("--sets", nargs="+", default=["doc2dial", "cloud", "govt"])
    parser.add_argument("--every", type=int, default=1, help="take every Nth question only")
    parser.add_argument("--rows", default="", help="only the rows whose name holds this")
    parser.add_argument("--rerank", action="store_true", help="measure the cross-encoder over the default legs")
    options = parser.parse_args()

    settings = Settings(home=options.home)
    encoder = RememberingEncoder(load_encoder(resolve(settings.index.encoder, settings.home)))
    reranker: Reranker = open_reranker(settings)
    root = settings.home / "collections"
    print("| set | legs | MAP | R@5 | R@20 | nDCG@5 | ms a turn |\n|---|---|---|---|---|---|---|")
    for name in options.sets:
        folder = options.data / ("doc2dial" if name == "doc2dial" else f"mtrag/{name}")
        doc2dial = name == "doc2dial"
        corpus, judged = ("sections.jsonl", "qrels.section.tsv") if doc2dial else ("corpus.jsonl", "qrels.tsv")
        tokens = settings.index.passage_tokens
        index_paths(root, f"bench-{name}", [folder / corpus], encoder, passage_tokens=tokens)
        opened = Collection.open(root, f"bench-{name}", encoder)
        asked, qrels = questions(options.data, name)[:: options.every], read_qrels(folder / judged)
        follow_ups = [question for question in asked if question.conversation]

        def search(
            legs: LegsSettings,
            *,
            rerank: str = "never",
            human: bool = False,
            opened: Collection = opened,
            asked: list[Question] = asked,
        ) -> TurnSearch:
            retrieval = settings.retrieval.model_copy(update={"legs": legs, "rerank": rerank, "rerank_seconds": 60.0})
            return TurnSearch(
                collection=lambda _: opened,
                rewriter=WrittenRewriter(asked) if human else PassThroughRewriter(),
                settings=settings.model_copy(update={"retrieval": retrieval}),
                reranker=reranker,
            )

        if options.rerank:
            for label, part in (
                ("first questions", [q for q in asked if not q.conversation]),
                ("follow-ups", follow_ups),
            ):
                for policy in ("never", "always"):
                    values = measure(search(LegsSettings(), rerank=policy), name, part, qrels)
                    report(name, f"{label}, rerank by the typed question: {policy}", *values)
            if not doc2dial:
                for policy in ("never", "always"):
                    values = measure(search(LegsSettings(), rerank=policy, human=True), name, follow_ups, qrels)
                    report(name, f"follow-ups + human rewrite, rerank by it: {policy}", *values)
        else:
            for label, legs in LEGS.items():
                if options.rows not in label:
                    continue
                report(name, label, *measure(search(legs), name, asked, qrels))
            if not doc2dial:
                for label, legs in {
                    "human rewrite alone": REWRITE_ALONE,
                    "default + human rewrite": LegsSettings(),
                }.items():
                    report(name, label, *measure(search(legs, human=True), name, asked, qrels))
        opened.close()


if __name__ == "__main__":
    main()
