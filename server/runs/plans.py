"""What may be started: for each command a closed set of fields, and the argument list that becomes of them.

Every value is one of a field's choices or a whole number within its bounds; paths come from the home and from what
collections were made from. Nothing of a request is an argument by itself, and no shell reads any.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

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

_SETS = {"doc2dial": "doc2dial", "synthetic": "synthetic", "mtrag": "mtrag-cloud", "product_dialogs": "product-*"}
"""Folder of data sets → what `anaphora eval` calls what is in it."""

_Choices: TypeAlias = Mapping[str, Sequence[str]]
"""What can be chosen → the arguments that say so."""


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
class CommandPlan:
    """A command of this home: what it begins with, its fields, and the choices that each one's values stand for.

    A field without choices is a number, and its option's name is the field's. `named` says where its run lies.
    """

    command: RunCommand
    about: str
    missing: str
    begins: tuple[str, ...]
    named: str
    fields: tuple[tuple[RunField, _Choices], ...]

    def shown(self) -> RunPlan:
        """What a form needs."""
        lacking = any(not field.choices and not field.most for field, _ in self.fields)
        fields = tuple(field for field, _ in self.fields)
        return RunPlan(command=self.command, about=self.about, fields=fields, missing=self.missing if lacking else "")

    def run(self, home: Path, name: str, values: Mapping[str, str]) -> PlannedRun:
        """With these values; a run without a name is called by its first field and the time. Raises PlanError."""
        if missing := self.shown().missing:
            raise PlanError(missing)
        if unknown := [key for key in values if key not in {field.name for field, _ in self.fields}]:
            raise PlanError(f"There is no field {unknown[0][:80]!r} of {self.command}.")
        fields, arguments = dict[str, str](), list(self.begins)
        for field, choices in self.fields:
            value = fields[field.name] = values.get(field.name, field.default)
            if choices and value not in choices:
                raise PlanError(f"{field.name} is one of {', '.join(choices)}, not {value[:80]!r}.")
            number = value.isascii() and value.isdecimal() and len(value) < 10
            if not choices and not (number and field.least <= int(value) <= field.most):
                raise PlanError(
                    f"{field.name} is a whole number from {field.least} to {field.most}, not {value[:80]!r}."
                )
            arguments += choices[value] if choices else [f"--{field.name.replace('_', '-')}={value}"]
        name = name or f"{next(iter(fields.values())).replace('/', '-')[:40]}-{time.strftime('%Y%m%d-%H%M%S')}"
        group = _trained(fields["recipe"]) if self.command == "train" else self.command
        folder = home / FOLDERS[group] / name
        return PlannedRun(
            self.command, group, folder, fields, (*arguments, self.named.format(name=name, folder=folder))
        )


def plans(home: Path, collections: Mapping[str, Iterable[Path]]) -> dict[str, CommandPlan]:
    """Every command, with what this home and the files of its collections offer to it."""
    documents = {name: tuple(map(str, paths)) for name, paths in collections.items()}
    data = home / "data"
    made = {path.parent.name: path.parent for path in sorted((home / FOLDERS["synth"]).glob("*/dialogs.train.jsonl"))}
    sets = {f"synth/{name}": (f"--sets=synth:{path}",) for name, path in made.items()} | {
        name: (f"--sets={name}", f"--data={data}") for folder, name in _SETS.items() if (data / folder).is_dir()
    }
    rows = {f"adapt/{path.parents[1].name}": path.parent for path in sorted(home.glob("adapt/*/data/train.jsonl"))}
    folders = ({"data": data} if data.is_dir() else {}) | rows
    no_files = "There is no collection whose files are known. Add documents first."
    found = (
        CommandPlan(
            "synth",
            "Has the language model write propositions and dialogs from the documents of a collection.",
            no_files,
            ("synth", "make"),
            "--out={folder}",
            (
                _choice("collection", "Documents of", documents),
                _choice("until", "Make", {one: (f"--until={one}",) for one in ("dialogs", "propositions")}),
                _number("windows", "Most windows of a document (0: all)", 0, 10_000, 0),
                _number("list_size", "Propositions a dialog is made from", 2, 200, 30),
                _number("minutes", "Ask nothing new after so many minutes (0: no limit)", 0, 100_000, 0),
            ),
        ),
        CommandPlan(
            "train",
            "Trains a rewriter, a cross-encoder or a reader by a recipe.",
            "There is nothing to train on: an adaptation makes data from documents, and data sets of your own go into "
            "the folder data of the home.",
            ("train",),
            "--name={name}",
            (
                _choice("recipe", "Recipe", {name: (name,) for name in recipes()}),
                _choice("data", "Data", {name: (f"--data={path}",) for name, path in folders.items()}),
                _number("seed", "Seed", 0, 1_000_000, 1),
            ),
        ),
        CommandPlan(
            "adapt",
            "Trains for the documents of a collection, measures before and after, and promotes where it is better.",
            no_files,
            ("adapt",),
            "--name={name}",
            (
                _choice(
                    "collection",
                    "Documents of",
                    {name: (*paths, f"--collection={name}") for name, paths in documents.items()},
                ),
                _choice(
                    "recipe",
                    "What to train",
                    {name: (f"--recipe={name}",) for name in recipes() if not name.endswith("-adapt")},
                    "terms",
                ),
                _choice(
                    "learn",
                    "Learn from",
                    {"dialogs to be written": (), "reviews": ("--from=review",)}
                    | {name: (f"--dialogs={path}",) for name, path in made.items()},
                ),
                _number("questions", "Held-out questions to measure on, at most", 1, 10_000, 400),
                _choice("promote", "Promote where it is better", {"no": ("--no-promote",), "yes": ("--promote",)}),
            ),
        ),
        CommandPlan(
            "eval",
            "Measures searching or answering on questions whose answers are known.",
            "There is nothing to measure on: a finished run of synth will do, or data sets in the folder data of the "
            "home.",
            ("eval",),
            "--name={name}",
            (
                _choice("measure", "Measure", {one: (one,) for one in ("retrieval", "answers")}),
                _choice("set", "Measured on", sets),
                _number("every", "Every so manieth question", 1, 1000, 1),
            ),
        ),
        CommandPlan(
            "diagnose",
            "Asks questions whose answers are known, and traces each failure to its stage.",
            "No questions found. Put files of them (docs/operate/diagnose.md) into the folder gold of the home.",
            ("diagnose",),
            "--out={folder}",
            (
                _choice("collection", "Collection", {name: (f"--collection={name}",) for name in documents}),
                _choice("gold", "Questions", {path.name: (str(path),) for path in sorted(home.glob("gold/*.jsonl"))}),
            ),
        ),
    )
    return {plan.command: plan for plan in found}


def _choice(name: str, label: str, choices: _Choices, default: str = "") -> tuple[RunField, _Choices]:
    first = default or next(iter(choices), "")
    return RunField(name=name, label=label, choices=tuple(choices), default=first), choices


def _number(name: str, label: str, least: int, most: int, default: int) -> tuple[RunField, _Choices]:
    return RunField(name=name, label=label, least=least, most=most, default=str(default)), {}


def _trained(recipe: str) -> RunGroup:
    made = family(read_recipe(recipe).model.family).kind.folder
    return next(group for group, folder in FOLDERS.items() if folder == made)
