"""What may be started: for each command a closed set of fields, and the argument list that becomes of them.

Every value is one of a field's choices or a whole number within its bounds; paths come from the home and from what
collections were made from. Nothing of a request is an argument by itself, and no shell reads any.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rewriter.load import READERS, RERANKERS, REWRITERS
from rewriter.training.families import family
from rewriter.training.recipe import read_recipe, recipes
from server.runs.records import RunCommand, RunField, RunGroup, RunPlan

FOLDERS: Mapping[RunGroup, str] = {
    "synth": "synth",
    "adapt": "adapt",
    "rewriters": REWRITERS.folder,
    "rerankers": RERANKERS.folder,
    "readers": READERS.folder,
    "eval": "eval/runs",
    "diagnose": "diagnose",
}
"""Where the runs of each group lie in a home."""

DATA = "data"
"""The folder of a home for data sets of one's own."""
_SETS = {
    "doc2dial": "doc2dial",
    "synthetic": "synthetic",
    "mtrag": "mtrag-cloud",
    "product_dialogs": "product-*",
}
"""Folder of data sets → what `anaphora eval` calls what is in it."""


class PlanError(Exception):
    """A run that cannot be started as it was asked for; the message says why."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A command ready to start: `arguments` go to `anaphora`, `folder` is the run's."""

    command: RunCommand
    group: RunGroup
    folder: Path
    fields: dict[str, str]
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Offer:
    """What a home has to start runs with: the paths of collections, and folders by the names they are chosen by."""

    home: Path
    collections: Mapping[str, Sequence[Path]]

    def plans(self) -> list[RunPlan]:
        """Every command, with its fields."""
        return [plan.shown(self) for plan in _PLANS]

    def plan(self, command: str, name: str, values: Mapping[str, str]) -> PlannedRun:
        """The command with these values; a run without a name is called by its first field and the time.

        Raises PlanError.
        """
        plan = next((plan for plan in _PLANS if plan.command == command), None)
        if plan is None:
            raise PlanError(f"There is no command {command[:80]!r} to start; there are {', '.join(_BY_NAME)}.")
        shown = plan.shown(self)
        if shown.missing:
            raise PlanError(shown.missing)
        if unknown := [key for key in values if key not in {field.name for field in shown.fields}]:
            raise PlanError(f"There is no field {unknown[0][:80]!r} of {command}.")
        fields = {field.name: _checked(field, values.get(field.name, field.default)) for field in shown.fields}
        chosen = name or f"{next(iter(fields.values())).replace('/', '-')[:40]}-{time.strftime('%Y%m%d-%H%M%S')}"
        group = plan.group(fields)
        folder = self.home / FOLDERS[group] / chosen
        return PlannedRun(plan.command, group, folder, fields, tuple(plan.arguments(self, fields, folder)))

    def synth_runs(self) -> dict[str, Path]:
        """Finished runs of `anaphora synth`, by name."""
        found = sorted((self.home / FOLDERS["synth"]).glob("*/dialogs.train.jsonl"))
        return {path.parent.name: path.parent for path in found}

    def training_data(self) -> dict[str, Path]:
        """Folders that recipes can read from."""
        found = {f"adapt/{path.parents[1].name}": path.parent for path in self._found("adapt/*/data/train.jsonl")}
        return ({DATA: self.home / DATA} if (self.home / DATA).is_dir() else {}) | found

    def sets(self) -> dict[str, tuple[str, ...]]:
        """What can be measured on, and the arguments that say so."""
        found = {f"synth/{name}": (f"--sets=synth:{path}",) for name, path in self.synth_runs().items()}
        data = self.home / DATA
        there = [(folder, name) for folder, name in _SETS.items() if (data / folder).is_dir()]
        return found | {name: (f"--sets={name}", f"--data={data}") for _, name in there}

    def gold(self) -> dict[str, Path]:
        """Files of questions with their answers."""
        return {path.name: path for path in self._found("gold/*.jsonl")}

    def _found(self, pattern: str) -> list[Path]:
        return sorted(self.home.glob(pattern))


@dataclass(frozen=True, slots=True)
class _Plan:
    command: RunCommand
    about: str
    fields: Callable[[Offer], Iterator[RunField]]
    group: Callable[[Mapping[str, str]], RunGroup]
    arguments: Callable[[Offer, Mapping[str, str], Path], Sequence[str]]
    missing: str

    def shown(self, offer: Offer) -> RunPlan:
        fields = tuple(self.fields(offer))
        lacking = any(not field.choices and not field.most for field in fields)
        return RunPlan(command=self.command, about=self.about, fields=fields, missing=self.missing if lacking else "")


def _checked(field: RunField, value: str) -> str:
    if field.choices:
        if value not in field.choices:
            raise PlanError(f"{field.name} is one of {', '.join(field.choices)}, not {value[:80]!r}.")
    elif not (value.isascii() and value.isdecimal() and len(value) < 10 and field.least <= int(value) <= field.most):
        raise PlanError(f"{field.name} is a whole number from {field.least} to {field.most}, not {value[:80]!r}.")
    return value


def _choice(name: str, label: str, choices: Sequence[str], default: str = "") -> RunField:
    return RunField(name=name, label=label, choices=tuple(choices), default=default or next(iter(choices), ""))


