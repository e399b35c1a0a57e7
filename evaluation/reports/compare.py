"""Two runs, or two systems, side by side: what differs, how surely, and which questions made the difference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evaluation.errors import EvaluationError
from evaluation.metrics.ranking import read_run as read_ranking
from evaluation.metrics.significance import estimate, holm, randomisation
from evaluation.reports.runs import EvaluationRun, scores_path, slug
from evaluation.sets.rows import json_rows

PLACES = 3
"""Passages shown of a ranking."""

CHARS = 220


@dataclass(frozen=True, slots=True)
class Difference:
    """A measure over the questions both sides answered: `after` minus `before`, its 95 % interval, and p."""

    set: str
    level: str
    before_system: str
    after_system: str
    measure: str
    before: float
    after: float
    low: float
    high: float
    p: float
    p_holm: float
    n: int

    @property
    def difference(self) -> float:
        return self.after - self.before


@dataclass(frozen=True, slots=True)
class ChangedQuestion:
    """One question that won or lost, with what each side had to show for it."""

    set: str
    level: str
    question: str
    before_system: str
    after_system: str
    before: float
    after: float
    asked: tuple[str, ...] = ()
    """The end of the conversation, the question last."""

    before_evidence: tuple[str, ...] = ()
    after_evidence: tuple[str, ...] = ()

    def shown(self, before: EvaluationRun, after: EvaluationRun) -> ChangedQuestion:
        """With what the runs kept of it."""
        return replace(
            self,
            asked=asked(before, self.set, self.question),
            before_evidence=evidence(before, self.set, self.before_system, self.level, self.question),
            after_evidence=evidence(after, self.set, self.after_system, self.level, self.question),
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything that differs between two runs. `changes` hold the biggest winners first, then losers."""

    before: EvaluationRun
    after: EvaluationRun
    measure: str
    differences: tuple[Difference, ...]
    winners: tuple[ChangedQuestion, ...]
    losers: tuple[ChangedQuestion, ...]


def compare(
    before: EvaluationRun,
    after: EvaluationRun,
    *,
    measures: Sequence[str] = (),
    systems: Mapping[str, str] | None = None,
    shown: int = 5,
) -> Comparison:
    """`after` against `before`, over every set, level and system both have.

    `systems` pairs names where a system is called differently, or another one is meant. The first of `measures`
    picks winners and losers; by default all that were tested or measured. All tests are one family for Holm.

    Raises EvaluationError where the runs share nothing.
    """
    places = list(_shared(before, after, systems))
    if not places:
        raise EvaluationError(
            f"{before.name} and {after.name} share no set and system: nothing can be compared. Pair systems of "
            "different names with --systems A=B."
        )
    measures = tuple(measures) or _measures(before)
    differences: list[Difference] = []
    changes: list[ChangedQuestion] = []
    first_level: dict[str, str] = {}
    for set_name, level, old, new in places:
        first, second = before.scores(set_name, old, level), after.scores(set_name, new, level)
        names = [name for name in first if name in second]
        dialogs = _dialogs(before, set_name)
        clusters = [dialogs.get(name, name) for name in names]
        for measure in measures:
            if not names or measure not in first[names[0]] or measure not in second[names[0]]:
                continue
            pairs = [(first[name][measure], second[name][measure]) for name in names]
            gains = [new_value - old_value for old_value, new_value in pairs]
            gain, p = estimate(gains, clusters), randomisation(gains, clusters)
            was, now = (sum(column) / len(pairs) for column in zip(*pairs, strict=True))
            differences.append(
                Difference(set_name, level, old, new, measure, was, now, gain.low, gain.high, p, p, len(pairs))
            )
            # Of a question that wins on several levels, the first level is enough.
            if measure == measures[0] and level == first_level.setdefault(set_name, level):
                changes += [
                    ChangedQuestion(set_name, level, name, old, new, *pair)
                    for name, pair in zip(names, pairs, strict=True)
                    if pair[0] != pair[1]
                ]
    corrected = holm([one.p for one in differences])
    changes.sort(key=lambda change: change.before - change.after)
    winners = [change for change in changes if change.after > change.before][:shown]
    losers = [change for change in reversed(changes) if change.after < change.before][:shown]
    return Comparison(
        before,
        after,
        measures[0],
        tuple(replace(one, p_holm=p_holm) for one, p_holm in zip(differences, corrected, strict=True)),
        tuple(change.shown(before, after) for change in winners),
        tuple(change.shown(before, after) for change in losers),
    )


