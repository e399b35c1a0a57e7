"""Dialogs measured, with small local models where published ones cannot be had."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from evaluation.questions import Question
from evaluation.run_folder import read_run
from papers.orconvqa.__main__ import app
from papers.orconvqa.dialogs import distinct, repeats
from papers.orconvqa.relevance import QRelScore, Relevance
from rewriter.protocol import Conversation, Message
from tests.evaluation import evaluation_data as data


@pytest.fixture(scope="module")
def language_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny GPT-2 of random weights with a tokenizer of its own."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=["<s>", "</s>", "<unk>"])
    tokenizer.train_from_iterator(data.PASSAGES.values(), trainer)
    folder = tmp_path_factory.mktemp("tiny-gpt2")
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=tokenizer.get_vocab_size(), n_positions=128, n_embd=32, n_layer=2, n_head=2)
    GPT2LMHeadModel(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def scorer(model_home: Path, language_model: Path) -> QRelScore:
    return QRelScore(str(model_home / "models" / "all-minilm-l6-v2"), str(language_model))


def test_the_score_follows_the_definition(scorer: QRelScore, model_home: Path, language_model: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    question, context = "How long is it?", data.LEAVE
    tokenizer = AutoTokenizer.from_pretrained(language_model)
    model = AutoModelForCausalLM.from_pretrained(language_model)

    def mean_probability(text: str) -> float:
        ids = torch.tensor([[tokenizer.bos_token_id, *tokenizer.encode(text), tokenizer.eos_token_id]])
        with torch.no_grad():
            loss = torch.nn.functional.cross_entropy(model(ids).logits[0, :-1], ids[0, 1:], reduction="none")
        return float((-loss).exp().mean())

    gain = mean_probability(f"{question} {context}") / mean_probability(context) - 1
    found = scorer.score(question, context)
    assert found.generation == pytest.approx(max(0.0, gain), abs=1e-4)
    assert Relevance(0.5, 0.25).score == pytest.approx(1 / 3)
    assert Relevance(0.5, 0.0).score == 0


def question(name: str, dialog: str, text: str, *before: str) -> Question:
    return Question(name, dialog, text, Conversation(tuple(Message("user", one) for one in before)))


def test_repetition_is_counted() -> None:
    assert repeats(question("a", "d", "How long is it?", "how LONG is it"))
    assert not repeats(question("a", "d", "How long is it?", "What is the fee?"))
    assert distinct(["a b", "a c"], 1) == 3 / 4
    assert distinct(["a b c", "a b d"], 2) == 3 / 4
    assert distinct([], 1) == 0


def test_the_command_names_the_models_it_used(home: Path, language_model: Path, tmp_path: Path) -> None:
    data.doc2dial(tmp_path / "data")
    words = ["dialogs", "--folder", str(tmp_path / "data" / "synthetic"), "--name", "d"]
    result = CliRunner().invoke(app, [*words, "--encoder", "all-minilm-l6-v2", "--language-model", str(language_model)])
    assert result.exit_code == 0, result.output
    run = read_run(home / "eval" / "runs" / "d")
    found = {metric.measure: metric.mean for metric in run.metrics if metric.part == "all"}
    assert {"QRelScore", "answer coverage", "propositions used", "distinct-2"} <= found.keys()
    assert found["propositions used"] == pytest.approx(2 / 5)
    assert any("all-minilm-l6-v2" in note and language_model.name in note for note in run.notes)
