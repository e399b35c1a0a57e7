"""Plain clauses: subject, auxiliary, verb, the rest, and what stands before or after.

Only sentences that fit the pattern give a `Clause`; the many that do not are used as answers only. Making questions
of clauses is `synth.rules.asking`'s business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from synth.rules.lexicon import verb_forms
from synth.rules.phrases import Chunk, chunks
from synth.rules.tagging import Token

MAX_SUBJECT = 9
MAX_REST = 22
_FINITE = frozenset({"MD", "BE", "HAVE", "DO", "VBZ", "VB", "VBD"})
_INSIDE_SUBJECT = frozenset({"NN", "NNS", "NNP", "IN", "DT", "PRP$", "JJ", "CD", "CC", "VBN", "VBG", "RB"})
_POINTING_SUBJECTS = frozenset(
    {"it", "he", "she", "this", "that", "these", "those", "we", "i", "they", "one", "which", "both"}
)
_NOUNS = frozenset({"NN", "NNS", "NNP"})
_TAILS = frozenset(
    {
        "if",
        "when",
        "whenever",
        "because",
        "since",
        "unless",
        "until",
        "while",
        "once",
        "although",
        "whereas",
        "so",
        "before",
        "after",
    }
)
_STOPS = frozenset({";", ":", "—", "–", "(", "[", '"', "“", "!", "?", "-", "…", ")"})


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause; token tuples keep the document's words.

    `subject` is empty for an imperative. `auxiliary` is the finite auxiliary in lower case ("must", "is", "have")
    or ""; `verb` the lemma that carries the meaning ("" after a form of "be" that is itself the verb), `form` the
    verb's token, `tense` the tag of a verb without auxiliary. `lead` and `tail` are adverbial clauses with their
    first word ("if you move", "to renew a license").
    """

    subject: tuple[Token, ...]
    auxiliary: str
    negated: bool
    verb: str
    form: str
    tense: str
    rest: tuple[Token, ...]
    lead: tuple[Token, ...]
    tail: tuple[Token, ...]

    @property
    def addresses_user(self) -> bool:
        return len(self.subject) == 1 and self.subject[0].lower == "you"


def clause_of(tokens: Sequence[Token]) -> Clause | None:
    """The main clause of a sentence, or None where it does not fit the pattern."""
    lead, at = _lead(tokens)
    if at >= len(tokens):
        return None
    if tokens[at].tag == "VB" and (not lead or lead[0].lower in {"if", "when", "to", "once", "before", "after", "for"}):
        return _finish(tokens, at, (), "", False, tokens[at].lower, tokens[at].text, "VB", at + 1, lead)
    end = _subject_end(tokens, at)
    if end is None:
        return None
    subject = tuple(tokens[at:end])
    if subject[0].lower != "you" and (
        subject[-1].tag in {"CC", "IN", "DT", "JJ", "PRP$"} or not any(one.tag in _NOUNS for one in subject)
    ):
        return None
    at = end
    while at < len(tokens) and tokens[at].tag == "RB":
        at += 1
    if at >= len(tokens) or tokens[at].tag not in _FINITE:
        return None
    return _predicate(tokens, at, subject, lead)


def _lead(tokens: Sequence[Token]) -> tuple[tuple[Token, ...], int]:
    """The adverbial before the subject, without its comma, and where the subject begins."""
    if not tokens:
        return (), 0
    first = tokens[0]
    if first.tag in {"SUB", "TO"} or (
        first.tag == "IN"
        and first.lower in {"for", "in", "on", "after", "before", "during", "with", "from", "at", "by", "as"}
    ):
        comma = next((place for place, token in enumerate(tokens) if token.text == ","), None)
        if comma is None or comma > 18 or comma + 2 > len(tokens):
            return (), len(tokens)
        at = comma + 1
        if tokens[at].lower in {"then"}:
            at += 1
        return tuple(tokens[:comma]), at
    if first.tag == "RB" and len(tokens) > 2 and tokens[1].text == ",":
        return (), 2
    return (), 0


def _subject_end(tokens: Sequence[Token], at: int) -> int | None:
    if tokens[at].lower in _POINTING_SUBJECTS or tokens[at].tag in {"EX", "WH", "SUB", "CC", "TO", "IN", "RB", "VBN"}:
        return None
    if tokens[at].lower == "you":
        return at + 1
    end = at
    while end < len(tokens) and end - at <= MAX_SUBJECT:
        tag = tokens[end].tag
        if tag in _FINITE and not (tag == "VB" and end == at):
            return end if end > at else None
        if tag not in _INSIDE_SUBJECT and tokens[end].lower != "'s":
            return None
        if tag == "RB" and end + 1 < len(tokens) and tokens[end + 1].tag in _FINITE:
            return end if end > at else None
        end += 1
    return None


