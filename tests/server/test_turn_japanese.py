"""Questions in Japanese over Japanese pages, with the real encoders and the real cross-encoder, and without a model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from index.collection import Collection
from index.encoders import load_encoder
from index.indexer import index_paths
from rewriter import Conversation
from rewriter.protocol import Rewrite
from server.registry import ensure
from server.rewriters import open_reranker
from server.settings import Settings
from server.turn.comparison import ENCODER
from server.turn.events import DoneEvent, EvidenceEvent
from server.turn.search import SearchPlan, TurnSearch
from tests.server.turn_playing import done, engine, play
from text.words import latin, stems, unspaced

LANGUAGES = Path(__file__).parents[2] / "benchmarks" / "languages"
LINES = (LANGUAGES / "product_dialogs" / "dialogs.dev.jsonl").read_text("utf-8").splitlines()
DIALOGS = [json.loads(line) for line in LINES]
TURNS = [
    turn for dialog in DIALOGS for turn in dialog["turns"] if dialog["product"] == "kazemado" and turn["role"] == "user"
]
ANSWERED = [turn for turn in TURNS if turn["evidence"]]
UNANSWERED = [turn for turn in TURNS if not turn["evidence"]]

Ask = Callable[[str], tuple[DoneEvent, bool]]


@pytest.fixture(scope="module", params=["multilingual-e5-small", "bge-small-en-v1.5"])
def ask(request: pytest.FixtureRequest, model_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Asks the pages, and says how the turn ended and whether the cross-encoder read them."""
    root = tmp_path_factory.mktemp("japanese")
    encoder = load_encoder(ensure(request.param, model_home))
    settings = Settings(home=model_home, index={"language": "auto", "encoder": request.param})
    index_paths(root, "docs", [LANGUAGES / "product_docs" / "kazemado"], encoder, language="auto")
    collection = Collection.open(root, "docs", encoder)
    turns = engine(collection=collection, settings=settings, reranker=open_reranker(settings))

    def play_it(question: str) -> tuple[DoneEvent, bool]:
        events = play(turns, question)
        (found,) = (event for event in events if isinstance(event, EvidenceEvent))
        return done(events), found.reranked

    yield play_it
    collection.close()


def test_a_question_without_an_answer_is_doubted_or_refused(ask: Ask) -> None:
    ends = {turn["rewrite"]: ask(turn["rewrite"]) for turn in UNANSWERED}
    assert not any(reranked for _, reranked in ends.values()), "the cross-encoder learnt from English"
    assert [text for text, (end, _) in ends.items() if end.status == "quoted" and not end.doubted] == []
    assert len(ends) == 12


def test_the_answers_are_quoted(ask: Ask, request: pytest.FixtureRequest) -> None:
    ends = [(turn["evidence"][0]["quote"], ask(turn["rewrite"])[0]) for turn in ANSWERED]
    shown = [end for quote, end in ends if any(quote in one.quote for one in end.citations)]
    sure = [end for end in shown if end.status == "quoted" and not end.doubted]
    multilingual = "multilingual" in request.node.name
    assert len(shown) >= (0.8 if multilingual else 0.6) * len(ends), [end.answer for _, end in ends]
    assert len(sure) >= (0.6 if multilingual else 0.4) * len(ends)


def test_the_numbers_of_the_comparison_go_with_the_registered_model(model_home: Path) -> None:
    assert load_encoder(ensure("multilingual-e5-small", model_home)).name == ENCODER


@pytest.mark.parametrize(
    ("question", "page", "rerank", "reads"),
    [
        ("Wie lange dauert die Garantie?", "Die Garantie dauert zwei Jahre.", "auto", True),
        ("保証期間は何年ですか。", "保証期間は二年です。", "auto", False),
        ("How long is the warranty?", "保証期間は二年です。", "auto", False),
        ("保証期間は何年ですか。", "The warranty lasts two years.", "auto", False),
        ("保証期間は何年ですか。", "保証期間は二年です。", "always", True),
        ("42?", "42", "auto", True),
    ],
)
def test_the_cross_encoder_reads_latin_letters_unless_it_is_told_to(
    question: str, page: str, rerank: str, reads: bool, model_home: Path
) -> None:
    from index.query import Hit, Passage
    from rewriter import PassThroughRewriter

    settings = Settings(home=model_home, retrieval={"rerank": rerank})
    search = TurnSearch(
        collection=lambda _: None,  # type: ignore[arg-type,return-value]
        rewriter=PassThroughRewriter(),
        settings=settings,
        reranker=open_reranker(settings),
    )
    plan: SearchPlan = search.plan(question, Conversation(()), Rewrite(question, "keep"))
    assert search.reads_scripts(plan, [Hit(Passage("1", "1", "", page, 0, len(page)), 1.0)]) is reads


def test_endings_and_particles_are_no_content() -> None:
    assert stems("充電はできますか") == ["充電", "電は"]
    assert unspaced("Wi-Fi の登録のしかた")
    assert not unspaced("the Wi-Fi of 東京")
    assert latin("")
    assert not latin("Гарантия два года")
