"""Starting points of a run: a hub id, a folder, a GGUF file, a T5 in ONNX files, or fresh weights of a size."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewriter.conditional.form import QUESTION, REWRITE, SPECIAL_TOKENS, Architecture, Form
from rewriter.onnx_weights import TOKENIZER, multiplied_out
from rewriter.protocol import RecipeError, TrainingError
from text.modules import need_extra

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import T5ForConditionalGeneration

    from rewriter.conditional.training import ConditionalModelPart
    from rewriter.training.recipe import LoraPart


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


FRESH = "config:"
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


@dataclass(frozen=True, slots=True)
class Base:
    """A model ready to be trained and the form of its data. `tokenizer` is the fast one, special tokens added."""

    model: Any
    tokenizer: Tokenizer
    form: Form
    architecture: Architecture
    end: str


def architecture_of(part: ConditionalModelPart) -> Architecture:
    """`t5` is any encoder-decoder; `causal` any decoder."""
    return "seq2seq" if part.kind == "t5" else "causal"


def open_tokenizer(part: ConditionalModelPart, texts: Callable[[], Iterable[str]], seed: int) -> tuple[Tokenizer, str]:
    """The base's own tokenizer, or one trained on `texts`, and its end token; gates and roles are added.

    Raises RecipeError where the base has no fast tokenizer or cannot be opened.
    """
    if part.base.startswith(FRESH):
        return train_vocabulary(texts(), part.vocabulary, seed), END
    from tokenizers import AddedToken

    wrapped = _wrapped_tokenizer(part.base)
    tokenizer: Tokenizer = wrapped.backend_tokenizer
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS])
    return tokenizer, str(wrapped.eos_token)


def open_base(part: ConditionalModelPart, tokenizer: Tokenizer, end: str, lora: LoraPart | None, seed: int) -> Base:
    """The model with as many embeddings as the tokenizer has tokens, wrapped for LoRA where asked.

    Fresh weights depend on `seed` alone. Raises RecipeError for an unknown size or a base that cannot be opened,
    TrainingError where it does not fit into memory.
    """
    from transformers import set_seed

    from rewriter.training.stages import out_of_memory

    set_seed(seed)
    architecture = architecture_of(part)
    form = Form(tokenizer, architecture, part.bounds, end=end)
    with out_of_memory(f"Opening {part.base}", "Choose a smaller base."):
        model = _fresh(part, tokenizer, form) if part.base.startswith(FRESH) else pretrained(part.base, architecture)
        vocabulary = tokenizer.get_vocab_size()
        if model.get_input_embeddings().weight.shape[0] < vocabulary:
            model.resize_token_embeddings(vocabulary, mean_resizing=True)
        if architecture == "causal":
            model.config.pad_token_id = form.end
            model.config.eos_token_id = form.end
        if lora is not None:
            model = _with_lora(model, lora, form)
    return Base(model, tokenizer, form, architecture, end)


def _fresh(part: ConditionalModelPart, tokenizer: Tokenizer, form: Form) -> Any:
    import transformers as hf

    name = part.base.removeprefix(FRESH)
    kind, _, size = name.rpartition("-")
    tables = {"t5": {"": T5_SIZES}, "causal": {"gpt2": GPT2_SIZES, "mamba": MAMBA_SIZES}}[part.kind]
    if kind not in tables or size not in tables[kind]:
        names = [f"{FRESH}{k}{'-' if k else ''}{s}" for k, sizes in tables.items() for s in sizes]
        raise RecipeError(f"There is no base {part.base!r} in the family {part.kind}; there are {', '.join(names)}.")
    shape: dict[str, Any] = dict(tables[kind][size])
    vocabulary = tokenizer.get_vocab_size()
    pad = tokenizer.token_to_id(PAD)
    if part.kind == "t5":
        shape |= {"pad_token_id": pad, "eos_token_id": form.end, "decoder_start_token_id": pad}
        model = hf.T5ForConditionalGeneration(hf.T5Config(**shape, vocab_size=vocabulary, dropout_rate=part.dropout))
        if part.copies:
            set_copy_circuit(model, tokenizer)
        return model
    shape |= {"bos_token_id": form.end, "eos_token_id": form.end, "pad_token_id": pad, "vocab_size": vocabulary}
    if kind == "gpt2":
        shape |= dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), part.dropout)
        positions = part.bounds.source + part.bounds.target + 8
        return hf.GPT2LMHeadModel(hf.GPT2Config(**shape, n_positions=positions))
    return hf.MambaForCausalLM(hf.MambaConfig(**shape))


def pretrained(base: str, architecture: Architecture, dtype: str = "float32") -> Any:
    """The model of a hub id, folder or GGUF file. Raises RecipeError where it cannot be opened."""
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    if architecture == "seq2seq" and is_onnx_t5(folder := Path(base).expanduser()):
        return from_onnx(folder)
    kind: Any = AutoModelForSeq2SeqLM if architecture == "seq2seq" else AutoModelForCausalLM
    location = _location(base)
    if "gguf_file" in location:
        need_extra("train", "A base in a GGUF file", "gguf")
    try:
        model = kind.from_pretrained(**location, dtype=getattr(torch, dtype))
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # the hub's client, safetensors and transformers each raise their own
        raise RecipeError(
            f"{base} cannot be opened as a {architecture} model ({_first_line(error)}). Give a hub id that can be "
            f"reached, a folder, or {FRESH}<size>."
        ) from error
    if "gguf_file" not in location:
        return model
    # What was read is plain numbers by now, but would pass for quantised, which cannot be trained.
    del model.config.quantization_config
    plain = type(model)(model.config).to(model.dtype)
    plain.load_state_dict(model.state_dict())
    return plain


def _with_lora(model: Any, lora: LoraPart, form: Form) -> Any:
    from peft import LoraConfig, TaskType, get_peft_model

    task = TaskType.SEQ_2_SEQ_LM if form.architecture == "seq2seq" else TaskType.CAUSAL_LM
    new = [token_id for token in SPECIAL_TOKENS if (token_id := form.tokenizer.token_to_id(token)) is not None]
    return get_peft_model(
        model,
        LoraConfig(
            task_type=task,
            r=lora.rank,
            lora_alpha=lora.alpha,
            lora_dropout=lora.dropout,
            target_modules="all-linear",
            # Gates and roles are new to the base: their embeddings are learned in full.
            trainable_token_indices=new or None,
        ),
    )


def _wrapped_tokenizer(base: str) -> Any:
    """The base's own, as transformers has it. Raises RecipeError where it is not fast or cannot be opened."""
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    if is_onnx_t5(folder := Path(base).expanduser()):
        options: Any = {"tokenizer_file": str(folder / TOKENIZER), "eos_token": "</s>", "pad_token": "<pad>"}
        return PreTrainedTokenizerFast(**options)  # type: ignore[no-untyped-call]
    try:
        wrapped = AutoTokenizer.from_pretrained(**_location(base))
    except Exception as error:  # the hub's client, safetensors and transformers each raise their own
        raise RecipeError(f"The tokenizer of {base} cannot be opened ({_first_line(error)}).") from error
    if getattr(wrapped, "backend_tokenizer", None) is None or wrapped.eos_token is None:
        raise RecipeError(f"{base} has no fast tokenizer with an end token; choose another base.")
    return wrapped


def _location(base: str) -> dict[str, str]:
    path = Path(base).expanduser()
    if path.is_dir() and not (path / "config.json").is_file():
        gguf = sorted(path.glob("*.gguf"))
        if len(gguf) == 1:
            path = gguf[0]
    if path.suffix == ".gguf":
        return {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
    return {"pretrained_model_name_or_path": str(path) if path.is_dir() else base}


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:200]}"
