"""Select the evidence of a turn: passages to number, and sentences to read or quote.

Passages keep the order of the search, best first, and are never cut: one that does not fit the budget is left out, and
a later, shorter one may take its place. Users see them whole, and citations are checked against them.

Without a model `nearest_sentences` quotes sentences. `docs/lab/citations.md` shows how the thresholds were chosen.

How likely each sentence of the passages answers is told by a small head on the states of the cross-encoder. The
packaged cross-encoder reads question and passage together to rank passages. The states of its tokens
(`index.documents.TokenStates`) hold more than the one score that it gives: their mean over a sentence, together with
how the words match, how likely the passage is, where the sentence stands and what it is, tells which sentence answers.
One softmax runs over all sentences of the passages and over nothing: its chance is that no sentence answers (as in
readers for SQuAD 2.0, Devlin et al. 2019, section 4.3). `sentence_head.npz` holds the weights; `python -m
papers.sentence_selection` makes it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import regex

from index.documents import OPENING, Hit, Passage, TokenStates
from server.turn.events import Evidence
from server.turn.models import HEADER_TOKENS, count_tokens
from server.turn.quote_shapes import (
    ITEM,
    LEADS_IN,
    LONGEST_SENTENCE,
    asks_for_amount,
    asks_for_example,
    asks_whether,
    definition,
    finished,
    holds_code,
    may_be_quoted,
    shape,
    unit,
)
from server.turn.support import Support, SupportScorer
from text.sentences import sentences, table_at, table_rows, without_links
from text.words import stems, words

if TYPE_CHECKING:
    from server.turn.decision import Chances

Array = npt.NDArray[np.float32]
SentencePlace = tuple[int, int]
"""The number of a passage and the offset of a sentence in its document."""

FEATURES = (
    "match", "log odds", "relevance", "best relevance", "relevance below best", "place", "order", "reciprocal place",
    "number", "first", "position", "log sentences", "code", "row", "item", "leads in", "heading", "unread", "length",
    "code span", "link",
)  # fmt: skip
"""The log odds (of `Hit.score`) and the relevance are the passage's, `log sentences` is how many it has."""
_SURE = 1e-5


_LETTER, _LATIN = regex.compile(r"\p{L}"), regex.compile(r"\p{Latin}")


def readable(question: str) -> bool:
    """Return whether a question is written in the letters that the packaged cross-encoder learnt to read."""
    return 2 * len(_LATIN.findall(question)) >= len(_LETTER.findall(question))


@dataclass(frozen=True, slots=True, eq=False)
class SentenceInputs:
    """The head's input for a question's sentences: a row of each array for each of `places`.

    `features` is `(sentences, len(FEATURES))`, `states` `(sentences, width)`: the mean of the states of its tokens.
    """

    places: list[SentencePlace]
    features: Array
    states: Array


def sentence_inputs(
    question: str, evidence: Sequence[Evidence], hits: Mapping[int, Hit], scorer: SupportScorer
) -> SentenceInputs:
    """Describe every sentence of the passages whose hits, by the passages' numbers, have token states.

    `question` is what words are compared with.
    """
    read = [passage for passage in evidence if (hit := hits.get(passage.n)) and hit.tokens is not None]
    scores = [hits[passage.n].relevance or 0.0 for passage in read]
    best = max(scores, default=0.0)
    order = np.argsort(np.argsort(-np.array(scores), kind="stable"), kind="stable").tolist()
    places: list[SentencePlace] = []
    rows, means = list[list[float]](), list[Array]()
    for place, passage in enumerate(read):
        hit, relevance = hits[passage.n], scores[place]
        assert hit.tokens is not None
        chance = min(max(hit.score, _SURE), 1 - _SURE)
        kinds = {sentence.start: sentence.kind for sentence in sentences(passage.opened)}
        matches = scorer.matches(question, passage.n)
        of_passage = (
            math.log(chance / (1 - chance)), relevance, best, relevance - best, place, order[place], 5 / (1 + place)
        )  # fmt: skip
        for number, match in enumerate(matches):
            start, end = match.start - passage.start, match.end - passage.start
            states = _states_of(hit.tokens, start, end)
            in_passage = (
                math.log1p(number) / 2, float(not number), number / max(1, len(matches) - 1), math.log(len(matches)) / 3
            )  # fmt: skip
            own = _own_features(match.quote, kinds.get(match.start - passage.origin, "prose"), unread=not len(states))
            rows.append([match.score, *(value / 5 for value in of_passage), *in_passage, *own])
            places.append((passage.n, match.start))
            means.append(states.mean(axis=0) if len(states) else np.zeros(states.shape[1], dtype=np.float32))
    return SentenceInputs(places, np.array(rows, dtype=np.float32), np.array(means, dtype=np.float32))


