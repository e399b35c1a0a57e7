"""Cross-encoders: the top of a list read again, question and passage together, within a time budget.

A cross-encoder's score is fused with the rank in the list (`chances`). It needs a question that stands alone, unless it
was trained on conversations (`reranker.json` beside it) and reads the question as typed with what it leans on.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from index.documents import Hit, TokenStates
from index.encoders import OnnxModel, demand_loadable, not_loaded
from index.errors import ModelUnavailable
from text.prompts import AskingLengths, QuestionContext, asking

if TYPE_CHECKING:
    from tokenizers import Encoding

ONNX_FILE = "model.onnx"
CONVERSATIONAL = "reranker.json"
"""Beside a model that was trained on conversations; written last, so that a run without it is unfinished."""
FORMAT = 1
LOGITS, STATES = "logits", "states"
"""Outputs of a model; one without the second scores and shows no states."""
PASSAGE_TOKENS = 224
QUESTION_TOKENS = 96
TOP = 14
ALONE_MARGIN = 1.0
"""By how much a reading without the context has to be better to count."""

_WINDOW = 512
_BATCH = 4
# How much the newest measurement moves the estimate of a model's speed.
_LEARN = 0.3
# Until it has been measured: below what two cores do, so that the first call keeps its budget.
_FIRST_SPEED = 4000.0

Scores = npt.NDArray[np.float32]


class Reranker(Protocol):
    """Reorders the top of a list by reading it; safe to call from several threads at once."""

    @property
    def name(self) -> str:
        """Names the model."""

    @property
    def reads_conversations(self) -> bool:
        """Whether it may be given the question as typed, with its context."""

    @property
    def reader(self) -> Reranker | None:
        """The cross-encoder whose hits carry their `tokens`: this one, another one beside it, or none."""

    def rerank(
        self,
        question: str,
        hits: Sequence[Hit],
        seconds: float,
        top: int = TOP,
        weight: float = 1.0,
        context: QuestionContext | None = None,
        alone: Collection[str] = (),
    ) -> list[Hit]:
        """All `hits`, the first `top` of them read within about `seconds` and the order fused anew.

        Passages are read in list order, fewer of them when time is short: half of them find as much as all, while
        all of them cut to half find less. Those that were not reached keep their order below those that were.
        `ranks["rerank"]` is the model's rank, `score` the fused chance between 0 and 1. `weight` is what its scores
        count beside the place in the list. `context` is for a model that reads conversations, and goes with the
        question as typed. The passages with the ids of `alone` are read for the question without its context as well,
        and the better reading counts: a question that changes the subject is answered by itself.
        """


class Scorer(Protocol):
    """A model that scores question and passage together, in any format."""

    shows_states: bool
    """Whether it can also show the states of what it reads."""

    def cut(self, text: str, tokens: int) -> tuple[str, int]:
        """The text's beginning of at most so many tokens, and how many those are."""

    def score(self, question: str, passages: Sequence[str]) -> tuple[Scores, list[Encoding], list[Scores]]:
        """Scores `(len(passages),)`, higher is better; for each pair its tokens and their states `(tokens, width)`,
        empty lists where the model shows none."""


