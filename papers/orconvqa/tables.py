"""The core paper's result tables with our numbers beside its own, from runs of `anaphora eval`.

    S=typed:rrf,context:rrf,typed:variants
    python -m papers.orconvqa retrieval --data DATA --out RUNS --name r --sets doc2dial,synthetic --systems $S,human:rrf,auto:variants
    python -m papers.orconvqa retrieval --data DATA --out RUNS --name d --systems $S --timed 0 \
      --sets doc2dial,doc2dial-dmv,doc2dial-ssa,doc2dial-studentaid,doc2dial-va
    python -m papers.orconvqa retrieval --data DATA --out RUNS --name u --sets doc2dial-spans,doc2dial-propositions --systems $S
    python -m papers.orconvqa rewriting --data DATA --out RUNS --name w --sets mtrag,synthetic --rewriters none,auto
    python -m papers.orconvqa tables RUNS/r RUNS/d RUNS/u RUNS/w

The paper: Vlachos et al., "Building Open-Retrieval Conversational Question Answering Systems by Generating
Synthetic Data and Decontextualizing User Questions". Only those of its figures are repeated here that stand in
the project's own design notes; where one is not at hand, the cell says so rather than guess. Our numbers are read
from run folders, so that every one of them can be traced to its questions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from evaluation.questions import json_rows
from evaluation.report import HEADINGS, headings, table
from evaluation.run_folder import EvaluationRun, Metric, slug
from papers.orconvqa.sets import DOMAINS, OWN_POOLS

NOT_AT_HAND = "not at hand"
SUBJECTS = (
    "retrieval with and without rewriting",
    "retrieval by domain",
    "propositions against sentences",
    "families of rewriters",
    "time saved by deciding first",
    "responses",
    "dialogs",
)
"""What the paper's tables 2, 3, 5, 6 and 8 to 10 are about, as the project reproduces them."""

RETRIEVAL = ("AP", "R@5", "R@10", "R@20")

PUBLISHED: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("section", "no rewriting"): {"R@20": ".40"},
    ("section", "T5"): {"R@20": ".48"},
    ("section", "prompted large model"): {"R@20": ".53"},
    ("document", "no rewriting"): {"R@20": ".65"},
    ("document", "T5"): {"R@20": ".77"},
    ("document", "prompted large model"): {"R@20": ".91"},
}
"""MultiDoc2Dial, BM25 and MiniLM fused by RRF; passages stand beside our sections."""

TIME_SAVED = "53 to 62 %"
NEED_REWRITING = "27 to 36 %"

UNITS = {"doc2dial-spans": "sentences (spans)", "doc2dial-propositions": "propositions"}


