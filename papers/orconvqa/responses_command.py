"""Score the answers of a run of `python -m papers.orconvqa answers` with METEOR, BERTScore, and a model's perplexity."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated

import typer

from cli.shared.options import LanguageModel, overriding
from cli.shared.state import InputError, state_of

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


def responses(
    context: typer.Context,
    run: Annotated[Path, typer.Argument(help="Folder of a run of `python -m papers.orconvqa answers`.")],
    encoder: Annotated[
        str, typer.Option(help="BERTScore's: hub id, folder or registered name; none leaves it out.")
    ] = "",
    model: LanguageModel = "none",
) -> None:
    """Print the mean METEOR, BERTScore and perplexity of a run's answers; --model says how likely each answer is."""
    from evaluation.answers import plain
    from evaluation.questions import json_rows
    from papers.command_line import with_model
    from papers.measures import meteor
    from papers.orconvqa.answers import read_journal
    from papers.orconvqa.bertscore import BertScore
    from server.registry import resolve

    state = state_of(context)
    settings = state.settings(overriding(llm__model=model))
    pairs: list[tuple[str, str, str]] = []
    for journal in sorted(run.glob("*/turns.jsonl")):
        references = {row["id"]: row.get("answer", "") for _, row in json_rows(journal.with_name("questions.jsonl"))}
        pairs += [
            (turn.question, plain(turn.answer), references[name])
            for name, turn in read_journal(journal).items()
            if turn.status == "answered" and references.get(name)
        ]
    if not pairs:
        raise InputError(
            f"{run} holds no answer beside a reference; `python -m papers.orconvqa answers` makes such a run."
        )
    texts, wanted = [text for _, text, _ in pairs], [reference for *_, reference in pairs]
    scores, name = meteor(texts, wanted)
    state.out.print(f"answers: {len(pairs)}", f"{name}: {fmean(scores):.3f}", sep="\n")
    if encoder != "none":
        scorer = BertScore(resolve(encoder, settings.home)) if encoder else BertScore()
        f1 = fmean(match.f1 for match in scorer.score(texts, wanted))
        state.out.print(f"BERTScore ({scorer.name}): {f1:.3f}")

    async def perplexities(chat_model: BaseChatModel | None) -> list[float]:
        from langchain_core.messages import HumanMessage

        from papers.decomposition.forcing import forced_logprobs, perplexity

        if chat_model is None:
            return []
        messages = [[HumanMessage(question)] for question, *_ in pairs]
        forced = [await forced_logprobs(chat_model, asked, text) for asked, text in zip(messages, texts, strict=True)]
        return [perplexity(logprobs) for logprobs in forced]

    if model != "none":
        state.out.print(f"perplexity ({model}): {fmean(with_model(settings, state, perplexities)):.1f}")


def bertscore(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="JSON lines of `answer` and `reference`.")],
    encoder: Annotated[str, typer.Option(help="A hub id, a folder, or a registered name.")] = "",
) -> None:
    """Print the mean precision, recall and F1 of the answers in a file."""
    from evaluation.questions import json_rows
    from papers.orconvqa.bertscore import BertScore
    from server.registry import resolve

    state = state_of(context)
    rows = [row for _, row in json_rows(file)]
    scorer = BertScore(resolve(encoder, state.settings().home)) if encoder else BertScore()
    scores = scorer.score([row["answer"] for row in rows], [row["reference"] for row in rows])
    for name in ("precision", "recall", "f1"):
        state.out.print(f"{name}: {fmean(getattr(score, name) for score in scores):.3f}")
