"""Writes a run's numbers and dialogs as `report.md`, `report.html` and the data set card.

Texts of dialogs come from a model that read hostile documents: they are escaped wherever they stand.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import regex

from synth.dialogs.assemble import Rejected
from synth.dialogs.lists import Dialog, read_dialogs
from synth.facts import RunFacts
from synth.folder import SIDES, Folder
from text.files import write_text

EXAMPLES = 10
REJECTED_EXAMPLES = 12
_MARKDOWN = regex.compile(r"([\\`*_{}\[\]<>()#+!|~$&])")


@dataclass(frozen=True, slots=True)
class Material:
    """Inputs of a report."""

    facts: RunFacts
    dialogs: Sequence[Dialog]
    rejected: Sequence[Rejected]


def write_reports(folder: Folder, facts: RunFacts) -> None:
    """Write numbers, report and card of a run into its folder."""
    write_text(folder.facts, facts.model_dump_json(indent=2) + "\n")
    inputs = material(folder, facts)
    write_text(folder.path / "report.md", render("report.md", inputs))
    write_text(folder.path / "report.html", render("report.html", inputs))
    if facts.dialogs:
        write_text(folder.card, render("card.md", inputs))


def material(folder: Folder, facts: RunFacts) -> Material:
    """The numbers with example dialogs (drawn by the run's seed) and some rejections of each reason."""
    dialogs = [
        dialog for side in SIDES if folder.dialogs(side).is_file() for dialog in read_dialogs(folder.dialogs(side))
    ]
    drawn = random.Random(facts.seed).sample(dialogs, min(EXAMPLES, len(dialogs)))
    rejected: list[Rejected] = []
    if folder.rejected.is_file():
        lines = folder.rejected.read_text("utf-8").splitlines()
        rejected = [Rejected.model_validate_json(line) for line in lines]
    return Material(facts, drawn, _spread(rejected, REJECTED_EXAMPLES))


def render(name: str, material: Material) -> str:
    """A template of this package filled with a run; HTML is escaped by the template engine, Markdown by `md`."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined, select_autoescape

    environment = Environment(
        loader=FunctionLoader(lambda file: files(__package__).joinpath(f"{file}.jinja").read_text("utf-8")),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["md"] = markdown
    environment.filters["duration"] = _duration
    return environment.get_template(name).render(
        facts=material.facts, dialogs=material.dialogs, rejected=material.rejected, sides=SIDES
    )


def markdown(text: Any) -> str:
    """Text as one line that Markdown shows as it is."""
    return str(_MARKDOWN.sub(r"\\\1", " ".join(str(text).split())))


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def _spread(rejected: Sequence[Rejected], most: int) -> list[Rejected]:
    """Some of every reason, the reasons taking turns."""
    by_reason: dict[tuple[str, str], list[Rejected]] = {}
    for rejection in rejected:
        by_reason.setdefault((rejection.what, rejection.reason), []).append(rejection)
    rejecteds: list[Rejected] = []
    while by_reason and len(rejecteds) < most:
        for key in list(by_reason):
            rejecteds.append(by_reason[key].pop(0))
            if not by_reason[key]:
                del by_reason[key]
    return rejecteds[:most]
