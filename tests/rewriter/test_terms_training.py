"""Training the term rewriter: labels, resuming, the finished folder, and what serves from it."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from filelock import FileLock

from rewriter.examples import RewriteExample
from rewriter.load import load_rewriter
from rewriter.protocol import Conversation, ExampleError, Message, RecipeError, RunError, TrainingError
from rewriter.recipe import Recipe, TermModelPart, read_adapting, read_recipe
from rewriter.terms import ConversationReader, TermScorer
from rewriter.terms_training import Labelled, TermModel, batch, label, moved, pretrained, with_pronoun, word_means
from rewriter.training import Mixture, train
from tests.rewriter.terms_fakes import MACHINE, recipe, write_base, write_dialogs

pytestmark = pytest.mark.extended

HISTORY = Conversation((Message("user", "renew the passport"), Message("assistant", "The passport office has a form.")))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_dialogs(folder)
    return folder


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def reader(base: Path) -> ConversationReader:
    return ConversationReader.open(base / "tokenizer.json")


@pytest.fixture(scope="module")
def examples(base: Path, data: Path) -> list[RewriteExample]:
    return [example for example in Mixture(recipe(base), data).train() if example.history]


@pytest.fixture(scope="module")
def finished(data: Path, base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(recipe(base), data, tmp_path_factory.mktemp("run"))


def run(chosen: Recipe, data: Path, folder: Path, stop_at: int = 0) -> Path:
    """Train, or end the process's work as an interrupt would once a step is told."""

    def callback(text: str) -> None:
        if stop_at and text.startswith(f"step {stop_at}/"):
            raise KeyboardInterrupt

    return train(chosen, data, folder, machine=MACHINE, callback=callback)


def probability(logits: npt.ArrayLike) -> npt.NDArray[np.float64]:
    return 1 / (1 + np.exp(-np.asarray(logits, dtype=np.float64)))


def losses(folder: Path) -> list[float]:
    log = json.loads((folder / "log.json").read_text())
    return [entry["loss"] for entry in log if "loss" in entry]


def test_words_of_the_rewrite_that_the_question_lacks_are_labelled(reader: ConversationReader) -> None:
    example = RewriteExample("d_1", HISTORY.messages, "how do I renew it?", "How do I renew passports?")
    labelled = label(reader, example)
    marked = [word.text for word, wanted in zip(labelled.reading.words, labelled.wanted, strict=True) if wanted]
    assert marked == ["passport", "passport"]
    assert labelled.needs_history


def test_questions_that_stand_alone_are_moved_behind_another_dialog_of_their_source(reader: ConversationReader) -> None:
    said = {"evidence": ("It has a form.",)}
    asked = "Can passports be renewed online?"
    examples = [
        RewriteExample("a#1", (), asked, asked, "passports", "first", **said),
        RewriteExample("a#3", HISTORY.messages, "how long?", "How long does it take?", "passports", "ellipsis", **said),
        RewriteExample("b#3", (Message("user", "lost mine"),), "and now?", "I lost it, and now?", "passports", "far"),
        RewriteExample("c#3", (Message("user", "a visa"),), "which one?", "Which visa?", "visas", "standalone", **said),
        RewriteExample("d#1", (), "Where is the office?", "Where is the office?", "offices", "first"),
    ]
    made = list(moved(examples, 2, {"passports": "passports"}, random.Random(1)))
    # Neither behind its own dialog nor behind one about something else; without an answer nothing is moved.
    assert {example.question for example in made} == {asked, "Can it be renewed online?"}
    assert {example.history for example in made} == {examples[2].history}
    assert not any(any(one.wanted) or one.needs_history for one in (label(reader, example) for example in made))
    assert list(moved(examples, 0, {}, random.Random(1))) == []


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("how do I install Pi-hole?", "how do I install it?"),
        ("does pihole need a fixed address", "does it need a fixed address"),
        ("What runs on my pi-hole by default?", None),
        ("which ports does the pihole container use", None),
        ("where is pihole.toml?", None),
        ("how do I add a pihole list", None),
        ("can pihole lists be shared", None),
    ],
)
def test_a_pronoun_stands_for_a_name_alone(question: str, asked: str | None) -> None:
    assert with_pronoun(question, "pi-?hole") == asked


