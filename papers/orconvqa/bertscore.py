"""BERTScore from its definition, with any encoder of the transformers library.

Zhang et al. (2020): every token of one text is matched with the most similar token of the other, by the cosine
of contextual embeddings of one layer; the means are precision (over the candidate's tokens) and recall (over the
reference's). No idf weights and no rescaling with a baseline, so numbers of different encoders cannot be
compared: the encoder and the layer belong to every number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluation.questions import EvaluationError
from text.modules import need_extra

DEFAULT_ENCODER = "FacebookAI/roberta-large"
_LAYERS = {"roberta-large": 17, "roberta-base": 10, "bert-base-uncased": 9, "bert-large-uncased": 18}
"""The layers the authors found best; the last layer for any other encoder."""

BATCH = 16
MAX_TOKENS = 512


@dataclass(frozen=True, slots=True)
class Match:
    """Precision, recall and their F1, each between -1 and 1 and mostly above 0."""

    precision: float
    recall: float
    f1: float


class BertScore:
    """Scores texts against references. Raises EvaluationError where the encoder cannot be loaded."""

    def __init__(self, path_or_id: str = DEFAULT_ENCODER) -> None:
        need_extra("hub", "BERTScore", "torch", "transformers")
        from transformers import AutoModel, AutoTokenizer

        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(path_or_id)
            self._model: Any = AutoModel.from_pretrained(path_or_id).eval()
        except (OSError, ValueError) as error:
            raise EvaluationError(
                f"The encoder of BERTScore, {path_or_id!r}, cannot be loaded ({str(error).splitlines()[0]}). Give a "
                "local one with --encoder, or `--encoder none` to leave BERTScore out."
            ) from error
        label = Path(path_or_id).name
        self.layer = _LAYERS.get(label, int(self._model.config.num_hidden_layers))
        self.name = f"{label}, layer {self.layer}"

    def score(self, texts: Sequence[str], references: Sequence[str]) -> list[Match]:
        """One match for each pair; all 0 where a text has no token."""
        unique = list(dict.fromkeys((*texts, *references)))
        # Texts of like length share a batch, so that little of it is padding.
        unique.sort(key=len)
        states: dict[str, Any] = {}
        for start in range(0, len(unique), BATCH):
            batch = unique[start : start + BATCH]
            states.update(zip(batch, self._states(batch), strict=True))
        return [_match(states[text], states[reference]) for text, reference in zip(texts, references, strict=True)]

    def _states(self, texts: Sequence[str]) -> list[Any]:
        """`(tokens, dimension)` of each text, normalised, special tokens left out."""
        import torch

        window = min(MAX_TOKENS, int(self._model.config.max_position_embeddings) - 2)
        encoded = self._tokenizer(
            list(texts),
            padding=True,
            truncation=True,
            max_length=window,
            return_tensors="pt",
            return_special_tokens_mask=True,
        )
        special = encoded.pop("special_tokens_mask").bool()
        with torch.inference_mode():
            hidden = self._model(**encoded, output_hidden_states=True).hidden_states[self.layer]
        keep = encoded["attention_mask"].bool() & ~special
        vectors = torch.nn.functional.normalize(hidden, dim=-1)
        return [vectors[row][keep[row]] for row in range(len(texts))]


def _match(text: Any, reference: Any) -> Match:
    if not len(text) or not len(reference):
        return Match(0.0, 0.0, 0.0)
    similarity = text @ reference.T
    precision = float(similarity.max(dim=1).values.mean())
    recall = float(similarity.max(dim=0).values.mean())
    return Match(precision, recall, 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0)
