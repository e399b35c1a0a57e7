"""The conditional rewriters, T5 and causal, as families that can be trained by `rewriter.training`.

A base is a hub id, a folder, or a T5 in int8 ONNX files; its weights are trained whole or by low-rank adaptation, and
exported for CTranslate2.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import torch

from rewriter import guard
from rewriter.conditional import (
    EXPORT,
    SPECIAL_TOKENS,
    WEIGHTS,
    Architecture,
    ConditionalEngine,
    ConditionalRewriter,
    Ct2Engine,
    Form,
    Lengths,
    hint_of,
    open_words,
    read_description,
)
from rewriter.examples import RewriteExample, normalised, read_examples
from rewriter.families import Family, Features, out_of_memory, padded
from rewriter.onnx_weights import TOKENIZER, multiplied_out
from rewriter.protocol import RecipeError, RewriteGate, Rewriter, TrainingError, fit
from rewriter.recipe import ConditionalModelPart, LoraPart, Recipe
from text.files import replacing
from text.progress import progress_reporter

if TYPE_CHECKING:
    from transformers import T5ForConditionalGeneration


IGNORED = -100
"""The label that carries no loss."""
BATCH = 16

Tokens: TypeAlias = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]
"""Source and target of an example."""
ENCODER, DECODER = "encoder.onnx", "decoder.onnx"


def is_onnx_t5(folder: Path) -> bool:
    """Whether both files are there, and no `config.json` that transformers could read."""
    return all((folder / name).is_file() for name in (ENCODER, DECODER)) and not (folder / "config.json").is_file()


def from_onnx(folder: Path) -> T5ForConditionalGeneration:
    """The model as transformers has it; raises RecipeError where the files are none of a T5."""
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
        blocks = {tuple(name.split(".")[:3]) for name in weights if ".block." in name}
        settings: Any = dict(
            vocab_size=words.shape[0],
            d_model=words.shape[1],
            d_kv=weights[f"{first}0.SelfAttention.q.weight"].shape[0] // heads,
            d_ff=weights[f"{first}1.DenseReluDense.wo.weight"].shape[1],
            num_heads=heads,
            num_layers=sum(part == "encoder" for part, *_ in blocks),
            num_decoder_layers=sum(part == "decoder" for part, *_ in blocks),
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


def pretrained(base: str, architecture: Architecture) -> Any:
    """The model of a hub id or folder. Raises RecipeError where it cannot be opened."""
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    if architecture == "seq2seq" and is_onnx_t5(folder := Path(base).expanduser()):
        return from_onnx(folder)
    kind: Any = AutoModelForSeq2SeqLM if architecture == "seq2seq" else AutoModelForCausalLM
    try:
        return kind.from_pretrained(base, dtype=torch.float32)
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # the hub's client, safetensors and transformers each raise their own
        raise RecipeError(
            f"{base} cannot be opened as a {architecture} model ({_first_line(error)}). Give a hub id that can be "
            "reached, or a folder."
        ) from error


def open_tokenizer(base: str) -> Any:
    """The base's own tokenizer, as transformers has it, with gates and roles added.

    Raises RecipeError where it is not fast or cannot be opened.
    """
    from tokenizers import AddedToken
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    if is_onnx_t5(folder := Path(base).expanduser()):
        options: Any = {"tokenizer_file": str(folder / TOKENIZER), "eos_token": "</s>", "pad_token": "<pad>"}
        wrapped: Any = PreTrainedTokenizerFast(**options)
    else:
        try:
            wrapped = AutoTokenizer.from_pretrained(base)
        except Exception as error:  # the hub's client, safetensors and transformers each raise their own
            raise RecipeError(f"The tokenizer of {base} cannot be opened ({_first_line(error)}).") from error
    if getattr(wrapped, "backend_tokenizer", None) is None or wrapped.eos_token is None:
        raise RecipeError(f"{base} has no fast tokenizer with an end token; choose another base.")
    # Outside the pieces: as pieces, a typed "<rewrite>" would spell one.
    added = [AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS]
    wrapped.backend_tokenizer.add_special_tokens(added)
    return wrapped


def open_model(base: str, form: Form, lora: LoraPart | None, seed: int) -> Any:
    """The model with as many embeddings as the tokenizer has tokens, wrapped for LoRA where asked.

    Raises RecipeError for a base that cannot be opened, TrainingError where it does not fit into memory.
    """
    from transformers import set_seed

    set_seed(seed)
    with out_of_memory(f"Opening {base}", "Choose a smaller base."):
        model = pretrained(base, form.architecture)
        vocabulary = form.tokenizer.get_vocab_size()
        if model.get_input_embeddings().weight.shape[0] < vocabulary:
            model.resize_token_embeddings(vocabulary, mean_resizing=True)
        if form.architecture == "causal":
            model.config.pad_token_id = form.end
            model.config.eos_token_id = form.end
        return model if lora is None else _with_lora(model, lora, form)


def _with_lora(model: Any, lora: LoraPart, form: Form) -> Any:
    from peft import LoraConfig, TaskType, get_peft_model

    new = [token_id for token in SPECIAL_TOKENS if (token_id := form.tokenizer.token_to_id(token)) is not None]
    task = TaskType.SEQ_2_SEQ_LM if form.architecture == "seq2seq" else TaskType.CAUSAL_LM
    return get_peft_model(
        model,
        LoraConfig(
            task_type=task,
            r=lora.rank,
            lora_alpha=lora.alpha,
            lora_dropout=lora.dropout,
            target_modules="all-linear",
            # Gates and roles are new to the base: their embeddings are learned in full.
            trainable_token_indices=new,
        ),
    )


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:200]}"


def learnable(examples: Sequence[RewriteExample], words: Rewriter) -> Iterator[tuple[RewriteExample, str]]:
    """The examples that a model with the term rewriter's words learns from, each with its hint."""
    report = progress_reporter()
    for done, example in enumerate(examples):
        if done % 50 == 0:
            report("preparing rows", done, len(examples))
        if example.history and not guard.check(example.conversation, example.question, example.rewrite):
            expanded = words.rewrite(example.conversation, example.question)
            if expanded.decision == "expand":
                yield example, hint_of(expanded)


