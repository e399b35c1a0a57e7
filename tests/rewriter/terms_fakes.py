"""A term rewriter small enough to train in a test: two layers, sixteen wide, a vocabulary of letters and few words."""

from __future__ import annotations

import json
from pathlib import Path

from rewriter.load import write_description
from rewriter.recipe import Recipe
from rewriter.training import Machine

WORDS = (
    "permit", "passport", "fax", "form", "renew", "office", "fee", "lamp", "it", "how", "do", "i", "by", "and", "the",
)  # fmt: skip

MACHINE = Machine(cpu_only=True, threads=1, bars=False)


def recipe(base: Path, **model: object) -> Recipe:
    """Ten epochs over `dialogs.jsonl` from the encoder in `base`; `model` changes what is set of it."""
    stage = {
        "data": [{"path": "dialogs.jsonl", "hold_out": 0.3}],
        "epochs": 10,
        "batch": 4,
        "learning_rate": 3e-3,
        "warmup": 0.06,
        "evaluate_every": 2,
        "save_every": 10,
    }
    settings = {"family": "terms", "base": str(base), "head_learning_rate": 1e-2, "longer_answers": 0.3, "shifted": 0.1}
    return Recipe.model_validate({"name": "tiny", "seed": 3, "model": settings | model, "stage": stage})


def write_tokenizer(folder: Path) -> Path:
    """A BERT-like `tokenizer.json`."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,?!-"
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS, *letters, *(f"##{letter}" for letter in letters)]
    vocabulary = {piece: n for n, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    path = folder / "tokenizer.json"
    tokenizer.save(str(path))
    return path


def write_base(folder: Path) -> Path:
    """An encoder with random weights and its tokenizer, as a folder to train from."""
    import torch
    from transformers import BertConfig, BertModel

    from rewriter.terms import ConversationReader

    tokenizer = write_tokenizer(folder)
    torch.manual_seed(5)
    config = BertConfig(
        vocab_size=ConversationReader.open(tokenizer).vocabulary,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=512,
    )
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    return folder


def write_dialogs(folder: Path, dialogs: int = 24) -> None:
    """Dialogs in which "it" stands for the thing that the first question names."""
    with (folder / "dialogs.jsonl").open("w", encoding="utf-8") as file:
        for n in range(dialogs):
            thing = ("passport", "permit", "lamp")[n % 3]
            turns = [
                {"role": "user", "text": f"renew the {thing}", "rewrite": f"renew the {thing}"},
                {"role": "assistant", "text": f"The {thing} office has a form. The fee is {n}."},
                {"role": "user", "text": "how do i renew it", "rewrite": f"how do i renew the {thing}"},
                {"role": "assistant", "text": f"By fax, form {n}."},
                {"role": "user", "text": "the fee, and the form", "rewrite": "the fee, and the form"},
            ]
            file.write(json.dumps({"dialog_id": f"d{n}", "turns": turns}) + "\n")


def write_run(folder: Path) -> Path:
    """A finished run with random weights, ready to be opened."""
    from rewriter.terms_training import TermModel, pretrained, write_onnx

    folder.mkdir(parents=True)
    write_onnx(TermModel(pretrained(str(write_base(folder)))), folder / "model.onnx")
    gate = {"scale": 1.0, "shift": 0.0, "threshold": 0.5}
    write_description(folder, {"family": "terms", "format": 1, "threshold": 0.4, "gate": gate}, [])
    return folder
