"""An adaptation from documents to a rewriter that may serve: index, pairs, train, evaluate, promote.

Every step's result is remembered, so that an adaptation that was stopped goes on with the step it was in. Parts that
only an installation has (models, the language model, the serving rewriter) come through `AdaptationTools`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from evaluation.held_out import (
    CONVERSATIONS,
    HELD,
    LEAST,
    REVIEWED,
    TRAIN,
    drawn,
    from_dialogs,
    from_reviewed,
    judge,
    measure,
    split,
    write_pairs,
)
from evaluation.questions import EvaluationError
from evaluation.run_folder import Test
from evaluation.sets import EvalSet, judged_set, placed
from rewriter.load import Serving, describe, load_rewriter
from rewriter.protocol import RecipeError, Rewriter
from rewriter.runs import promote, run_folder
from synth import Folder
from text.files import write_json

if TYPE_CHECKING:
    from index.collection import Collection
    from server.turn.search import TurnSearch


STEPS = ("index", "pairs", "train", "evaluate", "promote")
STATE = "state.json"


class AdaptationState:
    """The state of the adaptation in `folder`, made for `wanted`: what decides its result, as JSON values.

    Raises RecipeError where the folder holds one that was begun with something else.
    """

    def __init__(self, folder: Path, wanted: dict[str, Any]) -> None:
        self.folder = folder
        self.wanted = wanted
        self._path = folder / STATE
        folder.mkdir(parents=True, exist_ok=True)
        begun = self._read()
        if begun and begun.get("wanted") != wanted:
            changed = [key for key in wanted if begun.get("wanted", {}).get(key) != wanted[key]]
            raise RecipeError(
                f"The adaptation in {folder} was begun with other {' and '.join(changed) or 'options'}. "
                "Give this one another --name, or delete that folder."
            )
        self._state: dict[str, Any] = begun or {"wanted": wanted, "done": {}}

    def result(self, step: str) -> dict[str, Any] | None:
        """Return the result of a finished step, or None if the step is still to be done."""
        result = self._state["done"].get(step)
        return dict(result) if result is not None else None

    def finish(self, step: str, result: dict[str, Any]) -> dict[str, Any]:
        """Remember a step; those after it are to be done anew."""
        done = self._state["done"]
        for later in STEPS[STEPS.index(step) :]:
            done.pop(later, None)
        done[step] = result
        write_json(self._path, self._state)
        return result

    def _read(self) -> dict[str, Any]:
        try:
            state = json.loads(self._path.read_text("utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise RecipeError(f"{self._path} cannot be read ({error}). Delete it to begin again.") from error
        return dict(state)


SEED = 13
PATIENT = 60.0
"""Seconds a new rewriter may take for a turn while it is judged."""
NO_PAIRS = (
    "There is nothing to make pairs from: name a language model that writes dialogs with --model (such as "
    "qwen3-4b-instruct-2507, or the address of a server, http://…/v1), a folder of `anaphora synth` with "
    "--dialogs, give reviewed feedback or rows of your own with --also, or review turns on the workbench and take "
    "--from review."
)
UNMEASURED = (
    "Rows say how questions are worded, not where answers stand, so there is nothing to measure on: the run is "
    "trained and not promoted. Dialogs (--dialogs, or a language model) would be measured; `anaphora models promote "
    "{name}` lets it serve as it is."
)


class AdaptationTools(Protocol):
    """Models and callbacks that an adaptation needs."""

    @property
    def writes_dialogs(self) -> bool:
        """Whether there is a language model."""

    def index(self) -> tuple[int, int]:
        """Bring the collection up to date; its documents and passages."""

    def write_dialogs(self, folder: Folder) -> None:
        """Have the language model write dialogs into `folder`, as `anaphora synth` does."""

    def write_reviewed(self, path: Path) -> None:
        """Write the conversations about the collection that people reviewed, one a line."""

    def train(self, recipe: str, data: Path, part: str, run: Path) -> None:
        """Train `recipe` in `run` on the file `part` of `data`, instead of what the recipe reads."""

    def serving(self) -> Rewriter:
        """The rewriter that serves now."""

    def searching(self, rewriter: Rewriter) -> AbstractContextManager[TurnSearch]:
        """Searching the collection as a turn does, with that rewriter."""

    def counting(self, doing: str, total: int) -> AbstractContextManager[Callable[[], None]]:
        """Return a callback to call once for each of `total` questions."""

    def say(self, text: str) -> None:
        """Tell a person how far it is."""


@dataclass(frozen=True, slots=True)
class AdaptationPlan:
    """Inputs that determine the result. `dialogs` is a finished folder of `anaphora synth`; `also` are files of rows.

    With `reviewed` what people reviewed is learnt from and judged by.
    """

    name: str
    documents: tuple[Path, ...]
    recipe: str
    dialogs: Path | None = None
    also: tuple[Path, ...] = ()
    questions: int = 400
    collection: str = ""
    """Where the documents are indexed and searched; empty: in one of the adaptation's name."""
    reviewed: bool = False

    @property
    def searched(self) -> str:
        """The name of the collection."""
        return self.collection or self.name

    def wanted(self) -> dict[str, Any]:
        """The plan as JSON values, to be recognised by."""
        return {
            "documents": [str(path) for path in self.documents],
            "recipe": self.recipe,
            "dialogs": str(self.dialogs or ""),
            "also": [str(path) for path in self.also],
            "questions": self.questions,
            "collection": self.collection,
            "reviewed": self.reviewed,
        }


