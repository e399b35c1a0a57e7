from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Encoding

from index.collection import Collection
from index.documents import Document
from index.encoders import CachedVectors, Encoder, OnnxModel, load_encoder
from index.errors import CollectionMismatch, ModelUnavailable
from index.indexer import index_documents
from index.rerank import load_reranker
from tests.encoder import WordEncoder

TEXTS = [
    "How do I send the form by fax?",
    "",
    "ok",
    "Die Gebühr wird erstattet, wenn der Antrag zurückgezogen wird.",
    "東京タワーの高さは333メートルです。",
    "`anaphora index --collection docs ./manual` indexes a folder; v1.2 added --exclude.",
    "| form | fee |\n|---|---|\n| A-12 | 35 $ |\n| B-7 | 20 $ |",
    " ".join(f"Sentence number {number} about renewing a licence at the office." for number in range(80)),
]


@pytest.mark.extended
def test_vectors_are_those_of_sentence_transformers(model_home: Path) -> None:
    from sentence_transformers import SentenceTransformer

    folder = model_home / "models" / "all-minilm-l6-v2"
    model, encoder = SentenceTransformer(str(folder), device="cpu"), load_encoder(str(folder))
    expected = model.encode(TEXTS, normalize_embeddings=True, show_progress_bar=False)
    found = encoder.encode(TEXTS)
    assert found.dtype == np.float32
    assert found.shape == (len(TEXTS), encoder.dimension) == expected.shape
    assert np.allclose(np.linalg.norm(found, axis=1), 1.0, atol=1e-5)
    assert (found * expected).sum(axis=1).min() >= 0.99
    assert encoder.max_tokens == model.max_seq_length


@pytest.mark.extended
def test_pooling_and_the_prompt_of_queries_are_what_the_folder_says(model_home: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules as models

    plain = model_home / "models" / "all-minilm-l6-v2"
    transformer = models.Transformer(str(plain))
    first = models.Pooling(transformer.get_embedding_dimension(), pooling_mode="cls")
    model = SentenceTransformer(modules=[transformer, first], device="cpu", prompts={"query": "Find: "})
    model.save(str(tmp_path / "first"))
    shutil.copy(plain / "model_int8.onnx", tmp_path / "first")
    (tmp_path / "first" / "sentence_bert_config.json").write_text('{"max_seq_length": null}')
    encoder = load_encoder(str(tmp_path / "first"))
    expected = model.encode(TEXTS, normalize_embeddings=True, show_progress_bar=False)
    assert (encoder.encode(TEXTS) * expected).sum(axis=1).min() >= 0.98
    asked = model.encode(["by fax?"], prompt_name="query", normalize_embeddings=True, show_progress_bar=False)
    found = CachedVectors(encoder, encoder.prompt).encode(["by fax?"])
    assert float((found * asked).sum()) >= 0.98
    assert float((encoder.encode(["by fax?"]) * asked).sum()) < 0.98


def test_a_common_direction_is_taken_off(model_home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "bge"
    shutil.copytree(model_home / "models" / "bge-small-en-v1.5", folder)
    centred = load_encoder(str(folder))
    centre = np.array(json.loads((folder / "centre.json").read_text())["centre"], dtype=np.float32)
    (folder / "centre.json").unlink()
    plain = load_encoder(str(folder))
    expected = plain.encode(TEXTS) - centre
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert np.allclose(centred.encode(TEXTS), expected, atol=1e-5)
    assert centred.name != plain.name
    unlike = ["The valve is opened by hand.", "Release notes of version 2"]
    assert (
        float(np.prod(plain.encode(unlike), axis=0).sum()) > 0.4 > float(np.prod(centred.encode(unlike), axis=0).sum())
    )


def test_order_and_company_do_not_change_a_vector(encoder: Encoder) -> None:
    together = encoder.encode(TEXTS)
    backwards = encoder.encode(TEXTS[::-1])[::-1]
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
    assert np.array_equal(together, backwards)
    assert np.array_equal(together, alone)


def test_threads_get_their_own_vectors(encoder: Encoder) -> None:
    expected = encoder.encode(TEXTS)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda text: encoder.encode([text])[0], TEXTS * 4))
    assert (np.stack(found) * np.concatenate([expected] * 4)).sum(axis=1).min() > 0.999


def test_after_an_error_nothing_waits_for_the_other_texts(model_home: Path) -> None:
    folder = model_home / "models" / "all-minilm-l6-v2"
    model = OnnxModel(folder / "model_int8.onnx", folder / "tokenizer.json", 32, threads=2)
    texts = model.tokenize(["the longest of them", *(f"text {n}" for n in range(50))])
    begun, ends = list[int](), threading.Event()

    def read(encoding: Encoding) -> None:
        begun.append(1)
        if encoding is texts[0]:
            raise ValueError("torn")
        ends.wait()

    with pytest.raises(ValueError, match="torn"):
        model.map(read, texts)
    ends.set()
    assert len(begun) <= 3, "one that failed, and two that were being read"


