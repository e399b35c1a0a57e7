"""What a search found, as it is shown to whoever searched."""

from __future__ import annotations

from server.chat.types import SearchResult
from server.turn.events import Leg, RewriteEvent
from server.turn.evidence import numbered
from server.turn.search import Found


def search_result(found: Found, rewriter: str) -> SearchResult:
    """The hits numbered from 1, and what was searched for."""
    plan = found.plan
    rewrite = RewriteEvent(
        question=plan.question,
        text=plan.rewrite.text,
        decision=plan.decision,
        confidence=plan.rewrite.confidence,
        alternatives=list(plan.rewrite.alternatives),
        reason=plan.rewrite.reason,
        expansion=[term.text for term in plan.rewrite.expansion],
        needs_history=plan.rewrite.needs_history,
        rewriter=rewriter,
        legs=[Leg(name=leg.name, text=leg.text, lexical=leg.lexical, dense=leg.dense) for leg in plan.legs.shown],
        seconds=found.seconds["rewrite"],
    )
    return SearchResult(
        rewrite=rewrite,
        passages=[numbered(n, hit) for n, hit in enumerate(found.hits, start=1)],
        reranked=found.reranked,
        seconds=sum(found.seconds.values()),
    )
