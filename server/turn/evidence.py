"""Select the evidence of a turn: passages to number, and sentences to read or quote.

Passages keep the order of the search, best first, and are never cut: one that does not fit the budget is left out, and
a later, shorter one may take its place. Users see them whole, and citations are checked against them.

A small model on a processor reads forty to ninety tokens a second, so `excerpts` gives it only the best sentences.
Without a model `nearest_sentences` quotes sentences. `docs/lab/citations.md` shows how the thresholds were chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import regex

from index.documents import OPENING
from index.query import Hit
from server.turn.definitions import definition
from server.turn.events import Evidence
from server.turn.markdown_blocks import ITEM, LEADS_IN, block_around, sequel_end
from server.turn.prompt import count_tokens
from server.turn.quote_shapes import finished, may_be_quoted
from server.turn.support import Support, SupportScorer
from server.turn.tables import table_rows

_AMOUNT = (
    "much many high big large warm hot cold expensive far wide heavy old temperature price cost fee fine rent size "
    "capacity number limit minimum maximum"
)
_NUMBERS = (
    "one two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty fifty ninety hundred "
    "half free once twice every each"
)
_TIMES = (
    "second minute hour day week month year morning evening night noon midnight monday tuesday wednesday thursday "
    "friday saturday sunday january february march april may june july august september october november december "
    "before after until daily weekly monthly yearly soon immediately when once"
)
_OFFICES = "customer administrator owner office department committee agency manager"
_BEGINS = r"^\W*(?:and\s+|but\s+)?"


def _any(words: str) -> str:
    return rf"\b(?:{'|'.join(words.split())})s?\b"


def _asks(pattern: str) -> regex.Pattern[str]:
    return regex.compile(_BEGINS + pattern, regex.IGNORECASE)


_KINDS = (
    (
        _asks(rf"(?:how|at what|what (?:is|was) the)\b[ a-z]*?{_any(_AMOUNT)}|what\b.*\bcosts?\b"),
        rf"\d|{_any(_NUMBERS)}",
    ),
    (
        _asks(
            r"(?:how (?:long|often|early|late|soon|fast|quickly)|(?:since |from |until )?when|what time"
            r"|(?:in )?(?:which|what) (?:year|month|day|week|time)|what is the (?:deadline|term|timeout))\b"
        ),
        rf"\d|{_any(_TIMES)}",
    ),
    (
        _asks(r"(?:whom?|whose|which (?:person|office|department|agency))\b"),
        rf"(?<=\S\s)(?-i:\p{{Lu}})\p{{Ll}}+|{_any(_OFFICES)}",
    ),
    (
        _asks(r"(?:where|(?:at|to|in) which (?:address|place|office))\b"),
        r"\b(?:in|at|under|behind|on|between|to|from|near|by|beside|into|within|online|via)\s+"
        r"(?:(?:the|an?|your|our)\b|(?-i:\p{Lu})|/)|/\w+|\b\w+\.(?:toml|log|cfg|ini|json|ya?ml|conf|py)\b",
    ),
    (
        _asks(r"how (?:do|can|to|should|would|does)\b"),
        r"`|\b(?:use|run|set|pass|open|press|choose|send|call|click|select|to \w+|by \w+ing"
        r"|you (?:can|may|must|need|should|will))\b",
    ),
)
_FOUND = [(question_pattern, regex.compile(answers, regex.IGNORECASE)) for question_pattern, answers in _KINDS]


def fits(question: str, sentence: str) -> int:
    """1 where the sentence holds what the question asks for, -1 where it lacks it, 0 where that cannot be told."""
    for question_pattern, answers in _FOUND:
        if question_pattern.search(question):
            return 1 if answers.search(sentence) else -1
    return 0


Read: TypeAlias = Callable[[str, Sequence[str]], Sequence[float | None]]
"""What a cross-encoder says of sentences beside a question; None for one it had no time for."""

HEADER_TOKENS = 12
"""Tokens that number and delimit one passage, beside its title and heading path."""


def select_evidence(hits: Sequence[Hit], *, limit: int, budget: int) -> tuple[Evidence, ...]:
    """At most `limit` of `hits` within `budget` tokens, numbered from 1; the first always, even where it is larger."""
    chosen: list[Evidence] = []
    spent = 0
    seen: set[tuple[str, int, int]] = set()
    for hit in hits:
        if len(chosen) == limit:
            break
        place = (hit.passage.document_id, hit.passage.start, hit.passage.end)
        if place in seen:
            continue
        cost = passage_tokens(hit)
        if chosen and spent + cost > budget:
            continue
        seen.add(place)
        spent += cost
        chosen.append(numbered(len(chosen) + 1, hit))
    return tuple(chosen)


def renumbered(passages: Iterable[Evidence], numbers: dict[str, int]) -> tuple[Evidence, ...]:
    """The passages numbered as they are `known` by id, new ones further on; `known` learns them."""
    return tuple(
        passage.model_copy(update={"n": numbers.setdefault(passage.passage_id, len(numbers) + 1)})
        for passage in passages
    )


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


GAP = " … "
"""Stands for what is left out between two sentences."""

_PER_RANK = 0.8
"""A passage's worth, as a share of that of the one found before it."""
_ANYWAY = 0.2
"""A sentence's worth without a match: most answers stand in the first passage, often in words of their own."""
_BESIDE = 0.6
"""A sentence's worth beside one that matches: an answer often stands in the sentence after."""
_LISTED = 0.9
"""An item's worth where what leads to its list matches."""

