"""Runs shown: tables for the terminal, comparisons of two runs, and one HTML page that opens without internet.

All texts come from data sets, documents and models; the template escapes every one, and nothing in a page could run.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from evaluation.metrics import read_run as read_ranking
from evaluation.questions import EvaluationError, json_rows
from evaluation.run_folder import EvaluationRun, Metric, Test, corrected, scores_path, slug, tested

COLUMNS = {"retrieval": ("AP", "R@1", "R@5", "R@10", "R@20", "nDCG@5", "RR")}
"""The columns of a kind of run; other kinds show everything they measured."""
HEADINGS = {"AP": "MAP", "RR": "MRR"}
MOST_CHANGED = 5
OF_PARTS = ("AP", "R@5", "R@20", "nDCG@5")
"""The columns of a table of parts."""


@dataclass(frozen=True, slots=True)
class Table:
    """A heading and rows, whose texts are not yet escaped."""

    head: Sequence[str]
    rows: Sequence[Sequence[object]]


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; no text breaks out of its cell."""

    def line(row: Sequence[object]) -> str:
        return "| " + " | ".join(" ".join(str(text).split()).replace("|", "\\|") for text in row) + " |"

    return "\n".join([line(head), "|" + "---|" * len(head), *map(line, rows)])


def summary(run: EvaluationRun) -> str:
    """`summaries` as Markdown."""
    return "\n\n".join(table(block.head, block.rows) for block in summaries(run))


def summaries(run: EvaluationRun, *, intervals: bool = False) -> list[Table]:
    """Every system of every set, one row each; levels that measure different things in tables of their own."""
    groups: dict[tuple[str, ...], list[Metric]] = {}
    overall = [metric for metric in run.metrics if metric.part == "all"]
    for level in dict.fromkeys(metric.level for metric in overall):
        metrics = [metric for metric in overall if metric.level == level]
        measures = COLUMNS.get(run.kind) or tuple(dict.fromkeys(metric.measure for metric in metrics))
        groups.setdefault(measures, []).extend(metrics)
    latencies = {(latency.set, latency.system): latency for latency in run.latencies}
    tables = []
    for measures, metrics in groups.items():
        rows: list[list[object]] = []
        for key, values in grouped(metrics, "set", "level", "system").items():
            timed = latencies.get((key[0], key[2]))
            timing = [f"{1000 * timed.p50:.0f}", f"{1000 * timed.p95:.0f}"] if timed else ["", ""]
            cells = [shown(values.get(measure), intervals=intervals) for measure in measures]
            rows.append([*key, *cells, *(timing if latencies else ()), max(metric.n for metric in values.values())])
        timing = ["ms p50", "ms p95"] if latencies else []
        tables.append(Table(["set", "level", "system", *headings(measures), *timing, "n"], rows))
    return tables


def parts(run: EvaluationRun) -> Table:
    """Every part of every set (turn, kind, domain, …) but the whole."""
    measures = tuple(dict.fromkeys(metric.measure for metric in run.metrics))
    chosen = [measure for measure in OF_PARTS if measure in measures] or list(measures)[:5]
    metrics = (metric for metric in run.metrics if metric.part != "all")
    rows = [
        [*key, *(shown(values.get(measure), intervals=True) for measure in chosen), next(iter(values.values())).n]
        for key, values in grouped(metrics, "set", "level", "system", "part").items()
    ]
    return Table(["set", "level", "system", "part", *headings(chosen), "n"], rows)


def tests(results: Sequence[Test]) -> Table:
    """Paired differences to a baseline, or between two runs."""
    rows = [
        [
            *(test.set, test.level, *headings([test.measure])),
            test.system if test.system == test.baseline else f"{test.baseline} → {test.system}",
            *(f"{test.before:.3f}", f"{test.after:.3f}", f"{test.difference:+.3f}"),
            f"{test.low:+.3f} to {test.high:+.3f}",
            "< .001" if test.p_holm < 0.001 else f"{test.p_holm:.3f}".lstrip("0"),
            test.n,
        ]
        for test in results
    ]
    return Table(["set", "level", "measure", "system", "before", "after", "difference", "95 %", "p (Holm)", "n"], rows)


def headings(measures: Iterable[str]) -> list[str]:
    """Measures as columns are called."""
    return [HEADINGS.get(measure, measure) for measure in measures]


