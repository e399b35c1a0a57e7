"""Clauses in the order of questions: parts with places for phrases, subject and auxiliary exchanged.

What is asked of a clause is told in `asking` and `wh`.
"""

from __future__ import annotations

from collections.abc import Sequence

from synth.rules.clauses import Clause
from synth.rules.lexicon import is_plural, word_list
from synth.rules.phrases import Chunk, chunks, phrase_of, user_words
from synth.rules.questions import Case, Optional, Part, Ref
from synth.rules.tagging import Token

_DROPPABLE = word_list("for of in at on with from under after during before to within into by through")


def parts_of(
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


def subject_parts(clause: Clause) -> tuple[Part, ...]:
    """The subject: one phrase where it is one, else its words with phrases in them."""
    if clause.addresses_user:
        return ("I",)
    whole = phrase_of(clause.subject, opens=not clause.lead)
    if whole is not None:
        return (Ref(whole, "subject"),)
    return parts_of(clause.subject, opens=not clause.lead, droppable=False)


def plural_subject(clause: Clause) -> bool:
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


def inverted(clause: Clause, rest: Sequence[Token], opener: str = "") -> tuple[Part, ...]:
    """The clause in the order of a question, "Does X V …", behind an interrogative where one is given."""
    auxiliary, verb = _auxiliary(clause)
    head = f"{opener} {auxiliary.lower()} " if opener else f"{auxiliary} "
    parts: list[Part] = [head, *subject_parts(clause)]
    if verb:
        parts.append(f" {verb}")
    tail = parts_of(rest, object_first=clause.verb not in {"", "be"})
    if tail:
        parts.append(" ")
        parts.extend(tail)
    return tuple(parts)


def ended(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    return (*parts, "?")
