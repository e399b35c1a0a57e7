"""Questions that a plain sentence answers, made of its own words.

From one clause: whether it is so, what or who, when, how long, how much, where, why, under which condition; besides
them the actions and conditions a conversation can take up ("can I do that online?", "I'm self-employed"). Phrases
become holes (`Ref`), a last prepositional phrase becomes one that may be left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from synth.rules.clauses import Clause
from synth.rules.lexicon import inflected, is_plural, word_list
from synth.rules.phrases import Chunk, chunks, phrase_of, uncapitalised, user_words
from synth.rules.questions import Case, Optional, Part, Question, Ref, question, rendered
from synth.rules.tagging import Token

_DROPPABLE = word_list("for of in at on with from under after during before to within into by through")
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
_WE = frozenset({"we", "our", "us", "i", "my", "me", "let"})
_UNBOUND = word_list("it its they them their he him his she her this that these those here above below following")
_STATIVE = word_list("be have need want know mean depend belong contain include consist seem become allow")


@dataclass(frozen=True, slots=True)
class Action:
    """Something a person may do, as an infinitive ("report a change of address to DMV")."""

    text: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """What one sentence gives: questions it answers, its action, a condition, and its yes/no order.

    `inverted` has the words of a yes/no question without its mark; `condition` is a clause from the asking person's
    view ("I am self-employed").
    """

    questions: tuple[Question, ...]
    action: Action | None
    condition: str
    inverted: tuple[Part, ...]
    negated: bool


def asked(clause: Clause, sentence: int) -> Asked | None:
    """Everything that can be asked of a clause; None where its words point outside the sentence."""
    if not _agrees(clause):
        return None
    every = (*clause.lead, *clause.subject, *clause.rest)
    if any(token.lower in _WE or token.tag == "SYM" for token in every) or not _bound(clause):
        return None
    action = _action(clause)
    if not clause.subject:
        if action is None:
            return None
        return Asked(
            tuple(filter(_says_enough, _imperative(clause, action, sentence))),
            action,
            _condition(clause),
            (),
            clause.negated,
        )
    order = _inverted(clause, clause.rest)
    if not order:
        return None
    made = [
        one for one in (*_plain(clause, order, action, sentence), *_wh(clause, action, sentence)) if _says_enough(one)
    ]
    return Asked(tuple(made), action, _condition(clause), order, clause.negated)


def _says_enough(one: Question) -> bool:
    """Whether a question names something and is as long as people type."""
    words = rendered(one.parts).split()
    return bool(one.phrases) and 4 <= len(words) <= 24


def _agrees(clause: Clause) -> bool:
    """Whether subject and verb agree in number; where they do not, the sentence was misread."""
    if clause.addresses_user or not clause.subject:
        return True
    finite = clause.tense if not clause.auxiliary else ""
    if clause.auxiliary in {"are", "were", "have", "do"} or finite == "VB":
        return _plural_subject(clause)
    if clause.auxiliary in {"is", "was", "has", "does"} or finite == "VBZ":
        return not _plural_subject(clause)
    return True


def _bound(clause: Clause) -> bool:
    """Whether every pronoun has something before it, in the same clause, that it can stand for."""
    if any(token.lower in _UNBOUND and token.tag in {"PRP", "DT", "PRP$"} for token in clause.lead[1:]):
        return False
    subject_named = bool(clause.subject) and clause.subject[0].lower != "you"
    seen = False
    for place, token in enumerate((*clause.subject, *clause.rest)):
        # The subject can own something in its clause ("its data"), but an object "it" is something else.
        owned = token.tag == "PRP$" and subject_named and place >= len(clause.subject)
        if token.lower in _UNBOUND and token.tag in {"PRP", "PRP$", "DT", "RB"} and not seen and not owned:
            return False
        if token.lower in {"this", "that", "these", "those", "here", "above", "below"} and token.tag in {
            "DT",
            "RB",
            "PRP",
        }:
            return False
        seen = seen or (place >= len(clause.subject) and token.tag in {"NN", "NNS", "NNP"})
    return True


def _parts(
    tokens: Sequence[Token], *, opens: bool = False, droppable: bool = True, object_first: bool = False
) -> tuple[Part, ...]:
    """Tokens as parts: phrases become places to name them, the last prepositional phrase may be left out."""
    parts: list[Part] = []
    at = 0
    found = chunks(tokens, opens=opens)
    optional = _last_prepositional(tokens, found) if droppable else None
    for chunk in found:
        if optional is not None and chunk is optional:
            before = tokens[at : chunk.start - 1]
            if before:
                parts.append(_glued(before, opens and at == 0, parts, object_first and at == 0))
            preposition = tokens[chunk.start - 1]
            lead = " " if parts else ""
            parts.append(Optional((f"{lead}{user_words([preposition])} ", Ref(chunk.phrase, "object"))))
        else:
            before = tokens[at : chunk.start]
            if before:
                parts.append(_glued(before, opens and at == 0, parts, object_first and at == 0))
            if parts and tokens[chunk.start].spaced:
                parts.append(" ")
            case: Case = "subject" if opens and chunk.start == 0 else "object"
            parts.append(Ref(chunk.phrase, case))
        at = chunk.end
    if at < len(tokens):
        parts.append(_glued(tokens[at:], opens and at == 0, parts, object_first and at == 0))
    return tuple(parts)


def _glued(tokens: Sequence[Token], opens: bool, before: list[Part], object_first: bool) -> str:
    return (" " if before and tokens[0].spaced else "") + user_words(tokens, opens=opens, object_first=object_first)


def _last_prepositional(tokens: Sequence[Token], found: Sequence[Chunk]) -> Chunk | None:
    """The phrase of the preposition that ends the clause, where something else stands before it."""
    if not found or found[-1].end != len(tokens) or found[-1].start < 2:
        return None
    return found[-1] if tokens[found[-1].start - 1].lower in _DROPPABLE else None


def _subject_parts(clause: Clause) -> tuple[Part, ...]:
    """The subject: one phrase where it is one, else its words with phrases in them."""
    if clause.addresses_user:
        return ("I",)
    whole = phrase_of(clause.subject, opens=not clause.lead)
    if whole is not None:
        return (Ref(whole, "subject"),)
    return _parts(clause.subject, opens=not clause.lead, droppable=False)


def _plural_subject(clause: Clause) -> bool:
    if clause.addresses_user:
        return True
    head = clause.subject[-1]
    for place, token in enumerate(clause.subject):
        if token.tag == "IN" and place:
            head = clause.subject[place - 1]
            break
    return (
        head.tag == "NNS"
        or (head.tag == "NNP" and is_plural(head.lower))
        or any(token.lower == "and" for token in clause.subject)
    )


def _auxiliary(clause: Clause) -> tuple[str, str]:
    """The auxiliary that opens the question, capitalised, and the verb that follows the subject (may be empty)."""
    you = clause.addresses_user
    if not clause.auxiliary:
        if clause.tense == "VBD":
            return "Did", clause.verb
        return ("Does" if clause.tense == "VBZ" and not you else "Do"), clause.verb
    auxiliary = clause.auxiliary
    if you:
        auxiliary = {"are": "am", "were": "was"}.get(auxiliary, auxiliary)
        if auxiliary == "must":
            return "Do", f"have to {clause.verb}"
        if auxiliary in {"may", "might"}:
            auxiliary = "can"
    if auxiliary in {"am", "is", "are", "was", "were"}:
        return auxiliary.capitalize(), ""
    return auxiliary.capitalize(), clause.form if auxiliary in {"has", "have", "had"} else clause.verb


def _inverted(clause: Clause, rest: Sequence[Token], opener: str = "") -> tuple[Part, ...]:
    """The clause in the order of a question, "Does X V …", behind an interrogative where one is given."""
    auxiliary, verb = _auxiliary(clause)
    head = f"{opener} {auxiliary.lower()} " if opener else f"{auxiliary} "
    parts: list[Part] = [head, *_subject_parts(clause)]
    if verb:
        parts.append(f" {verb}")
    tail = _parts(rest, object_first=clause.verb not in {"", "be"})
    if tail:
        parts.append(" ")
        parts.extend(tail)
    return tuple(parts)


def _ended(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    return (*parts, "?")


def _adverbial(tokens: Sequence[Token]) -> tuple[Part, ...]:
    return (" ", *_parts(tokens, opens=True, droppable=False))


def _clean_adverbial(tokens: Sequence[Token]) -> bool:
    """Whether a clause beside the main one can be repeated in a question."""
    return (
        3 <= len(tokens) <= 14
        and not any(token.lower in _WE or token.tag == "SYM" or token.text in '()[]";:' for token in tokens)
        and not any(
            token.lower
            in {"it", "they", "this", "that", "these", "them", "their", "its", "he", "she", "here", "above", "below"}
            for token in tokens[1:]
        )
    )


def _plain(clause: Clause, order: tuple[Part, ...], action: Action | None, sentence: int) -> Iterator[Question]:
    does = action.text if action else ""
    yield question(_ended(order), "yes_no", "clause-yes-no", sentence, does)
    for side in (clause.lead, clause.tail):
        if (
            side
            and side[0].lower in {"if", "when", "unless", "once", "after", "before", "while", "until"}
            and _clean_adverbial(side)
        ):
            yield question(_ended((*order, *_adverbial(side))), "yes_no", "clause-condition", sentence, does)
            if side[0].lower in {"if", "when", "once"}:
                yield question(
                    _ended((f"What happens {side[0].lower} ", *_parts(side[1:], droppable=False))),
                    "what",
                    "what-happens",
                    sentence,
                )
                if clause.addresses_user or not clause.subject:
                    yield question(
                        _ended((f"What should I do {side[0].lower} ", *_parts(side[1:], droppable=False))),
                        "what",
                        "what-should-i-do",
                        sentence,
                    )
        elif side and side[0].lower in {"because", "since"} and side is clause.tail:
            yield question(_ended(_inverted(clause, clause.rest, "Why")), "why", "clause-why", sentence, does)
        elif side and side[0].tag == "TO" and len(side) > 2 and side[1].tag == "VB" and _clean_adverbial(side):
            yield question(
                _ended((f"How do I {side[1].lower} ", *_parts(side[2:]))),
                "how",
                "purpose-how",
                sentence,
                user_words(side[1:]),
            )


def _wh(clause: Clause, action: Action | None, sentence: int) -> Iterator[Question]:
    """Questions for what stands in the clause: subject, object, measure, time, means, place."""
    does = action.text if action else ""
    rest = clause.rest
    found = chunks(rest)
    first = found[0] if found and found[0].start == 0 else None
    if clause.auxiliary in {"is", "are", "was", "were"} and not clause.verb:
        subject = _subject_parts(clause)
        if len(subject) == 1 and isinstance(subject[0], Ref) and rest[0].lower in {"a", "an", "the"}:
            yield question((f"What {clause.auxiliary} ", *subject, "?"), "what", "definition", sentence)
        if rest[0].lower.startswith("$") or (rest[0].tag == "CD" and "$" in rest[0].text):
            yield question((f"How much {clause.auxiliary} ", *subject, "?"), "how_much", "amount", sentence)
    elif first is not None and clause.verb != "be" and not first.phrase.person and _object_ends(rest, first.end):
        after = rest[first.end :]
        yield question(_ended(_inverted(clause, after, "What")), "what", "object-what", sentence)
        if first.phrase.kind and first.phrase.long and not first.phrase.named:
            opener = f"Which {first.phrase.head if not first.phrase.plural else rest[first.end - 1].lower}"
            yield question(_ended(_inverted(clause, after, opener)), "which", "object-which", sentence)
    if not clause.addresses_user and len(clause.subject) >= 2:
        yield from _subject_question(clause, sentence)
    for place in range(len(rest) - 1):
        yield from _measure(clause, place, does, sentence)
        yield from _means(clause, place, found, does, sentence)
    if clause.addresses_user and action and clause.auxiliary in {"can", "may", "could"}:
        yield question(("How can I ", *action.parts, "?"), "how", "action-how", sentence, does)
    if clause.addresses_user and action and clause.auxiliary in {"must", "should"} and clause.verb not in _STATIVE:
        yield question(("How do I ", *action.parts, "?"), "how", "action-how", sentence, does)


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
    yield question((f"{opener} {verb} ", *_parts(clause.rest), "?"), opener.lower(), "subject-who", sentence)


def _measure(clause: Clause, place: int, does: str, sentence: int) -> Iterator[Question]:
    """How long, how often, how much, how many."""
    rest = clause.rest
    token = rest[place]
    if token.tag == "CD":
        before = rest[place - 1].lower if place else ""
        unit = rest[place + 1].lower
        if "$" in token.text and place == 0 and clause.verb in {"cost", "pay", "charge", "receive", "get"}:
            yield question(
                _ended(_inverted(clause, rest[place + 1 :], "How much")), "how_much", "amount", sentence, does
            )
        elif unit in _UNITS and before in {"within", "for", "every", "after", "in"} and place + 2 <= len(rest):
            if place + 2 < len(rest) and rest[place + 2].lower in {"of", "after", "from", "before", "old"}:
                return
            opener = {"every": "How often", "for": "For how long", "within": "How soon", "after": "When", "in": "When"}[
                before
            ]
            yield question(
                _ended(_inverted(clause, (*rest[: place - 1], *rest[place + 2 :]), opener)),
                "how_long",
                "measure",
                sentence,
                does,
            )
        elif place == 0 and rest[place + 1].tag == "NNS" and clause.verb not in {"", "be"} and unit not in _UNITS:
            yield question(
                _ended(_inverted(clause, rest[place + 2 :], f"How many {rest[1].text}")),
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
        yield question(_ended(_inverted(clause, rest[:place], "When")), "when", "date", sentence, does)


def _means(clause: Clause, place: int, found: Sequence[Chunk], does: str, sentence: int) -> Iterator[Question]:
    token = rest_token = clause.rest[place]
    if not place or token.tag not in {"IN", "VBG", "TO"}:
        return
    chunk = next((one for one in found if one.start == place + 1), None)
    if chunk is None or chunk.end != len(clause.rest):
        return
    head = clause.rest[:place]
    if rest_token.lower in _MEANS and clause.verb not in {"", "be"}:
        yield question(_ended(_inverted(clause, head, "How")), "how", "means", sentence, does)
    elif rest_token.lower in _PLACES and chunk.phrase.head in _PLACE_HEADS and clause.verb not in {"", "be"}:
        yield question(_ended(_inverted(clause, head, "Where")), "where", "place", sentence, does)
    elif (
        rest_token.lower == "to"
        and chunk.phrase.kind in {"office", "person"}
        and clause.verb in {"send", "give", "report", "mail", "submit", "return", "pay", "provide", "show"}
    ):
        yield question((*_ended(_inverted(clause, head, "Who"))[:-1], " to?"), "who", "recipient", sentence, does)
    elif rest_token.lower == "for" and clause.verb in {"use", "apply", "pay", "need"}:
        yield question((*_inverted(clause, head, "What"), " for?"), "what", "purpose", sentence, does)


def _action(clause: Clause) -> Action | None:
    """What a clause tells a person to do or lets them do."""
    if clause.subject and not (
        (clause.addresses_user and clause.auxiliary in {"can", "must", "may", "should", "will", "could"})
        or (clause.addresses_user and clause.verb == "need")
    ):
        return None
    rest, verb = clause.rest, clause.verb
    if clause.verb == "need" and len(rest) > 2 and rest[0].tag == "TO" and rest[1].tag == "VB":
        verb, rest = rest[1].lower, rest[2:]
    if (
        clause.negated
        or verb
        in {
            "",
            "be",
            "see",
            "learn",
            "note",
            "let",
            "find",
            "read",
            "visit",
            "click",
            "refer",
            "remember",
            "please",
            "want",
            "need",
            "have",
            "think",
        }
        or len(rest) > 11
    ):
        return None
    if not rest or not chunks(rest) or rest[0].tag in {"SUB", "MD", "BE", "PUNCT"}:
        return None
    if any(
        token.lower in {"it", "them", "they", "this", "that", "these", "its", "their", "here"} for token in rest[:1]
    ):
        return None
    return Action(f"{verb} {user_words(rest)}", (f"{verb} ", *_parts(rest)))


def _imperative(clause: Clause, action: Action, sentence: int) -> Iterator[Question]:
    yield question(("How do I ", *action.parts, "?"), "how", "action-how", sentence, action.text)
    yield question(("Do I have to ", *action.parts, "?"), "yes_no", "action-have-to", sentence, action.text)
    if clause.lead and _clean_adverbial(clause.lead):
        first = clause.lead[0].lower
        if first == "to" and len(clause.lead) > 2 and clause.lead[1].tag == "VB":
            yield question(
                (f"How do I {clause.lead[1].lower} ", *_parts(clause.lead[2:]), "?"),
                "how",
                "purpose-how",
                sentence,
                user_words(clause.lead[1:]),
            )
        elif first in {"if", "when", "once"}:
            yield question(
                (f"What should I do {first} ", *_parts(clause.lead[1:], droppable=False), "?"),
                "what",
                "what-should-i-do",
                sentence,
            )
            yield question(
                ("Do I have to ", *action.parts, f" {first} ", *_parts(clause.lead[1:], droppable=False), "?"),
                "yes_no",
                "clause-condition",
                sentence,
                action.text,
            )


def _condition(clause: Clause) -> str:
    """The "if" clause of a sentence about "you", as the asking person would say it of themselves."""
    for side in (clause.lead, clause.tail):
        if (
            len(side) > 3
            and side[0].lower == "if"
            and side[1].lower in {"you", "your"}
            and _clean_adverbial(side)
            and "," not in [token.text for token in side]
        ):
            return user_words(side[1:])
    return ""


def purposes(tokens: Sequence[Token]) -> Iterator[Action]:
    """Actions named by "to" and a verb anywhere in a sentence ("… to request a refund")."""
    for place, token in enumerate(tokens[:-2]):
        if (
            token.tag != "TO"
            or tokens[place + 1].tag != "VB"
            or (place and tokens[place - 1].tag in {"VB", "VBZ", "VBD", "VBN", "MD", "BE"})
        ):
            continue
        end = place + 2
        while (
            end < len(tokens)
            and tokens[end].tag in {"NN", "NNS", "NNP", "DT", "PRP$", "JJ", "CD", "IN", "VBN"}
            and end - place <= 9
        ):
            end += 1
        body = tokens[place + 2 : end]
        while body and body[-1].tag in {"IN", "DT", "PRP$", "JJ", "CD", "VBN"}:
            body = body[:-1]
        verb = tokens[place + 1].lower
        if body and chunks(body) and verb not in _STATIVE and not any(one.lower in _WE | _UNBOUND for one in body):
            yield Action(f"{verb} {user_words(body)}", (f"{verb} ", *_parts(body)))


def lowered(text: str) -> str:
    """A clause of the document as it goes on within a sentence."""
    first, _, rest = text.partition(" ")
    return f"{uncapitalised(first)} {rest}".strip()
