"""Sentences as tagged tokens: a small tagger of dictionary readings and rules of context.

It needs to be right about plain declarative English only: what it cannot make sense of yields no question. Which
phrases tokens form is left to `synth.rules.phrases`.
"""

from __future__ import annotations

from dataclasses import dataclass

import regex

from synth.rules.lexicon import CLOSED, Tag, candidates, prefers_verb, readings, verb_forms

_TOKEN = regex.compile(
    r"`[^`\n]{1,60}`"
    r"|\$\d[\d,]*(?:\.\d+)?(?:\s(?:million|billion))?"
    r"|\d+(?:-\p{L}{2,})+"
    r"|\d+(?:[.,:/-]\d+)*(?:%|(?:st|nd|rd|th)\b)?"
    r"|(?:[A-Z]\.){2,}"
    r"|\p{L}[\p{L}\p{N}_]*(?:[-./&+#]\p{L}?[\p{L}\p{N}_]+)*(?:['’]t\b)?"
    r"|['’]s?\b|[^\s\w]|\w+"
)
_PUNCTUATION = frozenset(".,;:!?()[]\"“”'–—-…")
_NOUN_LEFT = frozenset({"DT", "PRP$", "JJ", "CD", "IN"})
_AFTER_BE: tuple[Tag, ...] = ("VBN", "VBG", "JJ")
_FINITE: tuple[Tag, ...] = ("VBZ", "VB", "VBD")
_LAST: tuple[Tag, ...] = ("JJ", "VBN", "VBG")
_NOMINAL = frozenset({"NN", "NNS", "NNP"})
_OBJECT_BEGINS = frozenset({"DT", "PRP", "PRP$", "CD", "TO", "WH"})


@dataclass(frozen=True, slots=True)
class Token:
    """A word as it stands, its lower-case form, its tag, and whether white space precedes it."""

    text: str
    lower: str
    tag: Tag
    spaced: bool


def tagged(sentence: str) -> tuple[Token, ...]:
    """The tokens of one clean sentence."""
    matches = list(_TOKEN.finditer(sentence))
    lowers = [match.group().lower().replace("’", "'") for match in matches]
    tags: list[Tag] = []
    finite = False
    for place, match in enumerate(matches):
        tag = _tag(match.group(), lowers, tags, place, finite)
        tags.append(tag)
        if tag in {"VBZ", "VBD", "MD", "BE", "HAVE", "DO"} or (tag == "VB" and place and tags[place - 1] != "TO"):
            finite = True
        elif tag in {"SUB", "WH"} or (tag == "PUNCT" and match.group() in ",;:") or tag == "CC":
            finite = False
    return tuple(
        Token(match.group(), lower, tag, match.start() > 0 and sentence[match.start() - 1].isspace())
        for match, lower, tag in zip(matches, lowers, tags, strict=True)
    )


def _tag(text: str, lowers: list[str], tags: list[Tag], place: int, finite: bool) -> Tag:
    word = lowers[place]
    before = tags[-1] if tags else None
    after = lowers[place + 1] if place + 1 < len(lowers) else ""
    after_tag = CLOSED.get(after)
    if text[0] == "`":
        return "NNP"
    if text in _PUNCTUATION:
        return "PUNCT"
    if word in {"'s", "'"}:
        return "PRP$" if word == "'s" else "SYM"
    if text[0] in "$0123456789":
        return "JJ" if text[-1].isalpha() and "-" in text else "CD"
    if not text[0].isalpha():
        return "SYM"
    if word in CLOSED:
        return _closed(word, before, after, after_tag)
    if word.endswith(("n't", "n’t")):
        return "MD" if word[:-3] in {"ca", "wo", "should", "would", "could", "might", "must"} else "DO"
    capital = text[0].isupper()
    odd = any(letter.isupper() for letter in text[1:]) or any(sign in text for sign in "_./&+#")
    if odd or (
        capital and place and not (tags and tags[-1] == "PUNCT" and lowers[place - 1] in ".!?:") and _name(word)
    ):
        return "NNP"
    found = candidates(word)
    if len(found) == 1:
        only = next(iter(found))
        if only == "VBN" and before in _NOUN_LEFT and _nominal_ahead(lowers, place):
            return "JJ"
        return only
    return _choose(word, found, before, tags, lowers, place, after_tag, finite)


def _name(word: str) -> bool:
    """A capital within a sentence makes a name of all but words that are no nouns at all."""
    known = readings(word)
    return not known or "NOUN" in known or "ADJ" in known


