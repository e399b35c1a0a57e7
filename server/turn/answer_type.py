"""Whether a sentence holds what a question asks for: a number, a time, a name, a place, a way to do it.

Told by English words alone, for one sentence beside one question; of other questions, and in other languages, nothing
is said. What it weighs is `server.turn.evidence`'s business, where a cross-encoder says the rest.
"""

from __future__ import annotations

import regex

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
_FOUND = [(asked, regex.compile(answers, regex.IGNORECASE)) for asked, answers in _KINDS]


def fits(question: str, sentence: str) -> int:
    """1 where the sentence holds what the question asks for, -1 where it lacks it, 0 where that cannot be told."""
    for asked, answers in _FOUND:
        if asked.search(question):
            return 1 if answers.search(sentence) else -1
    return 0
