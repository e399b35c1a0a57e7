"""A term rewriter small enough to train in a test: two layers, sixteen wide, a vocabulary of letters and few words."""

from __future__ import annotations

import json
from pathlib import Path

from rewriter.terms.recipe import Recipe

WORDS = (
    "permit",
    "passport",
    "fax",
    "form",
    "renew",
    "office",
    "fee",
    "lamp",
    "it",
    "how",
    "do",
    "i",
    "by",
    "and",
    "the",
)

RECIPE = Recipe(
    data=("dialogs.jsonl",),
    epochs=10,
    batch=4,
    rate=3e-3,
    head_rate=1e-2,
    held_out=0.3,
    longer_answers=0.3,
    shifted=0.1,
    seed=3,
)


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


def tiny_model(tokenizer: Path):  # type: ignore[no-untyped-def]
    """A model with random weights that knows this tokenizer."""
    import torch
    from transformers import BertConfig

    from rewriter.terms.model import from_config
    from rewriter.terms.reading import ConversationReader

    torch.manual_seed(5)
    return from_config(
        BertConfig(
            vocab_size=ConversationReader.open(tokenizer).vocabulary,
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=512,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )


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
    from rewriter.terms.export import export

    folder.mkdir(parents=True)
    tokenizer = write_tokenizer(folder)
    export(tiny_model(tokenizer), tokenizer, folder, RECIPE, gate=(1.0, 0.0))
    return folder
