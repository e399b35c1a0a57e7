"""Runs on disk: a folder each, with everything that is needed to believe and to compare it.

    run.json       what was measured: kind, command, settings, versions, git commit, machine, seconds
    metrics.json   means with intervals, latencies, tests against the baseline
    scores/<set>/<system>/<level>.tsv   every measure for every single question
    <set>/…        TREC runs, judgements, texts: what the kind of evaluation has to show

A folder without `run.json` is unfinished: it is written last. `finished_rows` and `make_rows` keep the rows of an
interrupted run, one JSON object a line.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import numpy as np

from evaluation.metrics import estimate, estimates, holm, randomisation
from evaluation.questions import BadRow, BelowThreshold, EvaluationError, MissingSet, Question
from evaluation.sets import slices

if TYPE_CHECKING:
    from server.settings import Settings

PACKAGES = (
    "anaphora", "bm25s", "ir-measures", "langchain-core", "numpy", "onnxruntime", "rouge-score", "sacrebleu",
    "tokenizers", "torch", "transformers", "xllamacpp",
)  # fmt: skip
SMALLEST_PART = 5
"""Parts with fewer questions say nothing and are left out."""

Scores = Mapping[str, Mapping[str, float]]
"""Question id → measure → value."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One mean over the questions of a part of a set, with its 95 % interval."""

    set: str
    level: str
    system: str
    part: str
    measure: str
    mean: float
    low: float
    high: float
    n: int

    @property
    def key(self) -> str:
        """The key used by gates and comparisons."""
        return "/".join((self.set, self.level, self.system, self.part, self.measure))


@dataclass(frozen=True, slots=True)
class Test:
    """A paired difference over `n` questions: with its interval, and p before and after Holm's correction."""

    set: str
    level: str
    measure: str
    baseline: str
    system: str
    difference: float
    low: float
    high: float
    p: float
    p_holm: float
    before: float = 0.0
    after: float = 0.0
    n: int = 0


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds a turn of one system, over `n` questions asked one after the other."""

    set: str
    system: str
    p50: float
    p95: float
    n: int


@dataclass(frozen=True, slots=True)
class EvaluationRun:
    """A finished run, read back."""

    folder: Path
    description: Mapping[str, Any]
    metrics: tuple[Metric, ...]
    tests: tuple[Test, ...] = ()
    latencies: tuple[Latency, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def kind(self) -> str:
        return str(self.description.get("kind", ""))

    def scores(self, set_name: str, system: str, level: str) -> dict[str, dict[str, float]]:
        """Every question's measures; raises MissingSet where there are none, BadRow where the file is damaged."""
        path = scores_path(self.folder, set_name, system, level)
        try:
            head, *lines = path.read_text("utf-8").splitlines()
            names = head.split("\t")[1:]
            rows = (line.split("\t") for line in lines)
            return {row[0]: dict(zip(names, map(float, row[1:]), strict=True)) for row in rows}
        except FileNotFoundError:
            raise MissingSet(f"{self.folder} has no scores of {system} on {set_name} ({level}).") from None
        except (ValueError, IndexError) as error:
            raise BadRow(f"{path} is damaged ({error}); measure again.") from None


