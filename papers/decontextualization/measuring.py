"""What quotes made readable are worth: their additions against those of people, with every step replaced by gold.

The set is `papers.decontextualization.snippets`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import regex

from evaluation.metrics import estimate
from evaluation.run_folder import RunWriter, Test, corrected
from papers.asking import PACKAGE, AskingFailed, QuoteAsker, SaidText
from papers.decomposition.forcing import ForcingAsker
from papers.decontextualization.questions import RETRIEVED
from papers.decontextualization.rules import QuoteAnswer, StandaloneQuote
from papers.decontextualization.snippets import SET, Snippet
from papers.decontextualization.variants import StandaloneGiven, StandaloneMethod, StandalonePlan, make_standalone
from papers.measures import estimate_of, note
from papers.orconvqa.sari import Additions, additions, f1, paired, sari
from papers.spans import kept, original
from papers.within import Within, WithinRanking
from plugins.evidence.source import SourcePassage
from text.sentences import sentence_spans
from text.words import stems

BASELINES = ("copy", "we to the authors", "we to the authors + title", "title", "gold answers appended")
AGAINST = "title"
RANKINGS: tuple[WithinRanking, ...] = ("bm25", "dense", "fused")


@dataclass(frozen=True, slots=True)
class StandaloneArm:
    """One way of making quotes readable: what is gold (letters of Q, E, A), what the document's part is, and how it is
    put together. `prompted` marks those that need a language model."""

    name: str
    gold: str = ""
    plan: StandalonePlan = field(default_factory=StandalonePlan)
    prompted: bool = False


def arms() -> list[StandaloneArm]:
    """Every gold substitution with every input. Without a model: rules, and answers extracted or given."""
    found = [
        StandaloneArm("rules", "", StandalonePlan()),
        *(
            StandaloneArm(f"gold {gold}/extracted/{variant}", gold, StandalonePlan(variant=variant))
            for gold in ("Q", "QE")
            for variant in ("TSP", "TASP", "TAISP")
        ),
        StandaloneArm("gold Q/whole/extracted", "Q", StandalonePlan(whole=True)),
        StandaloneArm("gold QA/insert", "QA", StandalonePlan(rules=False)),
        StandaloneArm("gold QA/insert + rules", "QA", StandalonePlan()),
    ]
    for variant in ("TASP", "TSP", "TAISP"):
        plan = StandalonePlan(variant=variant)
        found += [
            StandaloneArm(f"end to end/{variant}", "", replace(plan, direct=True), True),
            StandaloneArm(f"predicted Q/retrieved/{variant}", "", plan, True),
            StandaloneArm(f"gold Q/retrieved/{variant}", "Q", plan, True),
            StandaloneArm(f"gold QE/{variant}", "QE", plan, True),
        ]
    whole = StandalonePlan(whole=True)
    found += [
        StandaloneArm("predicted Q/whole", "", whole, True),
        StandaloneArm("gold Q/whole", "Q", whole, True),
    ]
    prompted: StandaloneMethod = "prompted"
    for sees in ("QA", "DQAE"):
        plan = StandalonePlan(prompted, rewriter_sees=sees)
        found += [
            StandaloneArm(f"predicted Q/retrieved/prompted by {sees}", "", plan, True),
            StandaloneArm(f"gold Q/retrieved/prompted by {sees}", "Q", plan, True),
            StandaloneArm(f"gold QA/prompted by {sees}", "QA", replace(plan, rules=False), True),
        ]
    return found


_WE, _OUR = regex.compile(r"\b[Ww]e\b"), regex.compile(r"\b[Oo]ur\b")


def baseline(name: str, snippet: Snippet) -> str:
    """What one of `BASELINES` makes of a snippet."""
    said, title = snippet.quote.snippet, f" [{snippet.quote.title}]"
    if name == "copy":
        return said
    if name == "title":
        return said + title
    if name == "gold answers appended":
        return " ".join((said, *(f"[{one.answer}]" for one in snippet.questions)))
    authors = _OUR.sub("the authors'", _WE.sub("the authors", said))
    return authors + title if name.endswith("title") else authors


def given(arm: StandaloneArm, snippet: Snippet) -> StandaloneGiven:
    """What an arm takes from the gold. A person's answer is evidence of itself."""
    asked = [one.question for one in snippet.questions] if "Q" in arm.gold else None
    evidence = (
        {
            one.question: tuple(SourcePassage(f"gold:{n}", paragraph) for n, paragraph in enumerate(one.evidence))
            for one in snippet.questions
        }
        if "E" in arm.gold
        else {}
    )
    answers = None
    if "A" in arm.gold:
        answers = [QuoteAnswer(one.question, one.answer, "", (one.answer, *one.evidence)) for one in snippet.questions]
    return StandaloneGiven(asked, evidence, answers)