def _predicate(tokens: Sequence[Token], at: int, subject: tuple[Token, ...], lead: tuple[Token, ...]) -> Clause | None:
    token = tokens[at]
    if token.tag in {"VBZ", "VB", "VBD"}:
        lemma = verb_forms(token.lower)[0]
        if not lemma:
            return None
        return _finish(tokens, at, subject, "", False, lemma, token.text, token.tag, at + 1, lead)
    auxiliary, negated = token.lower, False
    if auxiliary == "cannot" or auxiliary.endswith("n't"):
        auxiliary = {"cannot": "can", "can't": "can", "won't": "will"}.get(
            auxiliary, auxiliary[:-3] if auxiliary.endswith("n't") else auxiliary
        )
        negated = True
    following = at + 1
    while following < len(tokens) and tokens[following].tag in {"RB", "NOT"}:
        negated = negated or tokens[following].tag == "NOT"
        following += 1
    if following >= len(tokens):
        return None
    after = tokens[following]
    if token.tag == "BE" or (token.tag == "MD" and after.lower == "be"):
        if token.tag == "MD":
            return _finish(tokens, at, subject, auxiliary, negated, "be", "be", "", following + 1, lead)
        return _finish(tokens, at, subject, auxiliary, negated, "", "", "", following, lead)
    if token.tag == "MD" or token.tag == "DO":
        lemma = verb_forms(after.lower)[0] if after.tag in {"VB", "HAVE", "DO", "NN"} else ""
        if after.lower in {"have", "do"}:
            lemma = after.lower
        return (
            _finish(tokens, at, subject, auxiliary, negated, lemma, lemma, "", following + 1, lead) if lemma else None
        )
    if token.tag == "HAVE":
        if after.tag in {"VBN", "VBD"} or after.lower in {"been", "had"}:
            lemma = {"been": "be", "had": "have"}.get(after.lower) or verb_forms(after.lower)[0]
            return _finish(tokens, at, subject, auxiliary, negated, lemma, after.text, "", following + 1, lead)
        tense = {"has": "VBZ", "have": "VB", "had": "VBD"}.get(auxiliary, "")
        return _finish(tokens, at, subject, "", negated, "have", token.text, tense, at + 1, lead) if tense else None
    return None


def _finish(
    tokens: Sequence[Token],
    at: int,
    subject: tuple[Token, ...],
    auxiliary: str,
    negated: bool,
    verb: str,
    form: str,
    tense: str,
    begin: int,
    lead: tuple[Token, ...],
) -> Clause | None:
    rest, tail = _rest(tokens[begin:])
    if not rest or len(rest) > MAX_REST or _runs_on(rest):
        return None
    if (
        verb in {"have", "want", "need", "wish", "be"}
        and auxiliary in {"may", "might", "could"}
        and subject
        and subject[0].lower == "you"
    ):
        return None  # "you may have to", "you might want": advice, no permission to ask about
    return Clause(subject, auxiliary, negated, verb, form, tense, rest, lead, tail)


def _rest(tokens: Sequence[Token]) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
    """What follows the verb up to the clause's end, and an adverbial clause behind it."""
    end = len(tokens)
    for place, token in enumerate(tokens):
        if token.text in _STOPS or (token.text == "." and place >= len(tokens) - 2):
            end = place
            break
        if token.text == "," and place + 1 < len(tokens) and _new_clause(tokens, place + 1):
            end = place
            break
        if token.tag == "CC" and _next_tag(tokens, place + 1) in {
            "PRP",
            "EX",
            "MD",
            "BE",
            "HAVE",
            "DO",
            "VB",
            "VBZ",
            "VBD",
        }:
            end = place
            break
    body = tokens[:end]
    for place, token in enumerate(body):
        if place and token.tag == "SUB" and token.lower in _TAILS and token.lower != "that":
            tail = body[place:]
            return _trimmed(body[:place]), tuple(tail) if 3 <= len(tail) <= 14 else ()
    return _trimmed(body), ()


def _trimmed(tokens: Sequence[Token]) -> tuple[Token, ...]:
    """Tokens without words at their end that lead on to something."""
    while tokens and tokens[-1].tag in {"CC", "IN", "TO", "PUNCT", "DT", "PRP$", "WH", "SUB"}:
        tokens = tokens[:-1]
    return tuple(tokens)


def _next_tag(tokens: Sequence[Token], at: int) -> str:
    """The tag of the first token from `at` on that is no adverb; "" at the end."""
    return next((token.tag for token in tokens[at:] if token.tag not in {"RB", "NOT"}), "")


def _runs_on(tokens: Sequence[Token]) -> bool:
    """Whether two phrases stand side by side with nothing between: a list that lost its marks, or a missing verb."""
    return any(
        token.tag in _NOUNS and after.tag in {"DT", "PRP$", "VB", "MD"} and after.lower not in {"that", "'s"}
        for token, after in pairwise(tokens)
    )


def _new_clause(tokens: Sequence[Token], at: int) -> bool:
    """Whether a comma before `tokens[at]` ends the clause, and not only an item of a list."""
    if tokens[at].tag in {"WH", "SUB", "PRP", "RB", "VBG", "EX", "MD", "BE", "HAVE", "DO", "VB", "VBZ", "VBD"}:
        return True
    if tokens[at].tag == "CC":
        return at + 1 < len(tokens) and any(token.tag in _FINITE for token in tokens[at + 1 : at + 6])
    return False


def listed(tokens: Sequence[Token]) -> tuple[Chunk, ...]:
    """The phrases of the first enumeration in a sentence ("A, B, and C"), in order; empty without one."""
    found = chunks(tokens, opens=True)
    run: list[Chunk] = []
    for chunk in found:
        if run:
            between = [token.lower for token in tokens[run[-1].end : chunk.start]]
            if between and all(word in {",", "and", "or", "a", "an", "the"} for word in between):
                run.append(chunk)
                continue
            if len(run) > 1:
                break
        run = [chunk]
    return tuple(run) if len(run) > 1 else ()
