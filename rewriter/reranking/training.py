"""The cross-encoder as a family that can be trained; the run itself is `rewriter.training`'s."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rewriter.errors import TrainingError
from rewriter.load import RERANKERS
from rewriter.reranking.base import ONNX, WEIGHTS, pretrained
from rewriter.reranking.data import PairReader, RankedGroup, RerankFeatures
from rewriter.reranking.model_part import RerankerModelPart
from rewriter.reranking.rows import RerankExample, read_rows
from rewriter.tokenizer_file import TOKENIZER, put_tokenizer
from rewriter.training.families import Texts
from rewriter.training.recipe import Recipe, Stage

if TYPE_CHECKING:
    from rewriter.reranking.model import RankingModel


class RerankerFamily:
    """How cross-encoders are opened, exported and judged."""

    settings = RerankerModelPart
    kind = RERANKERS
    about = "It reads a question with the conversation it leans on and a passage together, and says how well they fit."

    def read(self, path: Path) -> Iterable[RerankExample]:
        """Questions with passages to rank."""
        return read_rows(path)

    def open(self, recipe: Recipe, texts: Texts, folder: Path, callback: Callable[[str], None]) -> RerankerTraining:
        """The cross-encoder that training begins with, its lower layers frozen where the recipe says so."""
        from rewriter.reranking.model import RankingModel

        part = _part(recipe)
        put_tokenizer(part.base, folder, callback)
        encoder = pretrained(part.base)
        body = encoder.base_model
        body.embeddings.word_embeddings.weight.requires_grad = False
        if part.frozen:
            for module in (body.embeddings, *body.encoder.layer[: part.frozen]):
                module.requires_grad_(False)
        model = RankingModel(encoder, label=part.label, scale=part.scale)
        return RerankerTraining(model, part, PairReader(folder / TOKENIZER, part.asking), recipe.seed)

    def export(self, folder: Path, description: dict[str, Any]) -> tuple[dict[str, Any], list[Path]]:
        """Write the ONNX file from the weights."""
        from rewriter.reranking.export import write_onnx

        if not (folder / WEIGHTS / "config.json").is_file():
            raise TrainingError(f"{folder} has no weights to export; only a finished run that kept them has.")
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

        What it does among all passages is measured by `anaphora eval retrieval`.
        """
        from rewriter.reranking.export import scores

        features = RerankFeatures(
            [*dev, *test], PairReader(folder / TOKENIZER, _part(recipe).asking), _part(recipe), recipe.seed, train=False
        )
        groups = [features[n] for n in range(len(features))]
        found = [
            _precision(group, made.tolist()) for group, made in zip(groups, scores(folder / ONNX, groups), strict=True)
        ]
        follows = [bool(example.history) for example in (*dev, *test)]
        means = {
            "map": found,
            "map_follow_ups": [one for one, follow in zip(found, follows, strict=True) if follow],
            "map_first": [one for one, follow in zip(found, follows, strict=True) if not follow],
            "map_teacher": [_precision(group, group.scores) for group in groups if group.scores is not None],
        }
        return {}, {name: round(float(np.mean(values)), 4) for name, values in means.items() if values}


class RerankerTraining:
    """A cross-encoder in training."""

    def __init__(self, model: RankingModel, part: RerankerModelPart, reader: PairReader, seed: int) -> None:
        self.model = model
        self._part, self._reader, self._seed = part, reader, seed

    def features(self, examples: Sequence[RerankExample], *, train: bool) -> RerankFeatures:
        """Groups of pairs."""
        return RerankFeatures(examples, self._reader, self._part, self._seed, train)

    def collate(self, items: Sequence[RankedGroup]) -> dict[str, Any]:
        """As `rewriter.reranking.model.batch`."""
        from rewriter.reranking.model import batch

        return batch(items)

    def groups(self, stage: Stage) -> list[dict[str, Any]]:
        """Norms and biases do not decay."""
        parameters = [one for one in self.model.parameters() if one.requires_grad]
        return [
            {
                "params": [one for one in parameters if (one.ndim > 1) == decays],
                "lr": stage.learning_rate,
                "weight_decay": stage.weight_decay if decays else 0.0,
            }
            for decays in (True, False)
        ]

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the weights as transformers reads them."""
        self.model.encoder.save_pretrained(folder / WEIGHTS)
        shutil.copyfile(folder / TOKENIZER, folder / WEIGHTS / TOKENIZER)
        return {"lengths": asdict(self._part.asking)}


def _part(recipe: Recipe) -> RerankerModelPart:
    assert isinstance(recipe.model, RerankerModelPart)
    return recipe.model


def _precision(group: RankedGroup, made: Sequence[float]) -> float:
    """Average precision of the group's passages in this order; the last of equals counts."""
    order = sorted(range(len(made)), key=lambda n: (-made[n], group.relevant[n]))
    places = [place for place, n in enumerate(order, 1) if group.relevant[n]]
    return sum(found / place for found, place in enumerate(places, 1)) / len(places)
