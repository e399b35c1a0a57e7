"""The pair model in torch: trained, exported, judged, and packed without the weights it shares with its base."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from papers.contradiction.family import PairFeatures, Row, SupportModelPart
from papers.contradiction.pairs import LABELS, PairGroup, read_pairs
from papers.cross_encoder.training import INPUTS, ONNX, OUTPUT, WEIGHTS, open_export, pretrained
from rewriter.families import Family, padded
from rewriter.onnx_weights import TOKENIZER, put_tokenizer, write_int8
from rewriter.recipe import Recipe

PAD, CLS, SEP = 0, 101, 102
"""Of BERT's vocabulary."""
STATES = "encoder.pt"
FASTER = 5
"""How much faster the heads learn, which begin with nothing."""


class PairEncoder(nn.Module):
    """A BERT that says of a pair whether the evidence supports, contradicts, or does neither.

    A statement is contradicted where one of its words is: the logit is the log-sum-exp of those of its tokens and of one
    of the whole. So the model learns from which words an edit has put there, as LettuceDetect does from marked spans
    (Kovács and Recski 2025).
    """

    def __init__(self, bert: Any) -> None:
        super().__init__()
        self.bert = bert
        width = bert.config.hidden_size
        self.whole = nn.Linear(width, len(LABELS))
        self.word = nn.Parameter(torch.zeros(width + 1))
        nn.init.normal_(self.whole.weight, std=0.02)
        nn.init.zeros_(self.whole.bias)
        nn.init.normal_(self.word, std=0.02)

    def words(self, states: Tensor) -> Tensor:
        """`(n, longest)`: the log-odds that a token is not what the evidence says."""
        return (states * self.word[:-1]).sum(-1) + self.word[-1]

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        """`(n, 3)`, in the order of the labels."""
        states = self.bert(
            input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids, return_dict=False
        )[0]
        return self.joined(states, stated(input_ids, token_type_ids))

    def joined(self, states: Tensor, said: Tensor) -> Tensor:
        """The logits from the states of tokens, of which `said` are the statement's."""
        # No matrix products, here and in `words`: they would be quantised.
        whole = (states[:, :1] * self.whole.weight).sum(-1) + self.whole.bias
        words = torch.where(said, self.words(states), torch.full_like(states[..., 0], -30.0))
        turned = torch.cat([words, whole[:, 1:2]], dim=1).logsumexp(1, keepdim=True)
        return torch.cat([whole[:, :1], turned, whole[:, 2:]], dim=1)


def stated(ids: Tensor, types: Tensor) -> Tensor:
    """Which tokens are the statement's, special tokens left out."""
    return (types == 0) & (ids != PAD) & (ids != CLS) & (ids != SEP)


class PairLearner(nn.Module):
    """The loss of groups of pairs.

    To the cross-entropy of the labels come that of the words (of those put in and of the others alike), and within each
    group the softplus of how much less sure the model is of the supported statement than of what was made of it (the
    pairwise loss of RankNet, Burges et al. 2005): the two differ in a word, and all else cancels out.
    """

    def __init__(self, encoder: PairEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, ids: Tensor, types: Tensor, labels: Tensor, groups: Tensor, marks: Tensor) -> dict[str, Tensor]:
        """The `loss` and the `logits` `(n, 3)` of `(n, longest)` tokens; `groups` numbers them, `marks` are words."""
        encoder, said = self.encoder, stated(ids, types)
        states = encoder.bert(
            input_ids=ids, attention_mask=(ids != PAD).long(), token_type_ids=types, return_dict=False
        )[0].float()
        logits, words = encoder.joined(states, said), encoder.words(states)
        loss = nn.functional.cross_entropy(logits, labels)
        known = said & (labels != LABELS.index("neither"))[:, None]
        for chosen, sign in ((known & marks, -1.0), (known & ~marks, 1.0)):
            if chosen.any():
                loss = loss + nn.functional.softplus(sign * words[chosen]).mean()
        sure = logits[:, 0] - logits[:, 1:].logsumexp(-1)
        true, other = labels == 0, labels != 0
        both = (groups[:, None] == groups[None]) & true[:, None] & other[None]
        if both.any():
            loss = loss + nn.functional.softplus(sure[None] - sure[:, None])[both].mean()
        return {"loss": loss, "logits": logits}


