"""Fit and judge how curated answers are matched: how often a question gets the answer to another one, and its own.

    python benchmarks/bench_curated.py --data DATA --home HOME [--encoder NAME ...] [--write]

`--data` is the folder of `dialogs.train.jsonl` and `dialogs.dev.jsonl`. Every answerable turn of a product is a
curated answer: its written rewrite is the question. Each turn is then asked as it was typed, in its conversation,
resolved as the product resolves it. Its own answer is a right hit. A *near miss* is the turn with its own answer taken
away, while all others of the product are there: whatever it gets is wrong, unless that stands on the same evidence. The
model is fitted on train, its threshold set so that `WRONG` of the near misses there get an answer; dev is reported.
`--write` puts the models into `plugins/curated/matching.json`. Prints Markdown. Takes 10 minutes an encoder on a core.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from index.encoders import Encoder, load_encoder
from plugins.curated.answering import READ, Asked, Fitted, Model, differs, read, same_words, signals
from rewriter.load import load_rewriter, packaged_folder
from rewriter.protocol import Conversation, Message
from server.registry import resolve
from server.rewriters import open_reranker
from server.settings import Settings
from server.turn.search import TurnSearch

WRONG = 0.008
"""Near misses of train that may get an answer; below a hundredth, so that other products stay below one."""
RIDGE = 1e-3
REWORDED = 3.0
"""Weight of a question that stands alone and has other words than the curated one: there are few of them."""
MONOTONE = {
    "words new": -1,
    "negation": -1,
    "leans": -1,
    **dict.fromkeys(("cosine", "typed cosine", "leaning cosine", "words searched", "words typed", "words known"), 1),
    "relevance": 1,
}
"""The direction in which each signal may count."""
MODELS = Path(__file__).parent.parent / "plugins/curated/matching.json"


@dataclass
class Turn:
    """A user's turn: how it is asked, and what it would be as a curated answer."""

    product: str
    asked: Asked
    question: str
    answer: str
    quotes: tuple[tuple[str, str], ...]
    pairs: list[Pair] = field(default_factory=list)

    def shares(self, other: Turn) -> bool:
        """Whether both stand on the same evidence."""
        texts = [(a, b) for document, a in self.quotes for name, b in other.quotes if document == name]
        held = (len(set(a.split()) & set(b.split())) >= 0.5 * min(len(a.split()), len(b.split())) for a, b in texts)
        return self.question.casefold() == other.question.casefold() or any(held)


@dataclass(eq=False)
class Pair:
    """A turn beside a curated answer."""

    own: bool
    same: bool
    differs: bool
    weight: float
    values: dict[str, float]


def turns_of(path: Path, settings: Settings) -> list[Turn]:
    """Return the turns of a file that ask for something."""
    folder = packaged_folder()
    assert folder is not None
    rewriter = load_rewriter(folder)
    search = TurnSearch(collection=lambda _: None, rewriter=rewriter, settings=settings)  # type: ignore[arg-type, return-value]
    turns = list[Turn]()
    for line in path.read_text("utf-8").splitlines():
        dialog, history = json.loads(line), list[Message]()
        for said, answer in zip(dialog["turns"][::2], dialog["turns"][1::2], strict=True):
            conversation, text = Conversation(tuple(history)), said["text"]
            history += [Message("user", text), Message("assistant", answer["text"])]
            if said["answerability"] == "none":
                continue
            plan = search.plan(text, conversation, rewriter.rewrite(conversation, text))
            answerable = said["answerability"] in ("answerable", "partial")
            quotes = tuple((one["document"], one["quote"]) for one in said["evidence"] if answerable)
            turns.append(Turn(dialog["product"], Asked.of(plan), said["rewrite"], answer["text"], quotes))
    return turns


def paired(turns: Sequence[Turn], encoder: Encoder, settings: Settings) -> None:
    """Put each turn beside its own answer and the nearest others of its product."""
    reranker = open_reranker(settings)
    texts = {text for turn in turns for text in (turn.asked.typed, turn.asked.searched, turn.question)}
    ordered = sorted(texts)
    vectors = dict(zip(ordered, encoder.encode([encoder.prompt + text for text in ordered]), strict=True))
    products = defaultdict[str, list[Turn]](list)
    for turn in turns:
        products[turn.product].append(turn)
    for product in products.values():
        curated = [turn for turn in product if turn.quotes]
        matrix = np.array([vectors[one.question] for one in curated])
        for turn in product:
            cosines = np.array([matrix @ vectors[text] for text in (turn.asked.typed, turn.asked.searched)])
            others = [n for n, one in enumerate(curated) if one is not turn and not one.shares(turn)]
            nearest = sorted(others, key=lambda n: -float(cosines[:, n].max()))[:READ]
            beside = [*(n for n, one in enumerate(curated) if one is turn), *nearest]
            told = read(reranker, turn.asked, [(curated[n].question, curated[n].answer) for n in beside[:READ]])
            told += read(reranker, turn.asked, [(curated[n].question, curated[n].answer) for n in beside[READ:]])
            for n, relevance in zip(beside, told, strict=True):
                own, question = curated[n] is turn, curated[n].question
                same = same_words(turn.asked, question)
                weight = REWORDED if own and turn.asked.typed == turn.asked.searched else 1.0
                values = signals(turn.asked, question, *map(float, cosines[:, n])) | {"relevance": relevance}
                turn.pairs.append(Pair(own, same, differs(turn.asked, question), weight, values))


