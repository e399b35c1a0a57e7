"""From trained weights to what is served: CTranslate2 in int8, and in float16 where a GPU is at hand.

An architecture CTranslate2 does not know is served by torch from its weights.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewriter.conditional.bases import UNKNOWN
from rewriter.conditional.form import EXPORT, WEIGHTS
from rewriter.onnx_weights import TOKENIZER
from rewriter.protocol import TrainingError

if TYPE_CHECKING:
    from rewriter.conditional.form import Form

UNKNOWN_TO_CT2 = ("mamba",)


def save_weights(folder: Path, model: Any, form: Form) -> None:
    """Write `weights/` (safetensors, config, and the tokenizer for transformers' own use) and `tokenizer.json`."""
    from transformers import PreTrainedTokenizerFast

    weights = folder / WEIGHTS
    model.cpu().save_pretrained(weights)
    tokenizer = form.tokenizer
    end, pad = str(tokenizer.id_to_token(form.end)), model.config.pad_token_id
    # CTranslate2 wants a name for each of these, also where the model has no such token.
    wrapped = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        bos_token=end,
        eos_token=end,
        pad_token=end if pad is None else tokenizer.id_to_token(pad),
        unk_token=UNKNOWN if tokenizer.token_to_id(UNKNOWN) is not None else end,
    )
    wrapped.save_pretrained(weights)
    tokenizer.save(str(folder / TOKENIZER))


def kinds() -> tuple[str, ...]:
    """CTranslate2's kinds that this machine is exported for."""
    import torch

    return ("int8", "float16") if torch.cuda.is_available() else ("int8",)


def export(folder: Path, kinds: tuple[str, ...] = ("int8",)) -> tuple[str, ...]:
    """Convert `weights/` into `export/<kind>` for each of CTranslate2's kinds; their names, none where torch serves.

    Raises TrainingError where there are no weights, or the conversion fails.
    """
    if not (folder / WEIGHTS).is_dir():
        raise TrainingError(f"{folder} has no weights to export; only a finished run that kept them has.")
    config = json.loads((folder / WEIGHTS / "config.json").read_text("utf-8"))
    if config["model_type"] in UNKNOWN_TO_CT2:
        return ()
    shutil.rmtree(folder / EXPORT, ignore_errors=True)
    for kind in kinds:
        try:
            _converter()(str(folder / WEIGHTS)).convert(str(folder / EXPORT / kind), quantization=kind, force=True)
        except (RuntimeError, ValueError, OSError, KeyError, AttributeError) as error:
            raise TrainingError(
                f"The weights in {folder / WEIGHTS} cannot be exported ({type(error).__name__}: {error})."
            ) from error
    return kinds


def _converter() -> Any:
    import torch
    from ctranslate2.converters.transformers import TransformersConverter

    class Converter(TransformersConverter):  # type: ignore[misc]
        """Reads float32, and tells the converter what transformers 5 calls otherwise: the base of the rotary positions,
        and whether a T5 scales what comes out of its decoder."""

        def load_model(self, model_class: Any, model_name_or_path: str, **kwargs: Any) -> Any:
            model = model_class.from_pretrained(model_name_or_path, **{**kwargs, "dtype": torch.float32})
            rotary = getattr(model.config, "rope_parameters", None)
            if isinstance(rotary, dict) and "rope_theta" in rotary and not hasattr(model.config, "rope_theta"):
                model.config.rope_theta = rotary["rope_theta"]
            if (scales := getattr(model.config, "scale_decoder_outputs", None)) is not None:
                model.config.tie_word_embeddings = scales
            return model

    return Converter