class RememberedAsker(ForcingAsker):
    """Asks the same only once: arms share steps, and a run that is gone on with shares them with itself."""

    def __init__(self, chat_model: Any, journal: Path, seconds: float = 600.0, package: str = PACKAGE) -> None:
        super().__init__(chat_model, seconds, package=package)
        self._journal = journal
        self._known: dict[str, SaidText] = {}
        if journal.is_file():
            for line in journal.read_text("utf-8").splitlines():
                try:
                    row = json.loads(line)
                except ValueError:
                    continue
                self._known[row["asked"]] = SaidText(row["said"], row.get("logprob", 0.0))

    async def say(
        self,
        prompt: str,
        parts: Mapping[str, str],
        tokens: int,
        system: str = "",
        *,
        logprobs: bool = False,
        force: str = "",
    ) -> SaidText:
        """As `QuoteAsker.say`."""
        asked = [prompt, system, dict(parts), tokens, *([force] if force else [])]
        key = json.dumps(asked, ensure_ascii=False, sort_keys=True)
        if key not in self._known:
            self._known[key] = said = await super().say(prompt, parts, tokens, system, logprobs=logprobs, force=force)
            with self._journal.open("a", encoding="utf-8") as file:
                row = {"asked": key, "said": said.text} | ({"logprob": said.logprob} if logprobs or force else {})
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        return self._known[key]


@dataclass(slots=True)
class StandaloneMeasured:
    """What the arms made of the snippets that were reached."""

    made: dict[str, dict[str, StandaloneQuote]] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    problem: str = ""
    """Why the model was asked no more before the time was over."""


async def make_all(
    snippets: Sequence[Snippet],
    chosen: Sequence[StandaloneArm],
    within: Within,
    asker: QuoteAsker | None,
    *,
    until: float,
    progress: Callable[[str, int, int], None],
) -> StandaloneMeasured:
    """Every arm over the snippets, all arms of one before the next, until the time is over (`time.monotonic`)."""
    found = StandaloneMeasured({arm.name: {} for arm in chosen}, {arm.name: [] for arm in chosen})
    for done, snippet in enumerate(snippets):
        progress("making readable", done, len(snippets))
        for arm in chosen:
            if arm.prompted and (found.problem or time.monotonic() > until):
                continue
            began = time.monotonic()
            quote = replace(snippet.quote, passages=snippet.whole) if arm.plan.whole else snippet.quote
            asking, place = asker if arm.prompted else None, None if arm.plan.whole else within
            try:
                made = await make_standalone(quote, arm.plan, asking, place, given(arm, snippet))
            except AskingFailed as error:
                # What was measured until then is worth its run; the same name goes on.
                found.problem = str(error)
                continue
            found.made[arm.name][snippet.id] = made
            found.seconds[arm.name].append(time.monotonic() - began)
    progress("making readable", len(snippets), len(snippets))
    return found


def measure(snippets: Sequence[Snippet], found: StandaloneMeasured, writer: RunWriter) -> None:
    """Write figures, intervals and paired tests of everything that was made, and of the baselines, into the run."""
    texts = {name: {one.id: baseline(name, one) for one in snippets} for name in BASELINES}
    texts |= {arm: {key: one.text for key, one in made.items()} for arm, made in found.made.items() if made}
    counted = {name: _counts(snippets, made) for name, made in texts.items()}
    for name, made in texts.items():
        here = [one for one in snippets if one.id in made]
        papers = [one.paper for one in here]
        for measured, known in (("content-SARI", True), ("SARI-add", False)):
            rows = [counted[name][one.id][known] for one in here]
            note(writer, SET, "additions", name, measured, sari(rows, papers))
        changed = [float(made[one.id] != one.quote.snippet) for one in here]
        note(writer, SET, "additions", name, "changed", estimate(changed, papers))
        scores = {
            one.id: {"hits": c.hits, "surplus": c.surplus, "misses": c.misses}
            for one in here
            for c in (counted[name][one.id][True],)
        }
        writer.write_scores(SET, name, "content-SARI", scores)
        if name in found.made:
            _guarded(here, found.made[name], found.seconds[name], name, writer)
    _steps(snippets, found, writer)
    _compare(snippets, counted, writer)


def _counts(snippets: Sequence[Snippet], texts: Mapping[str, str]) -> dict[str, dict[bool, Additions]]:
    return {
        one.id: {
            known: additions(one.quote.snippet, texts[one.id], one.gold, one.surface if known else None)
            for known in (True, False)
        }
        for one in snippets
        if one.id in texts
    }


