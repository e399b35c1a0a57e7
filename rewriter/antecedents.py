"""Resolve which item of a list an ordinal names: "the second one", "the latter", "option 3".

The list is looked for in the last answers of the conversation, the newest first: numbered items in a line, list items
of Markdown, or an enumeration in a sentence. English words only. No model is asked.
"""

from __future__ import annotations

from collections.abc import Iterator

import regex

from rewriter.protocol import Conversation

DEPTH = 2
"""How many answers are looked at."""

MOST_CHARS = 8000
"""How much of an answer is looked at."""

LONGEST = 12
"""Most words of an item that are taken."""

_NUMBERS = {
    word: number
    for number, words in {
        1: "first 1st former one 1",
        2: "second 2nd two 2",
        3: "third 3rd three 3",
        4: "fourth 4th four 4",
        5: "fifth 5th five 5",
        6: "sixth 6th six 6",
        7: "7",
        8: "8",
        9: "9",
        -1: "last latter final",
    }.items()
    for word in words.split()
}

_COUNTED = (
    "one|option|way|point|step|item|method|choice|variant|case|part|kind|type|thing|entry|alternative|possibility|"
    "reason|bullet|mode|path|route|form|tool|command|flag|setting|field|file"
)

_ORDINAL = regex.compile(
    rf"""
    (?:^|\b(?:the|that|your|those|these|its|very)\s+|^\W*(?:and|or|ok|so|then|for|with)\s+|[,.;:?!]\s+)
    (?P<word>former|latter|first|second|third|fourth|fifth|sixth|last|final|1st|2nd|3rd|4th|5th|6th)\b
    (?:\s+(?:of\s+(?:these|those|them|the|your)|(?:{_COUNTED})s?|two)\b
      |\s*(?:[,.;:?!)]|$)
      |\s+(?:is|are|was|can|does|do|did|has|would|will|should|might|could|sounds?|looks?|seems?|works?|vs|versus|instead
        |please|again|then|too|contains?|says?|means?|needs?|in|for|on|with|if|what|how|where|when|who|which|i|we)\b)
    |\bthe\s+(?P<latter>latter)\b
    |\b(?:options?|numbers?|no\.|points?|steps?|items?|ways?|methods?|choices?|variants?)\s*\#?
      (?P<number>[1-9]|one|two|three|four|five|six)\b
    """,
    regex.IGNORECASE | regex.VERBOSE,
)

_ELSEWHERE = regex.compile(
    r"\b(?:asked|began|at first|named|gave|told|started|mentioned|question|back to|earlier"
    r"|last (?:on|point|question|wish|thing)|last one,? (?:about|on|back|my))\b",
    regex.IGNORECASE,
)
"""Words with which an ordinal counts through the conversation, or ends it, and names no item of a list."""

_ENDING = regex.compile(r"[\s,;]*+(?:\b(?:and|or)\s*)?$", regex.IGNORECASE)
_BLANK_LINES = regex.compile(r"\s*\n\s*\n\s*+")
_SPACES = regex.compile(r"[^\S\n]++")
_MARK = regex.compile(r"(?:^|(?<=[\s(:;,.]))\(?([1-9]|[a-e])[).](?=\s)")
_LIST_ITEM = regex.compile(r"^[ \t]*(?:[-*•]|\d{1,2}[.)])[ \t]+(.+)$", regex.MULTILINE)
_SENTENCE = regex.compile(r"[^.!?\n;]+(?:[.](?=\S)[^.!?\n;]*)*")
_SENTENCE_END = regex.compile(r"[.!?](?:\s|$)|\n\n")
_BETWEEN = regex.compile(
    r"\s*,\s*(?:and|or|also|plus|as\ well\ as|nor)\s+|\s*,\s+|\s+(?:and|or|plus)\s+", regex.IGNORECASE
)


def resolve(conversation: Conversation, question: str) -> str | None:
    """Return the item of the newest list that the question's ordinal names, as written there, cut to `LONGEST` words.

    None where the question has no ordinal, or no list is long enough for it.

    >>> from rewriter.protocol import Message
    >>> answer = Message("assistant", "There are three kinds: counters, gauges and histograms.")
    >>> resolve(Conversation((answer,)), "and the second one?")
    'gauges'
    """
    ordinal = _ORDINAL.search(question)
    if ordinal is None or _ELSEWHERE.search(question):
        return None
    word = (ordinal["word"] or ordinal["latter"] or ordinal["number"]).lower()
    number = _NUMBERS[word]
    answers = [message.text for message in reversed(conversation.messages) if message.role == "assistant"]
    for answer in answers[:DEPTH]:
        for items in reversed(list(enumerations(answer[:MOST_CHARS]))):
            if abs(number) <= len(items) and (word not in ("former", "latter") or len(items) == 2):
                item = items[number - 1 if number > 0 else number]
                return " ".join(item.split()[:LONGEST])
    return None


def enumerations(text: str) -> Iterator[list[str]]:
    """Yield the lists of a text, each with two items or more, in the order of the text.

    Where items are marked (`1)`, `(a)`, `-`), only these are; else enumerations in sentences.
    """
    text = _SPACES.sub(" ", _BLANK_LINES.sub("\n\n", text))
    marked = list(_marked(text))
    if not marked and len(lines := _LIST_ITEM.findall(text)) > 1:
        marked = [[line.strip() for line in lines]]
    yield from marked or _in_sentences(text)


def _marked(text: str) -> Iterator[list[str]]:
    run: list[regex.Match[str]] = []
    for mark in [*_MARK.finditer(text), None]:
        value = 0 if mark is None else int(mark[1]) if mark[1].isdigit() else ord(mark[1]) - ord("a") + 1
        if mark is not None and value == len(run) + 1:
            run.append(mark)
            continue
        if len(run) > 1:
            ended = _SENTENCE_END.search(text, run[-1].end())
            ends = [*(after.start() for after in run[1:]), ended.start() if ended else len(text)]
            yield [_ENDING.sub("", text[item.end() : end]).strip() for item, end in zip(run, ends, strict=True)]
        run = [mark] if mark is not None and value == 1 else []


def _in_sentences(text: str) -> Iterator[list[str]]:
    for sentence in _SENTENCE.findall(text):
        listed = sentence.rpartition(": ")[2]
        gaps = list(_BETWEEN.finditer(listed))
        if any(gap.group().strip(" ,") for gap in gaps):
            starts, ends = [0, *(gap.end() for gap in gaps)], [*(gap.start() for gap in gaps), len(listed)]
            items = [listed[start:end].strip() for start, end in zip(starts, ends, strict=True)]
            if all(items):
                yield items
