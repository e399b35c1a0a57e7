"""What the checks of statements let through, on products that nothing was trained on: words alone, and with the model.

Each statement cites the passages of the product's own cutting that hold its source, as an answer would; the evidence
holds other passages of the page beside them. True statements are written answers, people's or a large model's, and
retold sentences; turned ones are planted edits of both, told apart by kind.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from index.documents import Hit
from index.passages import split
from papers.contradiction.edits import EDITS, retold, turned
from papers.contradiction.pages import Page, Told
from papers.contradiction.pairs import SAID, statements
from server.turn.events import Evidence
from server.turn.evidence import numbered
from server.turn.models import count_tokens
from server.turn.support import PairModel, PairReading, SupportScorer, is_read, joined, plain, read_beside
from text.sentences import with_rows_said
from text.words import stems

PASSAGE_TOKENS = 220
EVIDENCE = 6
"""Passages before the model in a turn."""
HEAD = ["statement", "n", "words: supported", "joined: supported", "joined: contradicted"]


@dataclass(frozen=True)
class Case:
    """A statement that cites the first `cited` of its passages. `kind` is the edit's; `true` or `neighbour` else."""

    product: str
    group: str
    kind: str
    statement: str
    question: str
    passages: tuple[Evidence, ...]
    cited: int


@dataclass(frozen=True, slots=True)
class Checked:
    """A case with its lexical score and what the model read beside each cited passage."""

    case: Case
    lexical: float
    readings: tuple[PairReading, ...]
    """None where the model is not asked."""

    def judgement(self) -> tuple[float, bool]:
        """Return its score, and whether it counts as contradicted."""
        return joined(self.lexical, self.readings) if self.readings else (self.lexical, False)


def page_cases(pages: Iterable[Page], rng: random.Random, per_page: int = 12) -> Iterator[Case]:
    """Sentences of pages, retold, turned, and citing a passage of another place."""
    for page in pages:
        places = [n for n, sentence in enumerate(page.sentences) if sentence.states]
        for place in rng.sample(places, min(per_page, len(places))):
            evidence = _evidence(page, [page.sentences[place].text], rng)
            if evidence is None:
                continue
            passages, cited = evidence
            said = page.sentences[place].text
            yield Case(page.product, "page", "true", retold(said, rng), "", passages, cited)
            base = said if rng.random() < 0.5 else retold(said, rng)
            for kind, text in turned(base, page.siblings(place), rng).items():
                yield Case(page.product, "page", kind, text, "", passages, cited)
            if len(passages) > cited:
                yield Case(
                    page.product, "page", "neighbour", said, "", _numbered((*passages[cited:], *passages[:cited])), 1
                )


def told_cases(pages: Mapping[str, Page], told: Iterable[Told], rng: random.Random) -> Iterator[Case]:
    """Sentences of answers, as they are and turned; every one of them, however little it shares with its source."""
    for one in told:
        page = pages.get(one.page)
        places = [place for quote in one.quotes for place in page.locate(quote)] if page else []
        if page is None or not places:
            continue
        evidence = _evidence(page, [page.sentences[place].text for place in dict.fromkeys(places)], rng)
        if evidence is None:
            continue
        passages, cited = evidence
        for statement in statements(one.text):
            own = frozenset(stems(statement))
            if len(own) < 2:
                continue
            yield Case(page.product, "answer", "true", statement, one.question, passages, cited)
            if max(len(own & page.held(place)) for place in places) < SAID * len(own):
                continue
            for kind, text in turned(statement, page.siblings(places[0]), rng).items():
                yield Case(page.product, "answer", kind, text, one.question, passages, cited)
            if len(passages) > cited:
                turned_round = _numbered((*passages[cited:], *passages[:cited]))
                yield Case(page.product, "answer", "neighbour", statement, one.question, turned_round, 1)


@lru_cache(512)
def _passages(page_id: str, page: _ById) -> tuple[tuple[Evidence, str], ...]:
    found = split(page.page.document, PASSAGE_TOKENS, count_tokens)
    return tuple((numbered(1, Hit(passage, 1.0)), plain(with_rows_said(passage.text))) for passage in found)