MATCHES = 0.45
"""Where no sentence scores this much, nothing is quoted; chosen in `docs/lab/citations.md`."""
CLOSE = 0.75
"""A further sentence is quoted if it scores at least this share of the best one."""
READ = 24
"""Sentences that a cross-encoder reads, those first that share words with the question."""
READS = -0.8
"""Its score (a logit), with the cue, from which a sentence is quoted; chosen in `docs/lab/citations.md`."""
READS_IN_CONTEXT = 1.2
"""The same where a follow-up is read with what it leans on, which everything near the last exchange fits."""
DOUBT = 4.0
"""Where no sentence scores so much, the nearest are quoted with their doubt if the best lacks at most this; chosen in
`docs/lab/citations.md`."""
CUE = 1.2
"""What it counts, up or down, that a sentence holds what is asked for."""
CLOSE_READ = 2.5
"""A further sentence is quoted if it scores at most so much less than the best one."""
QUOTES = 3
PER_PASSAGE = 2
LONGEST = 600
"""Characters of one sentence; a longer one is not quoted."""
_RANK_DISCOUNT = 0.03
_RULE = regex.compile(r"^[ \t]*[|+]?[ \t:]*[-=]{2,}[-=|+: \t]*$", regex.MULTILINE)
"""A line that separates a table's header from its body, or underlines a heading."""
_GOES_ON = regex.compile(r"[:：?？][*_\s]*$")
_ASKS = regex.compile(r"[?？][*_\s]*$")


def excerpts(question: str, evidence: Sequence[Evidence], scorer: SupportScorer, budget: int) -> dict[int, str]:
    """The text of each passage to show, by its number, at most `budget` tokens in all with their headers.

    Everything where it fits. Else the best sentences, in reading order; a passage of which none was chosen is
    left out. At least one sentence is always there, even where it alone is larger than the budget.
    """
    if sum(_header(passage) + count_tokens(passage.opened) for passage in evidence) <= budget:
        return {passage.n: passage.opened for passage in evidence}
    places = {passage.n: passage for passage in evidence}
    matches = {passage.n: scorer.matches(question, passage.n) for passage in evidence}
    leads = {n: _lead_ins(sentences) for n, sentences in matches.items()}
    chosen: dict[int, set[int]] = {}
    spent = 0
    for _, n, i in sorted(_ranked(evidence, matches, leads), key=lambda item: (-item[0], item[1], item[2])):
        wanted = {i, leads[n].get(i, i)} - chosen.get(n, set())
        cost = sum(count_tokens(matches[n][j].quote) for j in wanted) + (0 if n in chosen else _header(places[n]))
        if spent + cost > budget:
            if chosen:
                continue
            wanted = {i}
        chosen.setdefault(n, set()).update(wanted)
        spent += cost
    return {n: _joined(places[n], [matches[n][i] for i in sorted(picked)]) for n, picked in sorted(chosen.items())}


