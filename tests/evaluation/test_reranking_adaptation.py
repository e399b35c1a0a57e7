"""A cross-encoder adapted: rows from dialogs, the new one measured beside the old, promoted if better."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from evaluation.adaptation import Adaptation, AdaptationPlan
from evaluation.questions import EvaluationError
from index.collection import Collection
from index.documents import Document, Hit, Section
from index.indexer import index_documents
from rewriter.load import RERANKERS, write_description
from rewriter.protocol import PassThroughRewriter, Rewriter
from rewriter.reranker_rows import read_rows
from server.rewriters import chosen_reranker
from server.settings import Settings
from server.turn.search import TurnSearch
from synth.dialogs import Dialog, DialogMessage, dialog_line
from synth.folder import Folder, write_rows
from synth.propositions import Proposition
from tests.encoder import WordEncoder
from tests.evaluation.test_adaptation import FakeTools
from text.prompts import QuestionContext

THINGS = [f"{kind} {what}" for kind in ("red", "green", "blue", "old", "new") for what in ("permit", "card", "form")]
PAGE = "The {0} is given by the office. The {0} costs ten euros. It is sent by mail. You renew it every year."


class Reader:
    """A cross-encoder that reads conversations: `knows` what was spoken of, or turns the list round."""

    reads_conversations = True
    reader = None

    def __init__(self, name: str) -> None:
        self.name = name

    def rerank(
        self,
        question: str,
        hits: Sequence[Hit],
        seconds: float,
        top: int = 20,
        weight: float = 1.0,
        context: QuestionContext | None = None,
        alone: Sequence[str] = (),
    ) -> list[Hit]:
        if self.name == "before" or context is None:
            return list(hits)[::-1]
        spoken = " ".join(context.asked.split()[-2:]).rstrip("?")
        return sorted(hits, key=lambda hit: f" {spoken} " not in hit.passage.text)


@dataclass
class Tools(FakeTools):
    """A town's pages in a real collection; its run is a description."""

    home: Path = Path()
    knows: bool = True
    readers: list[str] = field(default_factory=list)

    def index(self) -> tuple[int, int]:
        pages = {thing: PAGE.format(thing) for thing in THINGS}
        documents = [Document(f"{thing}.md", "", text, (Section((), 0, len(text)),)) for thing, text in pages.items()]
        index_documents(self.home / "collections", "town", documents, WordEncoder())
        return super().index()

    def train(self, recipe: str, data: Path, part: str, run: Path) -> None:
        self.done.append("train")
        run.mkdir(parents=True)
        write_description(run, {"family": "reranker", "format": 1}, [], RERANKERS)

    def serving(self) -> Rewriter:
        return PassThroughRewriter()

    @contextmanager
    def searching(self, rewriter: Rewriter, reranker: Path | None = None) -> Iterator[TurnSearch]:
        reader = Reader(reranker.name if reranker and self.knows else "before")
        self.readers.append(reader.name)
        collection = Collection.open(self.home / "collections", "town", WordEncoder())
        yield TurnSearch(
            collection=lambda _: collection, rewriter=rewriter, settings=Settings(home=self.home), reranker=reader
        )
        collection.close()


@pytest.fixture
def dialogs(tmp_path: Path) -> Path:
    """What `anaphora synth` would have left of the pages, over and over: four dialogs of five held out."""
    folder = Folder(tmp_path / "synth")
    propositions: list[Proposition] = []
    lines: dict[str, list[str]] = {"train": [], "dev": [], "test": []}
    for n, thing in enumerate(THINGS * 3):
        text, turns = PAGE.format(thing), list[DialogMessage]()
        for m, (full, typed, begins) in enumerate(
            (
                (f"Where do I get the {thing}?", "", "The"),
                (f"How is the {thing} sent?", "how is it sent", "It is sent"),
                (f"When do I renew the {thing}?", "and when renew", "You renew"),
            )
        ):
            start = text.index(begins)
            end = text.index(".", start) + 1
            place = {"start": start, "end": end, "text": text[start:end], "source": text[start:end]}
            propositions.append(Proposition(_id=f"{n}-{m}", document_id=f"{thing}.md", title="", **place))  # type: ignore[arg-type]
            turns.append(DialogMessage(role="user", text=typed or full, rewrite=full, relevant=(f"{n}-{m}",)))
            turns.append(DialogMessage(role="assistant", text=text[start:end]))
        side = ("train", "dev", "test", "dev", "test")[n % 5]
        lines[side].append(dialog_line(Dialog(dialog_id=f"d{n}", documents=(f"{thing}.md",), turns=tuple(turns))))
    write_rows(folder.propositions, propositions)
    for side, rows in lines.items():
        folder.dialogs(side).write_text("\n".join(rows) + "\n", "utf-8")
    return folder.path


def plan(dialogs: Path | None, *also: Path) -> AdaptationPlan:
    return AdaptationPlan("town", (), "reranker", dialogs, also, kind=RERANKERS)


def test_a_better_cross_encoder_serves(tmp_path: Path, dialogs: Path) -> None:
    tools = Tools(home=tmp_path)
    result = Adaptation(tmp_path, plan(dialogs), tools).run()
    assert result is not None
    assert (result.before, result.after, result.promoted) == ("before", "town", True)
    assert tools.readers[-2:] == ["before", "town"]
    assert chosen_reranker(Settings(home=tmp_path)) == str(tmp_path / "rerankers" / "town")
    assert not (tmp_path / "rewriters" / "promoted.json").exists()
    state = json.loads((tmp_path / "adapt" / "town" / "state.json").read_text("utf-8"))["done"]
    assert list(state) == ["index", "pairs", "train", "evaluate", "promote"]
    rows = list(read_rows(tmp_path / "adapt" / "town" / "data" / "train.jsonl"))
    assert len(rows) == state["pairs"]["train"] == 18
    for row in rows:
        assert any(one.relevant for one in row.passages)
        thing = row.rewrite.partition(" the ")[2].removesuffix("?").removesuffix(" sent")
        assert all(f"The {thing} is" in one.text for one in row.passages if one.relevant)


def test_rows_alone_are_trained_on_unmeasured(tmp_path: Path, dialogs: Path) -> None:
    Adaptation(tmp_path / "a", plan(dialogs), Tools(home=tmp_path / "a")).run(promoting=False)
    rows = tmp_path / "a" / "adapt" / "town" / "data" / "train.jsonl"
    tools = Tools(home=tmp_path / "b")
    assert Adaptation(tmp_path / "b", plan(None, rows), tools).run() is None
    assert tools.done == ["index", "train"]
    empty = tmp_path / "empty.jsonl"
    empty.write_text("", "utf-8")
    with pytest.raises(EvaluationError, match="nothing to train on"):
        Adaptation(tmp_path / "c", plan(None, empty), Tools(home=tmp_path / "c")).run()