def _own_features(text: str, kind: str, *, unread: bool) -> list[float]:
    begins = (ITEM.match(text), LEADS_IN.search(text), text.lstrip().startswith("#"))
    is_a = (kind == "code", kind == "row", *begins, unread)
    return [*(float(bool(value)) for value in is_a), math.log1p(len(text)) / 5, float("`" in text), float("](" in text)]


def _states_of(tokens: TokenStates, start: int, end: int) -> Array:
    """The states of the tokens between two offsets; none where the model had no room for them."""
    own = [n for n, (first, last) in enumerate(tokens.spans) if first < min(end, last) and start < last]
    return tokens.states[own[0] : own[-1] + 1] if own else tokens.states[:0]


@dataclass(frozen=True, slots=True, eq=False)
class SentenceHead:
    """The weights by name, as torch names them: one hidden layer beside a direct one."""

    weights: Mapping[str, Array]

    def chances(self, inputs: SentenceInputs) -> dict[SentencePlace, float]:
        """Return how likely each sentence is the one that answers; what they lack to 1 is that none does."""
        if not inputs.places:
            return {}
        w = self.weights
        projected = inputs.states @ w["states.weight"].T + w["states.bias"]
        spread = np.sqrt(projected.var(axis=1, keepdims=True) + 1e-5)
        normed = (projected - projected.mean(axis=1, keepdims=True)) / spread * w["norm.weight"] + w["norm.bias"]
        known = np.concatenate([inputs.features, normed], axis=1)
        hidden = _gelu(known @ w["hidden.weight"].T + w["hidden.bias"])
        logits = (hidden @ w["out.weight"].T + w["out.bias"] + known @ w["direct.weight"].T + w["direct.bias"])[:, 0]
        powers = np.exp(np.append(logits, 0.0) - max(0.0, float(logits.max())))
        return dict(zip(inputs.places, (powers[:-1] / powers.sum()).tolist(), strict=True))


def _gelu(x: Array) -> Array:
    """By tanh (Hendrycks and Gimpel 2016)."""
    return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), dtype=np.float32)


@cache
def packaged_head() -> SentenceHead:
    """Return the head of the packaged cross-encoder."""
    with files("server.turn").joinpath("sentence_head.npz").open("rb") as file, np.load(file) as held:
        return SentenceHead({name: held[name].astype(np.float32) for name in held.files})


def sentence_chances(
    question: str, evidence: Sequence[Evidence], hits: Mapping[int, Hit], scorer: SupportScorer
) -> dict[SentencePlace, float]:
    """Return how likely each sentence of the evidence answers, as `SentenceHead.chances`, by the packaged head."""
    return packaged_head().chances(sentence_inputs(question, evidence, hits, scorer))


def select_evidence(hits: Sequence[Hit], *, limit: int, budget: int) -> tuple[Evidence, ...]:
    """At most `limit` of `hits` within `budget` tokens, numbered from 1; the first always, even where it is larger."""
    chosen = dict[tuple[str, int, int], Evidence]()
    spent = 0
    for hit in hits:
        if len(chosen) == limit:
            break
        cost = passage_tokens(hit)
        if _place(hit.passage) not in chosen and (not chosen or spent + cost <= budget):
            spent += cost
            chosen[_place(hit.passage)] = numbered(len(chosen) + 1, hit)
    return tuple(chosen.values())