class SupportFamily(Family):
    """How pair models are trained, exported and judged."""

    about = "It reads a statement beside a piece of a page, and says whether that supports it, or says something else."
    weights = (f"{WEIGHTS}/{STATES}",)

    def read(self, path: Path) -> Iterable[PairGroup]:
        """Rows of `python -m papers.contradiction pairs`."""
        return read_pairs(path)

    def open(self, recipe: Recipe, folder: Path, callback: Callable[[str], None]) -> None:
        """The lower layers of the base with fresh heads."""
        part = _part(recipe)
        put_tokenizer(part.base, folder, callback)
        bert = pretrained(part.base).base_model
        bert.pooler = None
        bert.encoder.layer = bert.encoder.layer[: part.layers]
        bert.config.num_hidden_layers = len(bert.encoder.layer)
        for module in (bert.embeddings, *bert.encoder.layer[: part.frozen]):
            module.requires_grad_(False)
        torch.manual_seed(recipe.seed)
        self.model = PairLearner(PairEncoder(bert))
        self._stage, self._tokenizer = recipe.stage, folder / TOKENIZER

    def features(self, examples: Sequence[PairGroup], *, train: bool) -> PairFeatures:
        """Pairs as tokens."""
        return PairFeatures(examples, self._tokenizer)

    def collate(self, items: Sequence[list[Row]]) -> dict[str, Any]:
        """Groups as `ids`, `types`, `marks` `(n, longest)`, `labels` and `groups` `(n,)`."""
        rows = [row for group in items for row in group]
        return {
            "ids": padded(row.ids for row in rows),
            "types": padded(row.types for row in rows),
            "labels": torch.tensor([row.label for row in rows]),
            "groups": torch.tensor([n for n, group in enumerate(items) for _ in group]),
            "marks": padded(row.marks for row in rows).bool(),
        }

    def groups(self) -> list[dict[str, Any]]:
        """The heads learn faster; norms and biases do not decay."""
        encoder = self.model.encoder
        body = [parameter for parameter in encoder.bert.parameters() if parameter.requires_grad]
        heads = [*encoder.whole.parameters(), encoder.word]
        rate, decay = self._stage.learning_rate, self._stage.weight_decay
        return [
            {"params": [one for one in body if one.ndim > 1], "lr": rate, "weight_decay": decay},
            {"params": [one for one in body if one.ndim < 2], "lr": rate, "weight_decay": 0.0},
            {"params": heads, "lr": FASTER * rate, "weight_decay": 0.0},
        ]

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the weights, and the shape of the BERT beside them."""
        encoder = self.model.encoder
        encoder.bert.config.save_pretrained(folder / WEIGHTS)
        torch.save(encoder.state_dict(), folder / WEIGHTS / STATES)
        return {}

    def export(self, folder: Path, description: dict[str, Any]) -> tuple[dict[str, Any], list[Path]]:
        """Write the ONNX file from the weights."""
        from transformers import BertConfig, BertModel

        weights = folder / WEIGHTS
        encoder = PairEncoder(BertModel(BertConfig.from_pretrained(str(weights)), add_pooling_layer=False))
        encoder.load_state_dict(torch.load(weights / STATES, map_location="cpu", weights_only=True))
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


def probabilities(path: Path, features: PairFeatures) -> np.ndarray[Any, np.dtype[np.float32]]:
    """`(rows, labels)` of an exported model. Raises TrainingError where it cannot be opened."""
    read = open_export(path)
    rows = [read(row.ids, (1,) * len(row.ids), row.types) for n in range(len(features)) for row in features[n]]
    logits = np.array(rows, dtype=np.float32).reshape(-1, len(LABELS))
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True), dtype=np.float32)


def _part(recipe: Recipe) -> SupportModelPart:
    assert isinstance(recipe.model, SupportModelPart)
    return recipe.model