def _guarded(
    here: Sequence[Snippet], made: Mapping[str, StandaloneQuote], seconds: Sequence[float], name: str, writer: RunWriter
) -> None:
    papers = [one.paper for one in here]
    whole = [float(original(made[one.id].spans) == one.quote.snippet) for one in here]
    sentences = [
        float(len(sentence_spans(kept(made[one.id].spans))) == len(sentence_spans(one.quote.snippet))) for one in here
    ]
    refused = [float(bool(made[one.id].refused)) for one in here]
    for measured, values in (("bytes kept", whole), ("sentences kept", sentences), ("something refused", refused)):
        note(writer, SET, "guard", name, measured, estimate(values, papers))
    if seconds:
        note(writer, SET, "guard", name, "seconds", estimate(list(seconds), list(range(len(seconds)))))
    writer.write_rows(
        (
            {
                "id": one.id,
                "text": made[one.id].text,
                "gold": one.gold,
                "questions": [[q.question, q.answer] for q in made[one.id].questions],
                "refused": made[one.id].refused,
            }
            for one in here
        ),
        SET,
        name,
        "made.jsonl",
    )


def _steps(snippets: Sequence[Snippet], found: StandaloneMeasured, writer: RunWriter) -> None:
    """Questions a model asked against those of people, by keywords: F1 over all, as the public code has it."""
    for name, made in found.made.items():
        if not name.startswith("predicted Q") or not made:
            continue
        here = [one for one in snippets if one.id in made]
        rows = []
        for one in here:
            asked = [q.question for q in made[one.id].questions]
            wanted = [q.question for q in one.questions]
            right = sum(any(_same(a, b) for b in wanted) for a in asked)
            met = sum(any(_same(a, b) for a in asked) for b in wanted)
            rows.append((right, len(asked), met, len(wanted)))

        def question_f1(places: Sequence[int], rows: Sequence[tuple[int, ...]] = tuple(rows)) -> float:
            right, asked, met, wanted = (sum(rows[place][i] for place in places) for i in range(4))
            precision, recall = right / max(1, asked), met / max(1, wanted)
            return 2 * precision * recall / (precision + recall) if right else 0.0

        note(writer, SET, "questions", name, "question F1", estimate_of(question_f1, [one.paper for one in here]))


def _same(one: str, other: str) -> bool:
    a, b = set(stems(one)), set(stems(other))
    return bool(a | b) and len(a & b) / len(a | b) > 0.5


def measure_retrieval(
    snippets: Sequence[Snippet], passages: Sequence[SourcePassage], within: Within, writer: RunWriter
) -> None:
    """Share of the gold evidence among the three passages that a gold question finds in the pool; also without the
    snippet's own abstract and paragraph, which the prompt has anyway."""
    for by in RANKINGS:
        for measured, own in ((f"evidence R@{RETRIEVED}", True), (f"evidence R@{RETRIEVED} beside the prompt", False)):
            values, papers = list[float](), list[str]()
            for one in snippets:
                shown = () if own else (one.quote.lead, one.quote.paragraph)
                for question in one.questions:
                    wanted = {paragraph for paragraph in question.evidence if paragraph not in shown}
                    ranked = within.rank(question.question, len(passages), by)
                    top = [passages[place].text for place in ranked if passages[place].text not in shown][:RETRIEVED]
                    values += [float(paragraph in top) for paragraph in wanted]
                    papers += [one.paper] * len(wanted)
            note(writer, SET, "retrieval", by, measured, estimate(values, papers))


def _compare(
    snippets: Sequence[Snippet], counted: Mapping[str, Mapping[str, Mapping[bool, Additions]]], writer: RunWriter
) -> None:
    """Every arm against the title baseline, and those with a model against their own end-to-end, paired."""
    pairs = [(AGAINST, name) for name in counted if name not in BASELINES]
    direct = [name for name in counted if name.startswith("end to end")]
    pairs += [(one, name) for one in direct[:1] for name in counted if name not in (*BASELINES, one)]
    tests = list[Test]()
    for before, after in pairs:
        here = [one for one in snippets if one.id in counted[before] and one.id in counted[after]]
        if len(here) < 5:
            continue
        papers = [one.paper for one in here]
        rows = [[counted[name][one.id][True] for one in here] for name in (before, after)]

        def difference(places: Iterable[int], rows: Sequence[Sequence[Additions]] = tuple(rows)) -> float:
            chosen = list(places)
            return f1(rows[1][place] for place in chosen) - f1(rows[0][place] for place in chosen)

        value = estimate_of(difference, papers, resamples=1000)
        p = paired(rows[0], rows[1], papers)
        place = (SET, "additions", "content-SARI", before, after)
        tests.append(Test(*place, value.mean, value.low, value.high, p, p, n=value.n))
    writer.tests += corrected(tests)
