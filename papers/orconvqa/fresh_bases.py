"""Bases with fresh weights: a T5, GPT-2 or Mamba of a size, with a vocabulary of its own, as a folder to train from.

A fresh T5 may begin with a circuit that copies the question, an induction head: what a stand-alone question mostly is.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from rewriter.conditional import QUESTION, REWRITE, SPECIAL_TOKENS
from rewriter.protocol import RecipeError, TrainingError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Kind: TypeAlias = Literal["t5", "gpt2", "mamba"]

T5_SIZES: dict[str, dict[str, int]] = {
    "tiny": {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_decoder_layers": 1, "num_heads": 4},
    "3m": {"d_model": 160, "d_kv": 32, "d_ff": 512, "num_layers": 3, "num_decoder_layers": 2, "num_heads": 5},
    "6m": {"d_model": 192, "d_kv": 32, "d_ff": 768, "num_layers": 4, "num_decoder_layers": 3, "num_heads": 6},
    "10m": {"d_model": 256, "d_kv": 32, "d_ff": 1024, "num_layers": 4, "num_decoder_layers": 3, "num_heads": 8},
    "16m": {"d_model": 320, "d_kv": 40, "d_ff": 1280, "num_layers": 5, "num_decoder_layers": 3, "num_heads": 8},
    "31m": {"d_model": 384, "d_kv": 64, "d_ff": 1536, "num_layers": 6, "num_decoder_layers": 4, "num_heads": 6},
    "60m": {"d_model": 512, "d_kv": 64, "d_ff": 2048, "num_layers": 8, "num_decoder_layers": 6, "num_heads": 8},
}
GPT2_SIZES: dict[str, dict[str, int]] = {
    "tiny": {"n_embd": 64, "n_layer": 2, "n_head": 4},
    "3m": {"n_embd": 160, "n_layer": 5, "n_head": 5},
    "6m": {"n_embd": 256, "n_layer": 6, "n_head": 8},
    "31m": {"n_embd": 512, "n_layer": 8, "n_head": 8},
}
MAMBA_SIZES: dict[str, dict[str, int]] = {
    "tiny": {"hidden_size": 64, "num_hidden_layers": 2, "state_size": 8},
    "3m": {"hidden_size": 160, "num_hidden_layers": 8, "state_size": 16},
    "6m": {"hidden_size": 256, "num_hidden_layers": 8, "state_size": 16},
    "31m": {"hidden_size": 512, "num_hidden_layers": 14, "state_size": 16},
}
SIZES: dict[Kind, dict[str, dict[str, int]]] = {"t5": T5_SIZES, "gpt2": GPT2_SIZES, "mamba": MAMBA_SIZES}

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
    """Make a head attend to the position of one bucket of relative distance, whatever the token."""
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


PAD, UNKNOWN, END = "<pad>", "<unk>", "</s>"
TEXTS = 40_000
"""At most so many different texts are read, evenly spread; more change the pieces little and take long."""


def train_vocabulary(texts: Iterable[str], size: int, seed: int) -> Tokenizer:
    """A tokenizer of `size` pieces at most; texts are normalised by NFKC, what it cannot spell becomes bytes.

    Ids 0, 1 and 2 are `<pad>`, `</s>` and `<unk>`. Raises TrainingError where there is too little text.
    """
    import sentencepiece

    model = io.BytesIO()
    unique = list(dict.fromkeys(" ".join(text.split()) for text in texts))
    unique = unique[:: 1 + len(unique) // TEXTS]
    try:
        sentencepiece.set_random_generator_seed(seed)
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(unique),
            model_writer=model,
            model_type="unigram",
            vocab_size=size,
            hard_vocab_limit=False,
            character_coverage=0.9995,
            byte_fallback=True,
            normalization_rule_name="nfkc",
            pad_id=0,
            eos_id=1,
            unk_id=2,
            bos_id=-1,
            pad_piece=PAD,
            eos_piece=END,
            unk_piece=UNKNOWN,
            num_threads=1,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise TrainingError(f"No vocabulary of {size} pieces can be made of {len(unique)} texts ({error}).") from error
    return _as_tokenizer(sentencepiece.SentencePieceProcessor(model_proto=model.getvalue()))


def _as_tokenizer(pieces: object) -> Tokenizer:
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    vocabulary = [(pieces.id_to_piece(i), pieces.get_score(i)) for i in range(len(pieces))]  # type: ignore[attr-defined, arg-type]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=2, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    # Gates and roles stand outside the pieces: as pieces, a typed "<rewrite>" would spell one.
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in (PAD, END, UNKNOWN, *SPECIAL_TOKENS)]
    )
    return tokenizer


def write_base(
    folder: Path,
    kind: Kind,
    size: str,
    texts: Iterable[str],
    *,
    vocabulary: int = 6000,
    dropout: float = 0.0,
    copies: bool = False,
    positions: int = 256,
    seed: int = 13,
) -> Path:
    """Write a model with fresh weights, which depend on `seed` alone, and its tokenizer; the folder.

    `copies` writes the circuit into a T5. Raises RecipeError for an unknown size.
    """
    import transformers as hf

    if size not in SIZES[kind]:
        raise RecipeError(f"There is no size {size!r} of {kind}; there are {', '.join(SIZES[kind])}.")
    tokenizer = train_vocabulary(texts, vocabulary, seed)
    hf.set_seed(seed)
    pad, end = tokenizer.token_to_id(PAD), tokenizer.token_to_id(END)
    shape: dict[str, Any] = SIZES[kind][size] | {"vocab_size": tokenizer.get_vocab_size(), "pad_token_id": pad}
    shape |= {"eos_token_id": end}
    if kind == "t5":
        shape |= {"decoder_start_token_id": pad, "dropout_rate": dropout}
        model: Any = hf.T5ForConditionalGeneration(hf.T5Config(**shape))
        if copies:
            set_copy_circuit(model, tokenizer)
    elif kind == "gpt2":
        shape |= dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), dropout)
        model = hf.GPT2LMHeadModel(hf.GPT2Config(**shape, bos_token_id=end, n_positions=positions))
    else:
        model = hf.MambaForCausalLM(hf.MambaConfig(**shape, bos_token_id=end))
    model.save_pretrained(folder)
    options: Any = {"tokenizer_object": tokenizer, "eos_token": END, "pad_token": PAD, "unk_token": UNKNOWN}
    hf.PreTrainedTokenizerFast(**options).save_pretrained(folder)
    return folder