def conditional_features(examples: Sequence[RewriteExample], form: Form, words: Rewriter | None = None) -> Features:
    """Tokenised examples, in their order; items are `{"input_ids", "labels"}` of plain lists, alike in every epoch.

    With `words`, only what is learned with its hints (`learnable`), and always in full. They are sorted by the tokens
    of their sources: with the target's, questions to be kept would end up in batches of their own.
    """
    # A weight above one repeats the same object.
    unique = list({id(example): example for example in examples}.values())
    learned = ((example, "") for example in unique) if words is None else learnable(unique, words)
    rows: dict[int, Tokens] = {}
    for example, hint in learned:
        source = form.source(example.conversation, example.question, hint)
        target = form.target(example.rewrite if example.needs_rewrite or words is not None else None)
        rows[id(example)] = np.array(source, dtype=np.int32), np.array(target, dtype=np.int32)
    items = [rows[id(example)] for example in examples if id(example) in rows]

    def read(item: Tokens) -> dict[str, list[int]]:
        source, target = (row.tolist() for row in item)
        if form.architecture == "causal":
            return {"input_ids": source + target, "labels": [IGNORED] * len(source) + target}
        return {"input_ids": source, "labels": target}

    return Features(lambda epoch: items, lambda item: len(item[0]), read)


