"""What a run starts from: a hub id, a folder, a GGUF file, a T5 in ONNX files, or fresh weights of a size."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewriter.conditional.chat_form import ChatForm
from rewriter.conditional.copying import set_copy_circuit
from rewriter.conditional.form import SPECIAL_TOKENS, Architecture, Form
from rewriter.conditional.onnx_base import from_onnx, is_onnx_t5
from rewriter.conditional.vocabulary import END, PAD, train_vocabulary
from rewriter.errors import RecipeError
from rewriter.tokenizer_file import TOKENIZER
from text.extras import need_extra

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from rewriter.conditional.model_part import ChatModelPart, ConditionalModelPart
    from rewriter.training.recipe import LoraPart

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


def open_chat(part: ChatModelPart, lora: LoraPart, seed: int) -> tuple[Base, ChatForm]:
    """An instruct model as it is, wrapped for LoRA; what is learned begins from `seed` alone. Raises as `open_base`."""
    from transformers import set_seed

    from rewriter.training.memory import out_of_memory

    set_seed(seed)
    wrapped = _wrapped_tokenizer(part.base)
    form = ChatForm(wrapped, part.bounds)
    with out_of_memory(f"Opening {part.base}", "Choose a smaller base."):
        model = _with_lora(pretrained(part.base, "causal", part.dtype), lora, form)
    return Base(model, form.tokenizer, form, form.architecture, str(wrapped.eos_token)), form


def open_base(part: ConditionalModelPart, tokenizer: Tokenizer, end: str, lora: LoraPart | None, seed: int) -> Base:
    """The model with as many embeddings as the tokenizer has tokens, wrapped for LoRA where asked.

    Fresh weights depend on `seed` alone. Raises RecipeError for an unknown size or a base that cannot be opened,
    TrainingError where it does not fit into memory.
    """
    from transformers import set_seed

    from rewriter.training.memory import out_of_memory

    set_seed(seed)
    architecture = architecture_of(part)
    form = Form(tokenizer, architecture, part.bounds, end=end)
    with out_of_memory(f"Opening {part.base}", "Choose a smaller base."):
        model = _fresh(part, tokenizer, form) if part.base.startswith(FRESH) else pretrained(part.base, architecture)
        known = tokenizer.get_vocab_size()
        if model.get_input_embeddings().weight.shape[0] < known:
            model.resize_token_embeddings(known, mean_resizing=True)
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
        known = [f"{FRESH}{k}{'-' if k else ''}{s}" for k, sizes in tables.items() for s in sizes]
        raise RecipeError(f"There is no base {part.base!r} in the family {part.kind}; there are {', '.join(known)}.")
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
    new = [found for token in SPECIAL_TOKENS if (found := form.tokenizer.token_to_id(token)) is not None]
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
        given: Any = {"tokenizer_file": str(folder / TOKENIZER), "eos_token": "</s>", "pad_token": "<pad>"}
        return PreTrainedTokenizerFast(**given)  # type: ignore[no-untyped-call]
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