def _number(name: str, label: str, least: int, most: int, default: int) -> RunField:
    return RunField(name=name, label=label, least=least, most=most, default=str(default))


def _synth_fields(offer: Offer) -> Iterator[RunField]:
    yield _choice("collection", "Documents of", list(offer.collections))
    yield _choice("until", "Make", ("dialogs", "propositions"))
    yield _number("windows", "Most windows of a document (0: all)", 0, 10_000, 0)
    yield _number("list_size", "Propositions a dialog is made from", 2, 200, 30)
    yield _number("minutes", "Ask nothing new after so many minutes (0: no limit)", 0, 100_000, 0)


def _synth(offer: Offer, fields: Mapping[str, str], folder: Path) -> Sequence[str]:
    options = (f"--{name.replace('_', '-')}={value}" for name, value in fields.items() if name != "collection")
    return ("synth", "make", *map(str, offer.collections[fields["collection"]]), f"--out={folder}", *options)


def _train_fields(offer: Offer) -> Iterator[RunField]:
    yield _choice("recipe", "Recipe", recipes())
    yield _choice("data", "Data", list(offer.training_data()))
    yield _number("seed", "Seed", 0, 1_000_000, 1)


def _train(offer: Offer, fields: Mapping[str, str], folder: Path) -> Sequence[str]:
    data = offer.training_data()[fields["data"]]
    return ("train", fields["recipe"], f"--data={data}", f"--name={folder.name}", f"--seed={fields['seed']}")


def _adapt_fields(offer: Offer) -> Iterator[RunField]:
    yield _choice("collection", "Documents of", list(offer.collections))
    yield _choice("recipe", "What to train", [name for name in recipes() if not name.endswith("-adapt")], "terms")
    yield _choice("learn", "Learn from", ("dialogs to be written", "reviews", *offer.synth_runs()))
    yield _number("questions", "Held-out questions to measure on, at most", 1, 10_000, 400)
    yield _choice("promote", "Promote where it is better", ("no", "yes"))


def _adapt(offer: Offer, fields: Mapping[str, str], folder: Path) -> Sequence[str]:
    reviewed, dialogs = fields["learn"] == "reviews", offer.synth_runs().get(fields["learn"])
    return (
        "adapt",
        *(["--from=review"] if reviewed else map(str, offer.collections[fields["collection"]])),
        f"--name={folder.name}",
        f"--collection={fields['collection']}",
        f"--recipe={fields['recipe']}",
        *([f"--dialogs={dialogs}"] if dialogs else []),
        f"--questions={fields['questions']}",
        "--promote" if fields["promote"] == "yes" else "--no-promote",
    )


def _eval_fields(offer: Offer) -> Iterator[RunField]:
    yield _choice("set", "Measured on", list(offer.sets()))
    yield _choice("measure", "Measure", ("retrieval", "answers"))
    yield _number("every", "Every so manieth question", 1, 1000, 1)


def _eval(offer: Offer, fields: Mapping[str, str], folder: Path) -> Sequence[str]:
    on = offer.sets()[fields["set"]]
    return ("eval", fields["measure"], *on, f"--every={fields['every']}", f"--name={folder.name}")


def _diagnose_fields(offer: Offer) -> Iterator[RunField]:
    yield _choice("collection", "Collection", list(offer.collections))
    yield _choice("gold", "Questions", list(offer.gold()))


def _diagnose(offer: Offer, fields: Mapping[str, str], folder: Path) -> Sequence[str]:
    gold = offer.gold()[fields["gold"]]
    return ("diagnose", str(gold), f"--collection={fields['collection']}", f"--out={folder}")


def _trained_group(fields: Mapping[str, str]) -> RunGroup:
    made = family(read_recipe(fields["recipe"]).model.family).kind.folder
    return next(group for group, folder in FOLDERS.items() if folder == made)


_PLANS = (
    _Plan(
        "synth",
        "Has the language model write propositions and dialogs from the documents of a collection.",
        _synth_fields,
        lambda _: "synth",
        _synth,
        "There is no collection whose files are known. Add documents first.",
    ),
    _Plan(
        "train",
        "Trains a rewriter, a cross-encoder or a reader by a recipe.",
        _train_fields,
        _trained_group,
        _train,
        "There is nothing to train on: an adaptation makes data from documents, and data sets of your own go into the "
        f"folder {DATA} of the home.",
    ),
    _Plan(
        "adapt",
        "Trains for the documents of a collection, measures before and after, and promotes where it is better.",
        _adapt_fields,
        lambda _: "adapt",
        _adapt,
        "There is no collection whose files are known. Add documents first.",
    ),
    _Plan(
        "eval",
        "Measures searching or answering on questions whose answers are known.",
        _eval_fields,
        lambda _: "eval",
        _eval,
        f"There is nothing to measure on: a finished run of synth will do, or data sets in the folder {DATA} of the "
        "home.",
    ),
    _Plan(
        "diagnose",
        "Asks questions whose answers are known, and traces each failure to its stage.",
        _diagnose_fields,
        lambda _: "diagnose",
        _diagnose,
        "There are no questions to ask: put files of them (docs/diagnose.md) into the folder gold of the home.",
    ),
)
_BY_NAME = tuple(plan.command for plan in _PLANS)
