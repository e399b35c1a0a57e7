"""`anaphora search`: many questions at once, searched exactly as a chat turn searches, as a TREC run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal

import typer

from cli.ask import parse_where
from cli.shared.console import progress
from cli.shared.options import Queries, Reranking, Rewriting, Searched, Where, overriding
from cli.shared.resources import fetch_models, open_collection, open_rewriter
from cli.shared.state import state_of
from text.files import text_writer

if TYPE_CHECKING:
    from evaluation.questions import Question
    from index.documents import Hit
    from server.turn.search import TurnSearch


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
    from evaluation.questions import read_questions

    state = state_of(context)
    flags = overriding(collection=collection, retrieval__rerank=rerank, rewriter__kind=rewriter)
    settings = state.settings(flags)
    lines = [judged.question for judged in read_questions(queries)]
    filters = parse_where(where or [])

    from server.chat.loaded_models import Models
    from server.turn.search import TurnSearch

    fetch_models(settings, state, llm=settings.rewriter.kind == "prompted")
    models = Models(settings)
    with ExitStack() as stack:
        searched = stack.enter_context(open_collection(settings, models))
        turn_search = TurnSearch(
            collection=lambda _: searched,
            rewriter=stack.enter_context(open_rewriter(settings, state)),
            settings=settings,
            reranker=models.reranker(),
        )
        file = stack.enter_context(text_writer(run))
        advance = stack.enter_context(progress(state.err, "searching", len(lines)))
        spaces = search_all(turn_search, lines, file, level=level, k=k, where=filters, advance=advance)
    if spaces:
        state.err.print(
            "Some ids hold spaces. They are written as they are: in a line everything between `Q0` and the last "
            "three fields is the id.",
            style="yellow",
        )
    state.err.print(f"Wrote {run}: {len(lines)} questions, {level} level.")


def search_all(
    search: TurnSearch,
    queries: Sequence[Question],
    file: IO[str],
    *,
    level: Literal["passage", "document"],
    k: int,
    where: Mapping[str, Any],
    advance: Callable[[], None] = lambda: None,
) -> bool:
    """Write the ranking of every question, of `k` ids at most; whether an id holds spaces, as a run's should not."""
    from evaluation.metrics import run_lines

    # Documents are found through their passages: as many of them as each ranking contributes.
    wanted = k if level == "passage" else max(k, search.settings.retrieval.profile.depth)
    spaces = False
    for query in queries:
        searched = search.find(
            query.text,
            collection=search.settings.collection,
            conversation=query.conversation,
            k=wanted,
            where=where,
        )
        ranking = ranked(searched.hits, level)[:k]
        spaces = spaces or any(len(identifier.split()) != 1 for identifier, _ in ranking)
        file.writelines(run_lines(query.id, ranking, "anaphora"))
        advance()
    return spaces


def ranked(hits: Sequence[Hit], level: Literal["passage", "document"]) -> list[tuple[str, float]]:
    """Ids and scores, best first, each id once; a document has the score of its best passage."""
    best: dict[str, float] = {}
    for hit in hits:
        best.setdefault(hit.passage.id if level == "passage" else hit.passage.document_id, hit.score)
    return list(best.items())
