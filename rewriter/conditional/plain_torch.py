"""Torch runs a conditional model: the reference, and the fallback where CTranslate2 knows no such architecture."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewriter.conditional.engine import Decided, Stop
from rewriter.errors import RunError

if TYPE_CHECKING:
    import torch

    from rewriter.conditional.form import Form

ADAPTER_CONFIG = "adapter_config.json"


class TorchEngine:
    """Runs `model`, a seq2seq or causal transformers model on its device, without gradients."""

    def __init__(self, model: Any, form: Form) -> None:
        self._model = model.eval()
        self._form = form
        # State space models carry padding in their state, so their batches must not hold any.
        self._pads = "mamba" not in model.config.model_type

    @classmethod
    def open(cls, folder: Path, form: Form, device: str = "cpu") -> TorchEngine:
        """The engine of a weights folder, or of an adapter's, whose base is opened too.

        Raises RunError where it cannot be loaded or does not fit the tokenizer.
        """
        import torch
        from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

        kind: Any = AutoModelForSeq2SeqLM if form.architecture == "seq2seq" else AutoModelForCausalLM
        dtype = torch.float16 if device == "cuda" else torch.float32
        try:
            if (folder / ADAPTER_CONFIG).is_file():
                model = _adapted(folder, "bfloat16" if device == "cuda" else "float32")
            else:
                model = kind.from_pretrained(folder, local_files_only=True, dtype=dtype)
        except Exception as error:  # safetensors and transformers raise classes of their own, some bare
            raise RunError(f"The weights in {folder} cannot be loaded ({type(error).__name__}: {error}).") from error
        rows, known = model.get_input_embeddings().weight.shape[0], form.tokenizer.get_vocab_size()
        if known > rows:
            raise RunError(
                f"The tokenizer beside {folder} has {known} tokens, the model {rows}: they do not belong together."
            )
        return cls(model.to(device), form)

    @property
    def name(self) -> str:
        return f"torch {str(self._model.dtype).removeprefix('torch.')} {self._model.device.type}"

    def decide(self, sources: Sequence[Sequence[int]], limit: int, stop: Stop) -> list[Decided]:
        """As `Engine.decide`."""
        form = self._form
        decided = list[Decided]()
        for batch in self._batches(sources):
            logits, sequences = self._generate(batch, [], limit + 1, 1, stop)
            for first, ids in zip(logits, sequences, strict=True):
                phrased = self._cut(ids[1:]) if ids[:1] == [form.rewrite] else None
                decided.append(Decided(float(first[form.rewrite] - first[form.keep]), phrased))
        return decided

    def phrase(self, sources: Sequence[Sequence[int]], limit: int, n: int, stop: Stop) -> list[list[tuple[int, ...]]]:
        """As `Engine.phrase`."""
        phrased = list[list[tuple[int, ...]]]()
        for batch in self._batches(sources):
            _, sequences = self._generate(batch, [self._form.rewrite], limit, n, stop)
            cut = [self._cut(ids) for ids in sequences]
            phrased += [cut[i : i + n] for i in range(0, len(cut), n)]
        return phrased

    def _batches(self, sources: Sequence[Sequence[int]]) -> list[list[list[int]]]:
        ids = [list(source) for source in sources]
        return [ids] if self._pads else [[source] for source in ids]

    def _generate(
        self, batch: list[list[int]], prefix: list[int], limit: int, n: int, stop: Stop
    ) -> tuple[torch.Tensor, list[list[int]]]:
        """First-step logits `(batch, vocabulary)`, and the generated ids after the prefix, `n` to each source."""
        import torch
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
            made = model.generate(
                input_ids=torch.tensor(ids, device=model.device),
                attention_mask=torch.tensor(mask, device=model.device),
                max_new_tokens=limit,
                do_sample=False,
                num_beams=n,
                num_return_sequences=n,
                eos_token_id=form.ends,
                pad_token_id=form.end,
                output_logits=True,
                return_dict_in_generate=True,
                stopping_criteria=StoppingCriteriaList([_Stopping(stop, n)]),
                **options,
            )
        return made.logits[0], [list(ids) for ids in made.sequences[:, prompt:].tolist()]

    def _cut(self, ids: list[int]) -> tuple[int, ...]:
        ends = [ids.index(end) for end in self._form.ends if end in ids]
        return tuple(ids[: min(ends)] if ends else ids)


def _adapted(folder: Path, dtype: str) -> Any:
    from peft import PeftModel

    from rewriter.conditional.bases import pretrained

    base = json.loads((folder / ADAPTER_CONFIG).read_text("utf-8"))["base_model_name_or_path"]
    return PeftModel.from_pretrained(pretrained(base, "causal", dtype), str(folder))


class _Stopping:
    """Ends generation for all rows once `stop` says so; a beam search runs to its end, as CTranslate2's does."""

    def __init__(self, stop: Stop, n: int) -> None:
        self._stop = stop if n == 1 else lambda: False

    def __call__(self, input_ids: torch.Tensor, scores: object, **_: object) -> torch.Tensor:
        import torch

        return torch.full((input_ids.shape[0],), self._stop(), device=input_ids.device, dtype=torch.bool)
