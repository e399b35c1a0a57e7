"""The cross-encoder as a family that can be trained, in torch: groups of pairs in, the loss of their order out.

The run itself is `rewriter.training`'s.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from papers.cross_encoder.family import RerankerModelPart
from papers.cross_encoder.rows import PairReader, RankedGroup, RerankExample, read_rows, rerank_features
from rewriter.families import Family, Features, padded
from rewriter.onnx_weights import TOKENIZER, multiplied_out, put_tokenizer, write_int8
from rewriter.protocol import TrainingError
from rewriter.recipe import Recipe

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from transformers import BertForSequenceClassification

ONNX, WEIGHTS = "model.onnx", "weights"
"""In a run's folder; one of the registry has the first alone."""
HEAD_WIDTH = 32
"""The file does not say; that of the MiniLM models."""
STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
"""Without dropout: there are few steps, and a teacher to follow."""
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OUTPUT = "logits"
CHUNK = 8
"""So many pairs of like length are read at once, so that little of it is padding."""
_NOTHING = -1e4


def batch(groups: Sequence[RankedGroup], chunk: int = CHUNK) -> dict[str, Any]:
    """Groups as the model's arguments.

    `ids` and `types` are lists of `(at most `chunk`, longest)` int64, padded with zeros, the pairs sorted by length;
    `order` `(pairs,)` gives the position of each pair in the concatenated groups. `relevant`, `scores` and `there` are
    `(groups, most passages)`: judgements, the teacher's logits, and which places hold a passage at all; `taught`
    `(groups,)` says which groups have a teacher.
    """
    pairs = [pair for group in groups for pair in group.pairs]
    order = sorted(range(len(pairs)), key=lambda n: len(pairs[n][0]))
    chunks = [[pairs[n] for n in order[start : start + chunk]] for start in range(0, len(order), chunk)]
    return {
        "ids": [padded([ids for ids, _ in part]) for part in chunks],
        "types": [padded([types for _, types in part]) for part in chunks],
        "order": torch.tensor(order),
        "relevant": padded([group.relevant for group in groups], kind="float32"),
        "scores": padded([group.scores or (0.0,) * len(group.pairs) for group in groups], kind="float32"),
        "there": padded([(1,) * len(group.pairs) for group in groups]).bool(),
        "taught": torch.tensor([group.scores is not None for group in groups]),
    }


class RankingModel(nn.Module):
    """A cross-encoder that learns which of a question's passages come first.

    The wanted distribution over them is a mixture: `label` of it lies on the relevant ones alike, the rest as the
    teacher has it; the loss is the cross-entropy to it. `scale` times the squared difference to the teacher's logits is
    added: the order alone would let all scores drift.
    """

    def __init__(self, encoder: Any, *, label: float = 0.5, scale: float = 0.05) -> None:
        super().__init__()
        self.encoder = encoder
        self.label, self.scale = label, scale

    def forward(
        self,
        ids: list[Tensor],
        types: list[Tensor],
        order: Tensor,
        relevant: Tensor,
        scores: Tensor,
        there: Tensor,
        taught: Tensor,
    ) -> dict[str, Tensor]:
        """The `loss` of a `batch`, and its `logits` `(groups, most passages)`."""
        parts = [
            self.encoder(input_ids=ids_of, token_type_ids=kinds, attention_mask=(ids_of != 0).long())
            .logits[:, 0]
            .float()
            for ids_of, kinds in zip(ids, types, strict=True)
        ]
        flat = torch.cat(parts)
        logits = flat.new_full(there.shape, _NOTHING)
        logits[there] = torch.zeros_like(flat).index_copy(0, order, flat)
        wanted = relevant / relevant.sum(-1, keepdim=True).clamp(min=1)
        teacher = scores.masked_fill(~there, _NOTHING).softmax(-1)
        share = torch.where(taught, self.label, 1.0)[:, None]
        wanted = share * wanted + (1 - share) * teacher
        loss = -(wanted * logits.log_softmax(-1)).sum(-1).mean()
        held = there & taught[:, None]
        if self.scale and held.any():
            loss = loss + self.scale * ((logits - scores)[held] ** 2).mean()
        return {"loss": loss, "logits": logits}


def pretrained(base: str) -> Any:
    """A BERT-like cross-encoder with one logit, from a folder or of a hub id; raises TrainingError."""
    from transformers import AutoModelForSequenceClassification

    folder = Path(base)
    if (folder / WEIGHTS / "config.json").is_file():
        base = str(folder / WEIGHTS)
    elif (folder / ONNX).is_file() and not (folder / "config.json").is_file():
        return from_onnx(folder / ONNX)
    try:
        model = AutoModelForSequenceClassification.from_pretrained(base, **STILL)
    except (OSError, ValueError, TypeError) as error:
        raise TrainingError(
            f"cannot open the cross-encoder {base!r} to train from: {error}. Give a folder, a registered name, or a "
            "hub id on a machine that reaches the hub."
        ) from error
    if model.config.num_labels != 1:
        raise TrainingError(f"{base!r} gives {model.config.num_labels} numbers a pair; a cross-encoder gives one.")
    return model


