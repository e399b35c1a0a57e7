"""The guard: turns down rewrites that would search for something the user did not ask.

A rewriter may resolve what a question points at and nothing else. Every check compares words, needs no model
and takes well under a millisecond; a refusal says why in one sentence. What to do with it is the rewriter's
business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import regex

from rewriter.conversation import Conversation
from text.words import negations, numbers, quoted_terms, stems, words

MAX_ADDED_WORDS = 24
"""Words a rewrite may have beyond the typed question's own."""
MAX_STRANGERS = 0.34
"""Largest share of a rewrite's content that neither the question nor the conversation contains."""
MIN_KEPT = 0.5
"""Smallest share of the question's content that a rewrite must keep."""

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
_ASKS = regex.compile(r"[?？؟;]\s*$")


def check(conversation: Conversation, question: str, rewrite: str) -> str:
    """Why `rewrite` must not stand in for `question`, in one sentence; empty where it may."""
    for find in _CHECKS:
        for reason in find(conversation, question, rewrite):
            return reason
    return ""


def _form(_: Conversation, question: str, rewrite: str) -> Iterator[str]:
    if not words(rewrite):
        yield "The rewrite is empty."
    if "\n" in rewrite.strip():
        yield "The rewrite has several lines."
    if _MARKUP.search(rewrite) and not _MARKUP.search(question):
        yield "The rewrite contains markup or an address."
    if (found := _INSTRUCTION.search(rewrite)) and found.group().lower() not in question.lower():
        yield f"The rewrite contains an instruction (“{found.group()}”)."


def _length(_: Conversation, question: str, rewrite: str) -> Iterator[str]:
    typed, made = len(words(question)), len(words(rewrite))
    if made > max(typed + MAX_ADDED_WORDS, 2 * typed) or len(rewrite) > 3 * len(question) + 240:
        yield f"The rewrite grew from {typed} to {made} words."


def _answers(conversation: Conversation, question: str, rewrite: str) -> Iterator[str]:
    begun = _ANSWER.match(rewrite)
    if begun and not rewrite.casefold().startswith(question.casefold()[: len(begun.group())]):
        yield f"The rewrite answers instead of asking (“{begun.group().strip()}”)."
    elif _ASKS.search(question) and not _ASKS.search(rewrite) and rewrite.rstrip().endswith((".", "!", "。")):
        yield "The rewrite states something where the user asked."
    made, typed = words(rewrite), f" {' '.join(words(question))} "
    said = [f" {' '.join(words(one.text))} " for one in conversation.messages if one.role == "assistant"]
    for i in range(len(made) - MAX_REPEATED):
        run = f" {' '.join(made[i : i + MAX_REPEATED + 1])} "
        if run not in typed and any(run in text for text in said):
            yield f"The rewrite repeats an answer (“{run.strip()}”)."


def _numbers(conversation: Conversation, question: str, rewrite: str) -> Iterator[str]:
    typed, made = numbers(question), numbers(rewrite)
    if lost := typed - made:
        yield f"The rewrite lost a number ({', '.join(sorted(lost))})."
    if strange := made - typed - numbers(_said(conversation)):
        yield f"The rewrite brings a number nobody mentioned ({', '.join(sorted(strange))})."


def _negation(_: Conversation, question: str, rewrite: str) -> Iterator[str]:
    typed, made = negations(question), negations(rewrite)
    if typed and not made:
        yield "The rewrite lost a negation."
    if made and not typed:
        yield "The rewrite brings a negation the user did not write."


def _quotes(_: Conversation, question: str, rewrite: str) -> Iterator[str]:
    lost = [term for term in quoted_terms(question) if term not in rewrite.casefold()]
    if lost:
        yield f"The rewrite lost a quoted term (“{lost[0]}”)."


def _drift(conversation: Conversation, question: str, rewrite: str) -> Iterator[str]:
    typed, made = set(stems(question)), set(stems(rewrite))
    known = typed | set(stems(_said(conversation)))
    strangers = made - known
    if len(strangers) > 1 and len(strangers) > MAX_STRANGERS * len(made):
        yield f"The rewrite drifts: nobody mentioned {', '.join(sorted(strangers)[:4])}."
    if typed and len(typed & made) < MIN_KEPT * len(typed):
        yield f"The rewrite drops what was asked ({', '.join(sorted(typed - made)[:4])})."


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
