"""Runs as tables: for the terminal and the documentation as Markdown, and for `evaluation.reports.page`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evaluation.errors import EvaluationError
from evaluation.metrics.ranking import read_run as read_ranking
from evaluation.metrics.significance import estimate, holm, randomisation
from evaluation.reports.run_folder import EvaluationRun, Metric, scores_path, slug
from evaluation.sets.base import GROUPINGS, json_rows

SHOWN = {
    "retrieval": ("AP", "R@1", "R@5", "R@10", "R@20", "nDCG@5", "RR"),
}
"""The columns of a kind of run; other kinds show everything they measured."""

HEADINGS = {"AP": "MAP", "RR": "MRR"}


@dataclass(frozen=True, slots=True)
class Table:
    """A heading and rows, whose texts are not yet escaped."""

    head: Sequence[str]
    rows: Sequence[Sequence[object]]


def cell(text: object) -> str:
    """A text that cannot break out of its cell."""
    return " ".join(str(text).split()).replace("|", "\\|")


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table; the first columns of text left, everything else as it is."""
    lines = [f"| {' | '.join(map(cell, head))} |", "|" + "---|" * len(head)]
    lines += [f"| {' | '.join(map(cell, row))} |" for row in rows]
    return "\n".join(lines)


def summary(run: EvaluationRun) -> str:
    """`summaries` as Markdown."""
    return "\n\n".join(table(block.head, block.rows) for block in summaries(run))


def summaries(run: EvaluationRun, *, intervals: bool = False) -> list[Table]:
    """Every system of every set, one row each; levels that measure different things in tables of their own."""
    overall = [metric for metric in run.metrics if metric.part == "all"]
    groups: dict[tuple[str, ...], list[Metric]] = {}
    for level in dict.fromkeys(metric.level for metric in overall):
        here = [metric for metric in overall if metric.level == level]
        measures = SHOWN.get(run.kind) or tuple(dict.fromkeys(metric.measure for metric in here))
        groups.setdefault(measures, []).extend(here)
    return [_summary(run, metrics, measures, intervals) for measures, metrics in groups.items()]


def _summary(run: EvaluationRun, metrics: Sequence[Metric], measures: Sequence[str], intervals: bool) -> Table:
    latencies = {(latency.set, latency.system): latency for latency in run.latencies}
    rows = []
    for key, values in grouped(metrics, "set", "level", "system").items():
        row: list[object] = [*key, *(shown(values.get(measure), intervals=intervals) for measure in measures)]
        timed = latencies.get((key[0], key[2]))
        if run.latencies:
            row += [f"{1000 * timed.p50:.0f}", f"{1000 * timed.p95:.0f}"] if timed else ["", ""]
        row.append(max(metric.n for metric in values.values()))
        rows.append(row)
    timing = ["ms p50", "ms p95"] if run.latencies else []
    return Table(["set", "level", "system", *headings(measures), *timing, "n"], rows)


def headings(measures: Iterable[str]) -> list[str]:
    """Measures as columns are called."""
    return [HEADINGS.get(measure, measure) for measure in measures]


def grouped(metrics: Iterable[Metric], *fields: str) -> dict[tuple[str, ...], dict[str, Metric]]:
    """Metrics by these fields of theirs, then by measure, in the order they were measured."""
    groups: dict[tuple[str, ...], dict[str, Metric]] = {}
    for metric in metrics:
        groups.setdefault(tuple(getattr(metric, field) for field in fields), {})[metric.measure] = metric
    return groups


def tests(run: EvaluationRun) -> Table:
    """Return the significance tests against the baseline."""
    rows = [
        [
            t.set,
            t.level,
            *headings([t.measure]),
            t.system,
            t.baseline,
            *_difference(t.difference, t.low, t.high, t.p_holm),
        ]
        for t in run.tests
    ]
    return Table(["set", "level", "measure", "system", "against", "difference", "95 %", "p"], rows)


def differences(comparison: Comparison) -> Table:
    """Return the differences between two runs."""
    rows = [
        [
            d.set,
            d.level,
            d.after_system if d.after_system == d.before_system else f"{d.before_system} → {d.after_system}",
            *headings([d.measure]),
            f"{d.before:.3f}",
            f"{d.after:.3f}",
            *_difference(d.difference, d.low, d.high, d.p_holm),
            str(d.n),
        ]
        for d in comparison.differences
    ]
    head = ["set", "level", "system", "measure", "before", "after", "difference", "95 %", "p (Holm)", "n"]
    return Table(head, rows)


def _difference(difference: float, low: float, high: float, p: float) -> tuple[str, str, str]:
    return f"{difference:+.3f}", f"{low:+.3f} to {high:+.3f}", p_value(p)


def parts(run: EvaluationRun, by: str) -> str:
    """The parts of every set by one of `GROUPINGS`, the systems of each beside one another.

    Sets that were also measured together (`product-uv` in `product`) are shown together.
    """
    sets = {metric.set for metric in run.metrics}
    wanted = [
        metric
        for metric in run.metrics
        if metric.part.startswith(GROUPINGS[by]) and metric.set.partition("-")[0] not in sets - {metric.set}
    ]
    measures = SHOWN.get(run.kind) or tuple(dict.fromkeys(metric.measure for metric in wanted))
    wanted.sort(key=lambda metric: (metric.set, metric.level, metric.part))
    rows = [
        [*key, *(shown(values.get(measure)) for measure in measures), next(iter(values.values())).n]
        for key, values in grouped(wanted, "set", "level", "part", "system").items()
    ]
    return table(["set", "level", "part", "system", *headings(measures), "n"], rows)


