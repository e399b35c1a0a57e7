"""A small world of follow-ups, and a tiny T5 trained on it once: real weights, real export."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rewriter.examples import RewriteExample, read_examples, write_examples
from rewriter.prompts import load_prompt
from rewriter.protocol import Message
from rewriter.training.recipe import Recipe
from rewriter.training.run import train
from rewriter.training.stages import Machine

MACHINE = Machine(cpu_only=True, threads=1, bars=False)
THINGS = ("passport", "parking permit", "library card", "fishing licence", "bus pass", "birth certificate")
ASKED = ("How do I renew {}?", "What does {} cost?", "Where do I apply for {}?", "Who may have {}?")
LATER = ("and how long does it take", "What does it cost?", "can I get it by mail?", "Is it valid abroad?")

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def examples(count: int, seed: int = 1) -> Iterator[RewriteExample]:
    """Dialogs about papers people need; every second follow-up says `it`."""
    rng = random.Random(seed)
    for n in range(count):
        thing = f"a {rng.choice(THINGS)}"
        asked = rng.choice(ASKED).format(thing)
        history = (Message("user", asked), Message("assistant", f"Ask the office about {thing}."))
        if n % 2:
            question = rng.choice(LATER)
            yield RewriteExample(f"d{n}#3", history, question, question.replace("it", thing, 1), "papers")
        else:
            other = rng.choice(ASKED).format(f"a {rng.choice(THINGS)}")
            yield RewriteExample(f"d{n}#3", history, other, other, "papers")


def _recipe_of(**changes: Any) -> Recipe:
    stage = {
        "name": "papers",
        "data": [{"path": "papers.jsonl", "hold_out": 0.2}],
        "steps": 12,
        "batch": 8,
        "learning_rate": 3e-3,
        "warmup": 2,
        "evaluate_every": 4,
        "save_every": 4,
    }
    stage |= changes.pop("stage", {})
    model = {"base": "config:tiny", "vocabulary": 400, "lengths": {"source": 64, "target": 24}}
    model |= changes.pop("model", {})
    return Recipe.model_validate({"name": "papers", "model": model, "stage": [stage], "dev_examples": 30} | changes)


@pytest.fixture(scope="session")
def recipe_of() -> Callable[..., Recipe]:
    """Makes a recipe over `papers.jsonl` that a test can afford; `stage` and `model` change theirs."""
    return _recipe_of


@pytest.fixture(scope="session")
def run() -> Callable[[Recipe, Path, Path], Path]:
    """Runs a recipe over a data folder in a folder, on one thread of the CPU, in silence."""
    return lambda recipe, root, folder: train(recipe, root, folder, machine=MACHINE, callback=lambda _: None)


@pytest.fixture(scope="session")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with `papers.jsonl`."""
    root = tmp_path_factory.mktemp("data")
    write_examples(root / "papers.jsonl", examples(240))
    return root


@pytest.fixture(scope="session")
def instruct(papers: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as instruct models come in: a small Llama with random weights, and a tokenizer with a chat template."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed

    set_seed(1)
    folder = tmp_path_factory.mktemp("base") / "tiny-instruct"
    texts = [example.rewrite for example in read_examples(papers / "papers.jsonl")]
    bpe = ByteLevelBPETokenizer()  # type: ignore[no-untyped-call]
    marks = ["<|im_start|>", "<|im_end|>"]
    bpe.train_from_iterator([*texts, load_prompt("rewriter.prompts", "rewrite").text], 700, special_tokens=marks)  # type: ignore[no-untyped-call]
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe._tokenizer, eos_token="<|im_end|>")  # type: ignore[no-untyped-call]
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, eos_token_id=tokenizer.eos_token_id, bos_token_id=None, tie_word_embeddings=True,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def trained(papers: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of a tiny T5 that has learned its gate; only to be read."""
    folder = tmp_path_factory.mktemp("runs") / "papers-t5"
    stage = {"steps": 150, "learning_rate": 5e-3, "warmup": 10, "evaluate_every": 50, "save_every": 50}
    return train(_recipe_of(stage=stage), papers, folder, machine=MACHINE, callback=lambda _: None)


@pytest.fixture
def copied(trained: Path, tmp_path: Path) -> Path:
    """The same run, to be spoilt."""
    return Path(shutil.copytree(trained, tmp_path / trained.name))
