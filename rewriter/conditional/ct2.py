"""CTranslate2 runs a conditional model: int8 on a CPU, float16 on a GPU.

One greedy pass gives the gate's logits and, where the gate opens, the rewrite; it stops at `<no_rewrite>`, so a
question that stands alone costs a single decoding step.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewriter.conditional.engine import Decided, Stop
from rewriter.errors import RunError

if TYPE_CHECKING:
    from rewriter.conditional.form import Form

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
