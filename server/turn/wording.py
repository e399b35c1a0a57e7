"""What a turn says in the server's own words, where no model speaks."""

from __future__ import annotations

from server.turn.evidence import Selection
from server.turn.search import Plan

UNSUPPORTED = "Nothing in this answer could be matched with the documents: check it against the sources."
NOTHING_FOUND = "Nothing in the documents matches this question. Try other words, or another collection."


def no_answer(plan: Plan, selection: Selection) -> str:
    """An honest refusal: what was searched for, and in how many passages of which documents it is not said."""
    titles = list(dict.fromkeys(passage.title or passage.document_id for passage in selection.passages))
    shown = ", ".join(titles[:3]) + (" and others" if len(titles) > 3 else "")
    return (
        f"The documents do not seem to answer this. I searched for “{' '.join(plan.rewrite.text.split())}” and read "
        f"{len(selection.passages)} passages, from {shown}; none of them says it."
    )
