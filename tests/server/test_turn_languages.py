"""Questions in other languages: said so where the search does not understand them, answered where it does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from index.documents import Hit, Passage, Query
from rewriter.protocol import Message
from server.chat.loaded_models import Collections
from server.settings import IndexSettings, Settings
from server.turn.answer import AnswerReader
from server.turn.evidence import best_sentences, numbered
from server.turn.support import SUPPORTED, SupportScorer
from server.turn.system_messages import (
    GREETING,
    INTRODUCTION,
    MULTILINGUAL,
    NEAREST_INSTEAD,
    NOTHING_FOUND,
    _log_unread,
    history_for_model,
    no_answer,
    unsupported_language_notice,
)
from tests.openai_server import FakeOpenAIServer
from tests.server.turn_fakes import FakeCollection, Showing, evidence
from tests.server.turn_playing import done, engine, play
from tests.serving import MakeSettings, Running, Serve
from text.languages import LANGUAGES, gettext, language_of, speak

ENGLISH = IndexSettings()
MEANINGS = [
    *("warranty garantie garantía", "lasts dauert dura", "long lange tiempo", "badge ausweis", "report melden"),
    *("leave urlaub", "train zug", "tickets fahrkarten"),
]


@pytest.mark.parametrize(
    ("question", "language"),
    [("Wie lange dauert die Garantie?", "de"), ("¿Cuánto dura la garantía?", "es"), ("保修期多久？", "zh"),
     ("How long is the warranty?", "en"), ("How do i apply for medicare?", "en")],
)  # fmt: skip
def test_a_language_is_told_by_a_short_question(question: str, language: str) -> None:
    assert language_of(question) == language


@pytest.mark.parametrize("question", ["warranty?", "and by fax?", "SRV 4 bar", "kubectl apply -f pod.yaml", "", "42"])
def test_what_is_too_short_is_not_called_foreign(question: str) -> None:
    assert not unsupported_language_notice(question, ENGLISH)


def test_which_languages_are_understood_is_a_setting() -> None:
    question = "Wie lange dauert die Garantie?"
    assert (
        unsupported_language_notice(question, ENGLISH)
        == "This question seems to be in German; the search understands English."
    )
    several = IndexSettings(encoder="x/multilingual", languages=("en", "fr", "eo"))
    assert unsupported_language_notice(question, several).endswith("the search understands English, French and eo.")
    assert not unsupported_language_notice(question, IndexSettings(encoder="x/multilingual"))
    assert not unsupported_language_notice(question, IndexSettings(languages=("de", "en")))
    assert not unsupported_language_notice(question, IndexSettings(encoder=MULTILINGUAL)), "that one reads many"


def test_the_operator_is_told_once_of_questions_that_are_not_understood(caplog: pytest.LogCaptureFixture) -> None:
    _log_unread.cache_clear()
    for _ in range(2):
        unsupported_language_notice("Wie lange dauert die Garantie?", ENGLISH)
    (told,) = caplog.messages
    assert told.startswith("questions in German are asked, which the search does not understand")
    assert f"index.encoder = {MULTILINGUAL!r}" in told


def multilingual(folder: Path) -> Path:
    """An embedding model of words, in which those of one meaning have the same vector, as a folder of files."""
    from onnx import TensorProto, helper, numpy_helper, save
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    vocabulary, table = {"[UNK]": 0}, [np.zeros(32, dtype=np.float32)]
    random = np.random.default_rng(0)
    for words in MEANINGS:
        vector = random.standard_normal(32).astype(np.float32)
        for word in words.split():
            vocabulary[word] = len(table)
            table.append(vector)
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "input_ids"], ["states"])],
        "words",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "tokens"])],
        [helper.make_tensor_value_info("states", TensorProto.FLOAT, ["batch", "tokens", 32])],
        [numpy_helper.from_array(np.stack(table), "table")],
    )
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9),
        str(folder / "model_int8.onnx"),
    )
    return folder


def test_a_refusal_says_which_languages_are_understood_and_a_multilingual_encoder_finds_the_page(
    serve: Serve, settings_for: MakeSettings, llm: FakeOpenAIServer, tmp_path: Path
) -> None:
    (tmp_path / "pages").mkdir()
    for name, text in {
        "repair": "The warranty lasts two years.",
        "badge": "Report a lost badge.",
        "rail": "Train tickets.",
    }.items():
        (tmp_path / "pages" / f"{name}.md").write_text(f"# {name}\n\n{text}\n", "utf-8")
    asked = {"messages": [{"role": "user", "content": "Wie lange dauert die Garantie?"}]}
    llm.pieces = ("<cannot_answer>",)

    def told(running: Running, collection: str, accepted: str = "") -> tuple[str, Any]:
        with running.client() as client:
            headers = {"Accept-Language": accepted}
            answer = client.post("/v1/chat/completions", json={**asked, "model": collection}, headers=headers).json()
        return answer["choices"][0]["message"]["content"], answer["anaphora"]

    running = serve(settings_for(llm.url))
    said, details = told(running, "docs")
    assert details["status"] == "refused"
    assert "This question seems to be in German; the search understands English." in said
    said, _ = told(running, "docs", "de-CH, en;q=0.5")
    assert said.startswith(
        "Ich habe in den Dokumenten keine sichere Antwort darauf gefunden. Diese Frage scheint auf Deutsch gestellt zu"
    )
    assert not history_for_model([Message("assistant", said)]).messages

    encoder = multilingual(tmp_path / "multilingual")
    settings = settings_for(llm.url, index={"encoder": str(encoder), "language": "auto"})
    running = serve(settings)
    running.finished(running.call(running.service.collections.index_paths("many", [tmp_path / "pages"])).id)
    said, details = told(running, "many")
    assert details["evidence"][0]["document_id"].endswith("repair.md"), details["evidence"]
    assert "seems to be in" not in said
    assert not running.service.core.opened.outdated("many")
    changed = settings.model_copy(update={"index": settings.index.model_copy(update={"language": "de"})})
    collections = Collections(changed, running.service.core.models)
    assert collections.get("many").search([Query("warranty")]), "it answers as before until then"
    assert "stemmed by `index.language` 'auto', and the settings say 'de': index it" in collections.outdated("many")
    collections.close()
    llm.pieces = ("Zwei Jahre. ", "[1]")
    assert told(running, "many")[0].startswith("Zwei Jahre.")


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_the_server_says_is_history_for_nobody_in_any_language(language: str) -> None:
    def said() -> list[str]:
        texts = [gettext(one) for one in (INTRODUCTION, NEAREST_INSTEAD, NOTHING_FOUND, GREETING)]
        return [*texts, *(no_answer("5 %", ["A", "B", "C", "D"], 4, nearest=near) for near in (True, False))]

    try:
        speak(language)
        own = said()
    finally:
        speak("en")
    assert len({*own}) == 6
    assert (language == "en") == (own == said())
    kept = "Two years."
    for text in own:
        assert [one.text for one in history_for_model([Message("assistant", f"{text}\n\n{kept}")]).messages] == [kept]


def test_chinese_sentences_are_quoted_cited_and_checked_without_spaces() -> None:
    texts = ["主机保修两年，磨豆刀盘保修一年。请保存好发票。", "橙灯闪烁时需要除垢。全程约二十五分钟。"]
    passages = [
        numbered(n, Hit(Passage(str(n), str(n), "", text, 0, len(text)), 1.0)) for n, text in enumerate(texts, 1)
    ]
    assert [one.quote for one in best_sentences("磨豆刀盘保修多久？", passages)] == ["主机保修两年，磨豆刀盘保修一年。"]

    reader = AnswerReader(passages)
    for piece in ("橙灯闪烁时需要除垢[2]。", "主机保修两年[2]。"):
        reader.feed(piece)
    reader.complete()
    answer = reader.answer()
    assert answer.text == "橙灯闪烁时需要除垢[2]。主机保修两年[1]。", "the passage that says so is cited instead"
    assert [(one.n, one.quote) for one in answer.citations] == [
        (2, "橙灯闪烁时需要除垢。"),
        (1, "主机保修两年，磨豆刀盘保修一年。"),
    ]
    assert answer.support[0].supported

    reader = AnswerReader(passages)
    reader.feed("橙灯闪烁时需要除垢，请把除垢粉溶于一升水再倒入水箱。<cannot_answer>")
    assert not reader.refused, "a whole sentence was said, though it holds no space"


@pytest.mark.parametrize("language", ["de", "auto"])
def test_german_forms_of_a_word_are_compared_by_german_stems(language: str) -> None:
    texts = [
        "Die Ventilköpfe laufen mit zwei Batterien der Größe AA. Bei Frost schließen sie sich von selbst.",
        "Der Händler ersetzt defekte Geräte zwei Jahre lang. Bewahren Sie den Kaufbeleg auf.",
    ]
    settings = Settings.model_validate({"index": {"language": language}})
    end = done(play(engine(collection=FakeCollection(texts), settings=settings), "Welche Batterie hat ein Ventilkopf?"))
    assert (end.status, [one.quote for one in end.citations]) == ("quoted", [texts[0].partition(".")[0] + "."])

    said = "Ein defektes Gerät wird von den Händlern ersetzt."
    assert SupportScorer(evidence(*texts)).score(said, [2]) < SUPPORTED
    assert SupportScorer(evidence(*texts), "de").score(said, [2]) == 1


@pytest.mark.parametrize(
    ("question", "sure"),
    [("本体の保証は二年ですか", True), ("タンクは何リットル入りますか", False), ("机器有多重？", False)],
)
def test_a_cross_encoder_that_never_learnt_the_letters_is_not_sure_by_itself(question: str, sure: bool) -> None:
    found = FakeCollection(
        texts=("本体の保証は二年、ミルの刃の保証は一年です。", "水を入れて、タンクを置き直してください。")
    )
    end = done(play(engine(reranker=Showing(0.999), collection=found), question))
    assert (end.status, end.doubted) == ("quoted", not sure)
