"""Questions for what stands in a clause: subject, object, amount, time, means, place, purpose.

The part that is asked for is taken out of the clause; what remains is put in the order of a question.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from synth.rules.clauses import Clause
from synth.rules.lexicon import inflected, word_list
from synth.rules.ordering import ended, inverted, parts_of, subject_parts
from synth.rules.phrases import Chunk, chunks, phrase_of
from synth.rules.questions import Part, Question, Ref, question
from synth.rules.tagging import Token

STATIVE = word_list("be have need want know mean depend belong contain include consist seem become allow")
"""Verbs that name no action."""

_UNITS = word_list(
    "day days week weeks month months year years hour hours minute minutes second seconds time times business"
)


_TEMPORAL = word_list("within for after before until by at in every per on during")


_MEANS = frozenset({"by", "through", "via", "using"})


_PLACES = frozenset({"at", "in", "on", "from"})


_PLACE_HEADS = word_list(
    "office center hospital school page section menu file folder directory website site portal account database "
    "server store bank clinic library form card dashboard console terminal repository header configuration module"
)


def wh_questions(clause: Clause, action: tuple[str, tuple[Part, ...]] | None, sentence: int) -> Iterator[Question]:
    """Questions for what stands in the clause: subject, object, measure, time, means, place."""
    does = action[0] if action else ""
    rest = clause.rest
    found = chunks(rest)
    first = found[0] if found and found[0].start == 0 else None
    if clause.auxiliary in {"is", "are", "was", "were"} and not clause.verb:
        subject = subject_parts(clause)
        if len(subject) == 1 and isinstance(subject[0], Ref) and rest[0].lower in {"a", "an", "the"}:
            yield question((f"What {clause.auxiliary} ", *subject, "?"), "what", "definition", sentence)
        if rest[0].lower.startswith("$") or (rest[0].tag == "CD" and "$" in rest[0].text):
            yield question((f"How much {clause.auxiliary} ", *subject, "?"), "how_much", "amount", sentence)
    elif first is not None and clause.verb != "be" and not first.phrase.person and _object_ends(rest, first.end):
        after = rest[first.end :]
        yield question(ended(inverted(clause, after, "What")), "what", "object-what", sentence)
        if first.phrase.kind and first.phrase.long and not first.phrase.named:
            opener = f"Which {first.phrase.head if not first.phrase.plural else rest[first.end - 1].lower}"
            yield question(ended(inverted(clause, after, opener)), "which", "object-which", sentence)
    if not clause.addresses_user and len(clause.subject) >= 2:
        yield from _subject_question(clause, sentence)
    if rest[0].text.startswith("$") and clause.verb in {"cost", "pay", "charge", "receive", "get"}:
        yield question(ended(inverted(clause, rest[1:], "How much")), "how_much", "amount", sentence, does)
    for place in range(len(rest) - 1):
        yield from _measure(clause, place, does, sentence)
        yield from _means(clause, place, found, does, sentence)
    if clause.addresses_user and action and clause.auxiliary in {"can", "may", "could"}:
        yield question(("How can I ", *action[1], "?"), "how", "action-how", sentence, does)
    if clause.addresses_user and action and clause.auxiliary in {"must", "should"} and clause.verb not in STATIVE:
        yield question(("How do I ", *action[1], "?"), "how", "action-how", sentence, does)


def _object_ends(rest: Sequence[Token], end: int) -> bool:
    """Whether nothing behind the object belongs to it."""
    return end >= len(rest) or rest[end].tag not in {"VBN", "VBG", "TO", "CC", "WH", "PUNCT", "SUB", "VB", "PRP"}


def _subject_question(clause: Clause, sentence: int) -> Iterator[Question]:
    whole = phrase_of(clause.subject, opens=not clause.lead)
    if whole is None or clause.lead:
        return
    opener = "Who" if whole.person or whole.kind == "office" else "What"
    if not clause.auxiliary:
        verb = clause.form if clause.tense in {"VBZ", "VBD"} else inflected(clause.verb, "VBZ")
    else:
        auxiliary = {"are": "is", "were": "was", "have": "has"}.get(clause.auxiliary, clause.auxiliary)
        verb = f"{auxiliary} {clause.form if clause.auxiliary in {'has', 'have', 'had'} else clause.verb}".strip()
    if clause.verb in {"", "be"}:
        return
    yield question((f"{opener} {verb} ", *parts_of(clause.rest), "?"), opener.lower(), "subject-who", sentence)


def _measure(clause: Clause, place: int, does: str, sentence: int) -> Iterator[Question]:
    """How long, how often, how much, how many."""
    rest = clause.rest
    token = rest[place]
    if token.tag == "CD":
        before = rest[place - 1].lower if place else ""
        unit = rest[place + 1].lower
        if unit in _UNITS and before in {"within", "for", "every", "after", "in"} and place + 2 <= len(rest):
            if place + 2 < len(rest) and rest[place + 2].lower in {"of", "after", "from", "before", "old"}:
                return
            opener = {"every": "How often", "for": "For how long", "within": "How soon", "after": "When", "in": "When"}[
                before
            ]
            yield question(
                ended(inverted(clause, (*rest[: place - 1], *rest[place + 2 :]), opener)),
                "how_long",
                "measure",
                sentence,
                does,
            )
        elif place == 0 and rest[place + 1].tag == "NNS" and clause.verb not in {"", "be"} and unit not in _UNITS:
            yield question(
                ended(inverted(clause, rest[place + 2 :], f"How many {rest[1].text}")),
                "how_many",
                "count",
                sentence,
                does,
            )
    elif (
        token.lower in _TEMPORAL
        and place
        and rest[place + 1].lower
        in {
            "january",
            "february",
            "march",
            "april",
            "may",
            "june",
            "july",
            "august",
            "september",
            "october",
            "november",
            "december",
            "monday",
            "friday",
        }
    ):
        yield question(ended(inverted(clause, rest[:place], "When")), "when", "date", sentence, does)


def _means(clause: Clause, place: int, found: Sequence[Chunk], does: str, sentence: int) -> Iterator[Question]:
    token = rest_token = clause.rest[place]
    if not place or token.tag not in {"IN", "VBG", "TO"}:
        return
    chunk = next((one for one in found if one.start == place + 1), None)
    if chunk is None or chunk.end != len(clause.rest):
        return
    head = clause.rest[:place]
    if rest_token.lower in _MEANS and clause.verb not in {"", "be"}:
        yield question(ended(inverted(clause, head, "How")), "how", "means", sentence, does)
    elif rest_token.lower in _PLACES and chunk.phrase.head in _PLACE_HEADS and clause.verb not in {"", "be"}:
        yield question(ended(inverted(clause, head, "Where")), "where", "place", sentence, does)
    elif (
        rest_token.lower == "to"
        and chunk.phrase.kind in {"office", "person"}
        and clause.verb in {"send", "give", "report", "mail", "submit", "return", "pay", "provide", "show"}
    ):
        yield question((*ended(inverted(clause, head, "Who"))[:-1], " to?"), "who", "recipient", sentence, does)
    elif rest_token.lower == "for" and clause.verb in {"use", "apply", "pay", "need"}:
        yield question((*inverted(clause, head, "What"), " for?"), "what", "purpose", sentence, does)