@dataclass(frozen=True, slots=True)
class AdaptationResult:
    """Scores by name of the rewriter before and after, and the decision that follows from them.

    `milliseconds` are p50 and p95 of a rewrite. `promoted` is whether the new one serves now.
    """

    before: str
    after: str
    changes: tuple[Test, ...]
    milliseconds: dict[str, tuple[float, float]]
    reason: str
    promoted: bool


class Adaptation:
    """One adaptation of `home`. Raises RecipeError where one of that name was begun with another plan."""

    def __init__(self, home: Path, plan: AdaptationPlan, tools: AdaptationTools) -> None:
        self._home = home
        self._plan = plan
        self._tools = tools
        self._run = run_folder(home, plan.name)
        self._folder = home / "adapt" / plan.name
        self._data = self._folder / "data"
        self._synth = plan.dialogs or self._folder / "synth"
        self._state = AdaptationState(self._folder, plan.wanted())

    def run(self, *, promoting: bool = True) -> AdaptationResult | None:
        """Do the steps that are left; None where there is nothing to measure the new rewriter on.

        Raises EvaluationError where pairs or held-out questions are missing, and what the rooms below raise.
        """
        plan = self._plan
        if not (
            plan.reviewed or plan.dialogs or plan.also or self._tools.writes_dialogs or self._state.result("pairs")
        ):
            raise EvaluationError(NO_PAIRS)
        self._step("index", lambda: dict(zip(("documents", "passages"), self._tools.index(), strict=True)))
        self._step("pairs", self._pairs)
        if not (self._data / HELD).is_file():
            self._step("train", self._train)
            self._tools.say(UNMEASURED.format(name=plan.name))
            return None
        if self._state.result("train") is None:
            self._foretell()
        self._step("train", self._train)
        measured = self._step("evaluate", self._evaluate)
        promoted = promoting and self._step("promote", self._promote)["promoted"] == "yes"
        return AdaptationResult(
            measured["before"],
            measured["after"],
            tuple(Test(**change) for change in measured["changes"]),
            {when: (p50, p95) for when, (p50, p95) in measured["milliseconds"].items()},
            measured["reason"],
            promoted,
        )

    def _step(self, step: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """A step's result; it is done unless it was."""
        done = self._state.result(step)
        if done is None:
            self._tools.say(f"{step} …")
            done = self._state.finish(step, work())
        summary = ", ".join(f"{key} {value}" for key, value in done.items() if isinstance(value, str | int | float))
        self._tools.say(f"{step}: {summary or 'done'}")
        return done

    def _pairs(self) -> dict[str, Any]:
        """Rows to train on, and held-out questions where there are dialogs, or what was reviewed."""
        if self._plan.reviewed:
            return self._pairs_of_reviews()
        dialogs = Folder(self._synth) if self._plan.dialogs or self._tools.writes_dialogs else None
        if dialogs is not None and self._plan.dialogs is None:
            self._tools.write_dialogs(dialogs)
        train, held = write_pairs(self._data, dialogs, self._plan.also)
        return {"train": train, "held out": held}

    def _pairs_of_reviews(self) -> dict[str, Any]:
        """Read training pairs from reviewed conversations; each conversation is either for training or for
        validation."""
        everything, learnt = self._data / REVIEWED, self._data / f"train.{REVIEWED}"
        self._data.mkdir(parents=True, exist_ok=True)
        self._tools.write_reviewed(everything)
        split(everything, learnt, self._data / HELD, SEED)
        train, _ = write_pairs(self._data, None, (learnt, *self._plan.also))
        return {"train": train, "held out": len(self._held().judged)}

    def _held(self) -> EvalSet:
        """The held-out questions, judged by passages and documents of the collection."""
        if self._plan.reviewed:
            questions = from_reviewed(self._data / HELD)
        else:
            questions = from_dialogs(self._data / HELD, self._synth / "propositions.jsonl")
        with self._tools.searching(self._tools.serving()) as search:
            return placed(judged_set("held out", questions), cast("Collection", search.collection(self._plan.searched)))

    def _foretell(self) -> None:
        """Say where too little is held out to judge by; raises EvaluationError where nothing is."""
        judges = sum(bool(question.needs_rewrite) for question in self._asked().questions)
        by_hand = "decide nothing: what is trained now can be promoted by hand alone"
        if self._plan.reviewed:
            talks = len((self._data / REVIEWED).read_text("utf-8").splitlines())
            if talks < CONVERSATIONS or judges < LEAST:
                self._tools.say(
                    f"{talks} conversations were reviewed, and {judges} follow-ups with marked passages will judge; "
                    f"fewer than {CONVERSATIONS} conversations or {LEAST} such follow-ups {by_hand}."
                )
        elif judges < LEAST:
            self._tools.say(
                f"{judges} held-out follow-ups will judge the new rewriter, and fewer than {LEAST} {by_hand}. "
                "More documents, or reviews, give more."
            )

    def _train(self) -> dict[str, Any]:
        self._tools.train(self._plan.recipe, self._data, TRAIN, self._run)
        return {"run": self._plan.name, "family": describe(self._run)["family"]}

    def _evaluate(self) -> dict[str, Any]:
        """Compare the serving rewriter with the new run on the held-out questions."""
        chosen = self._asked()
        before = self._tools.serving()
        after = load_rewriter(self._run, Serving(timeout_seconds=PATIENT))
        measured, names = {}, {}
        for when, rewriter in (("before", before), ("after", after)):
            with self._tools.searching(rewriter) as search:
                names[when] = rewriter.name
                with self._tools.counting(f"searching with {names[when]} ({when})", len(chosen.questions)) as counted:
                    measured[when] = measure(search, self._plan.searched, chosen, counted)
        return {
            **asdict(judge(chosen.questions, measured["before"], measured["after"])),
            **names,
            "milliseconds": {
                when: [round(scores.p50_ms, 1), round(scores.p95_ms, 1)] for when, scores in measured.items()
            },
        }

    def _promote(self) -> dict[str, Any]:
        if not (self._state.result("evaluate") or {}).get("promote"):
            return {"promoted": "no"}
        before = promote(self._home, self._plan.name)
        return {"promoted": "yes", "instead of": before or "the default"}

    def _asked(self) -> EvalSet:
        """The held-out questions that decide. Raises EvaluationError where there are none."""
        chosen = drawn(self._held(), self._plan.questions, SEED)
        if not chosen.questions:
            raise EvaluationError(
                "No held-out question has an answer that can be found in the documents: there is nothing to measure "
                "on. Give more documents, or mark passages in further reviews."
            )
        return chosen
