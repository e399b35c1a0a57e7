"""Recipes measured: the right passages chosen, answers by words and by a judge, each against a baseline.

Questions are `papers.decomposition.trials`. What a model said is kept as it comes, and asked for once.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, TypeAlias

from evaluation.diagnosis import CRITERION, JUDGED_RIGHT, RIGHT_F1
from evaluation.metrics import estimate, holm, token_f1
from evaluation.questions import EvaluationError, Question
from evaluation.run_folder import Latency, RunWriter, Scores, Test, metrics_of, percentiles
from papers.asking import QuoteAsker, judged_as
from papers.decomposition.base import RecipePool, RecipeTools, cook, within_budget
from papers.decomposition.demonstrations import says_something
from papers.decomposition.registry import recipes_of
from papers.decomposition.selecting import answered, unlikelihood
from papers.decomposition.trials import SET, TrialQuestion
from papers.measures import fisher, note, tests_of
from plugins.evidence.source import numbered_texts
from server.turn.events import Evidence
from text.recorder import Recording

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

BASELINE = "baseline"
PLANTED = (
    ("How many weeks of leave do parents get?", "Parents get ten weeks of paid leave.", "The office opens at nine."),
    ("Which port does the server listen on?", "It listens on port 7860.", "Logs are kept for thirty days."),
    ("What does a ticket cost?", "A ticket costs four euros.", "Tickets are sold in the hall on the first floor."),
)
"""A question, a passage that answers it, and one that does not."""
BETA = 2
"""How much more recall counts than precision where a threshold is fitted."""


RankedTrials: TypeAlias = Sequence[tuple[TrialQuestion, Sequence[Evidence]]]
"""Questions, each with its pool best first."""


@dataclass(frozen=True, slots=True)
class RecipeAnswer:
    """What a recipe chose (numbers of passages) and answered, and how long it took."""

    chosen: tuple[int, ...]
    text: str
    seconds: float


async def demand_sign(asker: QuoteAsker) -> float:
    """The mean log ratio of perplexity, answering passage to other, over planted examples: above 0 where it works.

    Raises EvaluationError where it is inverted, and what the asker raises.
    """
    ratios = []
    for question, right, wrong in PLANTED:
        pool = RecipePool(question, tuple(numbered_texts([right, wrong])))
        a, b = [await unlikelihood(pool, one, asker) for one in pool.passages]
        ratios.append(math.log(a / b))
    if fmean(ratios) <= 0:
        raise EvaluationError(
            "This language model finds “not mentioned” likelier where the answer stands (planted examples: mean log "
            f"ratio {fmean(ratios):.3f}): perplexity would choose the wrong passages. Leave it out of --recipes."
        )
    return fmean(ratios)


async def run_recipes(
    trials: RankedTrials,
    recipes: Sequence[str],
    tools: RecipeTools,
    first: int,
    writer: RunWriter,
    until: float = math.inf,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> list[dict[str, RecipeAnswer]]:
    """Every recipe over the `first` of each question's ranked pool: all of one question before the next, until the time
    is over (`time.monotonic`). The calls are kept in `calls.jsonl`. Raises EngineError, EvaluationError.
    """
    if any("perplexity" in name for name in recipes):
        sign = await demand_sign(tools.asker)
        writer.notes.append(f"perplexity: its sign is right, mean log ratio {sign:.3f} (planted examples).")
    found = list[dict[str, RecipeAnswer]]()
    with writer.path("calls.jsonl").open("a", encoding="utf-8") as file:
        for n, (trial, ranked) in enumerate(trials):
            if time.monotonic() > until:
                break
            made = {}
            for place, name in enumerate(recipes):
                progress("recipes", n * len(recipes) + place, len(trials) * len(recipes))
                pool, began = RecipePool(trial.question.text, tuple(ranked[:first])), time.perf_counter()
                recording = Recording(name)
                with recording.root:
                    async for event in cook(recipes_of(name), pool, tools):
                        pool = event if isinstance(event, RecipePool) else pool
                    pool = replace(pool, passages=within_budget(pool.passages, tools.budget))
                    text = await answered(pool, tools.asker)
                chosen = tuple(sorted(one.n for one in pool.passages))
                made[name] = RecipeAnswer(chosen, text, time.perf_counter() - began)
                row = {"id": trial.question.id, "recipe": name, "chosen": chosen, "calls": recording.calls()}
                print(json.dumps(row, ensure_ascii=False), file=file, flush=True)
            found.append(made)
    if "perplexity" in recipes and found:
        threshold, recall, precision = await fitted(trials[: len(found)], first, tools.asker)
        writer.notes.append(
            f"perplexity as fitted to these questions, favouring recall: from {threshold:.3f} on, recall {recall:.3f}, "
            f"precision {precision:.3f}."
        )
    return found


async def fitted(trials: RankedTrials, first: int, asker: QuoteAsker) -> tuple[float, float, float]:
    """The perplexity from which passages are best taken, favouring recall, and its recall and precision here.

    Raises as the asker; what perplexity has read already is not asked again.
    """
    scored = list[tuple[float, bool]]()
    for trial, ranked in trials:
        pool = RecipePool(trial.question.text, tuple(ranked[:first]))
        scored += [(await unlikelihood(pool, one, asker), one.n in trial.gold) for one in pool.passages]
    total, best = sum(right for _, right in scored), (0.0, 0.0, 0.0, 0.0)
    for threshold, _ in scored:
        taken = [right for value, right in scored if value >= threshold]
        recall, precision = sum(taken) / max(1, total), sum(taken) / len(taken)
        value = (1 + BETA**2) * recall * precision / max(1e-9, BETA**2 * precision + recall)
        best = max(best, (value, threshold, recall, precision))
    return best[1:]


def is_right(trial: TrialQuestion, said: str) -> bool:
    """By words: yes or no as expected (not saying is no), nothing said where nothing is there, else enough F1."""
    if trial.whether is not None:
        return said.strip().lower().startswith("yes") == trial.whether
    if not trial.says or not says_something(said):
        return not trial.says and not says_something(said)
    return token_f1(said, trial.question.answer) >= RIGHT_F1


def measure(
    trials: RankedTrials,
    answers: Sequence[Mapping[str, RecipeAnswer]],
    first: int,
    writer: RunWriter,
    judge: BaseChatModel | None = None,
) -> None:
    """Write what was asked into the run: means with intervals, and every recipe against the baseline."""
    asked = [(trial, ranked, made) for (trial, ranked), made in zip(trials, answers, strict=False)]
    questions = {trial.question.id: trial.question for trial, _, _ in asked}
    scores: dict[str, dict[str, dict[str, dict[str, float]]]] = {"answer": {}, "passage": {}}
    for name in answers[0] if answers else ():
        for trial, _, made in asked:
            one, key = made[name], trial.question.id
            judged = {"judged right": float(_judged(trial, one.text, judge))} if judge is not None else {}
            right = {"right": float(is_right(trial, one.text)), "token F1": token_f1(one.text, trial.question.answer)}
            scores["answer"].setdefault(name, {})[key] = right | judged
            scores["passage"].setdefault(name, {})[key] = _passages(trial, one.chosen)
        taken = [made[name].seconds for _, _, made in asked]
        writer.latencies.append(Latency(SET, name, *percentiles(taken), len(taken)))
        for level in scores:
            writer.write_scores(SET, name, level, scores[level][name])
            writer.metrics += metrics_of(SET, level, name, scores[level][name], questions)
        rows = (
            {"id": trial.question.id, "question": trial.question.text, "gold": trial.question.answer, "said": one.text}
            for trial, _, made in asked
            for one in (made[name],)
        )
        writer.write_rows(rows, SET, name, "answers.jsonl")
    lost = [1 - len(trial.gold & {one.n for one in ranked[:first]}) / len(trial.gold) for trial, ranked, _ in asked]
    lost_on_average = estimate(lost, [trial.question.dialog for trial, _, _ in asked])
    note(writer, SET, "passage", f"first {first}", "recall lost", lost_on_average)
    if BASELINE in scores["answer"]:
        for measured in ("precision", "recall", "F1"):
            writer.tests += tests_of(SET, "passage", measured, BASELINE, scores["passage"], questions)
        for measured in ("right", *(["judged right"] if judge is not None else [])):
            writer.tests += _fisher(measured, scores["answer"], questions)


def _fisher(measured: str, scores: Mapping[str, Scores], questions: Mapping[str, Question]) -> list[Test]:
    """How many are right, by Fisher's exact test; the interval is the paired difference's."""
    counts = {name: (round(sum(one[measured] for one in found.values())), len(found)) for name, found in scores.items()}
    others = [name for name in scores if name != BASELINE]
    raw = [fisher(counts[BASELINE], counts[name]) for name in others]
    found = tests_of(SET, "answer", measured, BASELINE, scores, questions)
    return [
        Test(SET, "answer", f"{measured} (Fisher)", BASELINE, one.system, one.difference, one.low, one.high, p, p_holm)
        for one, p, p_holm in zip(found, raw, holm(raw), strict=True)
    ]


def _passages(trial: TrialQuestion, chosen: Sequence[int]) -> dict[str, float]:
    right = len(trial.gold.intersection(chosen))
    precision, recall = right / max(1, len(chosen)), right / len(trial.gold)
    return {"precision": precision, "recall": recall, "F1": 2 * right / (len(chosen) + len(trial.gold))}


def _judged(trial: TrialQuestion, said: str, judge: BaseChatModel) -> bool:
    parts = {"question": trial.question.text, "expected": trial.question.answer, "answer": said}
    found = judged_as(judge, {"same": CRITERION}, "evaluation:rubric_gold", parts)
    return bool(found) and found[0].score >= JUDGED_RIGHT
