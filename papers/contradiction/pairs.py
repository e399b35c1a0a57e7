"""Pairs of a statement and a piece of a page: what the page says, what turns it, and what it does not speak of.

A row is a JSON object: `statement` and `evidence` as the model reads them, `label`, `kind` (of the edit, or what it
was made from), `group` (`page`, `answer`, `proposition`), and `dialog`, which keeps all of a page on one side. A statement
stands before what was made of it.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal, TypeAlias

from papers.contradiction.edits import EDITS, retold, turned
from papers.contradiction.pages import Page, Told
from server.turn.support import plain, statement_text
from text.sentences import sentence_spans
from text.words import negations, stems

Label: TypeAlias = Literal["supported", "contradicted", "neither"]
LABELS: tuple[Label, ...] = ("supported", "contradicted", "neither")

MOST_OF_A_KIND = 14_000
SHARES = {"page": 0.22, "answer": 0.56, "proposition": 0.22}
"""Of the turned rows, where there are enough; sentences of pages alone are too easy."""
TURNED_OF_ONE = 2
"""Edits of one statement at most."""
NEITHER = 0.45
"""Rows of what the evidence does not speak of, to each supported one."""
SAID = 0.34
"""A written sentence of whose content the quoted sentence and its neighbours hold less is no sure positive."""
APART = 0.75
"""A sentence of whose content a window holds more may be said there too."""
ASKED = 0.85
"""Share of answers that are read behind their question, as all are when served."""
PER_PAGE = 60
"""Sentences of one page at most."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One row; those of one statement follow each other, and their ids differ behind the last colon."""

    id: str
    dialog: str
    group: str
    kind: str
    label: Label
    statement: str
    evidence: str

    @property
    def origin(self) -> str:
        """What it was made from: a statement and its edits have it in common."""
        return self.id.rpartition(":")[0]


@dataclass(frozen=True, slots=True)
class PairGroup:
    """A supported statement and what was made of it; `source` names the file it was read from."""

    pairs: tuple[Pair, ...]
    source: str = ""

    @property
    def dialog(self) -> str:
        """The page: all of one stand on one side."""
        return self.pairs[0].dialog


def page_pairs(pages: Iterable[Page], rng: random.Random) -> Iterator[Pair]:
    """Sentences of pages: as they are or retold, turned, and beside another place of the page."""
    for page in pages:
        places = [n for n, sentence in enumerate(page.sentences) if sentence.states]
        for place in rng.sample(places, min(PER_PAGE, len(places))):
            said, evidence = page.sentences[place].text, page.evidence(place)
            own = retold(said, rng) if rng.random() < 0.8 else said
            name = f"{page.id}#{place}"
            yield Pair(f"{name}:true", page.id, "page", "retold", "supported", own, evidence)
            for kind, text in turned(own, page.siblings(place), rng).items():
                yield Pair(f"{name}:{kind}", page.id, "page", kind, "contradicted", text, evidence)
            if (other := _elsewhere(page, place, page.sentences[place].stems)) is not None:
                yield Pair(f"{name}:apart", page.id, "page", "neighbour", "neither", own, page.evidence(other))
                added = _added(said, page.sentences[other].text, page, place, other)
                if added and rng.random() < 0.5:
                    yield Pair(f"{name}:added", page.id, "page", "addition", "neither", added, evidence)


def told_pairs(pages: Mapping[str, Page], told: Iterable[Told], rng: random.Random) -> Iterator[Pair]:
    """Sentences of answers and propositions beside the sentence they were written from, and turned."""
    for number, one in enumerate(told):
        page = pages.get(one.page)
        if page is None:
            continue
        places = list(dict.fromkeys(place for quote in one.quotes for place in page.locate(quote)))
        if not places:
            continue
        group = "answer" if one.question else "proposition"
        for n, statement in enumerate(statements(one.text)):
            own = frozenset(stems(statement))
            place = max(places, key=lambda place: _share(own, page.held(place)))
            share = _share(own, page.held(place) | frozenset(stems(one.question)))
            if len(own) < 2 or share < SAID:
                continue
            yes_no = statement[:3] in ("Yes", "No,", "No.", "No:", "No;")
            question = one.question if yes_no or rng.random() < ASKED else ""
            evidence, name = page.evidence(place), f"{page.id}#{group}-{number}-{n}"
            yield Pair(
                f"{name}:true", page.id, group, "told", "supported", statement_text(statement, question), evidence
            )
            for kind, text in turned(statement, page.siblings(place), rng).items():
                if kind == "condition" and _share(own - frozenset(stems(text)), frozenset(stems(one.question))) > 0.3:
                    continue  # the question set the condition: an answer need not repeat it
                if question or kind != "yes/no":
                    yield Pair(
                        f"{name}:{kind}", page.id, group, kind, "contradicted", statement_text(text, question), evidence
                    )
            if (other := _elsewhere(page, place, own)) is not None and rng.random() < 0.6:
                yield Pair(
                    f"{name}:apart", page.id, group, "neighbour", "neither", statement_text(statement, question),
                    page.evidence(other),
                )  # fmt: skip