def grouped(metrics: Iterable[Metric], *fields: str) -> dict[tuple[str, ...], dict[str, Metric]]:
    """Metrics by these fields of theirs, then by measure, in the order they were measured."""
    groups: dict[tuple[str, ...], dict[str, Metric]] = {}
    for metric in metrics:
        groups.setdefault(tuple(getattr(metric, field) for field in fields), {})[metric.measure] = metric
    return groups


def shown(metric: Metric | None, *, intervals: bool = False) -> str:
    """A metric's mean, with its interval where that is asked for and there is one."""
    if metric is None:
        return ""
    interval = f" ({metric.low:.3f}–{metric.high:.3f})" if intervals and not math.isnan(metric.low) else ""
    return f"{metric.mean:.3f}{interval}"


@dataclass(frozen=True, slots=True)
class ChangedQuestion:
    """One question that won or lost, with what each side had to show for it; the question is the last of `asked`."""

    set: str
    level: str
    question: str
    before_system: str
    after_system: str
    before: float
    after: float
    asked: tuple[str, ...] = ()
    before_evidence: tuple[str, ...] = ()
    after_evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything that differs between two runs; the biggest winners and losers come first."""

    before: EvaluationRun
    after: EvaluationRun
    measure: str
    differences: tuple[Test, ...]
    winners: tuple[ChangedQuestion, ...]
    losers: tuple[ChangedQuestion, ...]


def compare(
    before: EvaluationRun,
    after: EvaluationRun,
    *,
    measures: Sequence[str] = (),
    systems: Mapping[str, str] | None = None,
) -> Comparison:
    """`after` against `before`, over every set, level and system both have.

    `systems` pairs names where a system is called differently, or another one is meant. The first of `measures`
    picks winners and losers; by default all that were tested or measured. All tests are one family for Holm. Raises
    EvaluationError where the runs share nothing.
    """
    places = list(_shared(before, after, systems))
    if not places:
        raise EvaluationError(
            f"{before.name} and {after.name} share no set and system: nothing can be compared. Pair systems of "
            "different names with --systems A=B."
        )
    measures = tuple(measures) or tuple(
        dict.fromkeys([test.measure for test in before.tests] or [metric.measure for metric in before.metrics])
    )
    differences: list[Test] = []
    changes: list[ChangedQuestion] = []
    first_level: dict[str, str] = {}
    for set_name, level, old, new in places:
        first, second = before.scores(set_name, old, level), after.scores(set_name, new, level)
        rows = _rows(before, set_name, "questions.jsonl")
        dialogs = {name: str(rows.get(name, {}).get("dialog", name)) for name in first}
        for measure in measures:
            was, now = (
                {name: values[measure] for name, values in scores.items() if measure in values}
                for scores in (first, second)
            )
            if not was.keys() & now.keys():
                continue
            place = (set_name, level, measure)
            differences.append(tested(place, (old, new), was, now, dialogs.__getitem__))
            # Of a question that wins on several levels, the first level is enough.
            if measure == measures[0] and level == first_level.setdefault(set_name, level):
                changes += [
                    ChangedQuestion(set_name, level, name, old, new, value, now[name])
                    for name, value in was.items()
                    if now.get(name, value) != value
                ]
    changes.sort(key=lambda change: change.before - change.after)
    winners = [change for change in changes if change.after > change.before][:MOST_CHANGED]
    losers = [change for change in reversed(changes) if change.after < change.before][:MOST_CHANGED]

    def told(changed: Sequence[ChangedQuestion]) -> tuple[ChangedQuestion, ...]:
        return tuple(
            replace(
                change,
                asked=asked(before, change.set, change.question),
                before_evidence=evidence(before, change.set, change.before_system, change.level, change.question),
                after_evidence=evidence(after, change.set, change.after_system, change.level, change.question),
            )
            for change in changed
        )

    return Comparison(before, after, measures[0], tuple(corrected(differences)), told(winners), told(losers))


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


def _rows(run: EvaluationRun, set_name: str, *parts: str) -> dict[str, dict[str, Any]]:
    """The rows of a file of the run by id; none where there is no file."""
    path = run.folder.joinpath(slug(set_name), *parts)
    return {str(row["id"]): row for _, row in json_rows(path)} if path.is_file() else {}


def asked(run: EvaluationRun, set_name: str, question: str) -> tuple[str, ...]:
    """The last turns before a question and the question itself, as a run kept them."""
    row = _rows(run, set_name, "questions.jsonl").get(question, {})
    turns = [f"{turn['role']}: {_short(turn['text'])}" for turn in row.get("history", [])[-2:]]
    written = [f"a person's rewrite: {row['rewrite']}"] if row.get("rewrite") else []
    return (*turns, f"user: {_short(str(row.get('text', question)))}", *written)


def evidence(run: EvaluationRun, set_name: str, system: str, level: str, question: str) -> tuple[str, ...]:
    """Return a system's output for a question: its written text, else the top of its ranking."""
    if written := _rows(run, set_name, slug(system), "evidence.jsonl"):
        return tuple(_short(str(line), 900) for line in written.get(question, {}).get("shown", []))
    ranking = run.folder / slug(set_name) / slug(system) / f"{level}.trec"
    if not ranking.is_file():
        return ()
    row = _rows(run, set_name, "questions.jsonl").get(question, {})
    relevant = set(row.get("relevant", {}).get(level, ()))
    passages = _rows(run, set_name, "passages.jsonl")
    passages = {passage["document"]: passage for passage in passages.values()} | passages
    rewrite = row.get("rewrites", {}).get(system.partition(":")[0])
    lines = [f"rewritten: {rewrite}"] if rewrite else []
    ids = read_ranking(ranking).get(question, [])
    for rank, item in enumerate(ids[:3], 1):
        passage = passages.get(item, {})
        mark = " (relevant)" if item in relevant else ""
        lines.append(f"{rank}.{mark} {item} {passage.get('title', '')}: {_short(passage.get('text', ''))}")
    places = [str(ids.index(item) + 1) if item in ids else "not found" for item in sorted(relevant)]
    return (*lines, f"relevant at rank: {', '.join(places) or 'nothing is relevant'}")


