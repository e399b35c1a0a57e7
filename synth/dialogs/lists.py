"""Which propositions a dialog is made from: the sides first, then lists within a side.

Documents are given to train, dev and test by seed before anything is written about them, and a list never
crosses sides; so no document can be on two of them. A proposition that documents of several sides say is in no
list.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from synth.folder import SIDES
from synth.propositions.store import Proposition

SHARES = {"train": 0.8, "dev": 0.1, "test": 0.1}


@dataclass(frozen=True, slots=True)
class PropositionList:
    """Neighbouring propositions of one side, in document order; `number` counts from 0 within the side."""

    side: str
    number: int
    propositions: tuple[Proposition, ...]


def sides(sizes: Mapping[str, int], seed: int) -> dict[str, str]:
    """The side of each document, given how many propositions it has.

    Sides get about their share of the propositions, and each gets a document. Fewer than three are all trained on.
    """
    if len(sizes) < len(SIDES):
        return dict.fromkeys(sizes, "train")
    order = sorted(sizes, key=lambda name: hashlib.blake2b(f"{seed}\x00{name}".encode()).digest())
    total = sum(sizes.values())
    found: dict[str, str] = {}
    for side, later in (("test", 2), ("dev", 1)):
        taken = 0
        # The sides that come later need a document each.
        while len(order) > later:
            # Half a document too many is better than half a one too few.
            if taken and taken + sizes[order[-1]] / 2 > SHARES[side] * total:
                break
            taken += sizes[order[-1]]
            found[order.pop()] = side
            if taken >= SHARES[side] * total:
                break
    found.update(dict.fromkeys(order, "train"))
    return {name: found[name] for name in sizes}


def make_lists(propositions: Sequence[Proposition], size: int, seed: int) -> tuple[list[PropositionList], int]:
    """Non-overlapping lists of `size` in document order (the paper's n), and how many propositions are in none.

    A side's last list may be shorter; one of less than a third joins the list before it.
    """
    sizes: dict[str, int] = {}
    for proposition in propositions:
        for document in proposition.documents:
            sizes[document] = sizes.get(document, 0) + (document == proposition.document_id)
    side_of = sides(sizes, seed)
    lists: list[PropositionList] = []
    shared = 0
    for side in SIDES:
        own: list[Proposition] = []
        for proposition in propositions:
            where = {side_of[document] for document in proposition.documents}
            if where == {side}:
                own.append(proposition)
            elif len(where) > 1 and side_of[proposition.document_id] == side:
                shared += 1
        cuts = list(range(0, len(own), size))
        if len(cuts) > 1 and len(own) - cuts[-1] < size / 3:
            cuts.pop()
        for number, start in enumerate(cuts):
            end = len(own) if start == cuts[-1] else start + size
            lists.append(PropositionList(side, number, tuple(own[start:end])))
    return lists, shared