def test_tokens_are_counted_beyond_the_window(encoder: Encoder) -> None:
    assert encoder.count_tokens("") == 0
    assert encoder.count_tokens("send the form") == 3
    assert encoder.count_tokens("word " * 1000) == 1000


def test_the_onnx_encoder_needs_no_torch(model_home: Path) -> None:
    program = (
        "import sys; from index.encoders import load_encoder;"
        f"load_encoder({str(model_home / 'models' / 'all-minilm-l6-v2')!r}).encode(['a question']);"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=180).returncode == 0


@pytest.fixture
def small_model(model_home: Path, tmp_path: Path) -> Path:
    """A folder with a sentence-transformers model of one narrow layer."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules as models
    from transformers import AutoTokenizer, BertConfig, BertModel

    folder = tmp_path / "bert"
    tokenizer = AutoTokenizer.from_pretrained(model_home / "models" / "all-minilm-l6-v2")
    tokenizer.save_pretrained(folder)
    narrow = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = BertConfig(vocab_size=len(tokenizer), **narrow)
    BertModel(config).save_pretrained(folder)
    transformer = models.Transformer(str(folder))
    pooling = models.Pooling(transformer.get_embedding_dimension())
    SentenceTransformer(modules=[transformer, pooling], device="cpu").save(str(tmp_path / "my-encoder"))
    return tmp_path / "my-encoder"


@pytest.mark.extended
def test_a_model_retrained_in_place_or_another_of_its_name_is_another_encoder(
    small_model: Path, tmp_path: Path, documents: list[Document]
) -> None:
    from sentence_transformers import SentenceTransformer

    first = load_encoder(str(small_model))
    index_documents(tmp_path, "docs", documents, first)
    copy = shutil.copytree(small_model, tmp_path / "elsewhere" / "my-encoder")
    assert load_encoder(str(copy)).name == first.name, "it is the content that counts"
    retrained = SentenceTransformer(str(small_model), device="cpu")
    next(retrained.parameters()).data.mul_(1.5)
    retrained.save(str(small_model))
    second = load_encoder(str(small_model))
    assert second.name != first.name
    assert second.name.split(":")[0] == first.name.split(":")[0] == "my-encoder"
    with pytest.raises(CollectionMismatch, match="index again with this model"):
        Collection.open(tmp_path, "docs", second)
    assert index_documents(tmp_path, "docs", [], second).embedded == len(documents), "no vector of the old one is kept"


@pytest.mark.extended
def test_another_pooling_is_another_encoder(small_model: Path) -> None:
    before = load_encoder(str(small_model)).name
    config = small_model / "1_Pooling" / "config.json"
    values = json.loads(config.read_text("utf-8"))
    assert values["pooling_mode"] == "mean"
    values["pooling_mode"] = "cls"
    config.write_text(json.dumps(values), "utf-8")
    assert load_encoder(str(small_model)).name != before


def test_a_missing_model_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "model_int8.onnx").write_bytes(b"not a model")
    with pytest.raises(ModelUnavailable, match="fetch the model again"):
        load_encoder(str(tmp_path))
    (tmp_path / "tokenizer.json").write_text("{}", "utf-8")
    with pytest.raises(ModelUnavailable, match="fetch the model again"):
        load_encoder(str(tmp_path))


@pytest.mark.extended
@pytest.mark.parametrize("load", [load_encoder, load_reranker])
def test_a_name_that_is_no_model_is_told_at_once_where_no_hub_answers(
    load: Callable[[str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = list[tuple[str, bool]]()

    def model(name: str, *, local_files_only: bool = False) -> None:
        tried.append((name, local_files_only))
        raise OSError("not in the cached files")

    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    for name in ("SentenceTransformer", "CrossEncoder"):
        monkeypatch.setattr(f"sentence_transformers.{name}", model)
    with pytest.raises(ModelUnavailable, match=r"'nosuch'.*does not answer.*anaphora models"):
        load("nosuch")
    assert tried == [("nosuch", True)]


def test_a_folder_that_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="no model in"):
        load_encoder(str(tmp_path))


def test_repeated_queries_are_encoded_once() -> None:
    words = WordEncoder()
    queries = CachedVectors(words, size=3)
    first = queries.encode(["a form", "a fax", "a form"])
    assert words.encoded == ["a form", "a fax"]
    assert np.array_equal(first[0], first[2])
    queries.encode(["a fax", "a loan", "a school"])
    assert words.calls == 2
    assert words.encoded[2:] == ["a loan", "a school"]
    queries.encode(["a form"])
    assert words.encoded[4:] == ["a form"], "the least recently used one is forgotten"
    assert queries.encode([]).shape == (0, words.dimension)