def collate(batch: Sequence[dict[str, list[int]]], pad: int, cut: bool = False) -> dict[str, torch.Tensor | int]:
    """Pads a batch on the right: ids with `pad`, the mask with 0, labels with `IGNORED`.

    With `cut` a decoder is asked for logits, and given labels, from where the first target begins: those of the
    sources carry no loss, and at a large vocabulary cost more than many a layer.
    """
    ids = [item["input_ids"] for item in batch]
    labels = padded([item["labels"] for item in batch], IGNORED)
    tensors: dict[str, torch.Tensor | int] = {
        "input_ids": padded(ids, pad),
        "attention_mask": padded([[1] * len(row) for row in ids], 0),
    }
    if not cut:
        return tensors | {"labels": labels}
    # The logits before a token foretell it.
    width = labels.shape[1] - max(0, int((labels != IGNORED).any(0).nonzero()[0]) - 1)
    return tensors | {"labels": labels[:, -width:], "logits_to_keep": width}


class ConditionalFamily(Family):
    """How conditional rewriters are trained, exported and judged."""

    about = "It decides whether a follow-up question needs its conversation and, if so, writes it in full."
    weights = (WEIGHTS,)

    def read(self, path: Path) -> Iterable[RewriteExample]:
        return read_examples(path)

    def open(self, recipe: Recipe, folder: Path, callback: Callable[[str], None]) -> None:
        part = cast("ConditionalModelPart", recipe.model)
        callback(f"opening {part.base}")
        wrapped = open_tokenizer(part.base)
        with replacing(folder / TOKENIZER) as draft:
            wrapped.backend_tokenizer.save(str(draft))
        architecture: Architecture = "seq2seq" if part.seq2seq else "causal"
        self._form = Form(wrapped.backend_tokenizer, architecture, Lengths(**part.lengths), end=str(wrapped.eos_token))
        self.model = open_model(part.base, self._form, recipe.lora, recipe.seed)
        self._words = open_words() if part.words else None

    def features(self, examples: Sequence[RewriteExample], *, train: bool) -> Features:
        return conditional_features(examples, self._form, self._words)

    def collate(self, items: Sequence[dict[str, list[int]]]) -> dict[str, Any]:
        pad = self.model.config.pad_token_id
        bare = self.model.get_base_model() if hasattr(self.model, "get_base_model") else self.model
        cut = "logits_to_keep" in signature(bare.forward).parameters
        return collate(items, self._form.end if pad is None else int(pad), cut)

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the weights, low-rank ones merged into their base, with the tokenizer for transformers' own use."""
        if hasattr(self.model, "merge_and_unload"):
            self.model = self.model.merge_and_unload()
        form = self._form
        save_weights(folder, self.model, form)
        described: dict[str, Any] = {"architecture": form.architecture, "lengths": asdict(form.lengths)}
        described |= {"end": form.tokenizer.id_to_token(form.end)}
        return described | ({"words": True} if self._words else {})

    def export(self, folder: Path, description: dict[str, Any]) -> tuple[dict[str, Any], list[Path]]:
        """Convert the weights for CTranslate2, in int8."""
        shutil.rmtree(folder / EXPORT, ignore_errors=True)
        convert(folder / WEIGHTS, folder / EXPORT)
        return {}, [folder / TOKENIZER, *(path for path in (folder / EXPORT).iterdir() if path.is_file())]

    def engine(self, folder: Path, form: Form) -> ConditionalEngine:
        """The serving half of a run, which also judges it."""
        return Ct2Engine(folder / EXPORT, form)

    def judge(
        self,
        recipe: Recipe,
        folder: Path,
        description: dict[str, Any],
        dev: Sequence[RewriteExample],
        test: Sequence[RewriteExample],
    ) -> tuple[dict[str, Any], dict[str, float]]:
        """The gate on `dev`; the scores of what is written of `test`, one turn at a time."""
        run = read_description(folder, description | {"gate": RewriteGate().as_dict()})
        engine, words = self.engine(folder, run.form), open_words() if run.words else None
        gate = fit_gate(engine, run.form, dev) if words is None else RewriteGate()
        served = ConditionalRewriter(engine, run.form, gate, name=run.family, timeout_seconds=60.0, words=words)
        scores = assess(served, test)
        served.close()
        return {"gate": gate.as_dict()}, scores