def read_further(hits: Sequence[Hit], passages: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """`passages`, and numbered on below them the hits that a cross-encoder has read for nothing more than their place.

    Their sentences may answer too, and to quote them costs nothing.
    """
    chosen = {_place(passage): passage for passage in passages}
    for hit in hits:
        if hit.tokens is not None and _place(hit.passage) not in chosen:
            chosen[_place(hit.passage)] = numbered(len(chosen) + 1, hit)
    return tuple(chosen.values())


def _place(passage: Passage | Evidence) -> tuple[str, int, int]:
    return passage.document_id, passage.start, passage.end


def with_quoted(
    read: Sequence[Evidence], count: int, quotes: Sequence[Support], numbers_by_id: dict[str, int]
) -> tuple[tuple[Evidence, ...], list[Support]]:
    """The first `count` of the passages `read` and those of the others that are quoted; the quotes.

    Both are numbered as `numbers_by_id` knows the passages, new ones further on; it learns them.
    """
    quoted = {quote.n for quote in quotes}
    chosen = [passage for place, passage in enumerate(read) if place < count or passage.n in quoted]
    numbers = {old.n: numbers_by_id.setdefault(old.passage_id, len(numbers_by_id) + 1) for old in chosen}
    passages = tuple(old.model_copy(update={"n": numbers[old.n]}) for old in chosen)
    return passages, [replace(quote, n=numbers[quote.n]) for quote in quotes]


def passage_tokens(hit: Hit) -> int:
    """Tokens one passage costs in a prompt, its header included."""
    return HEADER_TOKENS + count_tokens(hit.passage.indexed_text)


def numbered(n: int, hit: Hit) -> Evidence:
    """A hit as evidence: its passage, word for word, under the number that markers cite it by."""
    passage = hit.passage
    return Evidence(
        n=n,
        passage_id=passage.id,
        document_id=passage.document_id,
        title=passage.title,
        heading=list(passage.heading),
        page=passage.page,
        start=passage.start,
        end=passage.end,
        text=passage.text,
        opening=str(passage.metadata.get(OPENING, "")),
        source=str(passage.metadata.get("source", passage.document_id)),
        score=hit.score,
        ranks=dict(hit.ranks),
        boxes=list(passage.boxes),
        region=passage.region,
    )


NEAREST, MATCHES = 0.25, 0.45
"""Where only words are compared, nothing is quoted if no sentence scores the first, and with a doubt if none scores the
second; chosen in `docs/lab/citations.md`."""
CLOSE = 0.75
"""A further sentence is quoted if it scores at least this share of the best one."""
NEAR = 0.03
"""Where a cross-encoder tells the chance of each sentence, a further one is quoted if it has at least this share of the
best one's."""
QUOTED = 0.15
"""Where all sentences together answer with less than this chance, nothing is quoted."""
HELD, ANSWERED, SURE = 0.35, 0.88, 0.74
"""Quotes are shown with a doubt if they hold the sentence that answers with less than the first chance, if the passages
answer with less than the second, or if the `sureness` is less than the third; chosen in `docs/lab/citations.md`."""
HELD_BEHIND_DOUBT, SURE_BEHIND_DOUBT = 0.25, 0.66
"""`HELD` and `SURE` where an answer of the conversation was told with a doubt: less of it is read, so right quotes have
lower chances; chosen in `docs/lab/citations.md`."""
SEARCHED = 0.91
"""Where only words are compared, quotes are doubted if the passages answer with less than this chance."""
BIAS, REFUSE, ASK, HOLDS, RELEVANT, AMOUNT, WHETHER = 1.07, -0.22, 0.095, 0.244, 0.046, -0.63, -0.89
"""Weights of `sureness`: of the log odds that refusing and asking back are right and that the quotes hold the answer,
of the best relevance, of questions for an amount, and of those for yes or no; fitted in `docs/lab/citations.md`."""
LIKELY, TOLD = 0.8, 0.6
"""Quotes that hold the answer with the first chance leave nothing to ask back, those with the second are not refused;
chosen in `docs/lab/evaluation.md`."""
REPEATED = 0.3
"""Share that is left of the chance of a sentence that an earlier answer said; chosen in `docs/lab/evaluation.md`."""
KEY = 0.3
"""A sentence of a longer quote that answers with this chance is made bold; chosen in `docs/lab/citations.md`."""
GROWN = 600
"""Characters up to which a quoted sentence is given with its neighbours."""
STEP = 0.03
"""Share of the chance from which on neighbours are quoted, too."""
QUOTES, QUOTES_IN_DOUBT = 3, 4
PER_PASSAGE = 2
SAYS = 2
"""Words of content that a sentence has beside an item of which it says something."""
_RANK_DISCOUNT = 0.03
_LEAST = 1e-9
_ASKS = regex.compile(r"[?？][*_\s]*$")


def best_sentences(
    question: str,
    evidence: Sequence[Evidence],
    scorer: SupportScorer | None = None,
    chances: Mapping[SentencePlace, float] | None = None,
) -> list[Support]:
    """As `nearest_sentences`; empty where none matches well."""
    quotes, sure = nearest_sentences(question, evidence, scorer, chances)
    return quotes if sure else []


def nearest_sentences(
    question: str,
    evidence: Sequence[Evidence],
    scorer: SupportScorer | None = None,
    chances: Mapping[SentencePlace, float] | None = None,
    *,
    odds: Chances | None = None,
    relevance: float = 0.0,
    typed: str = "",
    item: str = "",
    before: str = "",
    behind_doubt: bool = False,
) -> tuple[list[Support], bool]:
    """Up to three quotes that speak to `question`, best first, and whether they surely answer; empty where none may.

    `scorer` is one of the same evidence. `chances` says of each sentence how likely it is the one that answers
    (`server.turn.evidence`), which also knows an answer in other words than the question's; the likeliest are
    quoted with their likelier neighbours. `odds` says how likely the passages answer at all, where that was decided
    (`server.turn.decision`), `relevance` is the best logit of the cross-encoder. Without chances only words are
    compared, and passages found earlier count a little more.

    A sentence that ends with a colon brings the code, list or table below it, or else what follows it, and so does a
    question, which says nothing alone.

    `typed` is the question in a person's own words, where `question` holds more: what it names counts first. `item` is
    the item of a list that it speaks of: what is said of that comes first. Whoever asks for an example gets what the
    answers `before` did not hold. `behind_doubt` says that one of the answers was told with a doubt.
    """
    wordings = (typed or question, question)
    # A row of a table says nothing to who compares words; a cross-encoder has read it below its header.
    rows = _rows(evidence) if chances else {}
    scored = quotable_sentences(question, evidence, scorer or SupportScorer(evidence), rows, wordings, chances)
    if not scored or (sum(chances.values()) < QUOTED if chances else scored[0][0] < NEAREST):
        return [], False
    least = (NEAR if chances else CLOSE) * scored[0][0]
    if before and asks_for_example(wordings[0]):
        fresh = [(score, quote) for score, quote in scored if not _repeats(wordings, quote, before, evidence)]
        scored = fresh if fresh and fresh[0][0] >= least else scored
    # What something is comes before its uses.
    weighed = [(math.log(score + _LEAST), quote) for score, quote in scored] if chances else scored
    spoken_of = _says_of(item, [quote for score, quote in scored if score >= least], evidence) if item else None
    defined = spoken_of or definition(wordings, weighed, evidence, read=bool(chances))
    wanted = [*([defined] if defined else []), *(quote for score, quote in scored if score >= least)]
    if not chances:
        sure = scored[0][0] >= MATCHES and (odds is None or odds.answer >= SEARCHED)
        matching = _chosen(wanted, QUOTES if sure else QUOTES_IN_DOUBT)
        return finished(wordings, matching, evidence, doubted=not sure), sure
    runs = _Runs([quote for _, quote in scored], chances, evidence)
    chosen = _likeliest(wanted, runs, QUOTES, first=defined)
    holding = held(chosen, chances)
    least_held, least_sure = (HELD_BEHIND_DOUBT, SURE_BEHIND_DOUBT) if behind_doubt else (HELD, SURE)
    sure = holding >= least_held
    if odds is not None:
        sure = sure and odds.answer >= ANSWERED and sureness(wordings[0], holding, odds, relevance) >= least_sure
    if not sure:
        chosen = _likeliest(wanted, runs, QUOTES_IN_DOUBT, first=defined)
    return finished(wordings, chosen, evidence, doubted=not sure), sure


def sureness(question: str, holding: float, odds: Chances, relevance: float) -> float:
    """Return the chance that quotes, which hold the answer with the chance `holding`, answer a question.

    `question` is in a person's own words: amounts ("how many users can it take?") and yes or no are what people ask for
    most where nobody wrote it down.
    """
    known = REFUSE * _log_odds(odds.refuse) + ASK * _log_odds(odds.ask) + HOLDS * _log_odds(holding)
    put = AMOUNT * asks_for_amount(question) + WHETHER * asks_whether(question)
    return 1 / (1 + math.exp(-(BIAS + known + put + RELEVANT * min(max(relevance, -12.0), 12.0))))


def _log_odds(chance: float) -> float:
    bounded = min(max(chance, 0.004), 0.996)
    return math.log(bounded / (1 - bounded))


def _says_of(item: str, quotes: Sequence[Support], evidence: Sequence[Evidence]) -> Support | None:
    """Return the first quote that names an item of a list, itself or in its heading, and says something of it."""
    places = {passage.n: passage for passage in evidence}
    known = set(stems(item))
    for quote in quotes:
        above = " ".join(places[quote.n].heading[-1:])
        named = any(_holds_words(text, item) for text in (quote.quote, above))
        if named and len(set(stems(quote.quote)) - known) >= SAYS:
            return quote
    return None


def _holds_words(text: str, phrase: str) -> bool:
    """Whether the words of a phrase stand in a text side by side."""
    return f" {' '.join(words(phrase))} " in f" {' '.join(words(text))} "


def unrepeated(
    chances: Mapping[SentencePlace, float], scorer: SupportScorer, before: str
) -> dict[SentencePlace, float]:
    """Return the chances, little of those of sentences that the answers `before` have said: then none may answer.

    Whoever goes on asking has read them; and a wrong answer would be quoted again and again.
    """
    said = f" {' '.join(words(before))} "
    repeated = {
        (n, match.start)
        for n in {n for n, _ in chances}
        for match in scorer.matches("", n)
        if (spoken := " ".join(words(without_links(match.quote)))) and f" {spoken} " in said
    }
    return {place: chance * (REPEATED if place in repeated else 1) for place, chance in chances.items()}


def _repeats(wordings: Sequence[str], quote: Support, before: str, evidence: Sequence[Evidence]) -> bool:
    """Whether an answer holds a quote already, and the quote brings no code."""
    passage = next(passage for passage in evidence if passage.n == quote.n)
    if not _holds_words(before, without_links(quote.quote)):
        return False
    whole = shape(wordings, quote, passage)
    return not holds_code(passage.opened, whole.start - passage.origin, whole.end - passage.origin)


def _chosen(quotes: Iterable[Support], most: int) -> list[Support]:
    """The first quotes, `most` at most, none of which repeats another."""
    chosen: list[Support] = []
    for quote in quotes:
        if _may_join(quote, chosen):
            chosen.append(quote)
        if len(chosen) == most:
            break
    return chosen


def _likeliest(quotes: Sequence[Support], runs: _Runs, most: int, *, first: Support | None) -> list[Support]:
    """The likeliest runs around the quotes, `most` at most, that around the `first` before all others."""
    chosen = [] if first is None else [runs.around(first, ())]
    while len(chosen) < most:
        grown = [runs.around(quote, chosen) for quote in quotes if _may_join(quote, chosen)]
        if not grown:
            break
        # The first of equals: quotes come likeliest first.
        chosen.append(max(grown, key=runs.chance))
    return chosen


def _may_join(quote: Support, chosen: Sequence[Support]) -> bool:
    count = sum(support.n == quote.n for support in chosen)
    return count < PER_PASSAGE and not any(other.quote == quote.quote or other.overlaps(quote) for other in chosen)


class _Runs:
    """Runs of neighbouring sentences that may be quoted together, by the chance that one of them answers."""

    def __init__(
        self, quotable: Sequence[Support], chances: Mapping[SentencePlace, float], evidence: Sequence[Evidence]
    ) -> None:
        self._places = {passage.n: passage for passage in evidence}
        self._quotable = [quote for quote in quotable if not self._is_row(quote)]
        self._chances: dict[int, list[tuple[int, float]]] = {}
        for (n, at), chance in chances.items():
            self._chances.setdefault(n, []).append((at, chance))
        self._every = sum(chances.values()) or 1.0

    def around(self, quote: Support, others: Sequence[Support]) -> Support:
        """Return the likeliest run around a quote, the shortest of equals, of at most `GROWN` characters.

        It keeps off the others. A row of a table is no part of a run.
        """
        if self._is_row(quote):
            return quote
        near = [other for other in self._quotable if other.n == quote.n]
        starts = {other.start for other in near if other.start <= quote.start}
        ends = {other.end for other in near if other.end >= quote.end}
        runs = [(start, end) for start in starts for end in ends if end - start <= GROWN]
        beside = [other for other in others if other.n == quote.n]
        free = [run for run in runs if not any(run[0] < other.end and other.start < run[1] for other in beside)]
        free.append((quote.start, quote.end))
        start, end = max(free, key=lambda run: (self._worth(quote.n, run), run[0] - run[1]))
        passage = self._places[quote.n]
        text = passage.opened[start - passage.origin : end - passage.origin]
        return replace(quote, quote=text, start=start, end=end, key=self._key(quote.n, start, end))

    def _key(self, n: int, start: int, end: int) -> tuple[int, int] | None:
        """Return the span of the run's likeliest sentence, None below `KEY`."""
        within = [other for other in self._quotable if other.n == n and start <= other.start and other.end <= end]
        best = max(within, key=lambda other: (self.chance(other), other.start - other.end), default=None)
        return (best.start, best.end) if best is not None and self.chance(best) >= KEY else None

    def _worth(self, n: int, run: tuple[int, int]) -> int:
        """The run's share of the chance that any sentence answers, in steps: less is no reason to read on."""
        return round(self._within(n, *run) / self._every / STEP)

    def chance(self, quote: Support) -> float:
        """Return how likely the sentence that answers is in a quote."""
        return self._within(quote.n, quote.start, quote.end)

    def _within(self, n: int, start: int, end: int) -> float:
        return sum(chance for at, chance in self._chances.get(n, ()) if start <= at < end)

    def _is_row(self, quote: Support) -> bool:
        passage = self._places[quote.n]
        return table_at(passage.opened, quote.start - passage.origin) is not None


def held(quotes: Iterable[Support], chances: Mapping[SentencePlace, float]) -> float:
    """Return how likely the sentence that answers is in the quotes, which do not overlap."""
    spans = [(quote.n, quote.start, quote.end) for quote in quotes]
    return sum(chance for (of, at), chance in chances.items() if any(of == n and s <= at < e for n, s, e in spans))


def _rows(evidence: Sequence[Evidence]) -> dict[tuple[int, int], str]:
    """The rows of tables as sentences, by passage and offset."""
    every = ((passage, table_rows(passage.opened)) for passage in evidence)
    return {(passage.n, passage.origin + at): row for passage, rows in every for at, row in rows.items() if row}


def quotable_sentences(
    question: str,
    evidence: Sequence[Evidence],
    scorer: SupportScorer,
    rows: Collection[SentencePlace] = (),
    wordings: Sequence[str] = (),
    chances: Mapping[SentencePlace, float] | None = None,
) -> list[tuple[float, Support]]:
    """Return quotable sentences, best first: by their chances if known, else by matching words."""
    by_place: dict[tuple[int, int, int], tuple[float, Support]] = {}
    for rank, passage in enumerate(evidence):
        matches = scorer.matches(question, passage.n)
        for i, match in enumerate(matches):
            quote = unit(matches, i, passage)
            start, read = match.start - passage.origin, (match.n, match.start) in rows
            if len(match.quote) > LONGEST_SENTENCE or _ASKS.search(quote.quote):
                continue
            if may_be_quoted(wordings or (question,), match.quote, quote.quote, start, passage.opened, read=read):
                score = match.score * (1 - _RANK_DISCOUNT * rank)
                if chances:
                    score = chances.get((match.n, match.start), 0.0)
                place = (quote.n, quote.start, quote.end)
                if place not in by_place or by_place[place][0] < score:
                    by_place[place] = score, quote
    return sorted(by_place.values(), key=lambda pair: (-pair[0], pair[1].n, pair[1].start))
