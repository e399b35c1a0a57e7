"""What a turn says in the server's own words, where no model speaks."""

from __future__ import annotations

from server.turn.evidence import Selection
from server.turn.search import SearchPlan

UNSUPPORTED = "Nothing in this answer could be matched with the documents: check it against the sources."
NEAREST_INSTEAD = "What comes nearest in the documents:"
"""Announces the sentences that are quoted below an answer nothing supports."""
NOTHING_FOUND = "Nothing in the documents matches this question. Try other words, or another collection."


def no_answer(plan: SearchPlan, selection: Selection, *, nearest: bool = False) -> str:
    """An honest refusal: what was searched for, and in how many passages of which documents it is not said.

    With `nearest` it announces the sentences that come nearest, which are to follow.
    """
    titles = list(dict.fromkeys(passage.title or passage.document_id for passage in selection.passages))
    shown = ", ".join(titles[:3]) + (" and others" if len(titles) > 3 else "")
    read = "1 passage" if len(selection.passages) == 1 else f"{len(selection.passages)} passages"
    return (
        f"The documents do not seem to answer this. I searched for “{' '.join(plan.rewrite.text.split())}” and read "
        f"{read}, from {shown}" + ("; this comes nearest:" if nearest else "; none of them says it.")
    )
