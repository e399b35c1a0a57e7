"""Base models of a few thousand random weights, as folders that training can start from."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

TEXTS = (
    "How do I renew a passport, a parking permit, a library card, a fishing licence, a bus pass, a birth certificate?",
    "What does it cost? Where do I apply for it? Who may have it? And how long does it take, can I get it by mail?",
    "Is it valid abroad? Ask the office about it. The kettle is red, blue, green, black, or old. What colour is it?",
)


def tiny_t5(folder: Path, texts: Iterable[str] = TEXTS) -> Path:
    """A T5 with a vocabulary of 400 pieces."""
    from transformers import T5Config, T5ForConditionalGeneration, set_seed

    set_seed(1)
    size = _tokenizer(folder, texts, 400)
    config = T5Config(
        vocab_size=size, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_decoder_layers=1, num_heads=4,
        pad_token_id=0, eos_token_id=1, decoder_start_token_id=0,
    )  # fmt: skip
    T5ForConditionalGeneration(config).save_pretrained(folder)
    return folder


def tiny_llama(folder: Path, texts: Iterable[str] = TEXTS) -> Path:
    """A decoder of the kind that instruct models are."""
    from transformers import LlamaConfig, LlamaForCausalLM, set_seed

    set_seed(1)
    size = _tokenizer(folder, texts, 400)
    config = LlamaConfig(
        vocab_size=size, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, eos_token_id=1, bos_token_id=None, tie_word_embeddings=True,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def _tokenizer(folder: Path, texts: Iterable[str], size: int) -> int:
    from tokenizers import ByteLevelBPETokenizer
    from transformers import PreTrainedTokenizerFast

    bpe: Any = ByteLevelBPETokenizer()
    bpe.train_from_iterator(texts, size, special_tokens=["<pad>", "</s>"], show_progress=False)
    wrapped: Any = PreTrainedTokenizerFast(tokenizer_object=bpe._tokenizer, eos_token="</s>", pad_token="<pad>")
    wrapped.save_pretrained(folder)
    return len(wrapped)