class CrossEncoderReranker:
    """A cross-encoder with a clock: it learns its speed in tokens a second and reads what fits.

    With `lengths` it is one that reads conversations, and has so much of each part of a question. `beside` is its
    `reader` where it shows no states itself.
    """

    def __init__(
        self,
        name: str,
        scorer: Scorer,
        clock: Callable[[], float] = time.monotonic,
        lengths: AskingLengths | None = None,
    ) -> None:
        self.name = name
        self.scorer = scorer
        self.lengths = lengths
        self.beside: Reranker | None = None
        self._clock = clock
        self._speed = _FIRST_SPEED
        self._lock = threading.Lock()

    @property
    def reads_conversations(self) -> bool:
        return self.lengths is not None

    @property
    def reader(self) -> Reranker | None:
        return self if self.scorer.shows_states else self.beside

    def rerank(
        self,
        question: str,
        hits: Sequence[Hit],
        seconds: float,
        top: int = TOP,
        weight: float = 1.0,
        context: QuestionContext | None = None,
        alone: Collection[str] = (),
    ) -> list[Hit]:
        if not question.strip() or not hits or seconds <= 0 or top < 1:
            return list(hits)
        deadline = self._clock() + seconds
        by_itself = ""
        if self.lengths is not None:
            by_itself = asking(question, QuestionContext(), self.lengths, self.scorer.cut)
            question = asking(question, context or QuestionContext(), self.lengths, self.scorer.cut)
        question, question_tokens = self.scorer.cut(question, self.lengths.total if self.lengths else QUESTION_TOKENS)
        scores: list[float] = []
        states: list[TokenStates] = []
        for start in range(0, min(top, len(hits)), _BATCH):
            batch = hits[start : min(start + _BATCH, top)]
            cut = [self.scorer.cut(hit.passage.indexed_text, PASSAGE_TOKENS) for hit in batch]
            work = sum(tokens + question_tokens for _, tokens in cut)
            began = self._clock()
            # The first batch is always read: it is small, and without it the estimate would never mend.
            if scores and began + work / self._speed > deadline:
                break
            logits, pairs, hidden = self.scorer.score(question, [text for text, _ in cut])
            states += [_placed(*read) for read in zip(batch, pairs, hidden, strict=False)]
            scores.extend(logits.tolist())
            if (taken := self._clock() - began) > 0:
                with self._lock:
                    self._speed += _LEARN * (work / taken - self._speed)
        for place, hit in enumerate(hits[: len(scores)]):
            if hit.passage.id in alone and by_itself not in ("", question):
                text, _ = self.scorer.cut(hit.passage.indexed_text, PASSAGE_TOKENS)
                [score], pairs, hidden = self.scorer.score(by_itself, [text])
                if score - ALONE_MARGIN > scores[place]:
                    scores[place] = float(score) - ALONE_MARGIN
                    states[place : place + 1] = [_placed(hit, *read) for read in zip(pairs, hidden, strict=True)]
        read_hits = [replace(hit, tokens=tokens) for hit, tokens in zip(hits, states, strict=False)]
        return _fused([*read_hits, *hits[len(read_hits) :]], scores, weight)


class _OnnxScorer:
    """A BERT-like cross-encoder in ONNX: pairs in, one logit each out."""

    def __init__(self, folder: Path, base: Path | None = None) -> None:
        self._model = OnnxModel(folder / ONNX_FILE, (base or folder) / "tokenizer.json", _WINDOW, base)
        self.shows_states = STATES in self._model.outputs

    def cut(self, text: str, tokens: int) -> tuple[str, int]:
        return _cut(text, self._model.token_offsets(text), tokens)

    def score(self, question: str, passages: Sequence[str]) -> tuple[Scores, list[Encoding], list[Scores]]:
        pairs = self._model.tokenize([(question, passage) for passage in passages])
        outputs = [name for name in (LOGITS, STATES) if name in self._model.outputs] or self._model.outputs[:1]
        read = self._model.map(lambda pair: self._model.run_for(pair, outputs), pairs)
        scores = np.array([logits[0, 0] for logits, *_ in read], dtype=np.float32)
        hidden = [states[0] for _, *layers in read for states in layers]
        return scores, pairs if hidden else [], hidden


class _SentenceTransformersScorer:
    """Any cross-encoder that sentence-transformers can load, on torch."""

    shows_states = False

    def __init__(self, path_or_id: str) -> None:
        local_only = demand_loadable("cross-encoder", path_or_id)
        from sentence_transformers import CrossEncoder

        try:
            self._model = CrossEncoder(path_or_id, local_files_only=bool(local_only))
        except (OSError, ValueError) as error:
            raise not_loaded("cross-encoder", path_or_id, local_only, error) from error
        self._lock = threading.Lock()

    def cut(self, text: str, tokens: int) -> tuple[str, int]:
        with self._lock:
            encoded = self._model.tokenizer(
                text, add_special_tokens=False, return_offsets_mapping=True, truncation=False, verbose=False
            )
        return _cut(text, encoded["offset_mapping"], tokens)

    def score(self, question: str, passages: Sequence[str]) -> tuple[Scores, list[Encoding], list[Scores]]:
        from torch.nn import Identity

        with self._lock:
            # Log-odds, also of models that would say probabilities.
            scores = self._model.predict(
                [(question, passage) for passage in passages], show_progress_bar=False, activation_fn=Identity()
            )
        return np.asarray(scores, dtype=np.float32).reshape(len(passages)), [], []


