"""References: words that point at something a sentence does not name.

“It”, “they”, “this form” or “and by mail?” are understood only with what was said before. Decisions compare words and
positions, know English, and treat other languages as complete; they are tuned for short questions and sentences of
documentation, not for prose.
"""

from __future__ import annotations

import regex

_WORD = regex.compile(r"[\p{L}\p{N}_’']+|[^\s\p{L}\p{N}_]")
_PRONOUNS = frozenset({"it", "its", "they", "them", "their", "theirs", "he", "him", "his", "she", "her", "hers"})
_DETERMINERS = frozenset({"this", "these", "those"})
# Time is no reference to what was said: "this year".
_TIMES = frozenset({"year", "month", "week", "day", "morning", "evening", "summer", "winter", "weekend", "time"})
# "those who …", "those available in …": said here which ones.
_RESOLVES = frozenset({"who", "whose", "that", "with", "of", "in", "on", "at", "from", "for", "listed", "available"})
# What a pronoun may stand after, in the same sentence, and still be resolved there.
_CLAUSE = frozenset((
    ",", ";", ":", "if", "when", "whether", "that", "which", "who", "because", "before", "after", "until",
    "unless", "while", "once", "and", "but", "or", "so", "though", "although", "since", "to",
))  # fmt: skip
_PLACEHOLDER_IT = regex.compile(
    r"\b(?:is|was|does|would|will|if|that|make|makes|find) it "
    r"(?:\w+ )?(?:possible|necessary|required|important|better|safe|legal|illegal|allowed|okay|ok|true|mandatory|easy"
    r"|hard|recommended|easier|harder)\b"
    r"|\bdoes it (?:take|cost|mean|matter)\b(?=.*\b(?:to|if|when|that|for)\b)"
    r"|\bit(?:'s| is| was) (?:\w+ )?(?:possible|necessary|required|important|better|best|a good idea|your)\b"
    r"|\bit (?:takes?|costs?)\b.*\bto\b|\bit (?:might|will|would|does not|doesn['’]t) (?:cost|take|matter)\b",
    regex.IGNORECASE,
)
_OPENING = regex.compile(
    r"^\s*(?:and|but|or|so|also|then|what about|how about|what if not|why not|same)\b"
    r"|^\s*(?:why|how|when|where|who|how much|how many|how long|how so|since when|by whom|for whom|what else|who else"
    r"|anything else|really)\s*[?.!]*\s*$",
    regex.IGNORECASE,
)
_POINTING = regex.compile(
    r"\b(?:the same\s*[?.!]*$|the same (?:one|thing|applies|goes|holds|is true)\b|the (?:former|latter)\s*[?.!,]"
    r"|the other (?:one|ones|two)\b|the (?:first|second|third|last|next|other) one\b|that one\b|this one\b"
    r"|those ones\b|one of (?:them|those|these)\b|each of them\b|such an?\b|aforementioned\b|as above\b"
    r"|(?:for|about|of|with|in|on|by|after|before|without|from|like|does|do|did|is|was|has|can|could|why|how|if) that"
    r"(?=\s*[?.!,]|\s*$|\s+(?:mean|work|cost|take|apply|help|include|change|possible|required|needed|necessary|too"
    r"|also|case)\b))",
    regex.IGNORECASE,
)
_THERE = regex.compile(
    r"\b(?:from|in|over|go|get|out|work|up|apply) there\b|(?<!\b(?:is|are|was|were|be) )\bthere\s*[?.!]*\s*$",
    regex.IGNORECASE,
)
_QUOTED = regex.compile(r"`[^`]*`|\"[^\"]*\"|“[^”]*”")
_FUNCTION = frozenset((
    "a", "an", "the", "what", "who", "whom", "whose", "which", "when", "where", "why", "how", "do", "does", "did",
    "is", "are", "was", "were", "be", "been", "can", "could", "will", "would", "should", "shall", "may", "might",
    "must", "have", "has", "had", "i", "you", "we", "my", "your", "our", "me", "us", "there", "of", "in", "on",
    "at", "by", "for", "with", "from", "about", "not", "any", "some", "no", "as", "than", "please", "tell",
))  # fmt: skip


def reference(text: str) -> str:
    """The first words of `text` that point outside it, empty where there are none."""
    plain = str(_QUOTED.sub(" X ", text))
    for pattern in (_OPENING, _POINTING, _THERE):
        if match := pattern.search(plain):
            return str(match.group()).strip()
    plain = str(_PLACEHOLDER_IT.sub(" ", plain))
    # "IT" is a department.
    tokens = ["x" if token == "IT" else str(token).casefold() for token in _WORD.findall(plain)]
    # Something is named before the pronoun, and a clause ends in between: "If I lose a card, how is it replaced?"
    named = clause = False
    for place, token in enumerate(tokens):
        following = tokens[place + 1] if place + 1 < len(tokens) else ""
        if token in _DETERMINERS and following not in _TIMES and not (token == "those" and following in _RESOLVES):
            return f"{token} {following}".strip()
        if token in _PRONOUNS and not (named and clause):
            return token
        if token in _CLAUSE:
            clause = clause or named
        elif token not in _FUNCTION and token not in _PRONOUNS and token[0].isalnum():
            named = True
            # "Can employees change their address": the owner stands before what is owned.
            if following in {"their", "its", "his", "her"} or _owner_follows(tokens, place):
                clause = True
    return ""


def _owner_follows(tokens: list[str], place: int) -> bool:
    """Whether a possessive follows within the next few words, as in "employees change their address"."""
    return any(token in {"their", "its", "his", "her"} for token in tokens[place + 1 : place + 5])