def _measures(run: EvaluationRun) -> tuple[str, ...]:
    tested = tuple(dict.fromkeys(test.measure for test in run.tests))
    return tested or tuple(dict.fromkeys(metric.measure for metric in run.metrics))


def _shared(
    before: EvaluationRun, after: EvaluationRun, systems: Mapping[str, str] | None
) -> Iterator[tuple[str, str, str, str]]:
    there = {(metric.set, metric.level, metric.system) for metric in after.metrics}
    for set_name, level, system in dict.fromkeys((m.set, m.level, m.system) for m in before.metrics):
        other = systems.get(system, "") if systems else system
        files = ((before, system), (after, other))
        if (set_name, level, other) in there and all(
            scores_path(run.folder, set_name, name, level).is_file() for run, name in files
        ):
            yield set_name, level, system, other


def _dialogs(run: EvaluationRun, set_name: str) -> dict[str, str]:
    path = run.folder / slug(set_name) / "questions.jsonl"
    return {str(row["id"]): str(row.get("dialog", row["id"])) for _, row in json_rows(path)} if path.is_file() else {}


def asked(run: EvaluationRun, set_name: str, question: str) -> tuple[str, ...]:
    """The last turns before a question and the question itself, as a run kept them."""
    path = run.folder / slug(set_name) / "questions.jsonl"
    if not path.is_file():
        return (question,)
    row = next((row for _, row in json_rows(path) if row.get("id") == question), {})
    turns = [f"{turn['role']}: {_short(turn['text'])}" for turn in row.get("history", [])[-2:]]
    written = [f"a person's rewrite: {row['rewrite']}"] if row.get("rewrite") else []
    return (*turns, f"user: {_short(str(row.get('text', question)))}", *written)


def evidence(run: EvaluationRun, set_name: str, system: str, level: str, question: str) -> tuple[str, ...]:
    """What a system had to show for a question: what it wrote, else the top of its ranking."""
    folder = run.folder / slug(set_name)
    written = folder / slug(system) / "evidence.jsonl"
    if written.is_file():
        row = next((row for _, row in json_rows(written) if row.get("id") == question), {})
        return tuple(_short(str(line), 4 * CHARS) for line in row.get("shown", []))
    ranking = folder / slug(system) / f"{level}.trec"
    if not ranking.is_file():
        return ()
    asked_row = next((row for _, row in json_rows(folder / "questions.jsonl") if row.get("id") == question), {})
    relevant = set(asked_row.get("relevant", {}).get(level, ()))
    passages: dict[str, dict[str, Any]] = {}
    for _, row in json_rows(folder / "passages.jsonl"):
        passages[row["id"]] = row
        passages.setdefault(row["document"], row)
    lines = []
    form = system.partition(":")[0]
    if form in asked_row.get("rewrites", {}):
        lines.append(f"rewritten: {asked_row['rewrites'][form]}")
    found = read_ranking(ranking).get(question, [])
    for rank, item in enumerate(found[:PLACES], 1):
        text = passages.get(item, {}).get("text", "")
        title = passages.get(item, {}).get("title", "")
        mark = " (relevant)" if item in relevant else ""
        lines.append(f"{rank}.{mark} {item} {title}: {_short(text)}")
    places = [str(found.index(item) + 1) if item in found else "not found" for item in sorted(relevant)]
    lines.append(f"relevant at rank: {', '.join(places) or 'nothing is relevant'}")
    return tuple(lines)


def _short(text: str, chars: int = CHARS) -> str:
    text = " ".join(text.split())
    return text if len(text) <= chars else text[: chars - 1] + "…"