def _cut(text: str, offsets: Sequence[tuple[int, int]], tokens: int) -> tuple[str, int]:
    return (text, len(offsets)) if len(offsets) <= tokens else (text[: offsets[tokens - 1][1]], tokens)


def load_reranker(path_or_id: str) -> Reranker:
    """The cross-encoder in a folder, or of that hub id; raises ModelUnavailable."""
    folder = Path(path_or_id)
    if (folder / ONNX_FILE).is_file():
        return CrossEncoderReranker(folder.resolve().name, _OnnxScorer(folder), lengths=_lengths(_described(folder)))
    name = folder.resolve().name if folder.is_dir() else path_or_id
    return CrossEncoderReranker(name, _SentenceTransformersScorer(path_or_id))


def load_over(folder: Path, base: Path) -> Reranker:
    """The cross-encoder in `folder` that holds only what it learned, over the one in `base` that it was trained from.

    Raises ModelUnavailable where `base` is not byte for byte that one, or a file is missing or damaged.
    """
    described = _described(folder)
    demand_base(folder, described, base)
    return CrossEncoderReranker(str(described.get("name")), _OnnxScorer(folder, base), lengths=_lengths(described))


def demand_base(folder: Path, described: Mapping[str, Any], base: Path) -> None:
    """Raise ModelUnavailable where the file of `base` is not the one that `described`, the model in `folder`, names."""
    try:
        with (base / ONNX_FILE).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelUnavailable(f"{base / ONNX_FILE} cannot be read ({error}): fetch the model again.") from error
    if digest != described.get("base_sha256"):
        raise ModelUnavailable(f"{folder} was trained from another model than {base}: fetch that again.")


def _described(folder: Path) -> dict[str, Any]:
    """Read the description of a model that reads conversations; empty for any other model."""
    path = folder / CONVERSATIONAL
    if not path.is_file():
        return {}
    try:
        described = json.loads(path.read_text("utf-8"))
        if described["format"] != FORMAT:
            raise ModelUnavailable(f"{path} has format {described['format']!r}; this version reads format {FORMAT}.")
        _lengths(described)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelUnavailable(f"{path} cannot be read ({error!r}): train or copy the cross-encoder again.") from error
    return dict(described)


def _lengths(described: dict[str, Any]) -> AskingLengths | None:
    """Return the token limit of each part of a question."""
    return AskingLengths(**{name: int(n) for name, n in described["lengths"].items()}) if described else None


def chances(scores: Sequence[float], weight: float = 1.0) -> npt.NDArray[np.float64]:
    """How likely each passage of a list is to be right, `(len(scores),)` between 0 and 1, from its place and its score.

    `scores` are a cross-encoder's log-odds in the order of the list. A passage at rank r is right with odds that fall
    as 1 / r before it is read (Zipf), and what the model says of it is added as evidence: the logit is
    `weight * score - ln(r)`. Reciprocal ranks of both orders, which forget by how much one passage is better than the
    next, find less (`docs/lab/retrieval.md`).
    """
    logits = weight * np.asarray(scores, dtype=np.float64) - np.log(np.arange(1, len(scores) + 1))
    return np.exp(-np.logaddexp(0.0, -logits))


def _placed(hit: Hit, pair: Encoding, states: Scores) -> TokenStates:
    """The states of a pair with the places of their tokens in the passage's text."""
    before = len(hit.passage.indexed_text) - len(hit.passage.text)
    spans = tuple(
        (max(start - before, 0), end - before) if kind and end > before else (0, 0)
        for kind, (start, end) in zip(pair.type_ids, pair.offsets, strict=True)
    )
    return TokenStates(states, spans, pair.type_ids.count(0))


def _fused(hits: Sequence[Hit], scores: Sequence[float], weight: float) -> list[Hit]:
    """The read ones by their chance, then the others in their order, with scores that go on falling."""
    read = len(scores)
    fused = chances(scores, weight)
    ranks = np.empty(read, dtype=int)
    ranks[np.argsort(-np.asarray(scores), kind="stable")] = np.arange(1, read + 1)
    ordered = [
        replace(
            hits[place],
            score=float(fused[place]),
            ranks={**hits[place].ranks, "rerank": int(ranks[place])},
            relevance=scores[place],
        )
        for place in np.argsort(-fused, kind="stable").tolist()
    ]
    least = float(fused.min())
    return ordered + [replace(hit, score=least * read / rank) for rank, hit in enumerate(hits[read:], read + 1)]
