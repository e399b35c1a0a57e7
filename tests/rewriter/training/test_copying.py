"""A fresh T5 with the copy circuit writes the question before it has learned anything."""

from __future__ import annotations

import pytest

from rewriter.conditional.bases import open_base, open_tokenizer, set_copy_circuit
from rewriter.conditional.engine import TorchEngine
from rewriter.conditional.training import ConditionalModelPart
from rewriter.protocol import Conversation, Message, RecipeError

TALK = Conversation(
    (Message("user", "How do I renew a fishing licence?"), Message("assistant", "Ask the county office."))
)
QUESTIONS = (
    "and how long does the renewal take by mail",
    "Who may sign it for me when I live abroad?",
    "what happens after the second letter",
    "Is there a fee, and where is it paid?",
)
TEXTS = (*QUESTIONS, *(turn.text for turn in TALK.messages)) * 2


@pytest.mark.parametrize("copies", [True, False])
def test_only_the_circuit_copies_without_training(copies: bool) -> None:
    part = ConditionalModelPart(base="config:3m", vocabulary=320, dropout=0.0, copies=copies)
    tokenizer, end = open_tokenizer(part, lambda: iter(TEXTS), 1)
    base = open_base(part, tokenizer, end, None, 1)
    sources = [base.form.source(TALK, question) for question in QUESTIONS]
    made = TorchEngine(base.model, base.form).phrase(sources, 60, 1, lambda: False)
    copied = sum(base.form.text(one[0]) == question for one, question in zip(made, QUESTIONS, strict=True))
    assert copied >= 3 if copies else copied == 0


def test_a_shape_without_room_is_refused() -> None:
    from transformers import T5Config, T5ForConditionalGeneration

    part = ConditionalModelPart(base="config:tiny", vocabulary=320)
    tokenizer, _ = open_tokenizer(part, lambda: iter(TEXTS), 1)
    narrow = T5ForConditionalGeneration(
        T5Config(vocab_size=tokenizer.get_vocab_size(), d_model=64, d_kv=32, num_heads=4, d_ff=64, num_layers=1)
    )
    with pytest.raises(RecipeError, match="no room"):
        set_copy_circuit(narrow, tokenizer)


def test_only_fresh_t5_can_be_made_to_copy() -> None:
    with pytest.raises(ValueError, match="fresh weights"):
        ConditionalModelPart(base="google-t5/t5-small", copies=True)
