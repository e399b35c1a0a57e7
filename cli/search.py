"""`anaphora search`: many questions at once, searched exactly as a chat turn searches, as a TREC run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cli.ask import parse_where
from cli.shared.console import progress
from cli.shared.options import Queries, Reranking, Rewriting, Searched, Where, overriding
from cli.shared.resources import open_search
from cli.shared.state import state_of
from text.files import text_writer

if TYPE_CHECKING:
    from index.documents import Hit


def search(
    context: typer.Context,
    queries: Queries,
    run: Annotated[Path, typer.Option(help="The TREC run to write.")],
    collection: Searched = "",
    level: Annotated[Literal["passage", "document"], typer.Option(help="Rank passages or documents.")] = "passage",
    k: Annotated[int, typer.Option("--k", "-k", min=1, max=1000, help="Longest ranking of a question.")] = 100,
    rerank: Reranking = None,
    rewriter: Rewriting = None,
    where: Where = None,
) -> None:
    """Search a collection for many questions and write a TREC run."""
    from evaluation.metrics import run_lines
    from evaluation.questions import read_questions

    state = state_of(context)
    flags = overriding(collection=collection, retrieval__rerank=rerank, rewriter__kind=rewriter)
    settings = state.settings(flags)
    questions = [judged.question for judged in read_questions(queries)]
    filters = parse_where(where or [])
    # Documents are found through their passages: as many of them as each ranking contributes.
    wanted = k if level == "passage" else max(k, settings.retrieval.profile.depth)
    spaces = False
    with (
        open_search(settings, state) as (_, turn_search),
        text_writer(run) as file,
        progress(state.err, "searching", len(questions)) as advance,
    ):
        for question in questions:
            searched = turn_search.find(
                question.text,
                collection=settings.collection,
                conversation=question.conversation,
                k=wanted,
                where=filters,
            )
            ranking = ranked(searched.hits, level)[:k]
            spaces = spaces or any(len(identifier.split()) != 1 for identifier, _ in ranking)
            file.writelines(run_lines(question.id, ranking, "anaphora"))
            advance()
    if spaces:
        state.err.print(
            "Some ids hold spaces. They are written as they are: in a line everything between `Q0` and the last "
            "three fields is the id.",
            style="yellow",
        )
    state.err.print(f"Wrote {run}: {len(questions)} questions, {level} level.")


def ranked(hits: Sequence[Hit], level: Literal["passage", "document"]) -> list[tuple[str, float]]:
    """Ids and scores, best first, each id once; a document has the score of its best passage."""
    best: dict[str, float] = {}
    for hit in hits:
        best.setdefault(hit.passage.id if level == "passage" else hit.passage.document_id, hit.score)
    return list(best.items())