@dataclass(slots=True)
class RunWriter:
    """A run while it is measured; `finish` makes it one that can be read."""

    folder: Path
    kind: str
    metrics: list[Metric] = field(default_factory=list)
    tests: list[Test] = field(default_factory=list)
    latencies: list[Latency] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What a reader of the numbers must know: models that stood in for others, parts left out."""

    seconds: dict[str, float] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    def write_scores(self, set_name: str, system: str, level: str, scores: Scores) -> None:
        path = scores_path(self.folder, set_name, system, level)
        path.parent.mkdir(parents=True, exist_ok=True)
        names = list(next(iter(scores.values()), {}))
        with path.open("w", encoding="utf-8") as file:
            file.write("\t".join(("question", *names)) + "\n")
            for question, values in scores.items():
                file.write("\t".join((question, *(f"{values[name]:.6g}" for name in names))) + "\n")

    def path(self, *parts: str) -> Path:
        """A file of the run, in a folder that exists."""
        path = self.folder.joinpath(*map(slug, parts[:-1]), parts[-1])
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write_rows(self, rows: Iterable[Mapping[str, object]], *parts: str) -> None:
        """JSON lines."""
        with self.path(*parts).open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)

    def write_questions(
        self,
        set_name: str,
        questions: Iterable[Question],
        more: Callable[[Question], Mapping[str, object]] = lambda question: {},
    ) -> None:
        """Write the questions, which comparisons show, with `more` of each."""
        rows = (
            {
                "id": question.id,
                "dialog": question.dialog,
                "history": [{"role": message.role, "text": message.text} for message in question.conversation.messages],
                "text": question.text,
                "rewrite": question.rewrite,
                **more(question),
            }
            for question in questions
        )
        self.write_rows(rows, set_name, "questions.jsonl")

    def finish(self, settings: Settings, **more: object) -> EvaluationRun:
        """Write what was measured, and what it was measured with."""
        self.seconds["total"] = time.monotonic() - self.began
        measured = {
            "metrics": [asdict(metric) for metric in self.metrics],
            "tests": [asdict(test) for test in self.tests],
            "latencies": [asdict(latency) for latency in self.latencies],
            "notes": self.notes,
        }
        (self.folder / "metrics.json").write_text(json.dumps(measured, indent=1, ensure_ascii=False), "utf-8")
        description = describe(self.kind, settings) | {"seconds": self.seconds} | more
        (self.folder / "run.json").write_text(json.dumps(description, indent=1, ensure_ascii=False), "utf-8")
        return read_run(self.folder)


def scores_path(folder: Path, set_name: str, system: str, level: str) -> Path:
    """Where the scores of single questions lie in a run."""
    return folder / "scores" / slug(set_name) / slug(system) / f"{slug(level)}.tsv"


def create_run(root: Path, kind: str, name: str = "", *, resume: bool = False) -> RunWriter:
    """A new folder below `root`, named by time and kind unless it is given a name.

    With `resume` an unfinished one of that name is gone on with. Raises FileExistsError where it is finished.
    """
    if not name:
        return RunWriter(_new_folder(root, f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{kind}"), kind)
    folder = root / name
    if (folder / "run.json").exists() or (folder.exists() and any(folder.iterdir()) and not resume):
        raise FileExistsError(17, "There is a run of that name already; give another", str(folder))
    folder.mkdir(parents=True, exist_ok=True)
    return RunWriter(folder, kind)


def _new_folder(root: Path, name: str) -> Path:
    """A folder of that name, or of that name and a number: runs may begin within the same second."""
    numbers = count(2)
    folder = root / name
    while True:
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:
            folder = root / f"{name}-{next(numbers)}"


def read_run(folder: Path) -> EvaluationRun:
    """A run from its folder. Raises MissingSet where there is none, BadRow where it is damaged."""
    try:
        description = json.loads((folder / "run.json").read_text("utf-8"))
        values = json.loads((folder / "metrics.json").read_text("utf-8"))
        return EvaluationRun(
            folder,
            description,
            tuple(Metric(**row) for row in values["metrics"]),
            tuple(Test(**row) for row in values["tests"]),
            tuple(Latency(**row) for row in values["latencies"]),
            tuple(values["notes"]),
        )
    except FileNotFoundError as error:
        raise MissingSet(f"{folder} is no finished run: it has no {Path(error.filename).name}.") from None
    except (ValueError, KeyError, TypeError) as error:
        raise BadRow(f"The run in {folder} is damaged ({error}); measure again.") from None


def slug(name: str) -> str:
    """A name as a folder is called: unlike names stay unlike."""
    plain = re.sub(r"[^A-Za-z0-9._+-]+", "-", name).strip("-.")
    return plain if plain == name else f"{plain[:60]}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def describe(kind: str, settings: Settings) -> dict[str, Any]:
    """Describe the settings of a measurement, without secrets and without the home's path."""
    from importlib.metadata import distributions

    installed = {distribution.name: distribution.version for distribution in distributions()}
    return {
        "format": 1,
        "kind": kind,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "settings": settings.model_dump(mode="json", exclude={"home": True, "llm": {"api_key": True}}),
        "versions": {package: installed[package] for package in PACKAGES if package in installed},
        "git": git_commit(Path(__file__).parent),
        "machine": {"python": platform.python_version(), "system": platform.platform(), "cores": os.cpu_count()},
    }


