"""The pair model in torch: trained, exported, judged, and packed without the weights it shares with its base."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from papers.contradiction.family import PairFeatures, Row, SupportModelPart
from papers.contradiction.pairs import LABELS, PairGroup, read_pairs
from rewriter.onnx_weights import TOKENIZER, put_tokenizer, write_int8
from rewriter.protocol import TrainingError
from rewriter.reranking.training import INPUTS, ONNX, OUTPUT, WEIGHTS, pretrained
from rewriter.training.recipe import Recipe


class PairClassifier(nn.Module):
    """A BERT that says of a pair whether the evidence supports, contradicts, or does neither.

    The loss is the cross-entropy, and within each group the softplus of how much less sure it is of the supported
    statement than of what was made of it (log-odds; the pairwise loss of RankNet, Burges et al. 2005): the two differ in
    a word, and all else cancels out.
    """

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, ids: Tensor, types: Tensor, labels: Tensor, groups: Tensor) -> dict[str, Tensor]:
        """The `loss` and the `logits` `(n, 3)` of `(n, longest)` tokens, padded with zeros; `groups` numbers them."""
        logits = self.encoder(input_ids=ids, token_type_ids=types, attention_mask=(ids != 0).long()).logits.float()
        loss = nn.functional.cross_entropy(logits, labels)
        sure = logits[:, 0] - logits[:, 1:].logsumexp(-1)
        true, other = labels == 0, labels != 0
        both = (groups[:, None] == groups[None]) & true[:, None] & other[None]
        if both.any():
            loss = loss + nn.functional.softplus(sure[None] - sure[:, None])[both].mean()
        return {"loss": loss, "logits": logits}


class SupportFamily:
    """How pair models are opened, exported and judged."""

    about = "It reads a statement beside a piece of a page, and says whether that supports it, or says something else."

    def read(self, path: Path) -> Iterable[PairGroup]:
        """Rows of `python -m papers.contradiction pairs`."""
        return read_pairs(path)

    def open(self, recipe: Recipe, folder: Path, callback: Callable[[str], None]) -> SupportTraining:
        """The lower layers of the base with a fresh head."""
        part = _part(recipe)
        put_tokenizer(part.base, folder, callback)
        encoder = pretrained(part.base)
        body = encoder.base_model
        body.encoder.layer = body.encoder.layer[: part.layers]
        torch.manual_seed(recipe.seed)
        encoder.classifier = nn.Linear(encoder.config.hidden_size, len(LABELS))
        nn.init.normal_(encoder.classifier.weight, std=0.02)
        nn.init.zeros_(encoder.classifier.bias)
        encoder.config.num_hidden_layers = len(body.encoder.layer)
        encoder.config.num_labels = encoder.num_labels = len(LABELS)
        for module in (body.embeddings, *body.encoder.layer[: part.frozen]):
            module.requires_grad_(False)
        return SupportTraining(PairClassifier(encoder), recipe, folder / TOKENIZER)

    def export(self, folder: Path, description: dict[str, Any]) -> tuple[dict[str, Any], list[Path]]:
        """Write the ONNX file from the weights."""
        from transformers import AutoModelForSequenceClassification

        encoder = AutoModelForSequenceClassification.from_pretrained(str(folder / WEIGHTS))
        encoder.config.return_dict = False  # the exporter wants a tuple
        write_int8(encoder, folder / ONNX, INPUTS, {OUTPUT: False})
        return {}, [folder / TOKENIZER, folder / ONNX]

    def judge(
        self,
        recipe: Recipe,
        folder: Path,
        description: dict[str, Any],
        dev: Sequence[PairGroup],
        test: Sequence[PairGroup],
    ) -> tuple[dict[str, Any], dict[str, float]]:
        """Shares of held-out rows that the exported model labels rightly, by their label."""
        groups = [*dev, *test]
        found = probabilities(folder / ONNX, PairFeatures(groups, folder / TOKENIZER)).argmax(axis=1)
        labels = [pair.label for group in groups for pair in group.pairs]
        shares = dict[str, float]()
        for n, label in enumerate(LABELS):
            own = [int(one) == n for one, right in zip(found, labels, strict=True) if right == label]
            shares[label] = round(sum(own) / max(1, len(own)), 4)
        return {}, shares


class SupportTraining:
    """A pair model in training."""

    def __init__(self, model: PairClassifier, recipe: Recipe, tokenizer: Path) -> None:
        self.model = model
        self._stage, self._tokenizer = recipe.stage, tokenizer

    def features(self, examples: Sequence[PairGroup], *, train: bool) -> PairFeatures:
        """Pairs as tokens."""
        return PairFeatures(examples, self._tokenizer)

    def collate(self, items: Sequence[list[Row]]) -> dict[str, Any]:
        """Groups as `ids`, `types` `(n, longest)`, `labels` and `groups` `(n,)`."""
        rows = [row for group in items for row in group]
        longest = max(len(ids) for ids, _, _ in rows)
        return {
            "ids": torch.tensor([[*ids, *[0] * (longest - len(ids))] for ids, _, _ in rows]),
            "types": torch.tensor([[*types, *[0] * (longest - len(types))] for _, types, _ in rows]),
            "labels": torch.tensor([label for _, _, label in rows]),
            "groups": torch.tensor([n for n, group in enumerate(items) for _ in group]),
        }

    def groups(self) -> list[dict[str, Any]]:
        """Norms and biases do not decay."""
        parameters = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        return [
            {
                "params": [parameter for parameter in parameters if (parameter.ndim > 1) == decays],
                "lr": self._stage.learning_rate,
                "weight_decay": self._stage.weight_decay if decays else 0.0,
            }
            for decays in (True, False)
        ]

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the weights as transformers reads them."""
        self.model.encoder.save_pretrained(folder / WEIGHTS)
        shutil.copyfile(folder / TOKENIZER, folder / WEIGHTS / TOKENIZER)
        return {}


def probabilities(path: Path, features: PairFeatures) -> np.ndarray[Any, np.dtype[np.float32]]:
    """`(rows, labels)` of an exported model. Raises TrainingError where it cannot be opened."""
    import onnxruntime

    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as error:  # the library raises bare exceptions of its own
        raise TrainingError(f"{path} cannot be opened ({error}): export the run again.") from error
    rows = []
    for ids, types, _ in (row for n in range(len(features)) for row in features[n]):
        feed = {
            name: np.array([row], np.int64) for name, row in zip(INPUTS, (ids, (1,) * len(ids), types), strict=True)
        }
        rows.append(session.run([OUTPUT], feed)[0][0])
    logits = np.array(rows, dtype=np.float32).reshape(-1, len(LABELS))
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True), dtype=np.float32)


def _part(recipe: Recipe) -> SupportModelPart:
    assert isinstance(recipe.model, SupportModelPart)
    return recipe.model
