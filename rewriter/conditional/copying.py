"""A fresh T5 that copies before it has seen anything.

Most of a stand-alone question is the typed question. A T5 with random weights needs millions of examples to find out
how to copy; here the circuit it would end up with is written into its weights, and training is left with what is
worth learning: when to leave the question alone, and what to put where a pronoun stands.

The circuit is the one known from trained models as an induction head. Encoder heads that look one and two tokens
back write a fingerprint of what stands there beside each token. The last decoder layer looks for the place whose
fingerprints are those of the token just written and of the one before, and brings the token that stands there to the
output. All of it are ordinary weights, and training changes them as it likes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rewriter.conditional.form import QUESTION, REWRITE
from rewriter.errors import RecipeError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

QUIET = 0.1
"""What the random parts add is scaled by this, so that it does not drown the circuit."""
LOOK_BACK = 10.0
"""Attention bias of the heads that look at one position."""
SHARPNESS = 0.5
LOUDNESS = 3.0
"""How much more the copied token counts than the one just written."""


def set_copy_circuit(model: Any, tokenizer: Tokenizer) -> None:
    """Write the circuit into a fresh `T5ForConditionalGeneration`, in place.

    `<rewrite>` starts out as `<question>`: what follows the gate is what follows the question's mark. Raises
    RecipeError for a shape that has no room: heads must fill the model's width, and there must be three of them.
    """
    import torch

    config = model.config
    width, heads, size = config.d_model, config.num_heads, config.d_kv
    if heads * size != width or heads < 3 or size % 2:
        raise RecipeError(f"A model of width {width} with {heads} heads of {size} has no room for the copy circuit.")
    half, plain = size // 2, width - size
    with torch.no_grad():
        _calm(model)
        embedding = model.shared.weight
        embedding[:, plain:] = 0
        ids = {name: tokenizer.token_to_id(name) for name in (QUESTION, REWRITE)}
        embedding[ids[REWRITE]] = embedding[ids[QUESTION]]
        # Rows of an orthogonal matrix: two independent fingerprints of `half` numbers each.
        prints = torch.linalg.qr(torch.randn(plain, plain))[0][:size]
        one_back, two_back = prints[:half], prints[half:]
        reserved = range(plain, width)

        encoder = model.encoder.block[0].layer[0].SelfAttention
        _look(encoder, 0, bucket=1, size=size)
        _look(encoder, 1, bucket=2, size=size)
        for head, fingerprint, start in ((0, one_back, 0), (1, two_back, half)):
            _write(encoder, head, size, fingerprint, reserved[start : start + half])

        decoder = model.decoder.block[0].layer[0].SelfAttention
        _look(decoder, 0, bucket=1, size=size)
        _write(decoder, 0, size, two_back, reserved[half:])

        cross = model.decoder.block[-1].layer[1].EncDecAttention
        for head in range(heads - 1):
            rows = slice(head * size, (head + 1) * size)
            cross.q.weight[rows] = 0
            cross.q.weight[rows][:half, :plain] = SHARPNESS * one_back
            cross.q.weight[rows][half:, plain + half :] = SHARPNESS * torch.eye(half)
            cross.k.weight[rows] = 0
            cross.k.weight[rows][:, plain:] = torch.eye(size)
            cross.v.weight[rows] = 0
            cross.v.weight[rows][:, rows] = torch.eye(size)
            cross.o.weight[:, rows] = 0
            cross.o.weight[rows, rows] = LOUDNESS * torch.eye(size)


def _calm(model: Any) -> None:
    """Scale down what every attention and feed-forward part adds to the stream, and what positions count for."""
    for name, weight in model.named_parameters():
        if name.endswith((".o.weight", ".wo.weight", "relative_attention_bias.weight")):
            weight.mul_(QUIET)


def _look(attention: Any, head: int, *, bucket: int, size: int) -> None:
    """Make a head look at the position of one bucket of relative distance, whatever stands there."""
    rows = slice(head * size, (head + 1) * size)
    attention.q.weight[rows] = 0
    attention.k.weight[rows].mul_(QUIET)
    attention.relative_attention_bias.weight[:, head] = 0
    attention.relative_attention_bias.weight[bucket, head] = LOOK_BACK


def _write(attention: Any, head: int, size: int, fingerprint: Any, places: range) -> None:
    """Make a head write a fingerprint of the token it looks at to `places` of the stream."""
    import torch

    rows = slice(head * size, (head + 1) * size)
    count, plain = fingerprint.shape
    attention.v.weight[rows] = 0
    attention.v.weight[rows][:count, :plain] = fingerprint
    attention.o.weight[:, rows] = 0
    attention.o.weight[places.start : places.stop, rows.start : rows.start + count] = torch.eye(count)
