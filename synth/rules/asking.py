"""Questions that a plain sentence answers, made of its own words.

From one clause: whether it is so, what or who, when, how long, how much, where, why, under which condition; besides
them the actions and conditions a conversation can take up ("can I do that online?", "I'm self-employed"). Phrases
become holes (`Ref`), a last prepositional phrase becomes one that may be left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from synth.rules.clauses import Clause
from synth.rules.lexicon import word_list
from synth.rules.ordering import ended, inverted, parts_of, plural_subject
from synth.rules.phrases import chunks, uncapitalised, user_words
from synth.rules.questions import Part, Question, question, rendered
from synth.rules.tagging import Token
from synth.rules.wh import STATIVE, wh_questions

_WE = frozenset({"we", "our", "us", "i", "my", "me", "let"})


_UNBOUND = word_list("it its they them their he him his she her this that these those here above below following")


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
    order = inverted(clause, clause.rest)
    if not order:
        return None
    made = [
        one
        for one in (
            *_plain(clause, order, action, sentence),
            *wh_questions(clause, (action.text, action.parts) if action else None, sentence),
        )
        if _says_enough(one)
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
        return plural_subject(clause)
    if clause.auxiliary in {"is", "was", "has", "does"} or finite == "VBZ":
        return not plural_subject(clause)
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


def _adverbial(tokens: Sequence[Token]) -> tuple[Part, ...]:
    return (" ", *parts_of(tokens, opens=True, droppable=False))


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
    yield question(ended(order), "yes_no", "clause-yes-no", sentence, does)
    for side in (clause.lead, clause.tail):
        if (
            side
            and side[0].lower in {"if", "when", "unless", "once", "after", "before", "while", "until"}
            and _clean_adverbial(side)
        ):
            yield question(ended((*order, *_adverbial(side))), "yes_no", "clause-condition", sentence, does)
            if side[0].lower in {"if", "when", "once"}:
                yield question(
                    ended((f"What happens {side[0].lower} ", *parts_of(side[1:], droppable=False))),
                    "what",
                    "what-happens",
                    sentence,
                )
                if clause.addresses_user or not clause.subject:
                    yield question(
                        ended((f"What should I do {side[0].lower} ", *parts_of(side[1:], droppable=False))),
                        "what",
                        "what-should-i-do",
                        sentence,
                    )
        elif side and side[0].lower in {"because", "since"} and side is clause.tail:
            yield question(ended(inverted(clause, clause.rest, "Why")), "why", "clause-why", sentence, does)
        elif side and side[0].tag == "TO" and len(side) > 2 and side[1].tag == "VB" and _clean_adverbial(side):
            yield question(
                ended((f"How do I {side[1].lower} ", *parts_of(side[2:]))),
                "how",
                "purpose-how",
                sentence,
                user_words(side[1:]),
            )


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
    return Action(f"{verb} {user_words(rest)}", (f"{verb} ", *parts_of(rest)))


def _imperative(clause: Clause, action: Action, sentence: int) -> Iterator[Question]:
    yield question(("How do I ", *action.parts, "?"), "how", "action-how", sentence, action.text)
    yield question(("Do I have to ", *action.parts, "?"), "yes_no", "action-have-to", sentence, action.text)
    if clause.lead and _clean_adverbial(clause.lead):
        first = clause.lead[0].lower
        if first == "to" and len(clause.lead) > 2 and clause.lead[1].tag == "VB":
            yield question(
                (f"How do I {clause.lead[1].lower} ", *parts_of(clause.lead[2:]), "?"),
                "how",
                "purpose-how",
                sentence,
                user_words(clause.lead[1:]),
            )
        elif first in {"if", "when", "once"}:
            yield question(
                (f"What should I do {first} ", *parts_of(clause.lead[1:], droppable=False), "?"),
                "what",
                "what-should-i-do",
                sentence,
            )
            yield question(
                ("Do I have to ", *action.parts, f" {first} ", *parts_of(clause.lead[1:], droppable=False), "?"),
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
        if body and chunks(body) and verb not in STATIVE and not any(one.lower in _WE | _UNBOUND for one in body):
            yield Action(f"{verb} {user_words(body)}", (f"{verb} ", *parts_of(body)))


def lowered(text: str) -> str:
    """A clause of the document as it goes on within a sentence."""
    first, _, rest = text.partition(" ")
    return f"{uncapitalised(first)} {rest}".strip()
