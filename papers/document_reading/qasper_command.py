"""`python -m papers.document_reading qasper`: finding and reading within papers, by several rankings, with and without a language model."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from cli.shared.options import Every, FailUnder, LanguageModel, Name, Out, listed, measured_run, overriding
from cli.shared.state import InputError, state_of
from papers.command_line import Data, bench, data_folder, with_model

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from papers.document_reading.reading import PassageAnswer


def qasper(
    context: typer.Context,
    data: Data = None,
    model: LanguageModel = "none",
    split: Annotated[
        str, typer.Option(help="`sample`: whole papers; `train`: evidence alone, where recall means nothing.")
    ] = "sample",
    arms: Annotated[str, typer.Option(help="Ownership first paragraphs are read, by commas.")] = "bm25,reranked",
    passages: Annotated[str, typer.Option(help="How many paragraphs are read, by commas.")] = "3,5,10",
    trained: Annotated[str, typer.Option(help="A trained run, of a cross-encoder or a reader, to compare.")] = "",
    every: Every = 1,
    name: Name = "",
    out: Out = None,
    fail_under: FailUnder = None,
) -> None:
    """Questions about papers: recall at a share of the paper, Evidence-F1, and Answer-F1 by kind.

    With --model none the sentence that matches best answers. What a model said is kept: the same --name goes on.
    """
    from index.rerank import CrossEncoderReranker, load_reranker
    from papers.cross_encoder.family import RERANKERS
    from papers.decontextualization.measuring import RememberedAsker
    from papers.document_reading import measuring as paper
    from papers.document_reading.qasper import load_papers
    from papers.document_reading.reader import READERS, load_reader
    from rewriter.runs import run_folder

    wanted = listed(arms)
    if unknown := set(wanted) - set(paper.ARMS):
        raise InputError(f"There is no ranking {', '.join(sorted(unknown))}; there are {', '.join(paper.ARMS)}.")
    depths = sorted(int(one) for one in listed(passages) if one.isdecimal() and int(one) > 0)
    if not depths:
        raise InputError("--passages takes numbers above 0, by commas.")
    state = state_of(context)
    settings = state.settings(overriding(llm__model=model))
    kind = READERS if trained and run_folder(settings.home, trained, READERS).is_dir() else RERANKERS
    papers = load_papers(data_folder(data), split)[::every]
    with (
        measured_run(state, settings, "qasper", name, out, fail_under, resume=bool(name)) as writer,
        bench(settings, state, rerank=True) as measuring,
        ExitStack() as stack,
    ):
        reranker = measuring.reading if isinstance(measuring.reading, CrossEncoderReranker) else None
        other = (
            load_reranker(str(run_folder(settings.home, trained, RERANKERS))) if trained and kind == RERANKERS else None
        )
        other = other if isinstance(other, CrossEncoderReranker) else None
        ranked = paper.rank_all(papers, measuring.encoder, reranker, measuring.progress, other)
        reader = load_reader(run_folder(settings.home, trained, READERS)) if kind == READERS else None
        if reader is not None:
            stack.callback(reader.close)
        if split == "sample":
            paper.measure_retrieval(ranked, writer)

        async def read(chat_model: BaseChatModel | None) -> dict[str, list[list[PassageAnswer]]]:
            asker = RememberedAsker(chat_model, writer.path("asked.jsonl")) if chat_model else None
            return await paper.read_all(ranked, wanted, asker, depths[-1], measuring.progress, reader)

        paper.measure_answers(ranked, with_model(settings, state, read), depths, writer, reranker)
        writer.notes.append(
            f"{len(ranked)} questions about {len(papers)} papers, {sum(bool(one.question.evidence) for one in ranked)} "
            f"with evidence in the text; answers by {settings.llm.model}, relevance by "
            f"{reranker.name if reranker else 'nothing'}."
        )
