"""Families that CTranslate2 does not run: an engine in torch, which others are compared with, and Mamba by it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from rewriter.conditional import WEIGHTS, ConditionalEngine, ConditionalRewriter, Decided, Form, Stop, read_description
from rewriter.conditional_training import ConditionalFamily
from rewriter.load import Serving, verify
from rewriter.onnx_weights import TOKENIZER


class MambaFamily(ConditionalFamily):
    """A conditional rewriter that no chat can be served by: CTranslate2 does not know the architecture."""

    def export(self, folder: Path, description: dict[str, Any]) -> tuple[dict[str, Any], list[Path]]:
        """Nothing is converted."""
        return {}, [folder / TOKENIZER, folder / WEIGHTS / "model.safetensors"]

    def engine(self, folder: Path, form: Form) -> ConditionalEngine:
        """Torch, from the weights."""
        return TorchEngine.open(folder / WEIGHTS, form)


def load(folder: Path, description: dict[str, Any], serving: Serving) -> ConditionalRewriter:
    """The rewriter of a finished run. Raises RunError where its files are missing, damaged or of another run."""
    verify(folder, description)
    run = read_description(folder, description, serving.history_messages)
    engine = TorchEngine.open(folder / WEIGHTS, run.form)
    return ConditionalRewriter(engine, run.form, run.gate, name=run.family, timeout_seconds=serving.timeout_seconds)


class TorchEngine:
    """Runs `model`, a seq2seq or causal transformers model on its device, without gradients."""

    def __init__(self, model: Any, form: Form) -> None:
        self._model = model.eval()
        self._form = form
        # State space models carry padding in their state, so their batches must not hold any.
        self._pads = "mamba" not in model.config.model_type

    @classmethod
    def open(cls, folder: Path, form: Form) -> TorchEngine:
        """The engine of a run's `weights/`."""
        from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

        kind: Any = AutoModelForSeq2SeqLM if form.architecture == "seq2seq" else AutoModelForCausalLM
        return cls(kind.from_pretrained(folder, local_files_only=True), form)

    def decide(self, sources: Sequence[Sequence[int]], limit: int, stop: Stop) -> list[Decided]:
        """As `ConditionalEngine.decide`."""
        form = self._form
        decided = list[Decided]()
        for batch in self._batches(sources):
            logits, sequences = self._generate(batch, [], limit + 1, stop)
            for first, ids in zip(logits, sequences, strict=True):
                phrased = self._cut(ids[1:]) if ids[:1] == [form.rewrite] else None
                decided.append(Decided(float(first[form.rewrite] - first[form.keep]), phrased))
        return decided

    def phrase(self, sources: Sequence[Sequence[int]], limit: int, stop: Stop) -> list[tuple[int, ...]]:
        """As `ConditionalEngine.phrase`."""
        return [
            self._cut(ids)
            for batch in self._batches(sources)
            for ids in self._generate(batch, [self._form.rewrite], limit, stop)[1]
        ]

    def _batches(self, sources: Sequence[Sequence[int]]) -> list[list[list[int]]]:
        ids = [list(source) for source in sources]
        return [ids] if self._pads else [[source] for source in ids]

    def _generate(
        self, batch: list[list[int]], prefix: list[int], limit: int, stop: Stop
    ) -> tuple[torch.Tensor, list[list[int]]]:
        """First-step logits `(batch, vocabulary)`, and the generated ids after the prefix."""
        from transformers import StoppingCriteriaList

        model, form = self._model, self._form
        seq2seq = form.architecture == "seq2seq"
        rows = batch if seq2seq else [source + prefix for source in batch]
        longest = max(len(row) for row in rows)
        pads = [[form.end] * (longest - len(row)) for row in rows]
        masks = [[0] * len(pad) for pad in pads]
        # A decoder-only model goes on from the end of its input, so its padding stands on the left.
        ids = [row + pad if seq2seq else pad + row for row, pad in zip(rows, pads, strict=True)]
        mask = [[1] * len(r) + m if seq2seq else m + [1] * len(r) for r, m in zip(rows, masks, strict=True)]
        options: dict[str, Any] = {}
        prompt = longest
        if seq2seq:
            starts = [model.config.decoder_start_token_id, *prefix]
            options["decoder_input_ids"] = torch.tensor([starts] * len(batch), device=model.device)
            prompt = len(starts)
        with torch.inference_mode():
            generated = model.generate(
                input_ids=torch.tensor(ids, device=model.device),
                attention_mask=torch.tensor(mask, device=model.device),
                max_new_tokens=limit,
                do_sample=False,
                eos_token_id=form.ends,
                pad_token_id=form.end,
                output_logits=True,
                return_dict_in_generate=True,
                stopping_criteria=StoppingCriteriaList([_Stopping(stop)]),
                **options,
            )
        return generated.logits[0], [list(ids) for ids in generated.sequences[:, prompt:].tolist()]

    def _cut(self, ids: list[int]) -> tuple[int, ...]:
        ends = [ids.index(end) for end in self._form.ends if end in ids]
        return tuple(ids[: min(ends)] if ends else ids)


class _Stopping:
    """Ends generation for all rows once `stop` says so."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop

    def __call__(self, input_ids: torch.Tensor, scores: object, **_: object) -> torch.Tensor:
        return torch.full((input_ids.shape[0],), self._stop(), device=input_ids.device, dtype=torch.bool)
