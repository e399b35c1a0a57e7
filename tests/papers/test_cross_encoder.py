"""A tiny cross-encoder, trained on rows about things: what becomes of it, and what becomes of bad rows."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from index.documents import Hit, Passage
from index.errors import ModelUnavailable
from index.rerank import CrossEncoderReranker, Reranker, load_over, load_reranker
from papers.cross_encoder.family import RERANKERS
from papers.cross_encoder.rows import RankedGroup, RankedPassage, RerankExample, read_rows, write_rows
from papers.cross_encoder.training import RankingModel, batch, from_onnx, pretrained, write_onnx
from papers.packing import pack, unpack
from rewriter.protocol import ExampleError, Message, TrainingError
from rewriter.recipe import Recipe
from rewriter.training import Machine, train
from text.prompts import QuestionContext, asking

pytestmark = pytest.mark.extended

MACHINE = Machine(cpu_only=True, threads=1, bars=False)
THINGS = ("passport", "permit", "card", "licence", "pass", "certificate")
FACTS = ("costs ten euros", "takes a week", "is valid abroad", "comes by mail")
WORDS = ("what", "about", "the", "it", "a", "i", "need", "ask", "office", "|", ".", "?")


def rows(count: int, seed: int = 1) -> Iterator[RerankExample]:
    """Follow-ups about "it": the right passage is that about the thing spoken of."""
    rng = random.Random(seed)
    for n in range(count):
        thing, fact = rng.choice(THINGS), rng.choice(FACTS)
        others = [one for one in THINGS if one != thing]
        passages = [RankedPassage(f"a {thing} {fact} .", True, 2.0)]
        passages += [RankedPassage(f"a {other} {fact} .", False, -2.0) for other in rng.sample(others, 3)]
        history = (Message("user", f"i need a {thing}"), Message("assistant", "ask the office ."))
        yield RerankExample(
            f"d{n}#3", history, "what about it ?", f"what about the {thing} ?", (), "t", tuple(passages)
        )


def make_base(folder: Path, layers: int = 2) -> Path:
    """A BERT with random weights and whole words as tokens, as transformers keeps one."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertForSequenceClassification

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *sorted({*WORDS, *THINGS, *" ".join(FACTS).split()})]
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    config = BertConfig(
        vocab_size=len(words), hidden_size=64, num_hidden_layers=layers, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=64, num_labels=1,
    )  # fmt: skip
    BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def recipe_of(base: Path, **changes: Any) -> Recipe:
    stage = {
        "data": [{"path": "rows.jsonl", "hold_out": 0.3}], "steps": 8, "batch": 4, "warmup": 1,
        "learning_rate": 1e-3, "evaluate_every": 4, "save_every": 4,
    } | changes.pop("stage", {})  # fmt: skip
    model = {"family": "reranker", "base": str(base), "group": 4, "passage_tokens": 16} | changes.pop("model", {})
    return Recipe.model_validate({"name": "rows", "model": model, "stage": stage} | changes)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_rows(folder / "rows.jsonl", rows(60))
    return folder


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_base(tmp_path_factory.mktemp("bases") / "base")