class _ById:
    """A page that is equal to another of its id: a key to remember its passages by."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and other.page.id == self.page.id

    def __hash__(self) -> int:
        return hash(self.page.id)


def _evidence(page: Page, sources: Sequence[str], rng: random.Random) -> tuple[tuple[Evidence, ...], int] | None:
    """The passages that hold the sources, then others of the page, numbered from 1; how many hold one."""
    every = _passages(page.id, _ById(page))
    holding = [passage for passage, bare in every if any(source in bare for source in sources)][:3]
    if not holding:
        return None
    others = [passage for passage, _ in every if passage not in holding]
    chosen = [*holding, *rng.sample(others, min(len(others), EVIDENCE - len(holding)))]
    return _numbered(chosen), len(holding)


def _numbered(passages: Iterable[Evidence]) -> tuple[Evidence, ...]:
    return tuple(passage.model_copy(update={"n": n}) for n, passage in enumerate(passages, 1))


def drawn(cases: Sequence[Case], rng: random.Random, edits: int, others: int) -> list[Case]:
    """About so many turned cases, as many of each kind and group as there are; and so many true and neighbouring."""
    by_kind = defaultdict[tuple[str, str], list[Case]](list)
    for case in cases:
        by_kind[case.group, case.kind].append(case)
    chosen = list[Case]()
    turned_kinds = sorted(key for key in by_kind if key[1] in EDITS)
    left = edits
    for place, key in enumerate(sorted(turned_kinds, key=lambda key: len(by_kind[key]))):
        share = min(len(by_kind[key]), left // (len(turned_kinds) - place))
        chosen += rng.sample(by_kind[key], share)
        left -= share
    for key in sorted(set(by_kind) - set(turned_kinds)):
        chosen += rng.sample(by_kind[key], min(others, len(by_kind[key])))
    return chosen


def checked(cases: Sequence[Case], model: PairModel, advance: Callable[[], None] = lambda: None) -> list[Checked]:
    """The cases as a turn would check them."""
    found = []
    for case in cases:
        scorer, cited = SupportScorer(case.passages), range(1, case.cited + 1)
        read = cited if is_read(case.statement, scorer, cited) else ()
        readings = tuple(read_beside(model, scorer, case.statement, case.question, n) for n in read)
        found.append(Checked(case, scorer.score(case.statement, cited), readings))
        advance()
    return found


def rows(found: Sequence[Checked], threshold: float) -> list[list[str]]:
    """Shares by group and kind, true statements first, then all turned ones together, then each kind."""
    groups = sorted(
        {(one.case.group, one.case.kind) for one in found}, key=lambda key: (key[1] != "true", key[1] in EDITS, key)
    )
    table = []
    sets = [
        (f"{kind}, {group}", [one for one in found if (one.case.group, one.case.kind) == (group, kind)])
        for group, kind in groups
    ]
    planted = [one for one in found if one.case.kind in EDITS]
    sets.insert(sum(kind not in EDITS for _, kind in groups), ("turned, all", planted))
    for name, own in sets:
        judged = [one.judgement() for one in own]
        shares = (
            np.mean([one.lexical >= threshold for one in own]),
            np.mean([score >= threshold and not turned_ for score, turned_ in judged]),
            np.mean([turned_ for _, turned_ in judged]),
        )
        table.append([name, str(len(own)), *(f"{share:.3f}" for share in shares)])
    return table


def fitted(found: Sequence[Checked], kept: float = 0.8) -> list[float]:
    """Bias and weights of the lexical score and of what was read, by logistic regression: true against everything else.

    The bias is moved so that the share `kept` of true answers comes at or above the threshold.
    """
    from scipy.optimize import minimize

    from server.turn.support import SUPPORTED, best_reading, log_odds

    found = [one for one in found if one.readings]
    best = [best_reading(one.readings) for one in found]
    x = np.array([[1.0, one.lexical, log_odds(b.supported)] for one, b in zip(found, best, strict=True)])
    y = np.array([one.case.kind == "true" for one in found], dtype=float)
    weight = np.where(y == 1, 0.5 / y.mean(), 0.5 / (1 - y.mean()))

    def loss(w: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
        z = x @ w
        return float((weight * (np.logaddexp(0, z) - y * z)).mean() + 1e-3 * (w[1:] ** 2).sum())

    w = minimize(loss, np.zeros(3), method="L-BFGS-B", bounds=[(None, None)] + [(0, None)] * 2).x
    answers = np.array([one.case.kind == "true" and one.case.group == "answer" for one in found])
    level = np.log(SUPPORTED / (1 - SUPPORTED))
    w[0] += level - np.quantile((x @ w)[answers], 1 - kept)
    return [float(one) for one in w]