def _ranked(
    evidence: Sequence[Evidence], matches: Mapping[int, list[Support]], leads: Mapping[int, Mapping[int, int]]
) -> list[tuple[float, int, int]]:
    """Each sentence with its worth: by its own match, or by a share of its better neighbour's or its lead-in's."""
    ranked = []
    for rank, passage in enumerate(evidence):
        scores = [sentence.score for sentence in matches[passage.n]]
        for i, own in enumerate(scores):
            beside = max(scores[max(i - 1, 0) : i] + scores[i + 1 : i + 2], default=0.0)
            lead = leads[passage.n].get(i, i)
            worth = max(own, _BESIDE * beside, _LISTED * scores[lead])
            ranked.append((_PER_RANK**rank * (_ANYWAY + worth), passage.n, i))
    return ranked


def _lead_ins(sentences: Sequence[Support]) -> dict[int, int]:
    """For each item of a list the sentence that ends with a colon before it; neither says much alone."""
    leads: dict[int, int] = {}
    lead: int | None = None
    for i, sentence in enumerate(sentences):
        item = bool(ITEM.match(sentence.quote))
        if item and lead is not None:
            leads[i] = lead
        elif LEADS_IN.search(sentence.quote):
            lead = i
        elif not item:
            lead = None
    return leads


def _joined(passage: Evidence, sentences: Sequence[Support]) -> str:
    rows = table_rows(passage.opened)
    text, end = "", None
    for sentence in sentences:
        start = sentence.start - passage.origin
        between = passage.opened[end:start] if end is not None else ""
        text += (GAP if between.strip() else between) + rows.get(start, sentence.quote)
        end = sentence.end - passage.origin
    return text


def _header(passage: Evidence) -> int:
    return HEADER_TOKENS + count_tokens(" ".join((passage.title, *passage.heading)))


def best_sentences(
    question: str,
    evidence: Sequence[Evidence],
    scorer: SupportScorer | None = None,
    read: Read | None = None,
    *,
    typed: str = "",
) -> list[Support]:
    """As `nearest_sentences`; empty where none matches well."""
    quotes, sure = nearest_sentences(question, evidence, scorer, read, typed=typed)
    return quotes if sure else []


def nearest_sentences(
    question: str,
    evidence: Sequence[Evidence],
    scorer: SupportScorer | None = None,
    read: Read | None = None,
    reads: float = READS,
    *,
    typed: str = "",
) -> tuple[list[Support], bool]:
    """Up to three sentences that speak to `question`, best first, and whether one matches well; empty where none may.

    `scorer` is one of the same evidence. `read` is a cross-encoder's opinion of sentences, which also knows an answer
    in other words than the question's, from a score of `reads` on; without it only words are compared. Where it comes
    near that score, the likeliest sentences' paragraphs are given.

    A sentence that ends with a colon brings the code, list or table below it, or else what follows it, and so does a
    question, which says nothing alone. Passages found earlier count a little more.

    `typed` is the question in a person's own words, where `question` holds more: what it names counts first.
    """
    asked = (typed or question, question)
    # A row of a table says nothing to who compares words; read as a sentence, with the names of its columns, it does.
    rows = _rows(evidence) if read is not None else {}
    scored = _quotable(question, evidence, scorer or SupportScorer(evidence), rows, asked)
    least, close = MATCHES, CLOSE * scored[0][0] if scored else 0.0
    if read is not None and scored:
        scored, least = _read(question, scored[:READ], rows, read), reads
        close = scored[0][0] - CLOSE_READ if scored else 0.0
    if not scored or scored[0][0] < least - (DOUBT if read else 0.0):
        return [], False
    sure = scored[0][0] >= least
    # What something is comes before its uses.
    said = definition(asked, scored, evidence, read=read is not None)
    chosen = [said] if said else []
    for score, quote in scored:
        count = sum(support.n == quote.n for support in chosen)
        repeated = any(support.quote == quote.quote or _overlap(support, quote) for support in chosen)
        if score >= close and count < PER_PASSAGE and not repeated:
            chosen.append(quote)
        if len(chosen) == QUOTES:
            break
    return finished(asked, chosen, evidence, doubted=not sure), sure


