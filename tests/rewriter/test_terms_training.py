"""Training the term rewriter: labels, resuming, the finished folder, and what serves from it."""

from __future__ import annotations

import dataclasses
import json
import random
import shutil
import threading
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from rewriter.conversation import Conversation, Message
from rewriter.errors import RecipeError, RunError, TrainingError
from rewriter.examples import RewriteExample
from rewriter.load import Serving, load_rewriter
from rewriter.terms.data import label, lengthened, read_data, shifted
from rewriter.terms.reading import ConversationReader
from rewriter.terms.recipe import ADAPT, read_recipe
from tests.rewriter.terms_fakes import RECIPE, tiny_model, write_dialogs, write_tokenizer

HISTORY = Conversation((Message("user", "renew the passport"), Message("assistant", "The passport office has a form.")))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_dialogs(folder)
    return folder


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tokenizer(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="module")
def finished(data: Path, tokenizer: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from rewriter.terms.training import train

    folder = train(RECIPE, data, tmp_path_factory.mktemp("run"), model=tiny_model(tokenizer), tokenizer=tokenizer)
    assert folder is not None
    return folder


def probability(logits: npt.ArrayLike) -> npt.NDArray[np.float64]:
    return 1 / (1 + np.exp(-np.asarray(logits, dtype=np.float64)))


def losses(folder: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (folder / "losses.jsonl").read_text().splitlines()]


def test_words_of_the_rewrite_that_the_question_lacks_are_labelled(tokenizer: Path) -> None:
    example = RewriteExample("d_1", HISTORY.messages, "how do I renew it?", "How do I renew passports?")
    labelled = label(ConversationReader.open(tokenizer), example)
    marked = [word.text for word, wanted in zip(labelled.reading.words, labelled.wanted, strict=True) if wanted]
    assert marked == ["passport", "passport"]
    assert labelled.needs_history


def test_a_dialog_is_either_trained_on_or_held_out(data: Path) -> None:
    split = read_data(RECIPE, data)
    assert {example.dialog for example in split.train}.isdisjoint({example.dialog for example in split.held_out})
    assert len(split.train) + len(split.held_out) == 48
    assert split.held_out


def test_lengthened_answers_hold_sentences_of_their_own_dialog(data: Path) -> None:
    examples = read_data(RECIPE, data).train
    longer = list(lengthened(examples, 0.9, random.Random(1)))
    assert longer != list(examples)
    for before, after in zip(examples, longer, strict=True):
        for old, new in zip(before.history, after.history, strict=True):
            assert new.text.startswith(old.text)
            if old.role == "user":
                assert new == old


def test_shifted_questions_stand_alone_after_the_conversation_of_another_dialog(data: Path, tokenizer: Path) -> None:
    examples = read_data(RECIPE, data).train
    made = list(shifted(examples, 0.5, random.Random(1)))
    assert len(made) == round(0.5 * len(examples))
    dialogs = {example.history: example.dialog for example in examples}
    for example in made:
        assert dialogs[example.history] != example.dialog
        assert not example.needs_rewrite
        labelled = label(ConversationReader.open(tokenizer), example)
        assert not any(labelled.wanted)
        assert not labelled.needs_history


def test_one_dialog_alone_cannot_be_shifted(data: Path) -> None:
    examples = read_data(RECIPE, data).train
    alone = [example for example in examples if example.dialog == examples[0].dialog]
    assert not list(shifted(alone, 0.5, random.Random(1)))


def test_training_lowers_the_loss(finished: Path) -> None:
    taken = losses(finished)
    assert np.mean(taken[-4:]) < 0.8 * np.mean(taken[:4])


def test_a_run_that_was_stopped_goes_on_to_the_same_losses(
    finished: Path, data: Path, tokenizer: Path, tmp_path: Path
) -> None:
    from rewriter.terms.training import train

    assert train(RECIPE, data, tmp_path, model=tiny_model(tokenizer), tokenizer=tokenizer, stop_after=3) is None
    assert len(losses(tmp_path)) == 3
    assert train(RECIPE, data, tmp_path, model=tiny_model(tokenizer), tokenizer=tokenizer) == tmp_path
    assert losses(tmp_path) == pytest.approx(losses(finished), abs=1e-4)


@pytest.mark.parametrize("kept", ["model.pt", "model.onnx"])
def test_a_run_can_go_on_from_a_finished_rewriter(
    finished: Path, data: Path, tokenizer: Path, tmp_path: Path, kept: str
) -> None:
    from rewriter.terms.training import train

    shutil.copyfile(finished / kept, tmp_path / kept)
    recipe = dataclasses.replace(RECIPE, start=str(tmp_path), rate=1e-6, head_rate=1e-6)
    train(recipe, data, tmp_path / "run", model=tiny_model(tokenizer), tokenizer=tokenizer, stop_after=4)
    assert np.mean(losses(tmp_path / "run")) < 0.8 * np.mean(losses(finished)[:4])


def test_exported_weights_multiply_out_to_those_of_torch(finished: Path) -> None:
    import torch

    from rewriter.terms.restoring import multiplied_out

    trained = torch.load(finished / "model.pt", weights_only=True)
    restored = dict(multiplied_out(finished / "model.onnx"))
    assert set(restored) == set(trained)
    for name, value in trained.items():
        assert restored[name] == pytest.approx(value.numpy(), abs=0.01 * float(value.abs().max()))


@pytest.mark.parametrize("content", [None, b"no model"])
def test_what_is_no_finished_rewriter_cannot_be_gone_on_from(
    tokenizer: Path, data: Path, tmp_path: Path, content: bytes | None
) -> None:
    from rewriter.terms.training import train

    if content is not None:
        (tmp_path / "model.onnx").write_bytes(content)
    recipe = dataclasses.replace(RECIPE, start=str(tmp_path))
    with pytest.raises(TrainingError, match="cannot be gone on from"):
        train(recipe, data, tmp_path / "run", model=tiny_model(tokenizer), tokenizer=tokenizer)


def test_the_recipe_of_adapting_goes_on_from_the_packaged_rewriter() -> None:
    recipe, packaged = read_recipe(ADAPT), read_recipe()
    assert (recipe.start, recipe.base, recipe.frozen) == ("packaged", packaged.base, packaged.frozen)


def test_a_checkpoint_of_another_recipe_is_not_gone_on_from(data: Path, tokenizer: Path, tmp_path: Path) -> None:
    from rewriter.terms.training import train

    train(RECIPE, data, tmp_path, model=tiny_model(tokenizer), tokenizer=tokenizer, stop_after=1)
    other = dataclasses.replace(RECIPE, rate=1e-5)
    with pytest.raises(TrainingError, match="another recipe"):
        train(other, data, tmp_path, model=tiny_model(tokenizer), tokenizer=tokenizer)
    (tmp_path / "checkpoint.pt").write_bytes(b"damaged")
    with pytest.raises(TrainingError, match="damaged"):
        train(RECIPE, data, tmp_path, model=tiny_model(tokenizer), tokenizer=tokenizer)


def test_the_card_says_what_the_run_came_from(finished: Path) -> None:
    card = json.loads((finished / "card.json").read_text())
    assert len(card["data"]["sha256"]["dialogs.jsonl"]) == 64
    assert card["settings"]["seed"] == RECIPE.seed
    assert set(card["metrics"]) == {"term_precision", "term_recall", "term_f1", "gate_f1", "gate_auc"}


def test_the_exported_model_agrees_with_torch(finished: Path, tokenizer: Path) -> None:
    import torch

    from rewriter.terms.model import Batch
    from rewriter.terms.scoring import TermScorer

    model = tiny_model(tokenizer)
    model.load_state_dict(torch.load(finished / "model.pt", weights_only=True))
    model.eval()
    reader = ConversationReader.open(tokenizer)
    readings = [
        reader.read(HISTORY, "how do i renew it"),
        reader.read(Conversation((Message("user", "lamp"),)), "by fax?"),
    ]
    with torch.inference_mode():
        words, gate = model.logits(Batch.of(readings))
    scores = TermScorer(finished / "model.onnx", reader.vocabulary).score(readings)
    exported = np.concatenate([score.words for score in scores])
    assert probability(exported) == pytest.approx(probability(words.numpy()), abs=0.08)
    assert probability([score.gate for score in scores]) == pytest.approx(probability(gate.tolist()), abs=0.08)


def test_a_trained_rewriter_expands_follow_ups_and_keeps_what_stands_alone(finished: Path) -> None:
    rewriter = load_rewriter(finished)
    expanded = rewriter.rewrite(HISTORY, "how do i renew it")
    assert expanded.decision == "expand"
    assert "passport" in [term.text for term in expanded.expansion]
    assert expanded.text == " ".join(["how do i renew it", *(term.text for term in expanded.expansion)])
    assert expanded.confidence == expanded.needs_history
    kept = rewriter.rewrite(HISTORY, "the fee, and the form")
    assert (kept.decision, kept.text, kept.expansion) == ("keep", "the fee, and the form", ())
    assert kept.needs_history is not None
    assert kept.confidence == pytest.approx(1 - kept.needs_history)


def test_without_a_conversation_there_is_nothing_to_do(finished: Path) -> None:
    made = load_rewriter(finished).rewrite(Conversation(), "how do i renew it")
    assert (made.decision, made.confidence, made.needs_history) == ("keep", 1.0, 0.0)


def test_out_of_time_the_typed_question_is_kept(finished: Path) -> None:
    made = load_rewriter(finished, Serving(timeout_seconds=0.0)).rewrite(HISTORY, "how do i renew it")
    assert made.text == "how do i renew it"
    assert made.decision in ("failed", "expand")
    if made.decision == "failed":
        assert "longer than" in made.reason


def test_many_threads_get_the_answers_of_one(finished: Path) -> None:
    rewriter = load_rewriter(finished)
    questions = ["how do i renew it", "by fax?", "the fee, and the form", "and the lamp?"] * 8
    alone = [rewriter.rewrite(HISTORY, question).text for question in questions]
    together: dict[int, str] = {}

    def ask(n: int) -> None:
        together[n] = rewriter.rewrite(HISTORY, questions[n]).text

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(len(questions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [together[n] for n in range(len(questions))] == alone


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("model.onnx", b"no model", "cannot be opened"),
        ("model.onnx", None, "is missing"),
        ("tokenizer.json", b"{}", "is no tokenizer"),
        ("rewriter.json", b'{"family": "terms", "format": 1}', "lacks threshold"),
    ],
)
def test_a_damaged_folder_is_told(finished: Path, tmp_path: Path, file: str, content: bytes | None, says: str) -> None:
    import shutil

    folder = tmp_path / "copy"
    shutil.copytree(finished, folder)
    (folder / file).unlink()
    if content is not None:
        (folder / file).write_bytes(content)
    with pytest.raises(RunError, match=says):
        load_rewriter(folder)


def test_a_tokenizer_of_another_model_is_told(finished: Path, tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "copy"
    shutil.copytree(finished, folder)
    described = json.loads((folder / "tokenizer.json").read_text())
    described["model"]["vocab"].update({f"more{n}": 1000 + n for n in range(2000)})
    (folder / "tokenizer.json").write_text(json.dumps(described))
    with pytest.raises(RunError, match="do not belong together"):
        load_rewriter(folder)


def test_a_recipe_that_makes_no_sense_is_told(tmp_path: Path) -> None:
    assert read_recipe().data
    path = tmp_path / "recipe.toml"
    for text, says in (
        ("epochs = 3", "names no data"),
        ('data = ["a.jsonl"]\nepoch = 3', "unknown settings: epoch"),
        ('data = ["a.jsonl"]\nheld_out = 2', "held_out must be a share"),
        ("data = [", "cannot be read"),
    ):
        path.write_text(text)
        with pytest.raises(RecipeError, match=says):
            read_recipe(path)
    path.write_text('data = ["absent.jsonl"]')
    with pytest.raises(RecipeError, match=r"no such file"):
        read_data(read_recipe(path), tmp_path)
