"""Many questions searched as a turn searches, into a TREC run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, Literal

from evaluation.metrics.ranking import run_lines

if TYPE_CHECKING:
    from evaluation.batches.queries import QueryLine
    from index.query import Hit
    from server.turn.search import TurnSearch

TAG = "anaphora"


def search_all(
    search: TurnSearch,
    queries: Sequence[QueryLine],
    file: IO[str],
    *,
    level: Literal["passage", "document"],
    k: int,
    where: Mapping[str, Any],
    advance: Callable[[], None] = lambda: None,
) -> bool:
    """Write the ranking of every question, of `k` ids at most; whether an id holds spaces, as a run's should not."""
    # Documents are found through their passages: as many of them as each ranking contributes.
    wanted = k if level == "passage" else max(k, search.settings.retrieval.depth)
    spaces = False
    for query in queries:
        found = search.find(
            query.text,
            collection=search.settings.collection,
            conversation=query.conversation,
            k=wanted,
            where=where,
        )
        ranking = ranked(found.hits, level)[:k]
        spaces = spaces or any(len(identifier.split()) != 1 for identifier, _ in ranking)
        file.writelines(run_lines(query.id, ranking, TAG))
        advance()
    return spaces


def ranked(hits: Sequence[Hit], level: Literal["passage", "document"]) -> list[tuple[str, float]]:
    """Ids and scores, best first, each id once; a document has the score of its best passage."""
    best: dict[str, float] = {}
    for hit in hits:
        best.setdefault(hit.passage.id if level == "passage" else hit.passage.document_id, hit.score)
    return list(best.items())