def _short(text: str, chars: int = 220) -> str:
    text = " ".join(text.split())
    return text if len(text) <= chars else text[: chars - 1] + "…"


STAGES = {
    "extraction": "What answers the question is not in the index. Is the document there, and was this part of it read? "
    "The reader of the page shows what was read of a file.",
    "rewriting": "A person's wording finds the answer, the rewriter's does not. `anaphora adapt` trains a rewriter on "
    "your documents.",
    "selection": "It is in the index and was not among the evidence, though the question is right. Look at "
    "`retrieval.evidence` and the cross-encoder; `anaphora eval calibrate` chooses weights on your questions.",
    "generation": "The answer was in the evidence. Another model, or another style of answer, may say it.",
}
"""The stages of a diagnosis in the order of a turn, and what can be done at each."""
MOST_FAILURES = 500
"""Failures told one by one; `failures.jsonl` has all."""


def failures(run: EvaluationRun) -> list[dict[str, Any]]:
    """The failures that a diagnosis kept; none for another kind of run."""
    path = run.folder / "failures.jsonl"
    return [row for _, row in json_rows(path)] if path.is_file() else []


def failure_counts(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Failures by stage and label, and how many of each stage are confirmed."""
    labels = sorted({str(row["label"]) for row in rows})
    tally = Counter((row["stage"], row["label"]) for row in rows)
    cells = [
        [
            stage,
            sum(row["stage"] == stage for row in rows),
            sum(row["stage"] == stage and bool(row["confirmed"]) for row in rows),
            *(tally[stage, label] for label in labels),
        ]
        for stage in STAGES
    ]
    return Table(["stage", "failures", "confirmed", *labels], cells)


def headline(run: EvaluationRun, rows: Sequence[Mapping[str, Any]]) -> str:
    """How many answers were right."""
    judged = next((metric.n for metric in run.metrics if (metric.part, metric.measure) == ("all", "right")), 0)
    return f"{judged - len(rows)} of {judged} answers are right."


def html(run: EvaluationRun, comparison: Comparison | None = None) -> str:
    """The page; with a comparison it shows that too."""
    from jinja2 import Environment

    failed = failures(run)
    template = files(__package__).joinpath("report.html").read_text("utf-8")
    return (
        Environment(autoescape=True)
        .from_string(template)
        .render(
            run=run,
            headline=headline(run, failed) if run.kind == "diagnosis" else "",
            failures=[
                (stage, what, [row for row in failed if row["stage"] == stage]) for stage, what in STAGES.items()
            ],
            counts=failure_counts(failed) if failed else None,
            most=MOST_FAILURES,
            summaries=summaries(run, intervals=True),
            tests=tests(run.tests),
            parts=parts(run),
            comparison=comparison,
            differences=tests(comparison.differences) if comparison else None,
            description=json.dumps(dict(run.description), indent=1, ensure_ascii=False),
        )
    )
