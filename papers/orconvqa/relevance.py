"""QRelScore: how relevant a question is to the text it was asked about, without a reference question.

Wang et al. (EMNLP 2022): the harmonic mean of two scores. *Local matching*: an encoder reads question and context
together; in every layer each token of the question is paired with the token of the context it attends to most
(over all heads), and the cosines of the pairs are averaged over tokens and layers. *Global generation*: a causal
language model's mean token probability of `question context` over that of the context alone, less 1, and never
below 0: does the question make the context likelier? Followed here as the authors published it, special tokens
left out of the matching.

The authors used bert-base-cased and gpt2. Any encoder and language model can be named; the names belong to every
number, since numbers of different models cannot be compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from index.errors import ModelUnavailable
from text.modules import need_extra

ENCODER = "google-bert/bert-base-cased"
LANGUAGE_MODEL = "openai-community/gpt2"


@dataclass(frozen=True, slots=True)
class Relevance:
    """Both parts and their harmonic mean."""

    local: float
    generation: float

    @property
    def score(self) -> float:
        total = self.local + self.generation
        return 2 * self.local * self.generation / total if total > 0 else 0.0


class QRelScore:
    """Scores questions against contexts. Raises ModelUnavailable where a model cannot be loaded.

    Models are hub ids or folders; a language model may also be a `.gguf` file.
    """

    def __init__(self, encoder: str = ENCODER, language_model: str = LANGUAGE_MODEL) -> None:
        need_extra("hub", "QRelScore", "torch", "transformers")
        from transformers import AutoModel, AutoModelForCausalLM

        self._encoder_tokenizer, self._encoder = _load(AutoModel, encoder, attn_implementation="eager")
        self._tokenizer, self._model = _load(AutoModelForCausalLM, language_model)
        self.name = f"{Path(encoder).name} and {Path(language_model).name}"
        self._alone: dict[str, float] = {}

    def score(self, question: str, context: str) -> Relevance:
        """One question against the text it belongs to; 0 where one of them has no token."""
        if not question.strip() or not context.strip():
            return Relevance(0.0, 0.0)
        return Relevance(self._local(question, context), self._generation(question, context))

    def _local(self, question: str, context: str) -> float:
        import torch

        window = min(512, int(self._encoder.config.max_position_embeddings))
        encoded = self._encoder_tokenizer(
            question,
            context,
            truncation="longest_first",
            max_length=window,
            return_tensors="pt",
            return_special_tokens_mask=True,
        )
        special = encoded.pop("special_tokens_mask")[0].bool()
        sequence = torch.tensor([-1 if part is None else part for part in encoded.sequence_ids(0)])
        asked, given = (sequence == 0) & ~special, (sequence == 1) & ~special
        if not bool(asked.any()) or not bool(given.any()):
            return 0.0
        with torch.inference_mode():
            out = self._encoder(**encoded, output_hidden_states=True, output_attentions=True)
        layers = []
        for states, attention in zip(out.hidden_states[1:], out.attentions, strict=True):
            vectors = torch.nn.functional.normalize(states[0], dim=-1)
            strongest = attention[0].max(dim=0).values[asked][:, given].argmax(dim=-1)
            layers.append((vectors[asked] * vectors[given][strongest]).sum(dim=-1).mean())
        return max(0.0, float(torch.stack(layers).mean()))

    def _generation(self, question: str, context: str) -> float:
        if context not in self._alone:
            self._alone[context] = self._probability(context)
        alone = self._alone[context]
        return max(0.0, (self._probability(f"{question} {context}") - alone) / alone) if alone else 0.0

    def _probability(self, text: str) -> float:
        """Mean probability of the tokens, the end counted and the beginning given."""
        import torch

        tokens = self._tokenizer.encode(text, add_special_tokens=False)
        end = self._tokenizer.eos_token_id
        start = self._tokenizer.bos_token_id if self._tokenizer.bos_token_id is not None else end
        room = int(self._model.config.max_position_embeddings) - 2
        ids = torch.tensor([[start, *tokens[:room], end]])
        with torch.inference_mode():
            logits = self._model(input_ids=ids).logits[0, :-1]
        chosen = torch.log_softmax(logits.float(), dim=-1).gather(1, ids[0, 1:, None])
        return float(chosen.exp().mean())


def _load(kind: Any, path_or_id: str, **options: Any) -> tuple[Any, Any]:
    """Tokenizer and model, ready to be read from."""
    from transformers import AutoTokenizer

    path = Path(path_or_id)
    where, more = (str(path.parent), {"gguf_file": path.name}) if path.suffix == ".gguf" else (path_or_id, {})
    try:
        tokenizer = AutoTokenizer.from_pretrained(where, **more)
        return tokenizer, kind.from_pretrained(where, **more, **options).eval()
    except (OSError, ValueError, ImportError) as error:
        raise ModelUnavailable(
            f"cannot load {path_or_id!r} ({str(error).splitlines()[0]}): give a folder, a .gguf file, or a hub id on a "
            "machine that reaches the hub"
        ) from error