def test_a_run_that_was_stopped_goes_on_to_the_same_losses(
    finished: Path, data: Path, base: Path, tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(recipe(base), data, tmp_path, stop_at=20)
    assert not (tmp_path / "rewriter.json").exists()
    assert list(tmp_path.glob("checkpoints/checkpoint-*"))
    assert run(recipe(base), data, tmp_path) == tmp_path
    assert losses(tmp_path) == pytest.approx(losses(finished), abs=1e-4)


@pytest.mark.parametrize("kept", ["model.pt", "model.onnx"])
def test_a_run_can_go_on_from_a_finished_rewriter(
    finished: Path, data: Path, base: Path, tmp_path: Path, kept: str
) -> None:
    shutil.copyfile(finished / kept, tmp_path / kept)
    chosen = recipe(base, start=str(tmp_path), head_learning_rate=1e-6)
    stage = chosen.stage.model_copy(update={"learning_rate": 1e-6, "epochs": None, "steps": 4})
    run(chosen.model_copy(update={"stage": stage}), data, tmp_path / "run")
    assert np.mean(losses(tmp_path / "run")) < 0.8 * np.mean(losses(finished)[:4])


def test_the_recipe_of_adapting_goes_on_from_the_packaged_rewriter() -> None:
    adapting, packaged = read_adapting("terms", "rows.jsonl").model, read_recipe("terms").model
    assert isinstance(adapting, TermModelPart)
    assert isinstance(packaged, TermModelPart)
    assert (adapting.start, adapting.base, adapting.frozen) == ("packaged", packaged.base, packaged.frozen)


def test_two_processes_do_not_train_in_one_folder(data: Path, base: Path, tmp_path: Path) -> None:
    with FileLock(tmp_path / "training.lock"), pytest.raises(TrainingError, match="another process"):
        run(recipe(base), data, tmp_path)


def test_the_exported_model_agrees_with_torch(finished: Path, base: Path, reader: ConversationReader) -> None:
    import torch

    model = TermModel(pretrained(str(base)))
    model.load_state_dict(torch.load(finished / "model.pt", weights_only=True))
    model.eval()
    readings = [
        reader.read(HISTORY, "how do i renew it"),
        reader.read(Conversation((Message("user", "lamp"),)), "by fax?"),
    ]
    rows = batch([Labelled(reading, (False,) * len(reading.words), True) for reading in readings])
    with torch.inference_mode():
        tokens, gate = model(rows["ids"], rows["types"], rows["mask"])
        words = word_means(tokens, rows["first"], rows["last"])[rows["last"] > 0]
    scorer = TermScorer(finished / "model.onnx", reader.vocabulary)
    scores = [scorer.score(reading) for reading in readings]
    exported = np.concatenate([score.words for score in scores])
    assert probability(exported) == pytest.approx(probability(words.numpy()), abs=0.08)
    assert probability([score.gate for score in scores]) == pytest.approx(probability(gate.tolist()), abs=0.08)


def test_a_trained_rewriter_expands_follow_ups_and_keeps_what_stands_alone(finished: Path) -> None:
    rewriter = load_rewriter(finished)
    expanded = rewriter.rewrite(HISTORY, "how do i renew it")
    assert expanded.decision == "expand"
    assert "passport" in [term.text for term in expanded.expansion]
    assert expanded.text == " ".join(["how do i renew it", *(term.text for term in expanded.expansion)])
    assert expanded.confidence == expanded.history_probability
    kept = rewriter.rewrite(HISTORY, "the fee, and the form")
    assert (kept.decision, kept.text, kept.expansion) == ("keep", "the fee, and the form", ())
    assert kept.history_probability is not None
    assert kept.confidence == pytest.approx(1 - kept.history_probability)


def test_without_a_conversation_there_is_nothing_to_do(finished: Path) -> None:
    made = load_rewriter(finished).rewrite(Conversation(), "how do i renew it")
    assert (made.decision, made.confidence, made.history_probability) == ("keep", 1.0, 0.0)


def without_checksums(folder: Path) -> None:
    """As the packaged rewriter was before: what is wrong with a file is then found by opening it."""
    description = json.loads((folder / "rewriter.json").read_text())
    del description["files"]
    (folder / "rewriter.json").write_text(json.dumps(description))


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
    folder = tmp_path / "copy"
    shutil.copytree(finished, folder)
    without_checksums(folder)
    (folder / file).unlink()
    if content is not None:
        (folder / file).write_bytes(content)
    with pytest.raises(RunError, match=says):
        load_rewriter(folder)


def test_a_recipe_that_makes_no_sense_is_told(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    whole = """
    name = "mine"
    [model]
    family = "terms"
    [stage]
    epochs = 3
    data = [{ path = "absent.jsonl" }]
    """
    for old, new, says in (
        ('data = [{ path = "absent.jsonl" }]', "", r"stage\.data: Field required"),
        ("epochs = 3", "epochs = 3\nepoch = 3", r"stage\.epoch: Extra inputs"),
        ('"absent.jsonl"', '"absent.jsonl", hold_out = 2', "hold_out: Input should be less than 1"),
        ('family = "terms"', 'family = "terms"\nshifted = 2', r"model\.shifted: Input should be less than 1"),
        ('family = "terms"', 'family = "terms"\nvocabulary = 400', r"model\.vocabulary: Extra inputs"),
        ('family = "terms"', 'family = "psychic"', "There is no family 'psychic'"),
        ("[model]", "[lora]\n[model]", "leave `lora` out"),
        ("[stage]", "[stage", "is no TOML"),
    ):
        path.write_text(whole.replace(old, new))
        with pytest.raises(RecipeError, match=says):
            read_recipe(str(path))
    path.write_text(whole)
    with pytest.raises(ExampleError, match=r"There is no file"):
        Mixture(read_recipe(str(path)), tmp_path)
