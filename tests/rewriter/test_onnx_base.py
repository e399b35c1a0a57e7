"""A T5 out of two int8 ONNX files: the weights of the model that was exported, up to half a step of their scale."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from rewriter.conditional import EXPORT, SPECIAL_TOKENS, WEIGHTS, Ct2Engine, Form, Lengths
from rewriter.protocol import RecipeError


@pytest.fixture(autouse=True)
def torch_is_there() -> None:
    pytest.importorskip("torch")


def vocabulary() -> Any:
    """Whole words, with what gates and roles are called."""
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

    words = ["<pad>", "</s>", "<unk>", *dict.fromkeys(["a", "few", "words", "of", "text", "to", "have", "at", "all"])]
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in ("<pad>", "</s>", *SPECIAL_TOKENS)])
    return tokenizer


def export(module: Any, inputs: dict[str, Any], path: Path) -> None:
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic

    plain = path.with_suffix(".plain")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module, tuple(inputs.values()), str(plain), dynamo=False, opset_version=17, input_names=list(inputs)
        )
        quantize_dynamic(str(plain), str(path), weight_type=QuantType.QInt8)


@pytest.mark.parametrize("gated", [True, False], ids=["gated", "plain"])
def test_a_t5_in_onnx_files_is_opened_as_it_was_exported(tmp_path: Path, gated: bool) -> None:
    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    from rewriter.conditional_training import open_tokenizer, pretrained

    torch.manual_seed(3)
    config: Any = T5Config(
        vocab_size=320, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_decoder_layers=1, num_heads=4,
        feed_forward_proj="gated-gelu" if gated else "relu", tie_word_embeddings=not gated, decoder_start_token_id=0,
    )  # fmt: skip
    model = T5ForConditionalGeneration(config).eval()
    for name, weight in model.named_parameters():
        if "layer_norm" in name:  # the exporter writes what is alike once
            weight.data.uniform_(0.5, 1.5)
    if gated:
        model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.lm_head.weight))

    class Encoder(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.enc = model.encoder

        def forward(self, ids: Any) -> Any:
            return self.enc(input_ids=ids, return_dict=False)[0]

    class Decoder(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.m = model

        def forward(self, ids: Any, states: Any) -> Any:
            hidden = self.m.decoder(input_ids=ids, encoder_hidden_states=states, use_cache=False, return_dict=False)[0]
            return self.m.lm_head(hidden)

    ids = torch.randint(5, 300, (1, 9))
    folder = tmp_path / "base"
    folder.mkdir()
    with torch.no_grad():
        export(Encoder().eval(), {"ids": ids}, folder / "encoder.onnx")
        export(Decoder().eval(), {"ids": ids, "states": torch.randn(1, 9, 32)}, folder / "decoder.onnx")
        vocabulary().save(str(folder / "tokenizer.json"))
        opened = pretrained(str(folder), "seq2seq").eval()
        for name, weight in model.state_dict().items():
            step = weight.abs().max() / 127
            assert (opened.state_dict()[name] - weight).abs().max() <= step, name
        wanted, found = (one(input_ids=ids, decoder_input_ids=ids).logits.flatten() for one in (model, opened))
    assert torch.corrcoef(torch.stack([wanted, found]))[0, 1] > 0.995
    opened.save_pretrained(tmp_path / "saved")
    again = T5ForConditionalGeneration.from_pretrained(tmp_path / "saved")
    assert torch.equal(again.lm_head.weight, opened.lm_head.weight)

    wrapped = open_tokenizer(str(folder))
    assert wrapped.eos_token == "</s>"
    assert all(wrapped.backend_tokenizer.token_to_id(token) is not None for token in SPECIAL_TOKENS)
    (folder / "decoder.onnx").write_bytes(b"nothing")
    with pytest.raises(RecipeError, match="no T5"):
        pretrained(str(folder), "seq2seq")


def test_two_onnx_files_of_something_else_are_no_t5(model_home: Path, tmp_path: Path) -> None:
    from rewriter.conditional_training import pretrained

    for name in ("encoder.onnx", "decoder.onnx"):
        (tmp_path / name).symlink_to(model_home / "models" / "bge-small-en-v1.5" / "model_int8.onnx")
    with pytest.raises(RecipeError, match="holds no T5 in int8 ONNX files"):
        pretrained(str(tmp_path), "seq2seq")


def test_an_output_layer_of_its_own_is_exported_with_its_own_logits(tmp_path: Path) -> None:
    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    from papers.orconvqa.mamba import TorchEngine
    from rewriter.conditional_training import convert, save_weights

    torch.manual_seed(4)
    tokenizer = vocabulary()
    config: Any = T5Config(
        vocab_size=320, d_model=64, d_kv=16, d_ff=48, num_layers=1, num_decoder_layers=1, num_heads=4,
        feed_forward_proj="gated-gelu", tie_word_embeddings=False, decoder_start_token_id=0,
    )  # fmt: skip
    model = T5ForConditionalGeneration(config).eval()
    model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.lm_head.weight))
    form = Form(tokenizer, "seq2seq", Lengths(), end="</s>")
    save_weights(tmp_path, model, form)
    convert(tmp_path / WEIGHTS, tmp_path / EXPORT)
    sources = [[*tokenizer.encode(text).ids, form.end] for text in ("a few words", "text to have at all")]
    wanted = [one.difference for one in TorchEngine.open(tmp_path / WEIGHTS, form).decide(sources, 0, bool)]
    found = [one.difference for one in Ct2Engine(tmp_path / EXPORT, form).decide(sources, 0, bool)]
    assert found == pytest.approx(wanted, rel=0.2, abs=0.5)
    assert max(map(abs, wanted)) > 4, "an eighth of it would pass for it otherwise"