def from_onnx(path: Path) -> BertForSequenceClassification:
    """The BERT cross-encoder in an int8 ONNX file that was exported from torch; raises TrainingError for any other."""
    from transformers import BertConfig, BertForSequenceClassification

    config: Any = BertConfig
    try:
        weights = {name: torch.tensor(value) for name, value in multiplied_out(path)}
        words, width = weights["bert.embeddings.word_embeddings.weight"].shape
        layers = {name.split(".")[3] for name in weights if name.startswith("bert.encoder.layer.")}
        model = BertForSequenceClassification(
            config(
                vocab_size=words,
                hidden_size=width,
                num_hidden_layers=len(layers),
                num_attention_heads=width // HEAD_WIDTH,
                intermediate_size=len(weights["bert.encoder.layer.0.intermediate.dense.bias"]),
                max_position_embeddings=len(weights["bert.embeddings.position_embeddings.weight"]),
                type_vocab_size=len(weights["bert.embeddings.token_type_embeddings.weight"]),
                num_labels=1,
                **STILL,
            )
        )
        model.load_state_dict(weights)
    except (OSError, KeyError, ValueError, RuntimeError) as error:
        raise TrainingError(f"{path} is no int8 BERT cross-encoder exported from torch: {error}") from error
    return model


def write_onnx(encoder: Any, path: Path) -> None:
    """The model as it is served."""
    encoder.config.return_dict = False  # the exporter wants a tuple
    write_int8(encoder, path, INPUTS, {OUTPUT: False})


def scores(path: Path, groups: Sequence[RankedGroup]) -> list[list[float]]:
    """The exported model's logit of every pair, group by group. Raises TrainingError where it cannot be opened."""
    read = open_export(path)
    return [[float(read(ids, (1,) * len(ids), types)[0]) for ids, types in group.pairs] for group in groups]


def open_export(path: Path) -> Callable[[Sequence[int], Sequence[int], Sequence[int]], NDArray[np.float32]]:
    """Return what gives the logits of one pair, whose `INPUTS` it takes. Raises TrainingError."""
    import onnxruntime

    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as error:  # the library raises bare exceptions of its own
        raise TrainingError(f"{path} cannot be opened ({error}): export the run again.") from error

    def read(*rows: Sequence[int]) -> NDArray[np.float32]:
        feed = {name: np.array([row], np.int64) for name, row in zip(INPUTS, rows, strict=True)}
        logits: NDArray[np.float32] = session.run([OUTPUT], feed)[0][0]
        return logits

    return read


class RerankerFamily(Family):
    """How cross-encoders are trained, exported and judged."""

    about = "It reads a question with the conversation it leans on and a passage together, and says how well they fit."
    weights = (f"{WEIGHTS}/config.json",)

    def read(self, path: Path) -> Iterable[RerankExample]:
        return read_rows(path)

    def open(self, recipe: Recipe, folder: Path, callback: Callable[[str], None]) -> None:
        """The cross-encoder that training begins with, its lower layers frozen where the recipe says so."""
        self._part = part = cast("RerankerModelPart", recipe.model)
        self._seed = recipe.seed
        put_tokenizer(part.base, folder, callback)
        self._reader = PairReader(folder / TOKENIZER, part.asking)
        encoder = pretrained(part.base)
        body = encoder.base_model
        body.embeddings.word_embeddings.weight.requires_grad = False
        if part.frozen:
            for module in (body.embeddings, *body.encoder.layer[: part.frozen]):
                module.requires_grad_(False)
        self.model = RankingModel(encoder, label=part.label, scale=part.scale)

    def features(self, examples: Sequence[RerankExample], *, train: bool) -> Features:
        return rerank_features(examples, self._reader, self._part, self._seed, train)

    def collate(self, items: Sequence[RankedGroup]) -> dict[str, Any]:
        return batch(items)

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the weights as transformers reads them."""
        self.model.encoder.save_pretrained(folder / WEIGHTS)
        shutil.copyfile(folder / TOKENIZER, folder / WEIGHTS / TOKENIZER)
        return {"lengths": asdict(self._part.asking)}

    def export(self, folder: Path, description: dict[str, Any]) -> tuple[dict[str, Any], list[Path]]:
        write_onnx(pretrained(str(folder)), folder / ONNX)
        return {}, [folder / TOKENIZER, folder / ONNX]

    def judge(
        self,
        recipe: Recipe,
        folder: Path,
        description: dict[str, Any],
        dev: Sequence[RerankExample],
        test: Sequence[RerankExample],
    ) -> tuple[dict[str, Any], dict[str, float]]:
        """MAP over the passages of held-out rows, on both sides together: follow-ups, and questions that come first.

        Its effect among all passages is measured by `anaphora eval retrieval`.
        """
        part = cast("RerankerModelPart", recipe.model)
        reader = PairReader(folder / TOKENIZER, part.asking)
        features = rerank_features([*dev, *test], reader, part, recipe.seed, train=False)
        groups = [features[n] for n in range(len(features))]
        precisions = [
            _precision(group, group_scores)
            for group, group_scores in zip(groups, scores(folder / ONNX, groups), strict=True)
        ]
        follows = [bool(example.history) for example in (*dev, *test)]
        means = {
            "map": precisions,
            "map_follow_ups": [precision for precision, follow in zip(precisions, follows, strict=True) if follow],
            "map_first": [precision for precision, follow in zip(precisions, follows, strict=True) if not follow],
            "map_teacher": [_precision(group, group.scores) for group in groups if group.scores is not None],
        }
        return {}, {name: round(float(np.mean(values)), 4) for name, values in means.items() if values}


def _precision(group: RankedGroup, scores: Sequence[float]) -> float:
    """Average precision of the group's passages in this order; the last of equals counts."""
    order = sorted(range(len(scores)), key=lambda n: (-scores[n], group.relevant[n]))
    places = [place for place, n in enumerate(order, 1) if group.relevant[n]]
    return sum(rank / place for rank, place in enumerate(places, 1)) / len(places)