def statements(text: str) -> list[str]:
    """The sentences of an answer that state something, as words."""
    found = (plain(text[start:end]) for start, end in sentence_spans(text))
    return [one for one in found if len(one) >= 15 and one[-1] not in ":?" and "```" not in one]


def _share(wanted: frozenset[str], held: frozenset[str]) -> float:
    return len(wanted & held) / len(wanted) if wanted else 0.0


def _elsewhere(page: Page, place: int, own: frozenset[str]) -> int | None:
    """The place of the page that shares most words with the statement and does not seem to say it."""
    best, most = None, 0.0
    for n, sentence in enumerate(page.sentences):
        if abs(n - place) > 2 and sentence.states:
            share = _share(own, sentence.stems)
            if most < share <= APART and _share(own, page.held(n)) <= APART:
                best, most = n, share
    return best


def _added(said: str, other: str, page: Page, place: int, at: int) -> str | None:
    """The sentence with another one's beginning joined to it, where the window does not hold that."""
    joined = other.split(",")[0].rstrip(".")
    if not 20 <= len(joined) <= 120 or _share(page.sentences[at].stems, page.held(place)) > 0.4:
        return None
    return f"{said.rstrip('.')}, and {joined[:1].lower()}{joined[1:]}."


def balanced(pairs: Sequence[Pair], rng: random.Random, count: int, most: int = MOST_OF_A_KIND) -> list[Pair]:
    """About `count` rows, at most so many of each kind, and none whose words alone would tell its label.

    A supported statement stands before its edits. Negations are put in no more often than supported statements hold
    one, and `Yes` and `No` open as many turned answers as true ones.
    """
    pairs = rng.sample(list(pairs), len(pairs))
    true = {pair.origin: pair for pair in pairs if pair.label == "supported"}
    each = count / (2.6 + NEITHER)
    room = Counter({group: round(1.6 * each * share) for group, share in SHARES.items()})
    room += Counter(dict.fromkeys(EDITS, most))
    sample = rng.sample(sorted(true), min(len(true), round(each)))
    room["put in"] = sum(negations(true[name].statement) > 0 for name in sample)
    room += Counter({f"opens {word}": sum(_opens(true[name]) == word for name in sample) for word in ("Yes", "No")})
    turned_pairs = [pair for pair in pairs if pair.label == "contradicted" and pair.origin in true]
    # Rare kinds early, so that frequent ones do not take a group's room.
    frequency = Counter(pair.kind for pair in turned_pairs)
    turned_pairs.sort(key=lambda pair: rng.expovariate(1) * frequency[pair.kind] ** 0.75)
    room += Counter(dict.fromkeys(true, TURNED_OF_ONE))
    chosen = _taken(turned_pairs, room, _limits)
    origins = {pair.origin for pair in chosen}
    room = Counter({"neither": round(len(origins) * NEITHER), "addition": round(len(origins) * NEITHER / 4)})
    rest = [pair for pair in pairs if pair.label == "neither" and pair.origin in origins]
    chosen += _taken(rest, room, lambda pair: ["neither", *(["addition"] if pair.kind == "addition" else [])])
    made = defaultdict[str, list[Pair]](list)
    for pair in chosen:
        made[pair.origin].append(pair)
    return [pair for name in rng.sample(sorted(made), len(made)) for pair in (true[name], *made[name])]


def _limits(pair: Pair) -> list[str]:
    """What a turned row takes room of."""
    put_in = pair.kind == "negation" and negations(pair.statement) > 0
    opened = [f"opens {_opens(pair)}"] if pair.kind == "yes/no" else []
    return [pair.group, pair.kind, pair.origin, *opened, *(["put in"] if put_in else [])]


def _taken(pairs: Iterable[Pair], room: Counter[str], limits: Callable[[Pair], list[str]]) -> list[Pair]:
    """The pairs, in order, for which there is room; it is used up."""
    chosen = []
    for pair in pairs:
        keys = limits(pair)
        if all(room[key] > 0 for key in keys):
            room.subtract(keys)
            chosen.append(pair)
    return chosen


def _opens(pair: Pair) -> str:
    answer = pair.statement.partition("? ")[2] or pair.statement
    return "Yes" if answer.startswith("Yes") else "No" if _is_no(answer) else ""


def _is_no(answer: str) -> bool:
    return answer[:2] == "No" and not answer[2:3].isalpha()


def write_pairs(path: Path, pairs: Iterable[Pair]) -> int:
    """Write rows that `read_pairs` reads back; how many there were."""
    count = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for pair in pairs:
            file.write(json.dumps(asdict(pair), ensure_ascii=False) + "\n")
            count += 1
    return count


def read_pairs(path: Path) -> Iterator[PairGroup]:
    """The rows of a file, those of one statement together."""
    with path.open(encoding="utf-8") as lines:
        pairs = (Pair(**json.loads(line)) for line in lines)
        for _, group in groupby(pairs, key=lambda pair: pair.origin):
            yield PairGroup(tuple(group), path.stem)
