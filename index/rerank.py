"""Cross-encoders: the top of a list read again, question and passage together, within a time budget.

A cross-encoder's own order is fused with the list's by reciprocal rank, because each is wrong where
the other is not. Whether reranking pays for a question is for the caller to decide: it needs a
question that stands alone, unless the model was trained on conversations (`reranker.json` beside it).
That one reads the question as typed, together with what it leans on.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from index.encoders import refuse_empty_folder
from index.errors import ModelUnavailable
from index.fusion import fuse
from index.onnx_model import OnnxModel
from index.query import Hit
from text.asking import AskingLengths, QuestionContext, asking
from text.extras import need_extra

ONNX_FILE = "model.onnx"
CONVERSATIONAL = "reranker.json"
"""Beside a model that was trained on conversations; written last, so that a run without it is unfinished."""
FORMAT = 1
PASSAGE_TOKENS = 224
QUESTION_TOKENS = 96
TOP = 20

FUSION_K = 5
"""Small, since both rankings know well what belongs at the very top; measured in `docs/retrieval.md`."""

_WINDOW = 512
_SHORTER = (PASSAGE_TOKENS, 160, 112, 80)
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

    def rerank(
        self,
        question: str,
        hits: Sequence[Hit],
        seconds: float,
        top: int = TOP,
        weight: float = 1.0,
        context: QuestionContext | None = None,
    ) -> list[Hit]:
        """All `hits`, the first `top` of them read within about `seconds` and the order fused anew.

        Passages are read in list order, shorter or fewer of them when time is short; those that were
        not reached keep their order below those that were. `ranks["rerank"]` is the model's rank. `weight`
        is what its order counts beside the list's, 1 for as much. `context` is for a model that reads
        conversations, and goes with the question as typed.
        """


class Scorer(Protocol):
    """What reads question and passage together, of whatever format."""

    def cut(self, text: str, tokens: int) -> tuple[str, int]:
        """The text's beginning of at most so many tokens, and how many those are."""

    def score(self, question: str, passages: Sequence[str]) -> Scores:
        """`(len(passages),)`, higher is better."""