def _closed(word: str, before: Tag | None, after: str, after_tag: Tag | None) -> Tag:
    tag = CLOSED[word]
    if word == "that":
        if before in _NOMINAL or before in {"VB", "VBZ", "VBD", "VBN", "VBG", "JJ"}:
            return "SUB"
        return "DT"
    if word in {"after", "before", "since", "until", "as"}:
        if after_tag in {"PRP", "EX"}:
            return "SUB"
        return "IN"
    if word == "online" and after and after_tag is None and candidates(after) & {"NN", "NNS"} and before != "NN":
        return "JJ"
    if word == "her":
        return "PRP$" if after and after_tag is None else "PRP"
    if word == "there":
        return "EX" if after in {"is", "are", "was", "were", "can", "may", "will"} else "RB"
    if word in {"one", "ones"} and before in {"DT", "JJ"}:
        return "NN"
    if word in {"most", "more", "less", "only", "first", "even"} and before == "DT":
        return "JJ"
    return tag


def _nominal_ahead(lowers: list[str], place: int) -> bool:
    """Whether the next word can be a noun or adjective."""
    if place + 1 >= len(lowers):
        return False
    after = lowers[place + 1]
    if after in CLOSED or not after[:1].isalpha():
        return after[:1] == "`"
    return bool(candidates(after) & {"NN", "NNS", "NNP", "JJ"})


def _choose(
    word: str,
    found: frozenset[Tag],
    before: Tag | None,
    tags: list[Tag],
    lowers: list[str],
    place: int,
    after_tag: Tag | None,
    finite: bool,
) -> Tag:
    verbs = verb_forms(word)[1] & found
    noun: Tag | None = "NNS" if "NNS" in found else "NN" if "NN" in found else None
    back = before
    if before in {"RB", "NOT"}:
        back = next((tag for tag in reversed(tags) if tag not in {"RB", "NOT"}), None)
    if "VB" in found and back in {"MD", "TO", "DO"}:
        return "VB"
    if back == "HAVE" and "VBN" in found:
        return "VBN"
    if back == "BE":
        for tag in _AFTER_BE:
            if tag in found and (tag != "VBN" or "JJ" not in found or after_tag in {"IN", "TO"}):
                return tag
        if "RB" in found and noun is None:
            return "RB"
    if back == "PRP" and verbs:
        finite_verb = next((tag for tag in _FINITE if tag in verbs), None)
        if finite_verb:
            return finite_verb
    if before in {"DT", "PRP$", "CD", "JJ"} or (before == "IN" and "VBG" not in found):
        if ("JJ" in found or "VBN" in found) and _nominal_ahead(lowers, place):
            return "JJ"
        if noun:
            return noun
        return "JJ" if "JJ" in found else next(iter(sorted(found)))
    if place == 0 or before == "PUNCT" or before == "CC":
        opens = after_tag in {"DT", "PRP$", "PRP"} or (place + 1 < len(lowers) and lowers[place + 1][:1] == "`")
        if "VB" in found and (noun is None or opens or prefers_verb(word)) and not (finite and noun):
            return "VB"
    if before in _NOMINAL and "VBN" in found and (finite or after_tag == "IN") and noun is None:
        return "VBN"
    if before in _NOMINAL and verbs and not finite:
        if "VBZ" in verbs and before in {"NN", "NNP"} and _verb_context(lowers, place, after_tag):
            return "VBZ"
        if "VB" in verbs and before == "NNS" and _verb_context(lowers, place, after_tag):
            return "VB"
        if "VBD" in verbs and noun is None:
            return "VBD"
    if prefers_verb(word) and verbs and before in _NOMINAL:
        return "VBZ" if "VBZ" in verbs else "VB" if "VB" in verbs else next(iter(sorted(verbs)))
    if noun and "JJ" in found:
        return "JJ" if _nominal_ahead(lowers, place) else noun
    if noun:
        return noun
    if "RB" in found and ("JJ" not in found or not _nominal_ahead(lowers, place)):
        return "RB"
    for tag in _LAST:
        if tag in found:
            return tag
    return next(iter(sorted(found)))


def _verb_context(lowers: list[str], place: int, after_tag: Tag | None) -> bool:
    """Whether what follows looks like a verb's object or complement."""
    if after_tag in _OBJECT_BEGINS or after_tag in {"SUB", "RB"}:
        return True
    if place + 1 >= len(lowers):
        return False
    after = lowers[place + 1]
    if after_tag in {"IN"}:
        return after in {"on", "in", "at", "by", "as", "from", "to", "with", "for"}
    return after_tag is None and (after[:1].isalnum() or after[:1] in "`$")
