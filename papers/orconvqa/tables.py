"""The core paper's result tables with our numbers beside its own, from runs of these commands:

    S=typed:rrf,context:rrf,auto:rrf,typed:variants,auto:variants
    OWN=doc2dial-dmv,doc2dial-ssa,doc2dial-studentaid,doc2dial-va
    export ANAPHORA_INDEX__ENCODER=all-minilm-l6-v2 ANAPHORA_LLM__MODEL=qwen2.5-coder-1.5b-instruct
    python -m papers.orconvqa retrieval --data DATA --out RUNS --name r --sets doc2dial,synthetic --systems $S,human:rrf --timed 0
    python -m papers.orconvqa retrieval --data DATA --out RUNS --name d --sets $OWN --systems $S --timed 0
    python -m papers.orconvqa retrieval --data DATA --out RUNS --name p --sets $OWN --timed 0 --every 16 \\
      --systems typed:rrf,context:rrf,auto:rrf,prompted:rrf
    python -m papers.orconvqa retrieval --data DATA --out RUNS --name u --sets doc2dial-spans,doc2dial-propositions \\
      --systems typed:rrf,context:rrf,auto:rrf --timed 0
    python -m papers.orconvqa families --data DATA --runs RUNS/families --steps 160
    python -m papers.orconvqa rewriting --data DATA --out RUNS --name f --sets synthetic \\
      --rewriters none,auto,RUNS/families/t5,RUNS/families/t5-that-copies,RUNS/families/gpt-2-like,RUNS/families/mamba
    python -m papers.orconvqa rewriting --data DATA --out RUNS --name w --sets mtrag,cast2019,ikat2023 --rewriters none,auto
    python -m papers.orconvqa answers --data DATA --out RUNS --name a --sets doc2dial --every 64
    python -m papers.orconvqa responses RUNS/a --out RUNS --name s --encoder all-minilm-l6-v2 --model smollm2-135m-instruct
    python -m papers.orconvqa dialogs --folder DATA/synthetic --out RUNS --name g --every 4 \\
      --encoder all-minilm-l6-v2 --language-model smollm2-135m-instruct
    python -m papers.orconvqa tables RUNS/{r,d,p,u,f,w,a,s,g} > papers/orconvqa/tables.md

The paper: Vlachos et al., "Building Open-Retrieval Conversational Question Answering Systems by Generating
Synthetic Data and Decontextualizing User Questions" (arXiv 2507.04884). Those of its figures stand here that are at
hand; where one is not, the cell says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Annotated

import typer

from cli.shared.state import state_of
from evaluation.questions import json_rows
from evaluation.report import grouped, headings, table
from evaluation.run_folder import EvaluationRun, Metric, read_run, slug
from papers.orconvqa.sets import DOMAINS, OWN_POOLS

NOT_AT_HAND = "not at hand"
NONE = "–"
"""A cell of a row that has no such figure."""
RETRIEVAL = ("AP", "R@5", "R@10", "R@20")

PUBLISHED: Mapping[tuple[str, str], str] = {
    ("passage", "no rewriting"): ".40",
    ("passage", "T5"): ".48",
    ("passage", "prompted large model"): ".53",
    ("document", "no rewriting"): ".65",
    ("document", "T5"): ".77",
    ("document", "prompted large model"): ".91",
}
"""R@20 on MultiDoc2Dial, BM25 and MiniLM fused by reciprocal ranks; no other measure is at hand."""

TIME_SAVED = "53 to 62 %"
NEED_REWRITING = "27 to 36 %"

SETS = {OWN_POOLS: "Doc2Dial by domain", "doc2dial": "Doc2Dial together", "synthetic": "written dialogs"}
UNITS = {"doc2dial-spans": "sentences (spans)", "doc2dial-propositions": "propositions"}


@dataclass(frozen=True, slots=True)
class PaperSection:
    """One table and what has to be known to read it."""

    title: str
    head: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    remarks: Sequence[str]

    def markdown(self) -> str:
        """As Markdown, with what differs from the paper below."""
        return "\n\n".join((f"## {self.title}", table(self.head, self.rows), *self.remarks))


def sections(runs: Sequence[EvaluationRun]) -> list[PaperSection]:
    """All tables; of runs that measured the same on as many questions the last counts."""
    return [
        _with_and_without(runs),
        _by_domain(runs),
        _units(runs),
        _rewriters(runs),
        _time_saved(runs),
        _responses(runs),
        _dialogs(runs),
    ]


def _groups(
    runs: Sequence[EvaluationRun], kind: str, sets: Iterable[str]
) -> list[tuple[tuple[str, str, str, int], dict[str, Metric]]]:
    """What runs of a kind measured of whole sets: `(set, level, system, questions)`, ordered as `sets` are, and
    measures."""
    order = list(sets)
    metrics = [m for run in runs if run.kind == kind for m in run.metrics if m.part == "all" and m.set in order]
    found = {
        (m.set, m.level, m.system, m.n): values
        for values in grouped(metrics, "set", "level", "system", "n").values()
        for m in [next(iter(values.values()))]
    }
    return sorted(found.items(), key=lambda item: (order.index(item[0][0]), -item[0][3]))


def _cells(values: Mapping[str, Metric], measures: Iterable[str], digits: int = 3) -> list[str]:
    return [f"{values[measure].mean:.{digits}f}" if measure in values else NONE for measure in measures]


def _with_and_without(runs: Sequence[EvaluationRun]) -> PaperSection:
    rows = [
        ["the paper: MultiDoc2Dial", level, system, NOT_AT_HAND, NOT_AT_HAND, NOT_AT_HAND, NOT_AT_HAND, found]
        for (level, system), found in PUBLISHED.items()
    ]
    rows += [
        [f"ours: {SETS[name]}", level, Path(system).name, str(n), *_cells(values, RETRIEVAL)]
        for (name, level, system, n), values in _groups(runs, "retrieval", SETS)
    ]
    return PaperSection(
        "Retrieval with and without rewriting",
        ("questions of", "level", "system", "questions", *headings(RETRIEVAL)),
        rows,
        (
            "`typed` searches the question alone, `context` with the exchange before it, `auto` what the packaged "
            "rewriter makes of it, `prompted` what a prompted model of 1.5 billion parameters does, and `human` the "
            "question that was written to stand alone; `rrf` fuses BM25 and MiniLM, `variants` is all that a chat "
            "searches. *By domain* searches each question among the documents of its own domain, as the paper does.",
            "What differs: dialogs of MultiDoc2Dial range over several documents, ours (Doc2Dial, validation part) stay "
            "in one of 272; its passages are not our 2,200 sections; its T5 was pretrained, and its prompted model is "
            "larger. Only differences within one set mean something.",
        ),
    )


def _by_domain(runs: Sequence[EvaluationRun]) -> PaperSection:
    names = {**{f"doc2dial-{domain}": domain for domain in DOMAINS}, OWN_POOLS: "all"}
    groups = _groups(runs, "retrieval", names)
    most = {name: max(n for (other, _, _, n), _ in groups if other == name) for (name, *_), _ in groups}
    cells = {
        (level, system, name): " / ".join(_cells(values, ("AP", "R@20")))
        for (name, level, system, n), values in groups
        if n == most[name]
    }
    rows = [
        [level, system, *(cells.get((level, system, name), NONE) for name in names)]
        for level, system in dict.fromkeys((level, system) for level, system, _ in cells)
    ]
    counted = (f"{domain} ({most[name]})" if name in most else domain for name, domain in names.items())
    return PaperSection(
        "Retrieval by domain",
        ("level", "system", *counted),
        [["the paper", "its systems", *[NOT_AT_HAND] * len(names)], *rows],
        (
            "MAP / R@20 with the number of questions in brackets. Each question is searched among the documents of its "
            "own domain, as the paper does; *all* is the mean over all questions, each in its own pool.",
        ),
    )


def _units(runs: Sequence[EvaluationRun]) -> PaperSection:
    found = [item for item in _groups(runs, "retrieval", UNITS) if item[0][1] != "sentence"]
    rows = [
        [UNITS[name], level, system, str(n), *_cells(values, RETRIEVAL)]
        for (name, level, system, n), values in sorted(found, key=lambda item: (*item[0][1:3], item[0][0]))
    ]
    paper = [["the paper", "its levels", "its systems", *[NOT_AT_HAND] * (1 + len(RETRIEVAL))]]
    return PaperSection(
        "Propositions against sentences",
        ("pool", "judged by", "system", "questions", *headings(RETRIEVAL)),
        paper + rows,
        (
            "Both pools cover the same 272 documents and are judged by the same sections: a unit found stands for the "
            "section it was taken from. What differs: these questions were asked by people; the paper's are written "
            "from the propositions, which favours them.",
        ),
    )


REWRITING = ("ROUGE-L", "BLEU", "exact match", "similarity", "gate F1", "changed")


def _rewriters(runs: Sequence[EvaluationRun]) -> PaperSection:
    times = {(one.set, one.system): one.p50 for run in runs if run.kind == "rewriting" for one in run.latencies}
    sets = dict.fromkeys(m.set for run in runs if run.kind == "rewriting" for m in run.metrics)
    together: dict[tuple[str, str], dict[str, Metric]] = {}
    for (name, _, system, _), values in _groups(runs, "rewriting", sets):
        together.setdefault((name, system), {}).update(values)
    rows = [
        [
            name,
            Path(system).name,
            str(values["ROUGE-L"].n),
            *_cells(values, REWRITING),
            f"{1000 * times[name, system]:.1f}",
        ]
        for (name, system), values in together.items()
    ]
    return PaperSection(
        "Families of rewriters",
        ("questions of", "rewriter", "questions", *REWRITING, "ms a question, p50"),
        [["the paper: MultiDoc2Dial", "T5, GPT-2-like, Mamba-like", *[NOT_AT_HAND] * (2 + len(REWRITING))], *rows],
        (
            "`none` copies the question; `auto` is the packaged rewriter, which adds words and writes no sentence. "
            "BLEU is SacreBLEU (0 to 100), similarity the cosine of embeddings, *changed* the share of questions that "
            f"were rewritten: {NEED_REWRITING} of the paper's synthetic questions need it.",
            "What differs: the families begin with fresh weights of one size and are trained alike, on the same rows in the "
            "same order for as many steps (`t5-that-copies` begins with a circuit that copies); the paper's T5 was "
            "pretrained. What the guard refuses counts as the typed question.",
        ),
    )


def _time_saved(runs: Sequence[EvaluationRun]) -> PaperSection:
    rows = [["the paper", "T5", NOT_AT_HAND, NOT_AT_HAND, NOT_AT_HAND, TIME_SAVED]]
    for run in runs:
        for one in run.latencies if run.kind == "rewriting" else ():
            folder = run.folder / slug(one.set)
            followed = {row["id"] for _, row in json_rows(folder / "questions.jsonl") if row["history"]}
            made = [
                (row["decision"] in ("rewrite", "refused"), float(row["seconds"]))
                for _, row in json_rows(folder / slug(one.system) / "rewrites.jsonl")
                if row["id"] in followed
            ]
            written = [seconds for writes, seconds in made if writes]
            if not written or len(written) == len(made):
                continue
            always, mean = fmean(written), fmean(seconds for _, seconds in made)
            share, saved = f"{len(written) / len(made):.0%}", f"{1 - mean / always:.0%}"
            rows.append(
                [f"ours: {one.set}", Path(one.system).name, share, f"{1000 * mean:.1f}", f"{1000 * always:.1f}", saved]
            )
    return PaperSection(
        "Time saved by deciding first",
        ("questions of", "rewriter", "rewritten", "ms a question, mean", "ms where it writes, mean", "time saved"),
        rows,
        (
            "Of questions that follow others. Saved: how much less time a question takes on average than one that is "
            "written anew; it depends on the share of questions that need it as much as on the model. What differs: the "
            "machine and the size of the models; what the guard refuses was written, too.",
        ),
    )


def _responses(runs: Sequence[EvaluationRun]) -> PaperSection:
    measures = ("SacreBLEU", "METEOR", "BERTScore F1", "perplexity")
    found: dict[tuple[str, str], dict[str, Metric]] = {}
    for run in runs:
        for m in run.metrics if run.kind in ("answers", "responses") else ():
            if m.part == "all" and m.level == "answer":
                found.setdefault((m.set, m.system), {})[m.measure.removesuffix(" (exact+stem)")] = m
    rows = [
        [f"ours: {name}", system, str(values["SacreBLEU"].n), *_cells(values, measures)]
        for (name, system), values in found.items()
    ]
    return PaperSection(
        "Responses",
        ("questions of", "model", "answers", *measures),
        [["the paper: MultiDoc2Dial", NOT_AT_HAND, NOT_AT_HAND, *[NOT_AT_HAND] * len(measures)], *rows],
        (
            "Against the passage that a person marked as the answer. What differs: a small local model answers a sample, "
            "METEOR knows no synonyms, BERTScore and perplexity are by the models named below.",
            *_notes(runs, "responses"),
        ),
    )


DIALOGS = ("QRelScore", "QRelScore local", "QRelScore generation", "answer coverage", "distinct-2")


def _dialogs(runs: Sequence[EvaluationRun]) -> PaperSection:
    found: dict[tuple[str, str], dict[str, Metric]] = {}
    for run in runs:
        for m in run.metrics if run.kind == "dialogs" else ():
            if m.part == "all":
                found.setdefault((run.name, m.set), {})[m.measure] = m
    rows = [
        [f"ours: {name}", str(values["distinct-2"].n), *_cells(values, DIALOGS), "no weights to be had"]
        for (_, name), values in found.items()
    ]
    return PaperSection(
        "Dialogs",
        ("dialogs", "questions", *DIALOGS, "QuantiDCE"),
        [["the paper", *[NOT_AT_HAND] * (2 + len(DIALOGS))], *rows],
        (
            "QRelScore is the harmonic mean of its two parts, each 0 to 1; answer coverage is the share of an answer's "
            "words that its propositions hold, distinct-2 the share of different pairs of words. What differs: the "
            "paper's QRelScore reads with bert-base-cased and gpt2, so the two cannot be compared.",
            *_notes(runs, "dialogs"),
        ),
    )


def _notes(runs: Sequence[EvaluationRun], kind: str) -> list[str]:
    notes = dict.fromkeys(note for run in runs if run.kind == kind for note in run.notes)
    return [" ".join(notes)] if notes else []


def text(runs: Sequence[EvaluationRun]) -> str:
    """The whole page, and the runs it was made from."""
    names = ", ".join(f"{run.name} ({run.kind})" for run in runs) or "none"
    head = (
        "# The paper's tables\n\n"
        "These are the subjects of tables 2, 3, 5, 6 and 8 to 10 of Vlachos et al. 2025 (arXiv 2507.04884), the paper's "
        f"figures first. *{NOT_AT_HAND[0].upper()}{NOT_AT_HAND[1:]}* stands where the published figure could not be read here; which number "
        f"belongs to which subject could not either. Made by `python -m papers.orconvqa tables` from these runs: {names}; "
        "`papers/orconvqa/tables.py` begins with their commands."
    )
    return "\n\n".join((head, *(section.markdown() for section in sections(runs)))) + "\n"


GROUPINGS = {"kind": ("kind ",), "need": ("needs rewriting", "stands alone")}


_SYSTEM = re.compile(r"(?P<head>(?P<form>.*):(?P<retriever>\w+))(?P<reading>\+rerank(?:-always)?)?(?P<label>@\w+)?")
_GAP = 0.005
"""A written question that finds no more than this leaves nothing to close."""


def side_by_side(run: EvaluationRun) -> str:
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


def tables(
    context: typer.Context,
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Folders of runs of these commands.")],
    gap: Annotated[
        bool, typer.Option("--gap", help="All systems of one run side by side, and what gap each closes.")
    ] = False,
) -> None:
    """Print the paper's tables with our numbers beside its own, as Markdown."""
    read = [read_run(folder) for folder in runs]
    page = "\n\n".join(map(side_by_side, read)) if gap else text(read)
    state_of(context).out.print(page, end="", soft_wrap=True)
