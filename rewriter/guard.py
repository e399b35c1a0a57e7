"""The guard: turns down rewrites that would search for something the user did not ask.

A rewriter may resolve what a question points at and nothing else. Every check compares words, needs no model and takes
well under a millisecond; a refusal says why in one sentence. The rewriter decides how to react.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import regex

from rewriter.protocol import Conversation
from text.words import NEGATION, negations, numbers, quoted_terms, stems, words

MAX_ADDED_WORDS = 24
"""Words a rewrite may have beyond the typed question's own."""
MAX_STRANGERS = 0.5
"""Largest share of a rewrite's content that neither the question nor the conversation contains."""
MIN_KEPT = 0.15
"""Smallest share of the question's content that a rewrite must keep, of a question of three words of content or more;
people put into other words what points at something ("the two stars")."""
MAX_EARLIER, KEPT_BESIDE = 0.6, 0.34
"""A rewrite that shares so much with an earlier question must keep so much of the new one."""

ALIKE = 4
"""Words that begin with the same letters are forms of one word here."""
SCOPE = 2
"""Words of content behind a negation that it may be about."""
MAX_REPEATED = 8
"""Longest run of words a rewrite may have in common with an answer, beyond the typed question's own."""

_MARKUP = regex.compile(r"</?\w|[|<]\||```|^\s*(?:#{1,6}\s|[-*]\s|\d+[.)]\s)|\]\(|https?://|\{\"|‹")
_INSTRUCTION = regex.compile(
    r"\b(?:ignore|disregard|forget)\b.{0,30}\b(?:instructions?|above|previous|prompt|rules)\b"
    r"|\b(?:system prompt|you are (?:an?|now)|as an ai|act as|rewritten question|stand-?alone)\b",
    regex.IGNORECASE,
)
_ANSWER = regex.compile(
    r"\s*(?:yes|no|sure|certainly|of course|sorry|i'm sorry|i am|i cannot|i can't|i don't|based on|according to"
    r"|the answer|it (?:is|was|depends)|they (?:are|were)|you (?:can|should|need|must)|cannot[ _]answer"
    r"|here(?:'s| is| are))\b",
    regex.IGNORECASE,
)
_POINTERS = frozenset(
    stems("first second third fourth fifth last former latter one ones other thing stuff way kind ok")
)
"""What a resolved question says by name."""
_ASKS = regex.compile(r"[?？؟;]\s*$")
_NAME = regex.compile(r"`[^`]+`|(?<!\w)--?[a-z][\w-]+|\w+_\w+|\b\p{Ll}{2,}\p{Lu}\p{Ll}\w*")
_DISCOURSE = regex.compile(
    r"^\W*(?:\w+\W+)?no(?:pe)?\b(?=\W*(?:$|[,.;:!]|\b(?:i|sorry|not)\b))"
    r"|(?:^|\W )\w+n ?['’]?t (?=(?:i|you|we|it|that|this|there|the|one)\b)",
    regex.IGNORECASE,
)
"""What denies nothing: "no, I meant …", "isn't that …?"."""


def check(conversation: Conversation, question: str, rewrite: str) -> str:
    """Return the reason why `rewrite` must not replace `question`, in one sentence; empty if it may."""
    for find in _CHECKS:
        for reason in find(conversation, question, rewrite):
            return reason
    return ""


def _form(_: Conversation, question: str, rewrite: str) -> Iterator[str]:
    if not words(rewrite):
        yield "The rewrite is empty."
    elif _letters(rewrite) and not _letters(question):
        yield f"The rewrite is no question (“{rewrite.strip()}”)."
    if "\n" in rewrite.strip():
        yield "The rewrite has several lines."
    if _MARKUP.search(rewrite) and not _MARKUP.search(question):
        yield "The rewrite contains markup or an address."
    if (match := _INSTRUCTION.search(rewrite)) and match.group().lower() not in question.lower():
        yield f"The rewrite contains an instruction (“{match.group()}”)."


def _letters(text: str) -> bool:
    """Return whether a text holds single letters only; one sign of a script without case is a word."""
    return all(len(word) == 1 and word != word.upper() for word in words(text))


def _length(_: Conversation, question: str, rewrite: str) -> Iterator[str]:
    typed, length = len(words(question)), len(words(rewrite))
    if length > max(typed + MAX_ADDED_WORDS, 2 * typed) or len(rewrite) > 3 * len(question) + 240:
        yield f"The rewrite grew from {typed} to {length} words."