class CrossEncoderReranker:
    """A cross-encoder with a clock: it learns its speed in tokens a second and reads what fits.

    With `lengths` it is one that reads conversations, and has so much of each part of a question.
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
        self._clock = clock
        self._speed = _FIRST_SPEED
        self._lock = threading.Lock()

    @property
    def reads_conversations(self) -> bool:
        return self.lengths is not None

    def rerank(
        self,
        question: str,
        hits: Sequence[Hit],
        seconds: float,
        top: int = TOP,
        weight: float = 1.0,
        context: QuestionContext | None = None,
    ) -> list[Hit]:
        if not question.strip() or not hits or seconds <= 0 or top < 1:
            return list(hits)
        deadline = self._clock() + seconds
        if self.lengths is not None:
            question = asking(question, context or QuestionContext(), self.lengths, self.scorer.cut)
        question, asked = self.scorer.cut(question, self.lengths.total if self.lengths else QUESTION_TOKENS)
        texts, tokens = self._fit([hit.passage.indexed_text for hit in hits[:top]], asked, seconds)
        scores: list[float] = []
        while len(scores) < len(texts):
            batch = slice(len(scores), len(scores) + _BATCH)
            # Shorter ones are padded to the longest of their batch.
            work = (max(tokens[batch]) + asked) * len(tokens[batch])
            began = self._clock()
            # The first batch is always read: it is small, and without it the estimate would never mend.
            if scores and began + work / self._speed > deadline:
                break
            scores.extend(self.scorer.score(question, texts[batch]).tolist())
            self._learn(work, self._clock() - began)
        return _fused(hits, scores, weight)

    def _fit(self, passages: Sequence[str], asked: int, seconds: float) -> tuple[list[str], list[int]]:
        """The passages cut to the greatest length at which all of them fit into the time, else to the least."""
        cut = [self.scorer.cut(text, PASSAGE_TOKENS) for text in passages]
        room = seconds * self._speed
        length = next(
            (length for length in _SHORTER if sum(min(size, length) + asked for _, size in cut) <= room), _SHORTER[-1]
        )
        if length < PASSAGE_TOKENS:
            cut = [self.scorer.cut(text, length) for text, _ in cut]
        return [text for text, _ in cut], [size for _, size in cut]

    def _learn(self, work: int, seconds: float) -> None:
        if seconds > 0:
            with self._lock:
                self._speed += _LEARN * (work / seconds - self._speed)


class _OnnxScorer:
    """A BERT-like cross-encoder in ONNX: pairs in, one logit each out."""

    def __init__(self, folder: Path, base: Path | None = None) -> None:
        self._model = OnnxModel(folder / ONNX_FILE, (base or folder) / "tokenizer.json", _WINDOW, base)

    def cut(self, text: str, tokens: int) -> tuple[str, int]:
        offsets = self._model.token_offsets(text)
        if len(offsets) <= tokens:
            return text, len(offsets)
        return text[: offsets[tokens - 1][1]], tokens

    def score(self, question: str, passages: Sequence[str]) -> Scores:
        logits, _ = self._model.run(self._model.tokenize([(question, passage) for passage in passages]))
        return logits[:, 0]


class _SentenceTransformersScorer:
    """Any cross-encoder that sentence-transformers can load, on torch."""

    def __init__(self, path_or_id: str) -> None:
        refuse_empty_folder(path_or_id)
        need_extra("hub", f"The cross-encoder {path_or_id!r}", "sentence_transformers", error=ModelUnavailable)
        from sentence_transformers import CrossEncoder

        try:
            self._model = CrossEncoder(path_or_id)
        except (OSError, ValueError) as error:
            raise ModelUnavailable(
                f"cannot load the cross-encoder {path_or_id!r}: {error}. "
                "Give a folder, or a hub id on a machine that reaches the hub"
            ) from error
        self._lock = threading.Lock()

    def cut(self, text: str, tokens: int) -> tuple[str, int]:
        with self._lock:
            encoded = self._model.tokenizer(
                text, add_special_tokens=False, return_offsets_mapping=True, truncation=False, verbose=False
            )
        offsets = encoded["offset_mapping"]
        if len(offsets) <= tokens:
            return text, len(offsets)
        return text[: offsets[tokens - 1][1]], tokens

    def score(self, question: str, passages: Sequence[str]) -> Scores:
        with self._lock:
            scores = self._model.predict([(question, passage) for passage in passages], show_progress_bar=False)
        return np.asarray(scores, dtype=np.float32).reshape(len(passages))


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
    try:
        with (base / ONNX_FILE).open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelUnavailable(f"{base / ONNX_FILE} cannot be read ({error}): fetch the model again.") from error
    if found != described.get("base_sha256"):
        raise ModelUnavailable(f"{folder} was trained from another model than {base}: fetch that again.")
    return CrossEncoderReranker(str(described.get("name")), _OnnxScorer(folder, base), lengths=_lengths(described))


def _described(folder: Path) -> dict[str, Any]:
    """What a model that reads conversations says of itself; nothing for any other."""
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
    """What it takes of each part of a question."""
    return AskingLengths(**{name: int(n) for name, n in described["lengths"].items()}) if described else None


def _fused(hits: Sequence[Hit], scores: Sequence[float], weight: float) -> list[Hit]:
    """The list fused with the model's order of its first passages; those not read go below."""
    read = len(scores)
    order = np.argsort(-np.asarray(scores, dtype=np.float64), kind="stable").tolist()
    # The model first: where the two just swap places, it is the better judge.
    fused = fuse([("rerank", weight, order), ("list", 1.0, list(range(len(hits))))], FUSION_K)
    fused.sort(key=lambda item: item.id >= read)
    return [
        replace(
            hits[item.id],
            score=item.score,
            ranks=_with_rerank(hits[item.id], item.ranks.get("rerank")),
            relevance=scores[item.id] if item.id < read else None,
        )
        for item in fused
    ]


def _with_rerank(hit: Hit, rank: int | None) -> dict[str, int]:
    return dict(hit.ranks) if rank is None else {**hit.ranks, "rerank": rank}