@dataclass(frozen=True, slots=True)
class PaperSection:
    """One table and what has to be known to read it."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    remarks: tuple[str, ...]

    def markdown(self) -> str:
        """As Markdown; a table without rows is left out and its remark says why."""
        parts = [f"## {self.title}"]
        if self.rows:
            parts.append(table(self.head, self.rows))
        return "\n\n".join((*parts, *self.remarks))


def sections(runs: Sequence[EvaluationRun]) -> list[PaperSection]:
    """All tables, in the order of `SUBJECTS`; the newest run counts where several measured the same."""
    metrics = {metric.key: metric for run in runs for metric in run.metrics}
    return [
        _with_and_without(metrics),
        _by_domain(metrics),
        _units(metrics),
        _families(runs, metrics),
        _time_saved(runs),
        _measured(runs, "answers", "Responses", "SacreBLEU, METEOR, BERTScore and perplexity of a larger model"),
        _measured(runs, "dialogs", "Dialogs", "QRelScore (bert-base-cased and gpt2) and QuantiDCE"),
    ]


def _with_and_without(metrics: Mapping[str, Metric]) -> PaperSection:
    rows = [
        ("the paper", level, name, *(values.get(measure, NOT_AT_HAND) for measure in RETRIEVAL))
        for (level, name), values in PUBLISHED.items()
    ]
    rows += [(f"ours, {set_name}", level, system, *shown) for set_name, level, system, shown in _systems(metrics)]
    return PaperSection(
        "Retrieval with and without rewriting",
        ("whose", "level", "system", *(HEADINGS.get(m, m) for m in RETRIEVAL)),
        tuple(rows),
        (
            "The paper searches MultiDoc2Dial, whose dialogs range over several documents; ours is the validation part "
            "of Doc2Dial, one document a dialog, 2,200 sections of 272 documents. Its passages are not our sections, "
            "and its T5 was pretrained. Only differences within one set mean something.",
        ),
    )


def _systems(metrics: Mapping[str, Metric]) -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    places = dict.fromkeys(
        (m.set, m.level, m.system) for m in metrics.values() if m.set in ("doc2dial", "synthetic") and m.part == "all"
    )
    for set_name, level, system in places:
        yield set_name, level, system, _cells(metrics, set_name, level, system, "all")


def _by_domain(metrics: Mapping[str, Metric]) -> PaperSection:
    own = {OWN_POOLS: "all", **{f"doc2dial-{domain}": domain for domain in DOMAINS}}
    rows = []
    for name, level, system, part in dict.fromkeys((m.set, m.level, m.system, m.part) for m in metrics.values()):
        cells = _cells(metrics, name, level, system, part)
        if name == "doc2dial" and part.startswith("domain ") and any(cells):
            rows.append(("all domains", part.removeprefix("domain "), level, system, *cells))
        elif name in own and part == "all":
            rows.append(("its own", own[name], level, system, *cells))
    return PaperSection(
        "Retrieval by domain",
        ("searched", "domain", "level", "system", *(HEADINGS.get(m, m) for m in RETRIEVAL)),
        tuple(sorted(rows, key=lambda row: (row[2], row[3], row[1], row[0]))),
        (
            f"The paper's figures by domain are {NOT_AT_HAND}. It searches each question among the documents of its own "
            "domain, as the rows that say so do.",
        ),
    )


def _units(metrics: Mapping[str, Metric]) -> PaperSection:
    places = dict.fromkeys(
        (m.set, m.level, m.system)
        for m in metrics.values()
        if m.set in UNITS and m.part == "all" and m.level != "sentence"
    )
    rows = tuple(
        (UNITS[set_name], level, system, *_cells(metrics, set_name, level, system, "all"))
        for set_name, level, system in sorted(places, key=lambda place: (place[1], place[2], place[0]))
    )
    return PaperSection(
        "Propositions against sentences",
        ("pool", "judged by", "system", *(HEADINGS.get(m, m) for m in RETRIEVAL)),
        rows,
        (
            f"The paper's figures are {NOT_AT_HAND}. Both pools cover the same 272 documents and are judged by the "
            "same sections: a unit found stands for the section it was taken from.",
        ),
    )


def _families(runs: Sequence[EvaluationRun], metrics: Mapping[str, Metric]) -> PaperSection:
    names = ("ROUGE-L", "exact match", "gate F1", "changed")
    places = dict.fromkeys((m.set, m.system) for m in metrics.values() if m.level == "rewrite" and m.part == "all")
    times = {(one.set, one.system): one.p50 for run in runs if run.kind == "rewriting" for one in run.latencies}
    rows = []
    for set_name, system in places:
        values = [metrics.get(f"{set_name}/rewrite/{system}/all/{name}") for name in names]
        seconds = times.get((set_name, system))
        cells = [f"{value.mean:.3f}" if value else "" for value in values]
        rows.append((set_name, system, *cells, f"{1000 * seconds:.0f}" if seconds is not None else ""))
    return PaperSection(
        "Families of rewriters",
        ("set", "rewriter", *names, "ms p50"),
        tuple(rows),
        (
            f"The paper compares T5 with GPT-2-like and Mamba-like models; its figures are {NOT_AT_HAND}. "
            f"It reports that {NEED_REWRITING} of synthetic questions need rewriting.",
        ),
    )


def _time_saved(runs: Sequence[EvaluationRun]) -> PaperSection:
    rows: list[tuple[str, ...]] = [("the paper", "T5", NOT_AT_HAND, NOT_AT_HAND, NOT_AT_HAND, TIME_SAVED)]
    for run in runs:
        if run.kind != "rewriting":
            continue
        for one in run.latencies:
            path = run.folder / slug(one.set) / slug(one.system) / "rewrites.jsonl"
            if not path.is_file():
                continue
            made = [(str(row["decision"]), float(row["seconds"])) for _, row in json_rows(path)]
            rewritten = [seconds for decision, seconds in made if decision == "rewrite"]
            if not rewritten or len(rewritten) == len(made):
                continue
            always = sum(rewritten) / len(rewritten)
            mean = sum(seconds for _, seconds in made) / len(made)
            share = f"{len(rewritten) / len(made):.0%}"
            saved = f"{1 - mean / always:.0%}" if always else ""
            rows.append((f"ours, {one.set}", one.system, share, f"{1000 * mean:.1f}", f"{1000 * always:.1f}", saved))
    return PaperSection(
        "Time saved by deciding first",
        ("whose", "rewriter", "rewritten", "ms a question", "ms where it rewrites", "saved"),
        tuple(rows),
        (
            "Saved: how much less time a question takes on average than one that is rewritten. It depends on the share "
            "of questions that need it as much as on the model.",
        ),
    )


def _measured(runs: Sequence[EvaluationRun], kind: str, title: str, theirs: str) -> PaperSection:
    rows = tuple(
        (run.name, m.set, m.system, m.measure, f"{m.mean:.3f}", str(m.n))
        for run in runs
        if run.kind == kind
        for m in run.metrics
        if m.part == "all"
    )
    notes = tuple(dict.fromkeys(note for run in runs if run.kind == kind for note in run.notes))
    remark = f"The paper reports {theirs}; its figures are {NOT_AT_HAND}."
    missing = () if rows else (f"No run of `python -m papers.orconvqa {kind}` was given: name its folder.",)
    return PaperSection(title, ("run", "set", "system", "measure", "ours", "n"), rows, (remark, *notes, *missing))


def _cells(metrics: Mapping[str, Metric], *place: str) -> tuple[str, ...]:
    found = [metrics.get("/".join((*place, measure))) for measure in RETRIEVAL]
    return tuple(f"{metric.mean:.3f}" if metric else "" for metric in found)


def _is_retrieval(metric: Metric) -> bool:
    return metric.measure in RETRIEVAL


def text(runs: Sequence[EvaluationRun]) -> str:
    """The whole page, and the runs it was made from."""
    names = ", ".join(f"{run.name} ({run.kind})" for run in runs) or "none"
    head = (
        "# The paper's tables\n\n"
        f"Subjects of its tables 2, 3, 5, 6 and 8 to 10: {', '.join(SUBJECTS)}. Made from these runs: {names}."
    )
    return "\n\n".join((head, *(section.markdown() for section in sections(runs)))) + "\n"


GROUPINGS = {"kind": ("kind ",), "need": ("needs rewriting", "stands alone")}


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