_SYSTEM = re.compile(r"(?P<head>(?P<form>.*):(?P<retriever>\w+))(?P<reading>\+rerank(?:-always)?)?(?P<label>@\w+)?")
_GAP = 0.005
"""A written question that finds no more than this leaves nothing to close."""


def gap(run: EvaluationRun) -> str:
    """Every set with its systems side by side: the typed question, rewriters, and what a person wrote.

    Below that the same by kind of reference and by need. "Gap closed" is how far the MAP of each rewriter has come
    from that of the typed question, searched in the same way, to that of the written one. Of a set with several levels
    the first is shown.
    """
    level = {metric.set: metric.level for metric in reversed(run.metrics)}
    metrics = [metric for metric in run.metrics if metric.level == level[metric.set]]
    sets = {metric.set for metric in metrics}
    apart = [metric for metric in metrics if metric.set.partition("-")[0] not in sets - {metric.set}]
    blocks = [
        _gap(run, [metric for metric in metrics if metric.part == "all"], ("AP", "R@5", "R@10", "R@20", "nDCG@5"))
    ]
    for by in ("kind", "need"):
        if rows := [metric for metric in apart if metric.part.startswith(GROUPINGS[by])]:
            blocks.append(_gap(run, rows, ("AP", "R@5")))
    return "\n\n".join(blocks) + "\n"


def _gap(run: EvaluationRun, metrics: Sequence[Metric], measures: Sequence[str]) -> str:
    by_system: dict[tuple[str, str], dict[str, dict[str, Metric]]] = {}
    for metric in metrics:
        by_system.setdefault((metric.set, metric.part), {}).setdefault(metric.system, {})[metric.measure] = metric
    named = {name: match for name in dict.fromkeys(m.system for m in metrics) if (match := _SYSTEM.fullmatch(name))}
    order = {"typed": 0, "context": 1, "human": 3}
    matches = sorted(named.values(), key=lambda match: (order.get(match["form"], 2), match["label"] is None))
    columns = dict.fromkeys((match["head"], match["label"] or "") for match in matches)
    times = {(latency.set, latency.system): f"{1000 * latency.p50:.0f}" for latency in run.latencies}
    timed = bool(times) and all(metric.part == "all" for metric in metrics)
    rows: list[list[object]] = []
    for (set_name, part), systems in by_system.items():
        for reading in sorted({match["reading"] or "" for name, match in named.items() if name in systems}):
            names = [f"{head}{reading}{label}" for head, label in columns]
            cells = [
                " / ".join(f"{systems[name][measure].mean:.3f}".lstrip("0") for measure in measures)
                if name in systems
                else ""
                for name in names
            ]
            place = set_name if part == "all" else f"{set_name}: {part}"
            count = next(iter(next(iter(systems.values())).values())).n
            gaps = [share for name in names if name in systems and (share := _closed(systems, named[name]))]
            closed = " → ".join(dict.fromkeys(gaps) if {*gaps} == {"–"} else gaps)
            milliseconds = [" / ".join(times.get((set_name, name), "–") for name in names)] if timed else []
            rows.append([f"{place} ({count})", reading.removeprefix("+"), *cells, closed, *milliseconds])
    head = [
        "set",
        "read again",
        *(column + label for column, label in columns),
        "gap closed",
        *(["ms p50"] if timed else []),
    ]
    return f"{' / '.join(headings(measures))}:\n\n{table(head, rows)}"


def _closed(systems: Mapping[str, Mapping[str, Metric]], match: re.Match[str]) -> str:
    tail = f":{match['retriever']}{match['reading'] or ''}"
    if match["form"] in ("typed", "context", "human") or not {f"typed{tail}", f"human{tail}"} <= systems.keys():
        return ""
    low, now, high = (systems[name]["AP"].mean for name in (f"typed{tail}", match[0], f"human{tail}"))
    return f"{100 * (now - low) / (high - low):.0f} %" if high - low > _GAP else "–"


def p_value(p: float) -> str:
    """A p as papers print it."""
    return "< .001" if p < 0.001 else f"{p:.3f}".lstrip("0")


def shown(metric: Metric | None, *, intervals: bool = False) -> str:
    """A metric's mean, with its interval where that is asked for and there is one."""
    if metric is None:
        return ""
    if not intervals or math.isnan(metric.low):
        return f"{metric.mean:.3f}"
    return f"{metric.mean:.3f} ({metric.low:.3f}–{metric.high:.3f})"


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
    corrected = holm([difference.p for difference in differences])
    changes.sort(key=lambda change: change.before - change.after)
    winners = [change for change in changes if change.after > change.before][:shown]
    losers = [change for change in reversed(changes) if change.after < change.before][:shown]
    return Comparison(
        before,
        after,
        measures[0],
        tuple(replace(difference, p_holm=p_holm) for difference, p_holm in zip(differences, corrected, strict=True)),
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
    """Return a system's output for a question: its written text, else the top of its ranking."""
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
    ids = read_ranking(ranking).get(question, [])
    for rank, item in enumerate(ids[:PLACES], 1):
        text = passages.get(item, {}).get("text", "")
        title = passages.get(item, {}).get("title", "")
        mark = " (relevant)" if item in relevant else ""
        lines.append(f"{rank}.{mark} {item} {title}: {_short(text)}")
    places = [str(ids.index(item) + 1) if item in ids else "not found" for item in sorted(relevant)]
    lines.append(f"relevant at rank: {', '.join(places) or 'nothing is relevant'}")
    return tuple(lines)


def _short(text: str, chars: int = CHARS) -> str:
    text = " ".join(text.split())
    return text if len(text) <= chars else text[: chars - 1] + "…"
