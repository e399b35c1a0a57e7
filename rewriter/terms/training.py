"""The term rewriter as a family that can be trained; the run itself is `rewriter.training`'s."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewriter.errors import TrainingError
from rewriter.examples import RewriteExample, read_examples
from rewriter.gate import fit
from rewriter.load import REWRITERS
from rewriter.terms.data import Labelled, TermFeatures
from rewriter.terms.model_part import TermModelPart
from rewriter.terms.reading import ConversationReader
from rewriter.terms.restoring import WEIGHTS, restore, two_heads
from rewriter.terms.scoring import MODEL, TermScorer
from rewriter.tokenizer_file import TOKENIZER, put_tokenizer
from rewriter.training.families import Texts
from rewriter.training.recipe import Recipe, Stage

if TYPE_CHECKING:
    from rewriter.terms.model import TermModel

CONFIG = "config.json"


class TermFamily:
    """How term rewriters are opened, exported and judged."""

    settings = TermModelPart
    kind = REWRITERS
    about = (
        "It decides whether a follow-up question needs its conversation and, if so, finds the words of it that the "
        "question leaves out."
    )

    def read(self, path: Path) -> Iterable[RewriteExample]:
        """Questions with their stand-alone form."""
        return read_examples(path)

    def open(self, recipe: Recipe, texts: Texts, folder: Path, callback: Callable[[str], None]) -> TermTraining:
        """The encoder with fresh heads, or with the weights that the recipe goes on from."""
        import torch

        from rewriter.terms.model import TermModel, pretrained

        part = _part(recipe)
        put_tokenizer(part.base, folder, callback)
        torch.manual_seed(recipe.seed)
        model = TermModel(
            pretrained(part.base, part.frozen),
            dropout=part.dropout,
            positive=part.positive,
            gate_weight=part.gate_weight,
        )
        if part.start:
            restore(model, part.start)
        return TermTraining(model, part, ConversationReader.open(folder / TOKENIZER), recipe.seed)

    def export(self, folder: Path, description: dict[str, Any]) -> tuple[dict[str, Any], list[Path]]:
        """Write the ONNX file from the weights."""
        import torch
        from transformers import AutoConfig, AutoModel

        from rewriter.terms.model import TermModel, write_onnx

        if not (folder / WEIGHTS).is_file() or not (folder / CONFIG).is_file():
            raise TrainingError(f"{folder} has no weights to export; only a finished run that kept them has.")
        encoder: Any = AutoModel
        weights = torch.load(folder / WEIGHTS, map_location="cpu", weights_only=True)
        bare = encoder.from_config(AutoConfig.from_pretrained(folder), add_pooling_layer=False)
        model = TermModel(bare)
        model.load_state_dict(two_heads(weights))
        write_onnx(model, folder / MODEL)
        return {}, [folder / TOKENIZER, folder / MODEL]

    def judge(
        self,
        recipe: Recipe,
        folder: Path,
        description: dict[str, Any],
        dev: Sequence[RewriteExample],
        test: Sequence[RewriteExample],
    ) -> tuple[dict[str, Any], dict[str, float]]:
        """Precision, recall and F1 of the appended stems, F1 and AUC of the gate; all on both sides together."""
        from rewriter.terms.judging import judge

        reader = ConversationReader.open(folder / TOKENIZER)
        part = _part(recipe)
        held_out = TermFeatures([*dev, *test], reader, part, recipe.seed, train=False)
        judged = judge(TermScorer(folder / MODEL, reader.vocabulary), held_out.items)
        gate = fit(judged.gate.tolist(), judged.needed.tolist(), part.gate_threshold)
        precision, recall, f1 = judged.terms_at(part.threshold)
        found = {
            "term_precision": precision,
            "term_recall": recall,
            "term_f1": f1,
            "gate_f1": judged.gate_f1(gate),
            "gate_auc": judged.gate_auc(),
        }
        return {"gate": gate.as_dict()}, {name: round(value, 4) for name, value in found.items()}


class TermTraining:
    """A term rewriter in training."""

    def __init__(self, model: TermModel, part: TermModelPart, reader: ConversationReader, seed: int) -> None:
        self.model = model
        self._part, self._reader, self._seed = part, reader, seed

    def features(self, examples: Sequence[RewriteExample], *, train: bool) -> TermFeatures:
        """Labelled readings."""
        return TermFeatures(examples, self._reader, self._part, self._seed, train)

    def collate(self, items: Sequence[Labelled]) -> dict[str, Any]:
        """As `rewriter.terms.model.batch`."""
        from rewriter.terms.model import batch

        return batch(items)

    def groups(self, stage: Stage) -> list[dict[str, Any]]:
        """The heads begin from nothing and learn faster; norms and biases do not decay."""
        groups: dict[tuple[float, float], list[Any]] = {}
        for name, parameter in self.model.named_parameters():
            if parameter.requires_grad:
                head = name.startswith(("term.", "gate."))
                rate = self._part.head_learning_rate if head else stage.learning_rate
                groups.setdefault((rate, stage.weight_decay if parameter.ndim > 1 else 0.0), []).append(parameter)
        return [{"params": params, "lr": rate, "weight_decay": decay} for (rate, decay), params in groups.items()]

    def save(self, folder: Path) -> dict[str, Any]:
        """Write all weights, and the encoder's configuration."""
        import torch

        torch.save(self.model.state_dict(), folder / WEIGHTS)
        self.model.encoder.config.to_json_file(folder / CONFIG)
        return {"threshold": self._part.threshold}


def _part(recipe: Recipe) -> TermModelPart:
    assert isinstance(recipe.model, TermModelPart)
    return recipe.model