def save_weights(folder: Path, model: Any, form: Form) -> None:
    """Write `weights/`: safetensors, the configuration, and the tokenizer for transformers' own use."""
    from transformers import PreTrainedTokenizerFast

    model.cpu().save_pretrained(folder / WEIGHTS)
    end, pad = form.tokenizer.id_to_token(form.end), model.config.pad_token_id
    # CTranslate2 wants a name for each of these, also where the model has no such token.
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=form.tokenizer,
        bos_token=end,
        eos_token=end,
        pad_token=end if pad is None else form.tokenizer.id_to_token(pad),
        unk_token="<unk>" if form.tokenizer.token_to_id("<unk>") is not None else end,
    )
    wrapped.save_pretrained(folder / WEIGHTS)


def convert(weights: Path, folder: Path, kind: str = "int8") -> None:
    """Convert weights for CTranslate2; raises TrainingError where that fails."""
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

    try:
        Converter(str(weights)).convert(str(folder), quantization=kind, force=True)
    except (RuntimeError, ValueError, OSError, KeyError, AttributeError) as error:
        raise TrainingError(
            f"The weights in {weights} cannot be exported ({type(error).__name__}: {error})."
        ) from error


def fit_gate(engine: ConditionalEngine, form: Form, dev: Sequence[RewriteExample]) -> RewriteGate:
    """The gate calibrated on `dev`; questions without a conversation are left out, no gate is asked about them."""
    with_history = [example for example in dev if example.history]
    sources = [form.source(example.conversation, example.question) for example in with_history]
    differences = [
        decision.difference
        for start in range(0, len(sources), BATCH)
        for decision in engine.decide(sources[start : start + BATCH], 0, lambda: False)
    ]
    return fit(differences, [example.needs_rewrite for example in with_history])


def assess(rewriter: Rewriter, examples: Sequence[RewriteExample]) -> dict[str, float]:
    """Means over examples, 0 to 1, one turn at a time; none without any example.

    Text metrics only, beside those of copying the question. `gate_f1` is that of deciding to rewrite. Milliseconds are
    per turn.
    """
    if not examples:
        return {}
    rows, seconds = list[tuple[float, ...]](), list[float]()
    for example in examples:
        started = time.perf_counter()
        result = rewriter.rewrite(example.conversation, example.question)
        seconds.append(time.perf_counter() - started)
        # Words in place of a sentence are searched and not shown: what is shown is the typed question.
        words = result.decision == "expand"
        text = example.question if words else result.text
        # A refused rewrite was still a decision to rewrite.
        says, needs = words or result.decision in ("rewrite", "refused"), example.needs_rewrite
        rouge = (rouge_l(text, example.rewrite), rouge_l(example.question, example.rewrite))
        exact = (normalised(result.text) == normalised(example.rewrite), not needs)
        refused = words or result.decision == "refused"
        rows.append((*rouge, *exact, says == needs, says and needs, says + needs, refused, result.decision == "failed"))
    names = ("rouge_l", "copy_rouge_l", "exact", "copy_exact", "gate_accuracy", "hits", "claims", "refused", "failed")
    scores = {name: float(value) for name, value in zip(names, np.mean(rows, axis=0), strict=True)}
    hits, claims = scores.pop("hits"), scores.pop("claims")
    scores["gate_f1"] = 2 * hits / claims if claims else 1.0
    scores["p50_ms"], scores["p95_ms"] = (float(1e3 * value) for value in np.percentile(seconds, (50, 95)))
    return {"examples": len(rows)} | {name: round(value, 4) for name, value in scores.items()}


def rouge_l(text: str, wanted: str) -> float:
    """F1 of the longest common subsequence of words, case-folded, punctuation left out; 1 where both are empty."""
    a, b = normalised(text).split(), normalised(wanted).split()
    if not a or not b:
        return float(a == b)
    row = [0] * (len(b) + 1)
    for word in a:
        diagonal = 0
        for j, other in enumerate(b, start=1):
            diagonal, row[j] = row[j], diagonal + 1 if word == other else max(row[j], row[j - 1])
    return 2 * row[-1] / (len(a) + len(b))