def _answers(conversation: Conversation, question: str, rewrite: str) -> Iterator[str]:
    begun = _ANSWER.match(rewrite)
    if begun and not rewrite.casefold().startswith(question.casefold()[: len(begun.group())]):
        yield f"The rewrite answers instead of asking (“{begun.group().strip()}”)."
    elif (
        not _ASKS.search(rewrite) and rewrite.rstrip().endswith((".", "!", "。")) and not question.endswith(rewrite[-1])
    ):
        yield "The rewrite states something where the user asked."
    rewritten, typed = words(rewrite), f" {' '.join(words(question))} "
    answers = [f" {' '.join(words(message.text))} " for message in conversation.messages if message.role == "assistant"]
    for i in range(len(rewritten) - MAX_REPEATED):
        run = f" {' '.join(rewritten[i : i + MAX_REPEATED + 1])} "
        if run not in typed and any(run in text for text in answers):
            yield f"The rewrite repeats an answer (“{run.strip()}”)."


def _numbers(conversation: Conversation, question: str, rewrite: str) -> Iterator[str]:
    # "those two" become names, and "both" becomes "two": what is written as a word need neither stay nor be there.
    typed, rewritten = numbers(question), numbers(rewrite)
    if lost := [number for number in typed - rewritten if number in question and number not in rewrite]:
        yield f"The rewrite lost a number ({', '.join(sorted(lost))})."
    if strange := [
        number for number in rewritten - typed - numbers(_said(conversation)) if number != "2" or number in rewrite
    ]:
        yield f"The rewrite brings a number nobody mentioned ({', '.join(sorted(strange))})."


def _negation(_: Conversation, question: str, rewrite: str) -> Iterator[str]:
    # What is denied may have been put away with its negation ("not the css, the maps"), or hang on another word.
    bare = _DISCOURSE.sub(" ", question)
    typed, rewritten = negations(bare), negations(rewrite)
    if typed and not rewritten and (_denied(bare) & set(stems(rewrite)) or words(rewrite)[:1] == ["why"]):
        yield "The rewrite lost a negation."
    if rewritten and not negations(question) and _denied(rewrite) & set(stems(question)):
        yield "The rewrite brings a negation the user did not write."


def _denied(text: str) -> set[str]:
    """Stems of what its negations are about: the words behind each, up to the next stop."""
    clauses = (stems(regex.split(r"[.,;:!?()–—]", text[match.end() :])[0]) for match in NEGATION.finditer(text))
    return {word for after in clauses for word in after[:SCOPE]}


def _quotes(_: Conversation, question: str, rewrite: str) -> Iterator[str]:
    lost = [term for term in quoted_terms(question) if term not in rewrite.casefold()]
    if lost:
        yield f"The rewrite lost a quoted term (“{lost[0]}”)."


def _drift(conversation: Conversation, question: str, rewrite: str) -> Iterator[str]:
    typed, rewritten, context = (
        set(stems(question)),
        set(stems(rewrite)),
        f"{_said(conversation)} {question}".casefold(),
    )
    prefixes = {word[:ALIKE] for word in stems(context)}
    strangers = {word for word in rewritten if word[:ALIKE] not in prefixes}
    for name in _NAME.findall(rewrite):
        parts = stems(name)
        if name.strip("`").casefold() not in context and len(strangers.intersection(parts)) * 2 >= len(parts) > 0:
            yield f"The rewrite brings a name nobody mentioned ({name})."
    unheard = strangers == rewritten and not any(word in context for word in strangers)
    if strangers and (unheard or 1 < len(strangers) > MAX_STRANGERS * len(rewritten)):
        yield f"The rewrite drifts: nobody mentioned {', '.join(sorted(strangers)[:4])}."
    typed -= _POINTERS
    common = {word for word in typed if word[:ALIKE] in {word[:ALIKE] for word in rewritten}}
    earlier_stems = (set(stems(message.text)) for message in conversation.messages if message.role == "user")
    earlier = max((len(rewritten & stems_of) for stems_of in earlier_stems), default=0)
    least = KEPT_BESIDE if earlier >= MAX_EARLIER * len(rewritten) else MIN_KEPT if len(typed) > 2 else 0.0
    if typed and len(common) < least * len(typed):
        yield f"The rewrite drops what was asked ({', '.join(sorted(typed - common)[:4])})."


def _said(conversation: Conversation) -> str:
    return "\n".join(message.text for message in conversation.messages)


_CHECKS: tuple[Callable[[Conversation, str, str], Iterator[str]], ...] = (
    _form,
    _length,
    _answers,
    _numbers,
    _negation,
    _quotes,
    _drift,
)
