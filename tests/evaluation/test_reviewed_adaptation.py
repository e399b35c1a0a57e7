"""What people reviewed is learnt from on one side, and judges on the other; whole conversations stay together."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from evaluation.adaptation import Adaptation, AdaptationPlan
from evaluation.held_out import from_reviewed, split
from evaluation.questions import EvaluationError
from index.collection import Collection
from index.documents import Document, Section
from index.indexer import index_documents
from rewriter.examples import read_examples
from rewriter.load import packaged_folder
from rewriter.protocol import PassThroughRewriter, Rewriter
from rewriter.runs import promoted_run
from server.settings import Settings
from server.turn.search import TurnSearch
from tests.encoder import WordEncoder
from tests.evaluation.test_adaptation import FakeTools

THINGS = [f"{kind} {what}" for kind in ("red", "green", "blue", "old", "new") for what in ("permit", "card", "form")]
PAGE = "The {0} is given by the office. The {0} costs ten euros. It is sent by mail. You renew it every year."


def reviewed(n: int, thing: str) -> str:
    """A reviewed conversation; its last turn is not judged wholly."""
    turns: list[dict[str, object]] = []
    for kind, full, typed, begins in (
        ("first", f"Where do I get the {thing}?", "", "The"),
        ("pronoun", f"How is the {thing} sent?", "how is it sent", "It is sent"),
        ("ellipsis", f"When do I renew the {thing}?", "and when renew", "You renew"),
    ):
        quote = next(one for one in PAGE.format(thing).split(". ") if one.startswith(begins))
        judged = {
            "kind": kind,
            "answerability": "answerable",
            "evidence": [{"document": f"{thing}.md", "quote": quote}],
        }
        turns.append({"role": "user", "text": typed or full, "turn_id": f"t{n}{kind}", "rewrite": full, **judged})
        turns.append({"role": "assistant", "text": f"{quote}."})
    turns.append({"role": "user", "text": "and then", "judged": False, "rewrite": "What comes then?"})
    return json.dumps({"dialog_id": f"c{n}", "turns": turns}) + "\n"


@dataclass
class ReviewTools(FakeTools):
    """The town's pages in a real collection, and reviews of so many conversations about them.

    The packaged rewriter stands for the one that is trained; none serves before.
    """

    home: Path = Path()
    talks: int = len(THINGS) * 3

    def index(self) -> tuple[int, int]:
        pages = {thing: PAGE.format(thing) for thing in THINGS}
        documents = [Document(f"{thing}.md", "", text, (Section((), 0, len(text)),)) for thing, text in pages.items()]
        index_documents(self.home / "collections", "town", documents, WordEncoder())
        return super().index()

    def train(self, recipe: str, data: Path, part: str, run: Path) -> None:
        self.done.append("train")
        packaged = packaged_folder()
        assert packaged is not None
        shutil.copytree(packaged, run)

    def serving(self) -> Rewriter:
        return PassThroughRewriter()

    @contextmanager
    def searching(self, rewriter: Rewriter) -> Iterator[TurnSearch]:
        collection = Collection.open(self.home / "collections", "town", WordEncoder())
        yield TurnSearch(
            collection=lambda _: collection, rewriter=rewriter, settings=Settings(home=self.home), reranker=None
        )
        collection.close()

    def write_reviewed(self, path: Path) -> None:
        path.write_text("".join(reviewed(n, thing) for n, thing in enumerate((THINGS * 3)[: self.talks])), "utf-8")


def test_a_rewriter_learns_from_half_of_the_reviews_and_the_other_half_judges(tmp_path: Path) -> None:
    plan = AdaptationPlan("better", (), "terms", reviewed=True, collection="town")
    result = Adaptation(tmp_path, plan, ReviewTools(home=tmp_path)).run()
    assert result is not None
    assert result.promoted, result.reason
    data = tmp_path / "adapt/better/data"
    assert promoted_run(tmp_path) == "better"
    learnt = {row.id.rpartition("#")[0] for row in read_examples(data / "train.jsonl")}
    judges = {json.loads(line)["dialog_id"] for line in (data / "held.jsonl").read_text("utf-8").splitlines()}
    assert len(judges) == 22
    assert not learnt & judges
    follow = next(one for one in result.changes if (one.set, one.level) == ("follow-ups", "passage"))
    assert follow.n == 2 * 22
    asked = list(from_reviewed(data / "held.jsonl"))
    assert len(asked) == 3 * 22
    assert {one.question.dialog for one in asked} == judges


@pytest.mark.parametrize(
    ("talks", "told"),
    [
        (11, "11 conversations were reviewed, and 12 follow-ups with marked passages will judge"),
        (28, "28 conversations were reviewed, and 28 follow-ups with marked passages will judge"),
        (45, ""),
    ],
)
def test_too_few_reviews_are_told_by_the_numbers_of_the_docs(tmp_path: Path, talks: int, told: str) -> None:
    plan = AdaptationPlan("better", (), "terms", reviewed=True, collection="town")
    tools = ReviewTools(home=tmp_path, talks=talks)
    result = Adaptation(tmp_path, plan, tools).run()
    assert result is not None
    (*_, last) = [said for said in tools.said if "were reviewed" in said] or [""]
    assert last.startswith(told)
    assert ("fewer than 12 conversations or 30 such follow-ups decide nothing" in last) is bool(told)
    docs = " ".join((Path(__file__).parents[2] / "docs/operate/workbench.md").read_text("utf-8").split())
    assert "at least 30 follow-ups with marked passages, in a dozen conversations" in docs


def test_a_rewriter_learns_every_pair_of_its_side(tmp_path: Path) -> None:
    everything, train, held = (tmp_path / name for name in ("all.jsonl", "train.jsonl", "held.jsonl"))
    ReviewTools().write_reviewed(everything)
    split(everything, train, held, seed=1)
    assert len(list(read_examples(train))) == 4 * 23
    everything.write_text(reviewed(1, "red permit"), "utf-8")
    with pytest.raises(EvaluationError, match="Fewer than two conversations"):
        split(everything, train, held, seed=1)
