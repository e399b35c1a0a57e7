"""A T5 to train from that lies as two int8 ONNX files: `encoder.onnx` and `decoder.onnx`, exported from torch.

Its weights are multiplied out to floats; what the files do not say of its shape is read from the weights.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewriter.errors import RecipeError
from rewriter.onnx_weights import multiplied_out

if TYPE_CHECKING:
    from transformers import T5ForConditionalGeneration

ENCODER, DECODER = "encoder.onnx", "decoder.onnx"


def is_onnx_t5(folder: Path) -> bool:
    """Whether both files are there, and no `config.json` that transformers could read."""
    return all((folder / name).is_file() for name in (ENCODER, DECODER)) and not (folder / "config.json").is_file()


def from_onnx(folder: Path) -> T5ForConditionalGeneration:
    """The model as transformers has it; raises RecipeError where the files are none of a T5."""
    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    try:
        weights = {
            _named(part, name): torch.tensor(value)
            for part, file in (("encoder", ENCODER), ("decoder", DECODER))
            for name, value in multiplied_out(folder / file)
        }
        words = weights.setdefault("shared.weight", weights["encoder.embed_tokens.weight"])
        weights["encoder.embed_tokens.weight"] = weights["decoder.embed_tokens.weight"] = words
        first = "encoder.block.0.layer."
        heads = weights[f"{first}0.SelfAttention.relative_attention_bias.weight"].shape[1]
        gated = f"{first}1.DenseReluDense.wi_0.weight" in weights
        settings: Any = dict(
            vocab_size=words.shape[0],
            d_model=words.shape[1],
            d_kv=weights[f"{first}0.SelfAttention.q.weight"].shape[0] // heads,
            d_ff=weights[f"{first}1.DenseReluDense.wo.weight"].shape[1],
            num_heads=heads,
            num_layers=_blocks(weights, "encoder"),
            num_decoder_layers=_blocks(weights, "decoder"),
            feed_forward_proj="gated-gelu" if gated else "relu",
            tie_word_embeddings=torch.equal(weights.setdefault("lm_head.weight", words), words),
            decoder_start_token_id=0,
        )
        config = T5Config(**settings)
        model = T5ForConditionalGeneration(config)
        if not config.scale_decoder_outputs:
            # transformers 5 ties what such a model has apart, unless there are two when weights are read.
            model.lm_head.weight = torch.nn.Parameter(weights["lm_head.weight"].clone())
        model.load_state_dict(weights)
    except (OSError, KeyError, ValueError, RuntimeError) as error:
        raise RecipeError(f"{folder} holds no T5 in int8 ONNX files exported from torch: {error}") from error
    return model


def _named(part: str, name: str) -> str:
    """The parameter's name in transformers, whatever the exported module was called; ValueError for no T5's."""
    pieces = name.split(".")
    if shared := {"shared", "lm_head"} & set(pieces):
        return f"{shared.pop()}.weight"
    for at, piece in enumerate(pieces):
        if piece in ("block", "final_layer_norm", "embed_tokens"):
            return ".".join([part, *pieces[at:]])
    raise ValueError(f"no T5 has a parameter {name!r}")


def _blocks(weights: dict[str, Any], part: str) -> int:
    return len({name.split(".")[2] for name in weights if name.startswith(f"{part}.block.")})