def git_commit(folder: Path) -> dict[str, object]:
    """Commit of the working tree `folder` lies in, and whether files differ from it; empty outside of one."""

    def ask(*words: str) -> str:
        command = ["git", "-C", str(folder), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()

    try:
        return {"commit": ask("rev-parse", "HEAD"), "changed": bool(ask("status", "--porcelain", "-uno"))}
    except (OSError, subprocess.SubprocessError):
        return {}


def metrics_of(
    set_name: str,
    level: str,
    system: str,
    scores: Scores,
    questions: Mapping[str, Question],
    parts: Callable[[Question], Sequence[str]] = slices,
) -> list[Metric]:
    """Means of every measure over every part that has questions enough; `all` always."""
    members: dict[str, list[str]] = {}
    for name in scores:
        for part in parts(questions[name]):
            members.setdefault(part, []).append(name)
    measures = list(next(iter(scores.values()), {}))
    metrics = []
    for part, names in members.items():
        if len(names) < SMALLEST_PART and part != "all":
            continue
        values = np.array([[scores[name][measure] for measure in measures] for name in names])
        dialogs = [questions[name].dialog for name in names]
        for measure, value in zip(measures, estimates(values, dialogs), strict=True):
            metrics.append(Metric(set_name, level, system, part, measure, value.mean, value.low, value.high, value.n))
    return metrics


def tested(
    place: tuple[str, str, str],
    pair: tuple[str, str],
    before: Mapping[str, float],
    after: Mapping[str, float],
    cluster: Callable[[str], str],
) -> Test:
    """The second system against the first, p uncorrected."""
    names = [name for name in after if name in before]
    differences = [after[name] - before[name] for name in names]
    clusters = [cluster(name) for name in names]
    value, p = estimate(differences, clusters), randomisation(differences, clusters)
    was, now = (float(np.mean([side[name] for name in names])) if names else 0.0 for side in (before, after))
    return Test(*place, *pair, value.mean, value.low, value.high, p, p, was, now, len(names))


def corrected(tests: Sequence[Test]) -> list[Test]:
    """Tests of one family, p corrected by Holm's method."""
    p_values = holm([test.p for test in tests])
    return [Test(**{**asdict(test), "p_holm": p}) for test, p in zip(tests, p_values, strict=True)]


def percentiles(seconds: Sequence[float]) -> tuple[float, float]:
    """The median and the 95th percentile; 0 of nothing."""
    return (float(np.percentile(seconds, 50)), float(np.percentile(seconds, 95))) if seconds else (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class QualityGate:
    """Every metric whose key matches `pattern` has to be at least `least`."""

    pattern: str
    least: float


def parse_gate(text: str) -> QualityGate:
    """`MEASURE=0.85`, or with what it is measured on: `set/level/system/part/MEASURE=0.85`, with `*` and `?`.

    Raises EvaluationError.
    """
    pattern, _, number = text.rpartition("=")
    try:
        least = float(number)
    except ValueError:
        pattern = ""
    if not pattern or pattern.count("/") not in (0, 4):
        raise EvaluationError(
            f"{text!r} is no gate: write MEASURE=NUMBER or SET/LEVEL/SYSTEM/PART/MEASURE=NUMBER, such as "
            "doc2dial/section/auto:variants/all/R@20=0.85; * stands for anything."
        )
    return QualityGate(pattern if "/" in pattern else f"*/all/{pattern}", least)


def check_gates(metrics: Sequence[Metric], gates: Sequence[QualityGate]) -> None:
    """Raise BelowThreshold naming every metric below its gate, EvaluationError for a gate nothing matches."""
    failures = []
    for gate in gates:
        matching = [metric for metric in metrics if fnmatchcase(metric.key, gate.pattern)]
        if not matching:
            raise EvaluationError(f"Nothing was measured that matches the gate {gate.pattern!r}.")
        failures += [
            f"{metric.key} is {metric.mean:.4f}, below {gate.least:g}"
            for metric in matching
            if metric.mean < gate.least
        ]
    if failures:
        raise BelowThreshold("; ".join(failures) + ".")


T = TypeVar("T")
Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class InputLine(Generic[T]):
    """Request of one input line, under the id it came with."""

    id: str
    asked: T

    def fingerprint(self, label: str) -> str:
        """Equal for what is equal and made in the same way."""
        return hashlib.sha256(f"{label}\n{self.asked!r}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


def finished_rows(partial: Path, lines: Sequence[InputLine[T]], label: str) -> dict[str, Row]:
    """The rows that an interrupted run kept and that still hold; torn lines do not count."""
    wanted = {line.id: line.fingerprint(label) for line in lines}
    rows: dict[str, Row] = {}
    # A line ends where a line feed is: texts may hold other characters that count as line breaks.
    for raw in partial.read_text("utf-8", errors="replace").split("\n") if partial.is_file() else ():
        try:
            row = json.loads(raw)
            if wanted.get(row["row"]["id"]) == row["input"]:
                rows[row["row"]["id"]] = row["row"]
        except (ValueError, KeyError, TypeError):
            continue
    return rows


async def make_rows(
    lines: Sequence[InputLine[T]],
    done: Mapping[str, Row],
    partial: Path,
    label: str,
    make: Callable[[InputLine[T]], Awaitable[Row]],
    *,
    at_once: int = 1,
    advance: Callable[[], None] = lambda: None,
) -> dict[str, Row]:
    """The rows of all lines: those that are `done`, and new ones, each added to `partial` as it comes.

    Raises what `make` raises; what was made until then is kept.
    """
    rows = dict(done)
    places = asyncio.Semaphore(at_once)
    partial.parent.mkdir(parents=True, exist_ok=True)
    with partial.open("a", encoding="utf-8") as file:

        async def make_row(line: InputLine[T]) -> None:
            async with places:
                rows[line.id] = row = await make(line)
                file.write(json.dumps({"input": line.fingerprint(label), "row": row}, ensure_ascii=False) + "\n")
                file.flush()
                advance()

        try:
            async with asyncio.TaskGroup() as group:
                for line in lines:
                    if line.id not in done:
                        group.create_task(make_row(line))
        except ExceptionGroup as failed:
            # One line's failure ends the others; it is told alone.
            raise failed.exceptions[0] from None
    return rows