@pytest.fixture(scope="module")
def trained(data: Path, base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a finished run; only to be read."""
    home = tmp_path_factory.mktemp("home")
    folder = home / RERANKERS.folder / "mine"
    train(recipe_of(base), data, folder, machine=MACHINE, callback=lambda _: None)
    return folder


def test_a_run_serves_as_it_learned(trained: Path) -> None:
    """The served int8 model gives the scores of its weights in torch, for the same text of the conversation."""
    import torch

    reranker = load_reranker(str(trained))
    assert isinstance(reranker, CrossEncoderReranker)
    assert reranker.reads_conversations
    texts = [f"a {thing} costs ten euros ." for thing in THINGS]
    hits = [Hit(Passage(thing, "d", "", text, 0, 1), 1.0) for thing, text in zip(THINGS, texts, strict=True)]
    context = QuestionContext("passport", "i need a passport", "ask the office .")
    read = reranker.rerank("what about it ?", hits, seconds=60.0, context=context)
    assert reranker.lengths is not None
    question = asking("what about it ?", context, reranker.lengths, reranker.scorer.cut)
    assert question == "what about it ? | passport | i need a passport | ask the office ."
    model = pretrained(str(trained)).eval()
    for hit in read:
        [encoded] = reranker.scorer._model.tokenize([(question, hit.passage.text)])  # type: ignore[attr-defined]
        with torch.no_grad():
            pair = {"input_ids": torch.tensor([encoded.ids]), "token_type_ids": torch.tensor([encoded.type_ids])}
            assert hit.relevance == pytest.approx(float(model(**pair).logits), abs=0.05)


def test_a_run_tells_what_it_is(trained: Path) -> None:
    described = json.loads((trained / "reranker.json").read_text("utf-8"))
    assert described["lengths"] == {"question": 40, "words": 16, "asked": 20, "answered": 32}
    assert set(described["metrics"]) == {"map", "map_follow_ups", "map_teacher"}
    assert "gate" not in described
    assert described["metrics"]["map_teacher"] == 1.0
    assert "family `reranker`" in (trained / "README.md").read_text("utf-8")


def test_scores_stay_with_their_passages_and_follow_judgement_and_teacher() -> None:
    """Pairs are read sorted by length; a model that answers with a pair's first token shows where each score goes."""
    import torch

    class First(torch.nn.Module):
        def forward(self, input_ids: Any, **_: Any) -> Any:
            return SimpleNamespace(logits=input_ids[:, :1].float())

    def pairs(*lengths: int) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
        return tuple(((length, *[1] * (length - 1)), (0,) * length) for length in lengths)

    groups = [
        RankedGroup(pairs(9, 2, 5), (False, True, False), (9.0, 1.0, 4.0)),
        RankedGroup(pairs(3, 7), (True, False), None),
    ]
    made = RankingModel(First(), label=0.5, scale=0.1)(**batch(groups, 2))
    assert made["logits"][0].tolist() == [9, 2, 5]
    assert made["logits"][1, :2].tolist() == [3, 7]
    teacher, log = torch.tensor([9.0, 1, 4]).softmax(-1), torch.tensor([9.0, 2, 5]).log_softmax(-1)
    first = -(0.5 * torch.tensor([0.0, 1, 0]) + 0.5 * teacher) @ log
    second = -torch.tensor([3.0, 7]).log_softmax(-1)[0]
    assert float(made["loss"]) == pytest.approx(float((first + second) / 2 + 0.1 * 2 / 3), rel=1e-5)


def test_an_int8_file_is_trained_from(trained: Path, tmp_path: Path) -> None:
    """What is fetched is an ONNX file alone; its weights come back as they were, but for the rounding."""
    import torch

    model = pretrained(str(trained))
    restored = from_onnx(trained / "model.onnx").state_dict()
    for name, weight in model.state_dict().items():
        step = float(weight.abs().max()) / 100
        assert torch.allclose(weight, restored[name], atol=step), name
    (tmp_path / "model.onnx").write_bytes(b"no model")
    with pytest.raises(TrainingError, match="is no int8 BERT cross-encoder"):
        pretrained(str(tmp_path))


def test_what_is_no_row_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    good, other = list(rows(2))
    write_rows(path, [good, other])
    assert list(read_rows(path)) == [good, other]
    for line, said in (
        ("{", "line 2 is no row to train a cross-encoder on"),
        ('{"question": "q", "passages": [{"text": 3}]}', "line 2 is no row.*papers.cross_encoder"),
        ('{"question": " ", "passages": [{"text": "a", "relevant": true}]}', "line 2 has no `question`"),
        ('{"question": "q", "passages": [{"text": "a", "relevant": true}]}', "line 2 needs a passage that is relevant"),
    ):
        write_rows(path, [good])
        with path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        with pytest.raises(ExampleError, match=said):
            list(read_rows(path))


def test_what_was_learned_is_packed_without_what_the_base_holds(trained: Path, tmp_path: Path) -> None:
    """Two layers, the first of them frozen: it and the embeddings are read from the base's file."""
    import torch

    base, run = tmp_path / "base", tmp_path / "run"
    model = from_onnx(trained / "model.onnx")
    base.mkdir()
    write_onnx(model, base / "model.onnx")
    shutil.copy(trained / "tokenizer.json", base)
    shutil.copytree(trained, run)
    with torch.no_grad():
        for weight in model.bert.encoder.layer[1].parameters():
            weight.mul_(1.5)
    write_onnx(model, run / "model.onnx")
    recipe = json.loads((run / "recipe.json").read_text("utf-8"))
    recipe["model"]["frozen"] = 1
    (run / "recipe.json").write_text(json.dumps(recipe), "utf-8")

    assert pack(run, base, tmp_path / "packed") > 16_000
    packed = load_over(tmp_path / "packed", base)

    [read] = packed.rerank("a passport", [Hit(Passage("p", "d", "", "a form .", 0, 8), 1.0)], seconds=60.0)
    assert read.tokens is not None
    assert packed.name == "base-conversations"
    assert packed.reads_conversations

    def said(reranker: Reranker) -> dict[str, float | None]:
        hits = [Hit(Passage(thing, "d", "", f"a {thing} .", 0, 1), 1.0) for thing in THINGS]
        return {hit.passage.id: hit.relevance for hit in reranker.rerank("a passport", hits, seconds=60.0)}

    assert said(packed) == pytest.approx(said(load_reranker(str(run))), abs=0.05)
    assert said(packed) != pytest.approx(said(load_reranker(str(base))), abs=0.05)

    unpack(tmp_path / "packed", base, tmp_path / "weights")
    write_onnx(pretrained(str(tmp_path / "weights")), run / "model.onnx")
    assert said(load_reranker(str(run))) == pytest.approx(said(packed), abs=0.05), "training can go on from it"

    with (base / "model.onnx").open("ab") as file:
        file.write(b"x")
    with pytest.raises(ModelUnavailable, match="another model than"):
        load_over(tmp_path / "packed", base)
