"""Contract of an engine for a conditional model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from rewriter.conditional.form import Form
from rewriter.protocol import RunError

if TYPE_CHECKING:
    import torch

    from rewriter.conditional.form import Form


Stop: TypeAlias = Callable[[], bool]
"""Asked between decoding steps; True ends the work early."""


@dataclass(frozen=True, slots=True)
class Decided:
    """Result of one greedy pass.

    `difference` is logit(rewrite) − logit(no_rewrite) of the first token. `phrased` are the ids after the gate,
    without the end token; None where the first token was not `<rewrite>`.
    """

    difference: float
    phrased: tuple[int, ...] | None


class ConditionalEngine(Protocol):
    """Runs a conditional model over batches of token ids; safe to call from several threads."""

    @property
    def name(self) -> str:
        """For traces and model cards, such as `ctranslate2 int8 cpu`."""

    def decide(self, sources: Sequence[Sequence[int]], limit: int, stop: Stop) -> list[Decided]:
        """The gate of each source and, where it opens by itself, the greedy rewrite of at most `limit` tokens."""

    def phrase(self, sources: Sequence[Sequence[int]], limit: int, n: int, stop: Stop) -> list[list[tuple[int, ...]]]:
        """`n` rewrites of each source, best first, whatever its gate says; without gate and end tokens."""


COMPUTE = {"cpu": "int8", "cuda": "float16"}


def cuda_devices() -> int:
    """How many GPUs CTranslate2 can use."""
    import ctranslate2

    return int(ctranslate2.get_cuda_device_count())


class Ct2Engine:
    """One loaded export. `device` is `cpu` or `cuda`, `compute` CTranslate2's type for it; `threads` is per batch.

    Raises RunError where the export is damaged or the device cannot run it.
    """

    def __init__(
        self, folder: Path, form: Form, device: str = "cpu", threads: int = 1, compute: str | None = None
    ) -> None:
        import ctranslate2

        self._form = form
        self._seq2seq = form.architecture == "seq2seq"
        self._device, self._compute = device, compute or COMPUTE[device]
        kind = ctranslate2.Translator if self._seq2seq else ctranslate2.Generator
        try:
            self._model: Any = kind(
                str(folder), device=device, compute_type=self._compute, inter_threads=1, intra_threads=threads
            )
        except (RuntimeError, ValueError) as error:
            raise RunError(
                f"{folder} is no CTranslate2 model that can be loaded here ({error}). "
                "Export the run again with `anaphora models export`, or train it again."
            ) from error
        self._rewrite = form.tokens([form.rewrite])
        self._ends = form.tokens(form.ends)

    @property
    def name(self) -> str:
        return f"ctranslate2 {self._compute} {self._device}"

    def decide(self, sources: Sequence[Sequence[int]], limit: int, stop: Stop) -> list[Decided]:
        """As `Engine.decide`."""
        results = self._run(sources, [[] for _ in sources], limit + 1, 1, stop, logits=True)
        form = self._form
        decided = list[Decided]()
        # A causal batch reads what its prompts are longer than the shortest one token by token, with logits for each.
        shortest = min(map(len, sources), default=0)
        for source, result in zip(sources, results, strict=True):
            first = _row(result.logits[0][0 if self._seq2seq else len(source) - shortest])
            ids = self._ids(result)[0]
            phrased = tuple(ids[1:]) if ids[:1] == [form.rewrite] else None
            decided.append(Decided(float(first[form.rewrite] - first[form.keep]), phrased))
        return decided

    def phrase(self, sources: Sequence[Sequence[int]], limit: int, n: int, stop: Stop) -> list[list[tuple[int, ...]]]:
        """As `Engine.phrase`."""
        results = self._run(sources, [self._rewrite] * len(sources), limit, n, stop, logits=False)
        skip = 1 if self._seq2seq else 0
        return [[tuple(ids[skip:]) for ids in self._ids(result)] for result in results]

    def _run(
        self,
        sources: Sequence[Sequence[int]],
        prefixes: list[list[str]],
        limit: int,
        n: int,
        stop: Stop,
        *,
        logits: bool,
    ) -> list[Any]:
        tokens = [self._form.tokens(source) for source in sources]
        options: dict[str, Any] = {
            "beam_size": n,
            "num_hypotheses": n,
            "end_token": self._ends,
            "return_logits_vocab": logits,
        }
        if n == 1:
            options["callback"] = lambda step: stop()
        if self._seq2seq:
            options |= {"max_decoding_length": limit, "min_decoding_length": 0, "max_input_length": 0}
            return list(self._model.translate_batch(tokens, prefixes if any(prefixes) else None, **options))
        prompts = [source + prefix for source, prefix in zip(tokens, prefixes, strict=True)]
        options |= {"max_length": limit, "include_prompt_in_result": False}
        return list(self._model.generate_batch(prompts, **options))

    def _ids(self, result: Any) -> list[list[int]]:
        if self._seq2seq:
            return [self._form.ids(tokens) for tokens in result.hypotheses]
        return [list(ids) for ids in result.sequences_ids]


def _row(storage: Any) -> Any:
    """The logits of one step, `(vocabulary,)`, on the CPU in float32."""
    import ctranslate2
    import numpy as np

    if storage.device != "cpu":
        storage = storage.to_device(ctranslate2.Device.cpu)
    if storage.dtype != ctranslate2.DataType.float32:
        storage = storage.to(ctranslate2.DataType.float32)
    return np.asarray(storage).reshape(-1)


class TorchEngine:
    """Runs `model`, a seq2seq or causal transformers model on its device, without gradients."""

    def __init__(self, model: Any, form: Form) -> None:
        self._model = model.eval()
        self._form = form
        # State space models carry padding in their state, so their batches must not hold any.
        self._pads = "mamba" not in model.config.model_type

    @classmethod
    def open(cls, folder: Path, form: Form, device: str = "cpu") -> TorchEngine:
        """The engine of a weights folder.

        Raises RunError where it cannot be loaded or does not fit the tokenizer.
        """
        import torch
        from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

        kind: Any = AutoModelForSeq2SeqLM if form.architecture == "seq2seq" else AutoModelForCausalLM
        dtype = torch.float16 if device == "cuda" else torch.float32
        try:
            model = kind.from_pretrained(folder, local_files_only=True, dtype=dtype)
        except Exception as error:  # safetensors and transformers raise classes of their own, some bare
            raise RunError(f"The weights in {folder} cannot be loaded ({type(error).__name__}: {error}).") from error
        rows, vocabulary = model.get_input_embeddings().weight.shape[0], form.tokenizer.get_vocab_size()
        if vocabulary > rows:
            raise RunError(
                f"The tokenizer beside {folder} has {vocabulary} tokens, the model {rows}: they do not belong together."
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
            generated = model.generate(
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
        return generated.logits[0], [list(ids) for ids in generated.sequences[:, prompt:].tolist()]

    def _cut(self, ids: list[int]) -> tuple[int, ...]:
        ends = [ids.index(end) for end in self._form.ends if end in ids]
        return tuple(ids[: min(ends)] if ends else ids)


class _Stopping:
    """Ends generation for all rows once `stop` says so; a beam search runs to its end, as CTranslate2's does."""

    def __init__(self, stop: Stop, n: int) -> None:
        self._stop = stop if n == 1 else lambda: False

    def __call__(self, input_ids: torch.Tensor, scores: object, **_: object) -> torch.Tensor:
        import torch

        return torch.full((input_ids.shape[0],), self._stop(), device=input_ids.device, dtype=torch.bool)
