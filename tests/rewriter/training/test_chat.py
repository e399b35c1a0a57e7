"""A chat model learns what the prompted rewriter asks, and what is learned lies apart from its base."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from pydantic import ValidationError

from rewriter.conditional.bases import pretrained
from rewriter.conditional.chat_form import ChatForm
from rewriter.conditional.features import IGNORED, ConditionalFeatures
from rewriter.conditional.form import Lengths
from rewriter.conversation import Conversation, Message
from rewriter.errors import RunError
from rewriter.examples import read_examples
from rewriter.load import Serving, describe, load_rewriter
from rewriter.prompted import PromptedRewriter
from rewriter.runs import check
from rewriter.training import export, train
from rewriter.training.recipe import Recipe
from testing.chat_model import ScriptedChatModel
from tests.rewriter.training.conftest import MACHINE

TALK = Conversation((Message("user", "How do I renew a bus pass?"), Message("assistant", "Ask <|im_end|> the office.")))


@pytest.fixture(scope="module")
def recipe(instruct: Path, recipe_of: Callable[..., Recipe]) -> Recipe:
    made = recipe_of(stage={"steps": 8, "batch": 4}, dev_examples=8).model_dump()
    made["model"] = {"family": "chat", "base": str(instruct), "target": 24}
    return Recipe.model_validate(made | {"lora": {"rank": 4}})


@pytest.fixture(scope="module")
def adapted(
    recipe: Recipe, papers: Path, tmp_path_factory: pytest.TempPathFactory, run: Callable[[Recipe, Path, Path], Path]
) -> Path:
    """A finished run; only to be read."""
    return run(recipe, papers, tmp_path_factory.mktemp("runs") / "papers-chat")


def form_of(instruct: Path) -> ChatForm:
    return ChatForm.open(instruct, Lengths(target=24))


def test_a_run_leaves_low_rank_weights_that_vllm_can_serve_beside_the_base(adapted: Path) -> None:
    assert not (adapted / "weights").exists()
    config = json.loads((adapted / "adapter" / "adapter_config.json").read_text("utf-8"))
    assert (config["peft_type"], config["r"], config["bias"]) == ("LORA", 4, "none")
    assert {name.rpartition(".")[2] for name in config["target_modules"]} == {
        "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj",
    }  # fmt: skip
    # What else peft can change of a model, vLLM does not take.
    assert not any(config.get(key) for key in ("modules_to_save", "trainable_token_indices", "use_dora"))
    description = describe(adapted)
    assert description["metrics"]["failed"] == 0
    assert set(description["files"]) >= {"adapter/adapter_model.safetensors", "adapter/chat_template.jinja"}
    assert description["trained"] < description["parameters"] / 4


@pytest.mark.filterwarnings("ignore:Setting `save_embedding_layers`")
@pytest.mark.parametrize("family", ["chat", "causal"])
def test_low_rank_runs_that_were_stopped_go_on_as_if_they_had_not_been(
    family: str, recipe: Recipe, instruct: Path, papers: Path, tmp_path: Path, run: Callable[[Recipe, Path, Path], Path]
) -> None:
    made = recipe.model_dump() | {"model": {"family": family, "base": str(instruct)}}
    made["lora"]["dropout"] = 0.1

    def stop(text: str) -> None:
        if text.startswith("step 8/"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(Recipe.model_validate(made), papers, tmp_path / "stopped", machine=MACHINE, callback=stop)
    assert list(tmp_path.rglob("checkpoint-4"))
    logs = [
        (run(Recipe.model_validate(made), papers, tmp_path / name) / "stages" / "papers" / "log.json").read_text()
        for name in ("stopped", "whole")
    ]
    stopped, whole = ([(one["step"], one.get("loss"), one.get("eval_loss")) for one in json.loads(log)] for log in logs)
    assert stopped == whole


def test_it_learns(adapted: Path) -> None:
    log = json.loads((adapted / "stages" / "papers" / "log.json").read_text("utf-8"))
    losses = [entry["loss"] for entry in log if "loss" in entry]
    assert losses[-1] < losses[0]


def test_a_promoted_run_serves_from_its_base_and_its_adapter(adapted: Path) -> None:
    check(adapted)
    always = load_rewriter(adapted, Serving(timeout_seconds=60, threshold=0.0))
    never = load_rewriter(adapted, Serving(timeout_seconds=60, threshold=1.0))
    assert always.rewrite(TALK, "and by mail?").decision in ("rewrite", "refused")
    assert never.rewrite(TALK, "and by mail?").decision == "keep"


def test_what_is_learned_is_what_the_prompted_rewriter_asks(instruct: Path, papers: Path) -> None:
    form = form_of(instruct)
    model = ScriptedChatModel(script=["KEEP"])
    PromptedRewriter(model).rewrite(TALK, "and by mail?")
    asked: list[BaseMessage] = model.asked[0]
    spoken = [{"role": role, "content": message.text} for role, message in zip(("system", "user"), asked, strict=True)]
    expected = form.chat.apply_chat_template(spoken, add_generation_prompt=True, tokenize=False)
    source = form.source(TALK, "and by mail?")
    assert form.tokenizer.decode(source, skip_special_tokens=False) == expected
    # What an assistant said ends no message.
    assert source.count(form.end) == 2

    example = next(one for one in read_examples(papers / "papers.jsonl") if one.needs_rewrite)
    item = ConditionalFeatures([example], form)[0]
    answer = [label for label in item["labels"] if label != IGNORED]
    assert item["input_ids"][-len(answer) :] == answer
    assert form.tokenizer.decode(answer, skip_special_tokens=False) == f"REWRITE: {example.rewrite}<|im_end|>"
    assert form.tokenizer.decode(form.target(None), skip_special_tokens=False) == "KEEP<|im_end|>"
    assert form.text(answer[1:-1]) == example.rewrite


def test_low_rank_weights_are_what_the_family_is_for(recipe: Recipe) -> None:
    with pytest.raises(ValidationError, match="give it a \\[lora\\]"):
        Recipe.model_validate(recipe.model_dump() | {"lora": None})


def test_a_base_without_a_chat_template_is_refused(
    instruct: Path, recipe: Recipe, papers: Path, tmp_path: Path, run: Callable[[Recipe, Path, Path], Path]
) -> None:
    mute = Path(shutil.copytree(instruct, tmp_path / "mute"))
    (mute / "chat_template.jinja").unlink()
    model = recipe.model.model_copy(update={"base": str(mute)})
    with pytest.raises(RunError, match="has no chat template"):
        run(recipe.model_copy(update={"model": model}), papers, tmp_path / "run")


def test_an_adapter_without_its_base_is_said(adapted: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(adapted, tmp_path / "copied"))
    path = copied / "adapter" / "adapter_config.json"
    config: dict[str, Any] = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(config | {"base_model_name_or_path": str(tmp_path / "gone")}), "utf-8")
    export(copied, lambda _: None)
    with pytest.raises(RunError, match="gone cannot be opened"):
        load_rewriter(copied)


def test_a_base_in_a_gguf_file_can_be_trained(tmp_path: Path) -> None:
    """Trainer refuses what passes for quantised."""
    import gguf
    import numpy as np

    writer = gguf.GGUFWriter(tmp_path / "tiny.gguf", "llama")
    writer.add_block_count(1)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(64)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_context_length(64)
    writer.add_vocab_size(40)
    square, wide, tall = ((32, 32), (64, 32), (32, 64))
    shapes = {"token_embd": (40, 32), "output_norm": (32,), "blk.0.attn_norm": (32,), "blk.0.ffn_norm": (32,)}
    shapes |= {f"blk.0.attn_{part}": square for part in ("q", "k", "v", "output")}
    shapes |= {"blk.0.ffn_gate": wide, "blk.0.ffn_up": wide, "blk.0.ffn_down": tall}
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", np.full(shape, 0.5, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    model = pretrained(str(tmp_path), "causal")

    assert not getattr(model, "is_quantized", False)
    assert not hasattr(model.config, "quantization_config")
    assert {float(weight.mean()) for weight in model.state_dict().values()} == {0.5}