def fit(pairs: Sequence[Pair], names: Sequence[str]) -> Model:
    """Return the logistic model of these signals, each of which counts in its direction alone."""
    raw = np.array([[pair.values[name] for name in names] for pair in pairs])
    mean, spread = raw.mean(axis=0), raw.std(axis=0)
    x = np.column_stack([(raw - mean) / spread, np.ones(len(pairs))])
    y = np.array([1.0 if pair.own else -1.0 for pair in pairs])
    share = np.array([pair.weight for pair in pairs])
    share /= share.sum()

    def loss(weights: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        margin = y * (x @ weights)
        slope = -(share * y / (1 + np.exp(margin))) @ x + RIDGE * weights
        return float(share @ np.logaddexp(0, -margin)) + RIDGE * float(weights @ weights) / 2, slope

    bounds = [(0, None) if MONOTONE[name] > 0 else (None, 0) for name in names]
    found = minimize(loss, np.zeros(x.shape[1]), jac=True, method="L-BFGS-B", bounds=[*bounds, (None, None)]).x
    slopes = found[:-1] / spread
    return Model(float(found[-1] - slopes @ mean), dict(zip(names, map(float, slopes), strict=True)))


def scores(turn: Turn, model: Model, opened: Model | None = None, least: float = -np.inf) -> list[tuple[bool, float]]:
    """Return for each pair whether it is the turn's own, and its score as the product would have it."""

    def score(pair: Pair) -> float:
        if pair.same:
            return np.inf
        closed = pair.differs or (opened is not None and opened.score(pair.values) < least)
        return -np.inf if closed else model.score(pair.values)

    return [(pair.own, score(pair)) for pair in turn.pairs]


def wrong(turns: Sequence[Turn], *options: Any) -> npt.NDArray[np.float64]:
    """Return the best score of another's answer, by turn."""
    return np.array(
        [max((value for own, value in scores(turn, *options) if not own), default=-np.inf) for turn in turns]
    )


def threshold(turns: Sequence[Turn], model: Model, *options: Any) -> Model:
    """Return the model with its threshold at 0."""
    least = float(np.quantile(wrong(turns, model, *options), 1 - WRONG))
    return Model(round(model.bias - least, 3), {name: round(value, 3) for name, value in model.weights.items()})


def report(name: str, turns: Sequence[Turn], *options: Any) -> str:
    """Return a row of the table: how many near misses get an answer, and how many turns their own, by kind."""
    others = wrong(turns, *options)
    kinds = defaultdict[str, list[bool]](list)
    for turn, other in zip(turns, others, strict=True):
        for own, value in scores(turn, *options):
            if own:
                same = any(pair.same for pair in turn.pairs if pair.own)
                kind = "same words" if same else "alone" if turn.asked.typed == turn.asked.searched else "follow-up"
                kinds[kind].append(value >= 0 and value >= other)
    chance = random.Random(0)
    told = others >= 0
    draws = sorted(float(np.mean(chance.choices(told, k=len(told)))) for _ in range(1000))
    by_kind = [kinds[kind] for kind in ("same words", "alone", "follow-up")]
    cells = " | ".join(f"{100 * np.mean(own):.0f} % of {len(own)}" for own in by_kind)
    return f"| {name} | {100 * told.mean():.1f} % ({100 * draws[25]:.1f}–{100 * draws[975]:.1f}) | {cells} |"


def main() -> None:
    """Fit for each encoder and print what dev says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--encoder", nargs="*", default=["bge-small-en-v1.5", "multilingual-e5-small"])
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    settings = Settings(home=options.home)
    models: dict[str, Mapping[str, Any]] = json.loads(MODELS.read_text("utf-8")) if MODELS.exists() else {}
    print("| encoder, split | near misses that got an answer | same words | other words, alone | follow-up |")
    print("|---|---|---|---|---|")
    for name in options.encoder:
        encoder = load_encoder(resolve(name, settings.home))
        splits = {}
        for split in ("train", "dev"):
            splits[split] = turns_of(options.data / f"dialogs.{split}.jsonl", settings)
            paired(splits[split], encoder, settings)
        pairs = [pair for turn in splits["train"] for pair in turn.pairs if not (pair.same or pair.differs)]
        names = list(MONOTONE)
        unread = threshold(splits["train"], fit(pairs, names[:-1]))
        read_model = fit(pairs, names)
        # Of the hits of the second model hardly one is below: the cross-encoder need not read those.
        bound = threshold(splits["train"], read_model)
        hits = [unread.score(one.values) for one in pairs if one.own and bound.score(one.values) >= 0]
        least = round(float(np.quantile(hits, 0.01)), 3)
        fitted = Fitted(unread, threshold(splits["train"], read_model, unread, least), least)
        models[name] = {
            "unread": {"bias": fitted.unread.bias, "weights": fitted.unread.weights},
            "read": {"bias": fitted.read.bias, "weights": fitted.read.weights},
            "open": fitted.open,
        }
        for split, turns in splits.items():
            print(report(f"{name}, {split}", turns, fitted.read, fitted.unread, fitted.open))
            print(report(f"{name}, {split}, without the cross-encoder", turns, fitted.unread), flush=True)
    if options.write:
        MODELS.write_text(json.dumps(models, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