def _rows(evidence: Sequence[Evidence]) -> dict[tuple[int, int], str]:
    """The rows of tables as sentences, by passage and offset."""
    every = ((passage, table_rows(passage.opened)) for passage in evidence)
    return {(passage.n, passage.origin + at): row for passage, rows in every for at, row in rows.items() if row}


def _read(
    question: str, quotable: Sequence[tuple[float, Support]], rows: Mapping[tuple[int, int], str], read: Read
) -> list[tuple[float, Support]]:
    """The sentences by what the cross-encoder says, and by whether they hold what is asked for."""
    texts = [rows.get((quote.n, quote.start), quote.quote) for _, quote in quotable]
    read_as = zip(read(question, texts), texts, quotable, strict=True)
    scored = [(value + CUE * fits(question, text), quote) for value, text, (_, quote) in read_as if value is not None]
    return sorted(scored, key=lambda pair: -pair[0])


def best_match(question: str, evidence: Sequence[Evidence], scorer: SupportScorer) -> float:
    """How well the best sentence matches: what is compared with `MATCHES`."""
    return max((score for score, _ in _quotable(question, evidence, scorer)), default=0.0)


def _quotable(
    question: str,
    evidence: Sequence[Evidence],
    scorer: SupportScorer,
    rows: Collection[tuple[int, int]] = (),
    asked: Sequence[str] = (),
) -> list[tuple[float, Support]]:
    by_place: dict[tuple[int, int, int], tuple[float, Support]] = {}
    for rank, passage in enumerate(evidence):
        matches = scorer.matches(question, passage.n)
        for i, match in enumerate(matches):
            quote = _with_sequel(match, matches[i + 1] if i + 1 < len(matches) else None, passage)
            quote = _item(quote, passage)
            start, read = match.start - passage.origin, (match.n, match.start) in rows
            if len(match.quote) > LONGEST or _ASKS.search(quote.quote):
                continue
            if may_be_quoted(asked or (question,), match.quote, quote.quote, start, passage.opened, read=read):
                score = match.score * (1 - _RANK_DISCOUNT * rank)
                place = (quote.n, quote.start, quote.end)
                if place not in by_place or by_place[place][0] < score:
                    by_place[place] = score, quote
    return sorted(by_place.values(), key=lambda pair: (-pair[0], pair[1].n, pair[1].start))


def _item(match: Support, passage: Evidence) -> Support:
    """With the rest of the item of a list that it lies in: what an option is for, and its default."""
    text, origin = passage.opened, passage.origin
    start, end = block_around(text, match.start - origin, match.end - origin, items=True)
    if end - start > LONGEST or (start, end) == (match.start - origin, match.end - origin):
        return match
    return replace(match, quote=text[start:end], start=origin + start, end=origin + end)


def _with_sequel(match: Support, sequel: Support | None, passage: Evidence) -> Support:
    """The sentence with the block it leads to; a question, or what leads to none, with the sentence after it."""
    if not _GOES_ON.search(match.quote):
        return match
    end = following_block(match, passage).end
    if end == match.end and sequel is not None and not _RULE.search(sequel.quote):
        end = sequel.end if sequel.end - match.start <= LONGEST else end
    return replace(match, quote=passage.text[match.start - passage.start : end - passage.start], end=end)


def following_block(sentence: Support, passage: Evidence) -> Support:
    """The code, list or table that a sentence of the passage leads to by a colon; empty where there is none."""
    end = sentence.end - passage.origin
    stop = sequel_end(passage.opened, end) if LEADS_IN.search(sentence.quote) else end
    return replace(sentence, quote=passage.opened[end:stop], start=sentence.end, end=passage.origin + stop)


def _overlap(first: Support, other: Support) -> bool:
    return first.n == other.n and first.start < other.end and other.start < first.end
